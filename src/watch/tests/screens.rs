//! Snapshots of whole screens: the list, the page of an action, and the help.
//!
//! Each snapshot is a file in `snapshots` with the name of its test. The snapshots do not contain colours.

use std::time::Duration;

use insta::assert_snapshot;

use super::scene::*;
use crate::lease::Token;
use crate::report::tests::records::slots_and_readers;
use crate::store::connected::SkippedHost;
use crate::store::session::{ServerInstance, ServerSession, SessionNote, SessionPolicy};
use crate::store::target::Address;
use crate::store::{
    Expiry, HistoryEntry, HistoryOutcome, Holder, LastRun, LockRecord, Operator, Renewed,
};
use crate::store::{Pause, Waiter};
use crate::watch::frame::Size;
use crate::watch::key::Key;
use crate::watch::state::ScreenState;

/// A screen with room for all columns.
const WIDE: Size = Size {
    columns: 220,
    rows: 20,
};

/// A screen with room for three columns.
const NARROW: Size = Size {
    columns: 25,
    rows: 12,
};

const LONG: &str = "größe 日本語の長い名前 🚀 naïve e\u{301}toile, longer than a column";

/// The name of an action that changes the reading direction. Control characters are not valid in names.
const HOSTILE_NAME: &str = "a\u{202e}b\u{2028}c";

const HOSTILE: &str = "x\u{1b}[2J\r\ny\u{7f}\u{9b}2J\u{202e}z";

const SECOND: Duration = Duration::from_secs(1);

/// Returns records in all states, in the byte order of their names. Each name describes the state of the
/// action.
fn states() -> Vec<LockRecord> {
    let operator = |reason: &str| {
        Some(Box::new(Operator {
            label: "alice@admin-1".to_owned(),
            reason: reason.to_owned(),
        }))
    };
    let pause = || {
        Some(Box::new(Pause {
            until: "2026-11-20T10:30:00.000000Z".to_owned(),
            left: 1_800 * SECOND,
        }))
    };
    let held = |name: &str| held(name, "web-1/4711", 123);
    let free = |name: &str| LockRecord {
        last: Some(LastRun {
            token: Token(17),
            outcome: HistoryOutcome::Killed(9),
            dlock_status: None,
            ago: 3_600 * SECOND,
        }),
        ..held(name).with_lease(|lease| {
            lease.owner_id = None;
            lease.expiry = Expiry::Ago(Duration::ZERO);
        })
    };
    vec![
        held("clock set back").with_lease(|lease| {
            lease.renewed = Renewed::Ahead(3_600 * SECOND);
            lease.expiry = Expiry::In(3_626 * SECOND);
        }),
        held("expired").with_lease(|lease| {
            lease.renewed = Renewed::Ago(95 * SECOND);
            lease.expiry = Expiry::Ago(65 * SECOND);
        }),
        free("free"),
        held("gone").with_lease(|lease| {
            lease.renewed = Renewed::Ago(20 * SECOND);
            lease.expiry = Expiry::In(10 * SECOND);
            lease.session_alive = Some(false);
        }),
        held("held"),
        held("min-hold").with_lease(|lease| {
            lease.min_hold_until = Some("2026-11-20T09:33:00.000000Z".to_owned());
        }),
        held("not renewing").with_lease(|lease| {
            lease.renewed = Renewed::Ago(12 * SECOND);
            lease.expiry = Expiry::In(18 * SECOND);
        }),
        LockRecord {
            pause: pause(),
            operator: operator("the disk is full"),
            ..free("paused")
        },
        LockRecord {
            operator: operator("it hangs"),
            ..held("revoked").with_lease(|lease| lease.revoked_ago = Some(2 * SECOND))
        },
    ]
}

/// Returns a screen with `records` and `waiters`.
fn shown(records: Vec<LockRecord>, waiters: Vec<Waiter>, size: Size) -> ScreenState {
    let mut state = state(Vec::new(), size);
    state.set_snapshot(snapshot(records, waiters));
    state
}

