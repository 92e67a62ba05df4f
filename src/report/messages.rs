//! Phrases about locks, ages and remaining times, which are the same in all messages.

use std::ffi::OsStr;
use std::fmt::Display;
use std::time::Duration;

use crate::cli::words::quoted;
use crate::lease::action::Action;
use crate::lease::limit::Limit;
use crate::lease::once::{Once, OnceKey};
use crate::store::diagnosis::{Diagnosis, is_revoked_late, takeover_in};
use crate::store::session::{ListedSession, SessionPolicy};
use crate::store::{Expiry, LockRecord, LockState, Operator, Pause, Slot, Snapshot, Success};
use crate::sys::tree::Leftovers;

/// Minimum difference between two clocks at which dlock reports the difference.
const MIN_CLOCK_DIFFERENCE: Duration = Duration::from_secs(2);

/// Message of a list of locks without any lock.
pub const NOTHING_HELD: &str = "nothing is held, and there are no waiters";

/// Maximum number of holders that a message names.
const LABELS: usize = 3;

/// Diagnosis of an action that the tables do not contain.
const UNKNOWN: &str = "this database has no action with this name";

/// Returns the message that the tables do not contain `action`.
#[must_use]
pub fn unknown(action: &Action) -> String {
    format!("{action} is unknown: {UNKNOWN}")
}

/// Formats a duration, rounded down to whole seconds, or to milliseconds if it is below one second.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let rounded = if duration < Duration::from_secs(1) {
        Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(0))
    } else {
        Duration::from_secs(duration.as_secs())
    };
    humantime::format_duration(rounded).to_string()
}

