//! The texts of a contender that waits: the first message, the reminders on separate lines, and the line on a terminal.

use std::time::Duration;

use super::advice::argument;
use super::messages::{age, duration, holding, operator, was_held, whose};
use crate::lease::action::Action;
use crate::store::{LockRecord, LockState};

/// Describes the state of `action` like [`holding`], followed by the number of waiters ahead of this
/// process.
#[must_use]
pub fn waiting(action: &Action, seen: &LockRecord, ahead: u64) -> String {
    let holding = holding(action, seen);
    match ahead {
        // While an action is paused, no contender is next.
        0 if seen.pause.is_some() => holding,
        0 => format!("{holding}; you are next"),
        _ => format!("{holding}; {ahead} ahead of you"),
    }
}

/// Describes the holder of `action` and the queue position of this process. `waited` is the duration of the
/// wait so far. `age` is the age of `seen` and `ahead` if they may be out of date. None if they are current.
#[must_use]
pub fn still_waiting(
    action: &Action,
    seen: &LockRecord,
    ahead: u64,
    waited: Duration,
    age: Option<Duration>,
) -> String {
    let waited = duration(waited);
    let queue = match (age, ahead) {
        (_, 0) => String::new(),
        (Some(_), _) => format!(", with {ahead} ahead of you"),
        (None, _) => format!("; {ahead} ahead of you"),
    };
    match (age, seen.state()) {
        (Some(age), _) => {
            let (age, was_held) = (duration(age), was_held(action, seen));
            format!("still waiting after {waited}; {age} ago, {was_held}{queue}")
        }
        (None, LockState::Free) => {
            format!("still waiting after {waited}: {action} is being handed over{queue}")
        }
        (None, _) => {
            let (waiting, name) = (waiting(action, seen, ahead), argument(action));
            format!("still waiting after {waited}: {waiting}; details: dlock status {name}")
        }
    }
}

/// Describes the same state as [`still_waiting`], on one short line for a terminal. `known_age` is the age of
/// the state if it may be out of date. None if it is current.
#[must_use]
pub fn waiting_line(
    action: &Action,
    seen: &LockRecord,
    ahead: u64,
    waited: Duration,
    known_age: Option<Duration>,
) -> String {
    let state = match (&seen.pause, whose(seen)) {
        (Some(pause), _) => {
            let by = operator(seen).unwrap_or("an operator");
            format!("paused by {by} for another {}", age(pause.left))
        }
        (None, Some(holder)) if ahead > 0 => format!("held by {holder}, {ahead} ahead"),
        (None, Some(holder)) => format!("held by {holder}"),
        (None, None) => "being handed over".to_owned(),
    };
    let ago = known_age.map_or_else(String::new, |known_age| {
        format!(" ({} ago)", age(known_age))
    });
    format!("waiting {} for {action}: {state}{ago}", age(waited))
}
