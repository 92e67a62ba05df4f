//! Histories in which too many live, or for too long.

use super::plot::Plot;
use crate::history::Event;
use crate::kind::Kind;

const OVERLAP: &str = "no two trees of an action live at once";
const TOKENS: &str = "tokens grow in order of start";
const COUNTER: &str = "a store that checks tokens loses nothing";
const DEATHS: &str = "a tree dies with its dlock";

/// Two lives one after the other, with nothing wrong.
fn good() -> Plot {
    Plot::default()
        .lived(1_000, 2_000, 1, 10)
        .lived(2_100, 3_000, 2, 11)
        .calm(25_000)
        .overdue(30_000)
}

#[test]
fn nobody_complains_of_a_good_history() {
    assert_eq!(good().breaks(), Vec::<&str>::new());
}

#[test]
fn a_command_that_does_not_get_the_witness_is_an_overlap() {
    let plot = good().asked(3_100, 3).began(3_200, 3, 12, false);
    let plot = plot.dead(3_300, 3).ended(3_400, 3, 99);
    assert_eq!(plot.breaks(), [OVERLAP]);
}

#[test]
fn a_sign_of_life_after_a_later_start_is_an_overlap() {
    let plot = Plot::default()
        .asked(1_000, 1)
        .started(1_100, 1, 10)
        .lived(1_200, 2_000, 2, 11)
        .counted(1_300, 1, 1)
        .counter(7_000, 1)
        .finished(1_400, 1)
        .dead(1_500, 1)
        .ended(1_600, 1, 0)
        .calm(5_000);
    assert_eq!(plot.breaks(), [OVERLAP]);
}

#[test]
fn a_token_that_the_store_refuses_is_an_overlap() {
    let refused = Event::Refused {
        run: 2,
        action: "processes-1".to_owned(),
        token: 11,
        highest: 12,
    };
    assert_eq!(good().event(2_500, refused).breaks(), [OVERLAP]);
}

#[test]
fn a_token_that_does_not_grow_is_seen() {
    for token in [11, 10, 0] {
        let plot = good().lived(3_100, 4_000, 3, token);
        assert_eq!(plot.breaks(), [TOKENS], "{token}");
    }
}

#[test]
fn a_lost_increment_is_seen_and_an_unknown_one_may_be_either() {
    let counts = |plot: Plot, count| plot.counter(7_000, count).breaks();
    let two = || good().counted(1_500, 1, 1).counted(2_500, 2, 2);
    assert_eq!(counts(two(), 1), [COUNTER]);
    assert_eq!(counts(two(), 3), [COUNTER]);
    assert!(counts(two(), 2).is_empty());
    let unknown = || two().counting(2_600, 2, 3);
    assert!(counts(unknown(), 2).is_empty());
    assert!(counts(unknown(), 3).is_empty());
    assert_eq!(counts(unknown(), 4), [COUNTER]);
}

/// A holder whose front was struck, and whose tree died at `dead`.
fn struck(kind: Kind, until: u64, dead: Option<u64>) -> Plot {
    let plot = good()
        .asked(10_000, 3)
        .started(10_100, 3, 12)
        .fault(10_500, until, kind, Some(3));
    match dead {
        Some(dead) => plot.dead(dead, 3),
        None => plot,
    }
}

#[test]
fn a_tree_that_outlives_its_killed_front_is_seen() {
    let kill = |dead| struck(Kind::KillFront, 10_500, dead).killed(10_501, 3);
    assert_eq!(kill(Some(13_000)).breaks(), [DEATHS]);
    assert_eq!(kill(None).breaks(), [DEATHS]);
    assert!(kill(Some(10_550)).breaks().is_empty());
}

#[test]
fn a_tree_that_outlives_its_lease_under_a_frozen_front_is_seen() {
    let frozen = |dead| {
        let plot = struck(Kind::FreezeFrontLong, 15_500, Some(dead));
        plot.ended(15_600, 3, 76)
    };
    assert_eq!(frozen(14_600).breaks(), [DEATHS]);
    assert!(frozen(12_200).breaks().is_empty());
}

#[test]
fn a_descendant_that_outlives_dlock_is_seen() {
    let plot = |dead| {
        let plot = good().asked(3_100, 3).started(3_200, 3, 12);
        plot.finished(3_300, 3).ended(3_400, 3, 0).dead(dead, 3)
    };
    assert_eq!(plot(5_500).breaks(), [DEATHS]);
    assert!(plot(3_390).breaks().is_empty());
}

#[test]
fn an_orphan_is_seen() {
    let (pid, words) = (4_711, "sleep 20".to_owned());
    let plot = good().event(9_000, Event::Orphan { pid, words });
    assert_eq!(plot.breaks(), [DEATHS]);
}