/// Returns a screen with actions in all states and with waiters.
fn all_states(size: Size) -> ScreenState {
    let gone = Waiter {
        alive: Some(false),
        ..waiter("held", "web-4/1")
    };
    let unknown = Waiter {
        alive: None,
        ..waiter("held", "web-5/1")
    };
    let waiters = vec![
        waiter("expired", "web-2/1"),
        waiter("held", "web-3/1"),
        gone,
        unknown,
    ];
    shown(states(), waiters, size)
}

/// Returns a screen with two actions. All texts of the holder and the waiter of the second action are `text`.
/// The name of the second action is `name`.
fn texts(name: &str, text: &str) -> ScreenState {
    let holder = || Holder {
        label: text.to_owned(),
        host: text.to_owned(),
        user: text.to_owned(),
        note: text.to_owned(),
        pod: text.to_owned(),
        namespace: text.to_owned(),
        command: text.to_owned(),
        ..holder("")
    };
    let record = LockRecord {
        operator: Some(Box::new(Operator {
            label: text.to_owned(),
            reason: text.to_owned(),
        })),
        ..held(name, "", 5).with_lease(|lease| {
            lease.holder = holder();
            lease.revoked_ago = Some(2 * SECOND);
        })
    };
    let waiter = Waiter {
        holder: holder(),
        ..waiter(name, "")
    };
    let mut state = state(Vec::new(), USUAL);
    state.title.server = text.to_owned();
    state.set_snapshot(snapshot(
        vec![held("Init", "web-1/1", 5), record],
        vec![waiter],
    ));
    press(&mut state, &[Key::Home]);
    state
}

/// Returns a history entry of the action `name` for each outcome.
fn runs(name: &str) -> Vec<HistoryEntry> {
    let outcomes = [
        HistoryOutcome::Exited(0),
        HistoryOutcome::Exited(3),
        HistoryOutcome::Killed(9),
        HistoryOutcome::Lost,
        HistoryOutcome::Revoked,
        HistoryOutcome::Forgotten,
        HistoryOutcome::Released,
        HistoryOutcome::Paused,
        HistoryOutcome::Resumed,
    ];
    let entries = (1..).zip(outcomes).map(|(token, outcome)| HistoryEntry {
        outcome,
        key: (token == 1).then(|| "v1.42".to_owned()),
        ..entry(name, token)
    });
    entries.collect()
}

#[test]
fn list_without_actions() {
    assert_snapshot!(screen(&shown(Vec::new(), Vec::new(), USUAL)));
}

#[test]
fn list_with_one_held_action() {
    let records = vec![held("init", "web-1/4711", 123)];
    assert_snapshot!(screen(&shown(records, Vec::new(), USUAL)));
}

#[test]
fn list_details_and_release_of_several_holders() {
    let mut state = shown(slots_and_readers().to_vec(), Vec::new(), USUAL);
    let mut screens = vec![screen(&state)];
    for key in [Key::Enter, Key::Text('r')] {
        press(&mut state, &[key]);
        screens.push(screen(&state));
    }
    assert_snapshot!(screens.join("\n----\n"));
}

#[test]
fn list_of_actions_in_every_state() {
    assert_snapshot!(screen(&all_states(USUAL)));
}

#[test]
fn wide_list_has_all_columns() {
    assert_snapshot!(screen(&all_states(WIDE)));
}

#[test]
fn narrow_list_has_the_first_columns() {
    assert_snapshot!(screen(&all_states(NARROW)));
}

#[test]
fn low_list_ends_with_the_selected_action() {
    let mut state = all_states(LOW);
    press(&mut state, &[Key::End]);
    assert_snapshot!(screen(&state));
}

#[test]
fn diagnosis_of_the_selected_action_is_below_the_list() {
    let mut state = all_states(USUAL);
    let count = state.rows().len();
    let mut texts = Vec::new();
    for _ in 0..count {
        let screen = screen(&state);
        let lines: Vec<&str> = screen.lines().collect();
        texts.push(lines[lines.len() - 3..].join("\n"));
        press(&mut state, &[Key::Down]);
    }
    assert_snapshot!(texts.join("\n"));
}

#[test]
fn list_with_long_and_wide_text() {
    assert_snapshot!(screen(&texts(LONG, LONG)));
}

#[test]
fn list_with_hostile_text() {
    assert_snapshot!(screen(&texts(HOSTILE_NAME, HOSTILE)));
}

