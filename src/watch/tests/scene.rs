//! Test data for the screen (actions, waiters, runs) and functions that press keys.

use std::time::Duration;

use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::lease::{OwnerId, Token};
use crate::locks::snapshot::TimedSnapshot;
use crate::report::line::StyledLine;
use crate::store::session_states::SessionStates;
use crate::store::{
    Expiry, HistoryEntry, HistoryOutcome, Holder, LockRecord, Renewed, ServerTime, Snapshot,
    Version, Waiter,
};
use crate::watch::frame::Size;
use crate::watch::key::Key;
use crate::watch::state::{Header, KeyEffect, ScreenState};

/// The usual size of a terminal.
pub(super) const USUAL: Size = Size {
    columns: 80,
    rows: 24,
};

/// The size of a screen with room for three actions in the list.
pub(super) const LOW: Size = Size {
    columns: 80,
    rows: 7,
};

pub(super) fn at(seconds: u64) -> BootInstant {
    BootInstant::new(Duration::from_secs(seconds))
}

pub(super) fn action(name: &str) -> Action {
    name.parse().expect("a valid action name")
}

pub(super) fn holder(label: &str) -> Holder {
    Holder {
        label: label.to_owned(),
        host: "web-1".to_owned(),
        pid: 4711,
        user: "deploy".to_owned(),
        note: "release 42".to_owned(),
        ..Holder::default()
    }
}

pub(super) fn held(name: &str, label: &str, seconds: u64) -> LockRecord {
    LockRecord::never_held(action(name)).with_lease(|lease| {
        lease.owner_id = Some(OwnerId::new([1; 16]));
        lease.version = Version {
            token: Token(17),
            renewals: 3,
        };
        lease.holder = holder(label);
        lease.ttl = Duration::from_secs(30);
        lease.acquired_at = Some("2026-11-20T09:30:00.000000Z".to_owned());
        lease.held_for = Duration::from_secs(seconds);
        lease.renewed = Renewed::Ago(Duration::from_secs(4));
        lease.expiry = Expiry::In(Duration::from_secs(26));
    })
}

pub(super) fn waiter(name: &str, label: &str) -> Waiter {
    Waiter {
        action: action(name),
        holder: holder(label),
        waiting_for: Duration::from_secs(70),
        alive: Some(true),
    }
}

pub(super) fn entry(name: &str, token: u64) -> HistoryEntry {
    HistoryEntry {
        action: action(name),
        key: None,
        token: Token(token),
        slot: None,
        holder: holder("web-1/1"),
        started_at: "2026-11-20T08:30:00.000000Z".to_owned(),
        ended_at: "2026-11-20T08:31:00.000000Z".to_owned(),
        duration: Duration::from_mins(1),
        ago: Duration::from_hours(1),
        outcome: HistoryOutcome::Exited(0),
        waited: None,
        sessions_ended: 0,
        processes_killed: 0,
        dlock_status: None,
        revoked_by: None,
    }
}

pub(super) fn snapshot(locks: Vec<LockRecord>, waiters: Vec<Waiter>) -> TimedSnapshot {
    let time = Duration::from_hours(9);
    let snapshot = Snapshot {
        server_time: ServerTime(9 * 3_600_000_000),
        locks,
        waiters,
        sessions: SessionStates::NotQueried,
        is_read_only: false,
        server: "db:3306".to_owned(),
        skipped: Vec::new(),
    };
    TimedSnapshot::new(snapshot, at(1_000), at(1_000), time)
}

pub(super) fn state(records: Vec<LockRecord>, size: Size) -> ScreenState {
    let title = Header {
        server: "db.example.org:3306/app".to_owned(),
        interval: Duration::from_secs(1),
    };
    let waiters = vec![waiter("b", "web-2/1"), waiter("b", "web-3/1")];
    ScreenState::new(
        title,
        holder("alice@admin-1"),
        snapshot(records, waiters),
        size,
    )
}

/// Returns a state with the actions `a` to `e`. The label of each holder contains the number of seconds for which the
/// holder has held its action.
pub(super) fn five(size: Size) -> ScreenState {
    let rows = [("a", 30), ("b", 10), ("c", 50), ("d", 40), ("e", 20)];
    let rows = rows.map(|(name, seconds)| held(name, &format!("web-{seconds}/1"), seconds));
    state(rows.to_vec(), size)
}

pub(super) fn press(state: &mut ScreenState, keys: &[Key]) {
    for key in keys {
        assert_eq!(state.press(*key), KeyEffect::None, "{key:?}");
    }
}

pub(super) fn typed(state: &mut ScreenState, text: &str) {
    for character in text.chars() {
        press(state, &[Key::Text(character)]);
    }
}

pub(super) fn screen(state: &ScreenState) -> String {
    state.frame().text()
}

/// Returns the name of the action on the marked line, or a description of the error if not exactly one line is marked.
pub(super) fn marked(state: &ScreenState) -> String {
    let lines = state.frame().lines;
    let texts: Vec<String> = lines
        .iter()
        .filter(|line| line.is_marked)
        .map(StyledLine::text)
        .collect();
    let [text] = texts.as_slice() else {
        return format!("{} lines are marked", texts.len());
    };
    let text = text
        .strip_prefix("> ")
        .or_else(|| text.strip_prefix(">!"))
        .expect("the line starts with the mark");
    text.split(' ').next().unwrap_or_default().to_owned()
}
