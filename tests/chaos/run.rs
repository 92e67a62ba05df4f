//! One run on one flavour, from the start of its servers to its history's last line.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::contender::contend;
use crate::course::Course;
use crate::history::{Event, micros, now, read};
use crate::kind::Kind;
use crate::nemesis::{self, Nemesis};
use crate::options::Options;
use crate::probe;
use crate::processes::{marked, send};
use crate::servers::Flavour;
use crate::site::{Purpose, Running};
use crate::store::Store;
use crate::story::Story;

/// How long everybody has to be served when the faults are over: some ten times what the longest line needs.
const SERVICE: Duration = Duration::from_secs(90);

/// How long processes may need to be gone when all is over.
const LEAVING: Duration = Duration::from_secs(3);

/// How often to look whether processes are gone.
const PULSE: Duration = Duration::from_millis(50);

/// How often to look whether all is over, which takes a look at every process of the machine.
const LOOK: Duration = Duration::from_millis(250);

/// Runs it and returns what happened.
pub(crate) fn run(flavour: Flavour, options: &Options, folder: &Path) -> Story {
    let course =
        Course::new(options.seed, folder, &options.dlock).expect("the folder can be written to");
    course.journal.note(Event::Began {
        seed: options.seed,
        flavour: flavour.to_string(),
        seconds: options.seconds,
    });
    let mut sites: Vec<Running> = Purpose::ALL
        .map(|purpose| Running::start(&course, flavour, purpose))
        .into();
    let actions: Vec<String> = sites
        .iter()
        .flat_map(|running| running.site.actions.clone())
        .collect();
    thread::scope(|scope| {
        scope.spawn(|| course.board.follow(&course.folder));
        scope.spawn(|| course.undertaker.work(&course.journal));
        scope.spawn(|| probe::machine(&course));
        thread::scope(|scope| {
            let mut nemeses = Vec::new();
            for running in &mut sites {
                nemeses.extend(start(scope, &course, running, &options.only));
            }
            course.weather.pause(Duration::from_secs(options.seconds));
            course.weather.abate();
            // Whatever becomes of them, the contenders must be let go.
            let ends = nemeses.into_iter().map(thread::ScopedJoinHandle::join);
            let failed = ends.filter(Result::is_err).count();
            course.journal.note(Event::Calm);
            course.weather.calm();
            let end = Instant::now() + SERVICE;
            while Instant::now() < end && !is_over(&course) {
                thread::sleep(LOOK);
            }
            end_all(&course);
            course.board.close();
            assert_eq!(failed, 0, "nemeses that panicked");
        });
        course.undertaker.close();
    });
    for action in actions {
        let store = course.folder.join("store").join(&action);
        let content = Store::open(&store).and_then(|mut store| store.content());
        let content = content.expect("a store can be read");
        course.journal.note(Event::Counter {
            action,
            count: content.count,
            highest: content.highest,
        });
    }
    course.tidy().expect("a folder can be removed");
    Story::of(read(&course.folder).expect("the history can be read"))
}

/// Starts the contenders and the nemeses of a site; returns the latter.
fn start<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    course: &'scope Course,
    running: &'scope mut Running,
    only: &'scope [Kind],
) -> Vec<thread::ScopedJoinHandle<'scope, ()>> {
    let mut nemeses = Vec::new();
    let wanted = |mut kinds: Vec<Kind>| {
        kinds.retain(|kind| only.is_empty() || only.contains(kind));
        kinds
    };
    let Running {
        site,
        server,
        clock,
    } = running;
    let (site, purpose) = (&*site, site.purpose);
    for action in &site.actions {
        for slot in 0..purpose.contenders() {
            scope.spawn(move || contend(course, site, action, slot));
        }
        let kinds = wanted(purpose.kinds());
        let action = action.clone();
        let one = Nemesis {
            course,
            site,
            action,
        };
        nemeses.push(scope.spawn(move || one.rage(&kinds)));
    }
    scope.spawn(move || probe::server(course, site));
    let kinds = wanted(purpose.site_kinds());
    nemeses.push(match clock {
        Some(clock) => scope.spawn(move || clock.rage(course, site, &kinds)),
        None => scope.spawn(move || nemesis::rage(course, site, server, &kinds)),
    });
    nemeses
}

/// Whether all contenders are through: each process of a run ends with its contender's last.
fn is_over(course: &Course) -> bool {
    // One more look, since a contender has none between two runs.
    marked(&course.mark).is_empty() && {
        thread::sleep(LOOK);
        marked(&course.mark).is_empty()
    }
}

/// Notes whoever is left, and ends them.
fn end_all(course: &Course) {
    course.journal.note(Event::Overdue);
    let end = now() + micros(LEAVING);
    let mut noted = Vec::new();
    loop {
        let left = marked(&course.mark);
        if left.is_empty() {
            return;
        }
        for process in left {
            if now() < end {
                continue;
            }
            if !noted.contains(&process.pid) {
                noted.push(process.pid);
                let (pid, words) = (process.pid, process.words);
                course.journal.note(Event::Orphan { pid, words });
            }
            send(process.pid, &course.mark, Signal::KILL);
        }
        thread::sleep(PULSE);
    }
}