#[test]
fn list_while_the_server_does_not_respond_and_its_clock_differs() {
    let mut state = all_states(USUAL);
    state.latest.at_wall += 5 * SECOND;
    // The screen shows the reason of the most recent failure.
    state.set_failure("cannot reach db.example.org:3306".to_owned());
    state.set_failure(format!("{HOSTILE}: {LONG}: {LONG}: {LONG}"));
    state.set_time(at(1_063));
    assert_snapshot!(screen(&state));
}

#[test]
fn list_of_a_read_only_server() {
    let mut state = five(USUAL);
    state.latest.snapshot.is_read_only = true;
    assert_snapshot!(screen(&state));
}

#[test]
fn list_from_the_second_of_two_hosts() {
    let mut state = five(USUAL);
    let address = Address::Tcp {
        host: "a".to_owned(),
        port: 3306,
    };
    let reason = format!("a:3306 returned error 1047: {HOSTILE}; {LONG}: {LONG}");
    state.latest.snapshot.skipped = vec![SkippedHost::new(address, reason)];
    assert_snapshot!(screen(&state));
}

#[test]
fn list_while_a_filter_is_typed() {
    let mut state = five(USUAL);
    typed(&mut state, "ss/-30");
    assert_snapshot!(screen(&state));
}

#[test]
fn filtered_list_without_a_match() {
    let mut state = five(USUAL);
    typed(&mut state, "/\"größe\"");
    press(&mut state, &[Key::Enter]);
    assert_snapshot!(screen(&state));
}

#[test]
fn page_of_an_action_with_waiters_and_runs() {
    let mut state = all_states(Size { rows: 40, ..USUAL });
    typed(&mut state, "/held");
    press(&mut state, &[Key::Enter, Key::Enter]);
    state.set_history(&action("held"), runs("held"));
    assert_snapshot!(screen(&state));
}

#[test]
fn page_of_a_usual_size_says_how_much_is_below() {
    let mut state = all_states(USUAL);
    press(&mut state, &[Key::Enter]);
    state.set_history(&action("clock set back"), runs("clock set back"));
    assert_snapshot!(screen(&state));
}

#[test]
fn page_before_the_runs_are_loaded() {
    let mut state = all_states(USUAL);
    press(&mut state, &[Key::Enter]);
    assert_snapshot!(screen(&state));
}

#[test]
fn page_of_an_action_that_is_not_held_any_more_and_has_no_runs() {
    let mut state = all_states(USUAL);
    press(&mut state, &[Key::Enter]);
    state.set_snapshot(snapshot(Vec::new(), Vec::new()));
    state.set_history(&action("clock set back"), Vec::new());
    assert_snapshot!(screen(&state));
}

#[test]
fn page_with_long_and_wide_text() {
    let mut state = texts(LONG, LONG);
    state.resize(Size { rows: 40, ..USUAL });
    press(&mut state, &[Key::Enter]);
    assert_snapshot!(screen(&state));
}

#[test]
fn page_with_hostile_text() {
    let mut state = texts(HOSTILE_NAME, HOSTILE);
    state.resize(Size { rows: 40, ..USUAL });
    press(&mut state, &[Key::Enter]);
    assert_snapshot!(screen(&state));
}

#[test]
fn page_of_an_action_with_sessions_on_the_server() {
    let session = |id, text| ServerSession {
        id,
        account: format!("app{text}"),
        client: format!("10.0.0.3{text}:50123"),
    };
    let record = LockRecord {
        sessions: Some(Box::new(SessionNote {
            instance: ServerInstance {
                server: "db-1:3306/1".to_owned(),
                started: 1,
            },
            token: Token(17),
            policy: SessionPolicy::Kill,
            sessions: vec![session(4711, ""), session(4712, HOSTILE)],
        })),
        ..held("init", "web-1/1", 5)
    };
    let mut state = shown(vec![record], Vec::new(), USUAL);
    press(&mut state, &[Key::Enter]);
    assert_snapshot!(screen(&state));
}

#[test]
fn help_page() {
    let mut state = shown(Vec::new(), Vec::new(), USUAL);
    typed(&mut state, "?");
    assert_snapshot!(screen(&state));
}
