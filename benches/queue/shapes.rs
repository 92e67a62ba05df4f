//! Measures the time from the end of one command to the start of the next if the holders accept others beside them: shared
//! locks and slots. Compares dlock with kazoo and Apache Curator on ZooKeeper, and with `flock -s`.
//!
//! dlock and flock start a command. kazoo and Curator measure in the process of their contender, so their times do not
//! contain the start of a process.

use std::path::Path;
use std::time::Duration;

use testkit::bench::markdown::Page;
use testkit::bench::sample::{millis, percentile};
use testkit::bench::site::Site;
use testkit::bench::timing::in_turn;

use crate::competitor::{Competitor, Shape};
use crate::crowd::Crowd;
use crate::timestamp_command::Mark;
use crate::zookeeper::{Client, ZooKeeper};

/// Number of waiters behind a writer, and for the slots.
const CROWD: usize = 30;

/// Time for which a waiter holds the lock.
const HOLD: Duration = Duration::from_millis(20);

/// A transition: its name, the holders, the number and the shape of the waiters for the end of the first holder, and the
/// number of rounds. Many waiters wait for the end of all holders.
type Transition = (&'static str, &'static [Shape], usize, Shape, usize);

use Shape::{Exclusive, Shared, Slots};

const TRANSITIONS: [Transition; 6] = [
    ("exclusive → exclusive", &[Exclusive], 1, Exclusive, 20),
    ("exclusive → shared", &[Exclusive], 1, Shared, 20),
    ("shared → exclusive", &[Shared], 1, Exclusive, 20),
    ("one of two slots", &[Slots(2); 2], 1, Slots(2), 20),
    (
        "exclusive → 30 readers, the last one",
        &[Exclusive],
        CROWD,
        Shared,
        5,
    ),
    ("3 slots, 30 waiters", &[Slots(3); 3], CROWD, Slots(3), 5),
];

pub(crate) fn section(page: &mut Page, sites: &[Site; 2], folder: &Path) {
    let zookeeper = ZooKeeper::start();
    let [maria, mysql] = sites.each_ref().map(Competitor::Dlock);
    let [kazoo, curator] =
        [Client::Kazoo, Client::Curator].map(|client| Competitor::ZooKeeper(&zookeeper, client));
    let competitors = [maria, mysql, kazoo, curator, Competitor::Flock];
    page.section(
        "Shared locks and slots",
        &format!(
            "Times from the end of a command to the start of the next one that it was in the way of, in milliseconds: \
             p50 and p99. Behind a writer, {CROWD} readers start; with 3 slots, {CROWD} waiters hold a slot for {HOLD:?} \
             each. kazoo and Curator measure within their processes, which start no command. Each process with \
             Curator first acquires and releases a lock of its own, so that its JVM has loaded the classes."
        ),
    );
    let rows = TRANSITIONS.map(|transition| {
        let (name, .., rounds) = transition;
        let gaps = in_turn(competitors.len(), rounds, |index, _| {
            run(competitors[index], folder, transition)
        });
        let cells = gaps.iter().map(|gaps| {
            if gaps.is_empty() {
                return "–".to_owned();
            }
            let [p50, p99] = [50, 99].map(|part| millis(percentile(gaps, part)));
            format!("**{p50}** {p99}")
        });
        [name.to_owned()].into_iter().chain(cells).collect()
    });
    let names = competitors.map(Competitor::name);
    page.table(&format!("transition | {}", names.join(" | ")), &rows);
}

/// Returns the gaps. Empty if the program has no such transition.
fn run(competitor: Competitor, folder: &Path, transition: Transition) -> Vec<Duration> {
    let (_, holders, count, shape, _) = transition;
    if matches!((competitor, shape), (Competitor::Flock, Slots(_))) {
        return Vec::new();
    }
    let mut crowd = Crowd::start(competitor, folder, holders);
    crowd.add(count, shape, Duration::ZERO, HOLD);
    let released = if count == 1 { 1 } else { holders.len() };
    gaps(&crowd.release(released), count, shape)
}

/// Returns the times between the ends and the starts in `marks`.
fn gaps(marks: &[Mark], count: usize, shape: Shape) -> Vec<Duration> {
    let is_holder = |mark: &&Mark| mark.name.starts_with("holder");
    let starts = marks.iter().filter(|mark| !is_holder(mark));
    let starts = starts.map(|mark| mark.start);
    let mut ends: Vec<Duration> = match (count, shape) {
        // Each end makes room for one start.
        (CROWD, Slots(_)) => marks.iter().map(|mark| mark.end).collect(),
        _ => marks
            .iter()
            .filter(is_holder)
            .map(|mark| mark.end)
            .collect(),
    };
    ends.sort();
    match (count, shape) {
        (CROWD, Shared) => {
            let last = starts.max().expect("readers have started");
            vec![last.saturating_sub(ends[0])]
        }
        _ => (starts.zip(ends))
            .map(|(start, end)| start.saturating_sub(end))
            .collect(),
    }
}