/// Formats a duration in whole seconds and at most two units, for narrow columns.
#[must_use]
pub fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let two = |big: u64, big_unit, small: u64, small_unit| match small {
        0 => format!("{big}{big_unit}"),
        _ => format!("{big}{big_unit} {small}{small_unit}"),
    };
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds / 60 % 60, "m"),
        _ => two(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

/// Returns the message about `count` dropped messages.
#[must_use]
pub fn dropped(count: u64) -> String {
    match count {
        1 => "1 message was dropped because stderr was not read in time".to_owned(),
        _ => format!("{count} messages were dropped because stderr was not read in time"),
    }
}

/// Returns the label of the holder, or of the operator who paused the action. None if the action is free,
/// or if it is paused and the record contains no operator.
#[must_use]
pub fn whose(seen: &LockRecord) -> Option<&str> {
    match seen.state() {
        LockState::Free | LockState::Odd => None,
        LockState::Paused => operator(seen),
        LockState::Held | LockState::Expired | LockState::Revoked => {
            Some(&seen.main_lease().holder.label)
        }
    }
}

/// Describes the state of `action` at the time of `seen`, which may be out of date.
#[must_use]
pub fn was_held(action: &Action, seen: &LockRecord) -> String {
    match seen.state() {
        LockState::Free => format!("{action} was being handed over"),
        LockState::Paused | LockState::Odd => holding(action, seen),
        LockState::Held | LockState::Expired | LockState::Revoked => format!(
            "{action} was held by {} (token {})",
            seen.main_lease().holder.label,
            seen.main_lease().version.token
        ),
    }
}

/// Says that the tables do not contain `action`, whose name may be misspelled.
#[must_use]
pub fn never_used(action: &Action) -> String {
    format!("{action} is unknown: no process has held it, or it was removed")
}

/// Returns the action, followed by the key in parentheses if the key is not empty.
#[must_use]
pub fn with_key(action: &Action, key: &OnceKey) -> String {
    match key.as_str() {
        "" => action.to_string(),
        key => format!("{action} ({key})"),
    }
}

/// Says that `action` is not done under `key`. `others` are the keys under which it is done, which are named if there is
/// no key.
#[must_use]
pub fn not_done(action: &Action, key: &OnceKey, others: &[OnceKey]) -> String {
    let others: Vec<&str> = others.iter().map(OnceKey::as_str).collect();
    match others.first().filter(|_| key.as_str().is_empty()) {
        None => format!("{} is not done", with_key(action, key)),
        Some(latest) => format!(
            "{action} is not done without a key, only with {}; did you mean --done={}?",
            others.join(", "),
            quoted(OsStr::new(latest))
        ),
    }
}

/// Describes the recorded success that makes another run of the command unnecessary.
#[must_use]
pub fn done(action: &Action, once: Option<&Once>, success: &Success) -> String {
    let Success {
        token,
        holder,
        at,
        ago,
    } = success;
    let ago = duration(*ago);
    let (subject, scope) = match once {
        Some(Once::Ever(key)) => (with_key(action, key), String::new()),
        Some(Once::Per(period)) => (
            action.to_string(),
            format!(" within {}", humantime::format_duration(*period)),
        ),
        None => (action.to_string(), String::new()),
    };
    format!("{subject} was done by {holder} {ago} ago (token {token}, {at}); not run again{scope}")
}

/// Describes the state of `action` like [`holding`] if the record contains an owner id. Otherwise, describes
/// the action as free and shows the most recent token.
#[must_use]
pub fn last_granted(action: &Action, seen: &LockRecord) -> String {
    match seen.main_lease().owner_id {
        Some(_) => holding(action, seen),
        None => format!(
            "{action} is free (last token {})",
            seen.main_lease().version.token
        ),
    }
}

/// Describes the state of `action`. For a held action, includes the holder, the age and the remaining time
/// of its lease, and any revocation or pause.
#[must_use]
pub fn holding(action: &Action, seen: &LockRecord) -> String {
    let left = match seen.main_lease().expiry {
        Expiry::In(_) if Diagnosis::of(seen) == Diagnosis::Gone => format!(
            "connection is gone: the holder is dead or cut off, can be taken over in {}",
            duration(takeover_in(seen))
        ),
        Expiry::In(left) => format!("expires in {}", duration(left)),
        Expiry::Ago(ago) => format!("expired {} ago", duration(ago)),
    };
    let left = match Diagnosis::of(seen) {
        Diagnosis::Deadlocked => format!("{left}, {}", deadlock(seen)),
        _ => left,
    };
    let note = if seen.main_lease().holder.note.is_empty() {
        String::new()
    } else {
        format!(", {}", seen.main_lease().holder.note)
    };
    let min_hold = match seen.main_lease().min_hold_until {
        Some(_) => ", held for --min-hold",
        None => "",
    };
    let revoked = match (&seen.pause, seen.main_lease().revoked_ago) {
        (Some(_), _) => format!(", {}", paused(seen)),
        (None, Some(_)) => format!(", {}", released(seen)),
        (None, None) => String::new(),
    };
    match seen.state() {
        LockState::Free if seen.fenced => format!(
            "{action} is free, but others are waiting for it, or it is fenced by a transaction of its last holder"
        ),
        LockState::Free => format!("{action} is free, but others are waiting for it"),
        LockState::Paused => format!("{action} is {}", paused(seen)),
        LockState::Odd => format!("{action} has an {}", odd(seen)),
        LockState::Held | LockState::Expired | LockState::Revoked if !seen.slots.is_empty() => {
            format!(
                "{action} is held by {} ({})",
                holders(seen),
                slots_in_use(seen)
            )
        }
        LockState::Held | LockState::Expired | LockState::Revoked => format!(
            "{action} is held by {} (token {}, acquired {} ago, {left}{min_hold}{revoked}{note})",
            seen.main_lease().holder.label,
            seen.main_lease().version.token,
            duration(seen.main_lease().held_for),
        ),
    }
}

/// Returns the labels of the holders in slots, the oldest first.
#[must_use]
pub fn holders(seen: &LockRecord) -> String {
    let mut slots: Vec<_> = seen.slots.iter().collect();
    slots.sort_by_key(|slot| slot.lease.version.token);
    let label = |slot: &&Slot| slot.lease.holder.label.clone();
    let mut labels: Vec<_> = slots.iter().take(LABELS).map(label).collect();
    if slots.len() > LABELS {
        labels.push(format!("{} more", slots.len() - LABELS));
    }
    let last = labels.pop().unwrap_or_default();
    match labels.is_empty() {
        true => last,
        false => format!("{} and {last}", labels.join(", ")),
    }
}

/// Returns the number of leases in slots, and how many the limits allow: `2 of 3 slots` or, without a limit, `2 shared
/// holders`.
#[must_use]
pub fn slots_in_use(seen: &LockRecord) -> String {
    let held = seen.slots.len();
    match seen.smallest_limit().and_then(Limit::count) {
        Some(limit) => format!("{held} of {limit} slots"),
        None if held == 1 => "1 shared holder".to_owned(),
        None => format!("{held} shared holders"),
    }
}

/// Describes the operator who revoked the lease, and the reason.
#[must_use]
pub fn released(seen: &LockRecord) -> String {
    format!("released by {}", operator_and_reason(seen))
}

/// Describes the pause of an action: its end, the operator, and the reason.
#[must_use]
pub fn paused(seen: &LockRecord) -> String {
    let operator = operator_and_reason(seen);
    match seen.pause.as_deref() {
        Some(Pause { until, left }) => {
            format!(
                "paused for another {} (until {until}) by {operator}",
                duration(*left)
            )
        }
        None => format!("resumed after it was paused by {operator}"),
    }
}

/// Returns the label of the operator who most recently revoked the lease or paused the action. None if no
/// operator is recorded.
#[must_use]
pub fn operator(seen: &LockRecord) -> Option<&str> {
    seen.operator.as_ref().map(|operator| &*operator.label)
}

fn operator_and_reason(seen: &LockRecord) -> String {
    match seen.operator.as_deref() {
        Some(Operator { label, reason }) if reason.is_empty() => label.clone(),
        Some(Operator { label, reason }) => format!("{label} (reason: {reason})"),
        None => "an operator".to_owned(),
    }
}

/// Describes the state of an action, its likely cause, when the action can be taken over, and which sessions on the
/// server the next command has to wait for.
#[must_use]
pub fn diagnosis(seen: &LockRecord) -> String {
    if !seen.is_known {
        return UNKNOWN.to_owned();
    }
    let state = match seen.slots.as_slice() {
        [] => state_and_cause(seen),
        [_] => format!("{}; {}", slots_in_use(seen), state_and_cause(seen)),
        _ => several_states(seen),
    };
    match sessions_to_end(seen) {
        Some(sessions) => format!("{state}; {sessions}"),
        None => state,
    }
}

/// Describes the state of an action with several leases: each lease that needs attention, with the number of its slot.
fn several_states(seen: &LockRecord) -> String {
    let mut states = vec![slots_in_use(seen)];
    let unhealthy = seen
        .each_slot()
        .filter(|(_, record)| Diagnosis::of(record) != Diagnosis::Renewing);
    states.extend(unhealthy.map(|(slot, record)| {
        let state = state_and_cause(&record);
        format!("slot {}: {state}", slot.number)
    }));
    if states.len() == 1 {
        states.push("all held and renewing".to_owned());
    }
    states.join("; ")
}

/// Describes the sessions on the server that must end before the next command starts. None if there are none, or if
/// they belong to the command of a holder that may be alive.
fn sessions_to_end(seen: &LockRecord) -> Option<String> {
    let note = seen.sessions.as_ref()?;
    let is_earlier = note.token != seen.main_lease().version.token;
    let next = "the next dlock exec";
    let (who, whose) = match Diagnosis::of(seen) {
        Diagnosis::Free | Diagnosis::Paused | Diagnosis::Odd => (next, "an earlier run"),
        Diagnosis::MinHold | Diagnosis::Gone | Diagnosis::Expired if is_earlier => {
            (next, "an earlier run")
        }
        Diagnosis::MinHold | Diagnosis::Gone | Diagnosis::Expired => (next, "this command"),
        Diagnosis::Renewing
        | Diagnosis::Deadlocked
        | Diagnosis::NotRenewing
        | Diagnosis::ClockSetBack
            if is_earlier =>
        {
            ("the holder", "an earlier run")
        }
        // After a revocation, the sessions may belong to any command, because the operator request changed the token.
        Diagnosis::Renewing
        | Diagnosis::Deadlocked
        | Diagnosis::NotRenewing
        | Diagnosis::ClockSetBack
        | Diagnosis::Revoked => return None,
    };
    let number = u32::try_from(note.sessions.len()).unwrap_or(u32::MAX);
    let sessions = count(number, "session");
    let what = match note.policy {
        SessionPolicy::Kill => "ends",
        SessionPolicy::Wait | SessionPolicy::Ignore => "waits for the statements of",
    };
    Some(format!(
        "{who} first {what} {sessions} of {whose} on the server"
    ))
}

fn state_and_cause(seen: &LockRecord) -> String {
    let not_renewed_for = duration(seen.main_lease().renewed_ago());
    let takeover_in = duration(takeover_in(seen));
    match Diagnosis::of(seen) {
        Diagnosis::Free => "free".to_owned(),
        Diagnosis::Paused => paused(seen),
        Diagnosis::Renewing => match &seen.waits_for {
            Some(other) => format!("held and renewing; the holder waits for {other}"),
            None => "held and renewing".to_owned(),
        },
        Diagnosis::Deadlocked => format!("held and renewing; {}", deadlock(seen)),
        Diagnosis::MinHold => format!(
            "held for --min-hold until {}",
            seen.lease
                .min_hold_until
                .as_deref()
                .unwrap_or("an unknown time")
        ),
        Diagnosis::Revoked if is_revoked_late(seen) => format!(
            "{}; not renewed for {not_renewed_for}: the holder is frozen or cut off, and may not have stopped its \
             command; can be taken over in {takeover_in}",
            released(seen)
        ),
        Diagnosis::Revoked => format!(
            "{}; the command is being stopped; can be taken over within {takeover_in}",
            released(seen)
        ),
        Diagnosis::ClockSetBack => format!(
            "held; the server's clock was set back by at least {} since the last renewal",
            duration(seen.main_lease().renewed_ahead())
        ),
        Diagnosis::NotRenewing => format!(
            "not renewed for {not_renewed_for}: the holder is frozen or cut off; can be taken over in \
             {takeover_in}"
        ),
        Diagnosis::Gone => format!(
            "holder's connection is gone (last renewal {not_renewed_for} ago): the holder is dead or cut off; \
             can be taken over in {takeover_in}"
        ),
        Diagnosis::Expired => expired(seen, &takeover_in),
        Diagnosis::Odd => odd(seen),
    }
}

/// Describes two holders that wait for each other. Empty if there is no such case.
fn deadlock(seen: &LockRecord) -> String {
    seen.deadlock_with.as_ref().map_or_else(String::new, |other| {
        format!("deadlock: the holder waits for {other}, and the holder of {other} waits for this lock")
    })
}

/// Describes a row that cannot be read.
#[must_use]
pub fn odd(seen: &LockRecord) -> String {
    let why = seen.odd.as_deref().unwrap_or_default();
    format!("odd row, which dlock did not write: {why}")
}

fn expired(seen: &LockRecord, takeover: &str) -> String {
    let ago = match seen.main_lease().expiry {
        Expiry::In(_) => Duration::ZERO,
        Expiry::Ago(ago) => ago,
    };
    let session = match seen.main_lease().session_alive {
        Some(true) => {
            ", but the holder's connection is open: the holder is frozen, or the server's clock was set forward"
        }
        Some(false) | None => "",
    };
    let when = match takeover_in(seen) {
        Duration::ZERO => "can be taken over".to_owned(),
        _ => format!("can be taken over in {takeover}"),
    };
    format!("expired {} ago{session}; {when}", duration(ago))
}

/// Describes the difference between the server's clock and the clock of this machine. None if the
/// difference is below `MIN_CLOCK_DIFFERENCE`.
#[must_use]
pub fn clock_difference(server: Duration, ours: Duration) -> Option<String> {
    let (difference, direction) = match server.checked_sub(ours) {
        Some(ahead) => (ahead, "ahead of"),
        None => (ours.saturating_sub(server), "behind"),
    };
    (difference >= MIN_CLOCK_DIFFERENCE).then(|| {
        format!(
            "the server's clock is {} {direction} this machine's; this does not affect leases",
            duration(difference)
        )
    })
}

/// Message of `status` about waiters whose sessions have ended.
pub const ENDED_WAITERS: &str = "A waiter that is gone does no harm; its entry is removed later.";

/// Message of `status` and `history` about a server that is read-only.
pub const READ_ONLY: &str = "the server is read-only, probably a replica, and its data may be old";

/// Returns the messages of `status` about the hosts that were not used, and about the server that was used instead. Empty
/// if the first host was used.
#[must_use]
pub fn skipped_hosts(snapshot: &Snapshot) -> Vec<String> {
    let mut lines: Vec<String> = snapshot.skipped.iter().map(ToString::to_string).collect();
    if !lines.is_empty() {
        lines.push(format!("the data is from {}", snapshot.server));
    }
    lines
}

/// Returns the message of a holder that Ctrl-Z stops. `left` is the time until the command is stopped.
#[must_use]
pub fn suspended(locks: impl Display, left: Duration) -> String {
    let left = duration(left);
    format!(
        "dlock is stopped and cannot renew {locks}; the command is ended in {left} unless dlock continues before"
    )
}

/// Returns a list of ports.
#[must_use]
pub fn ports(ports: &[u16]) -> String {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    ports.join(", ")
}

/// Returns the reason why the sessions of ended connections from `ports` are not ended.
#[must_use]
pub fn unproven_sessions(unproven: &[u16]) -> String {
    format!(
        "another program may have the sessions of the connections from port {}",
        ports(unproven)
    )
}

/// Returns a description of a session on the server.
#[must_use]
pub fn session(listed: &ListedSession) -> String {
    let ListedSession {
        session,
        command,
        seconds,
        ..
    } = listed;
    let (id, account, client) = (session.id, &session.account, &session.client);
    let activity = match command.as_str() {
        "" => "not visible to dlock's account".to_owned(),
        command => format!("{command} for {}", duration(Duration::from_secs(*seconds))),
    };
    format!("session {id} of account {account} from {client} ({activity})")
}

/// Describes the processes that the command of `action` left and that were then killed.
#[must_use]
pub fn killed_leftovers(owner: impl Display, leftovers: &Leftovers) -> String {
    let Leftovers { number, shown } = leftovers;
    let name = |(pid, name): &(u32, String)| match name.as_str() {
        "" => pid.to_string(),
        name => format!("{name} ({pid})"),
    };
    let mut named: Vec<String> = shown.iter().map(name).collect();
    let more = usize::try_from(*number).unwrap_or_default() - named.len();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    format!(
        "killed {} that {owner} left running: {}",
        processes(*number),
        named.join(", ")
    )
}

/// Returns the number of processes in words.
#[must_use]
pub fn processes(number: u32) -> String {
    match number {
        1 => "1 process".to_owned(),
        number => format!("{number} processes"),
    }
}

/// Returns `number` and `noun`, in the plural unless the number is 1.
#[must_use]
pub fn count(number: u32, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::duration;

    #[test]
    fn durations_are_rounded_down() {
        assert_eq!(duration(Duration::from_micros(123_456_789)), "2m 3s");
        assert_eq!(duration(Duration::from_micros(850_999)), "850ms");
        assert_eq!(duration(Duration::ZERO), "0s");
    }
}
