//! Tests of stale data: when the data is marked, and snapshots of the marked screens.

use std::time::Duration;

use insta::assert_snapshot;

use super::scene::*;
use crate::watch::frame::Size;
use crate::watch::key::Key;
use crate::watch::state::ScreenState;

/// A screen with room for all columns.
const WIDE: Size = Size {
    columns: 200,
    rows: 12,
};

/// A screen with room for three columns.
const NARROW: Size = Size {
    columns: 30,
    rows: 12,
};

/// Returns the list of five actions when the latest snapshot is `seconds` old and no request has failed.
fn silent(size: Size, seconds: u64) -> ScreenState {
    let mut state = five(size);
    state.set_time(at(1_000 + seconds));
    state
}

#[test]
fn data_is_stale_after_two_intervals_and_at_least_two_seconds() {
    for (interval_ms, stale_after_ms) in [(100, 2_000), (1_000, 2_000), (5_000, 10_000)] {
        let mut state = five(USUAL);
        state.title.interval = Duration::from_millis(interval_ms);
        let limit = Duration::from_millis(stale_after_ms);
        state.set_time(at(1_000) + limit);
        assert!(!state.is_stale(), "{interval_ms}");
        state.set_time(at(1_000) + limit + Duration::from_millis(1));
        assert!(state.is_stale(), "{interval_ms}");
        // A response ends the state, even if the screen has not been drawn since.
        let mut snapshot = snapshot(vec![held("a", "", 1)], Vec::new());
        (snapshot.sent, snapshot.received) = (state.now, state.now);
        state.set_snapshot(snapshot);
        assert!(!state.is_stale(), "{interval_ms}");
    }
}

#[test]
fn failed_request_marks_the_data_at_once() {
    let mut state = five(USUAL);
    state.set_failure("cannot reach db".to_owned());
    assert!(state.is_stale());
    assert!(screen(&state).contains("(cannot reach db)"));
}

#[test]
fn slow_response_is_stale_when_it_arrives() {
    let mut state = five(USUAL);
    state.latest.received = at(1_003);
    state.set_time(at(1_003));
    let text = screen(&state);
    assert!(
        text.contains("stale: the latest response took 3s; showing the state of 09:00:00 UTC"),
        "{text}"
    );
}

#[test]
fn keys_work_on_stale_data() {
    let mut state = silent(LOW, 4);
    press(&mut state, &[Key::Down, Key::Down]);
    assert_eq!(marked(&state), "c");
    press(&mut state, &[Key::End]);
    assert_eq!(marked(&state), "e");
}

#[test]
fn stale_list() {
    assert_snapshot!(screen(&silent(USUAL, 4)));
}

#[test]
fn stale_wide_list() {
    let mut state = silent(WIDE, 64);
    state.set_failure("no response from db.example.org:3306 within 4s".to_owned());
    assert_snapshot!(screen(&state));
}

#[test]
fn stale_narrow_list() {
    assert_snapshot!(screen(&silent(NARROW, 4)));
}

#[test]
fn stale_page() {
    let mut state = silent(USUAL, 4);
    press(&mut state, &[Key::Enter]);
    state.set_history_failure(&action("a"), "access to the history is denied".to_owned());
    assert_snapshot!(screen(&state));
}
