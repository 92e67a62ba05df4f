//! How a lock, an age and a remainder are put into words, the same in every message.

use std::time::Duration;

use crate::lease::action::Action;
use crate::lease::once::{Key, Once};
use crate::store::diagnosis::{Diagnosis, takeable_in};
use crate::store::{Closed, Operator, Remainder, Sighting, State, Success};

/// How far two clocks must be apart to be worth a word.
const CLOCKS_APART: Duration = Duration::from_secs(2);

/// A duration for people: whole seconds, milliseconds below one.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let rounded = if duration < Duration::from_secs(1) {
        Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(0))
    } else {
        Duration::from_secs(duration.as_secs())
    };
    humantime::format_duration(rounded).to_string()
}

/// How many messages nobody could be told.
#[must_use]
pub fn dropped(count: u64) -> String {
    match count {
        1 => "1 message was dropped: stderr was not read in time".to_owned(),
        _ => format!("{count} messages were dropped: stderr was not read in time"),
    }
}

/// Who holds `action`, since when, what is left, and how many want it before us.
#[must_use]
pub fn waiting(action: &Action, seen: &Sighting, ahead: u64) -> String {
    let holding = holding(action, seen);
    match ahead {
        0 => format!("{holding}; you are next"),
        _ => format!("{holding}; {ahead} ahead of you"),
    }
}

/// The same after `waited`, when nothing new is known: who waits at the gate does not ask again.
#[must_use]
pub fn still_waiting(action: &Action, seen: &Sighting, ahead: u64, waited: Duration) -> String {
    let line = match ahead {
        0 => String::new(),
        _ => format!(", with {ahead} ahead of you"),
    };
    let waited = duration(waited);
    let was_held = was_held(action, seen);
    format!("still waiting after {waited}: when you came, {was_held}{line}")
}

/// Who has it, or keeps everybody from it: the label, none when it is free.
#[must_use]
pub fn whose(seen: &Sighting) -> Option<&str> {
    match seen.state() {
        State::Free => None,
        State::Closed => operator(seen),
        State::Held | State::Lapsed | State::Broken => Some(&seen.holder.label),
    }
}

/// Who held `action` when that was last seen.
#[must_use]
pub fn was_held(action: &Action, seen: &Sighting) -> String {
    match seen.state() {
        State::Free => format!("{action} was changing hands"),
        State::Closed => holding(action, seen),
        State::Held | State::Lapsed | State::Broken => format!(
            "{action} was held by {} (token {})",
            seen.holder.label, seen.version.token
        ),
    }
}

/// What was done or is to be.
#[must_use]
pub fn with_key(action: &Action, key: &Key) -> String {
    match key.as_str() {
        "" => action.to_string(),
        key => format!("{action} ({key})"),
    }
}

/// Why nothing is run: who succeeded, and when.
#[must_use]
pub fn done(action: &Action, once: Option<&Once>, success: &Success) -> String {
    let Success {
        token,
        holder,
        at,
        ago,
    } = success;
    let ago = duration(*ago);
    let (what, how_long) = match once {
        Some(Once::Ever(key)) => (with_key(action, key), String::new()),
        Some(Once::Per(period)) => (
            action.to_string(),
            format!(" within {}", humantime::format_duration(*period)),
        ),
        None => (action.to_string(), String::new()),
    };
    format!("{what} was done by {holder} {ago} ago (token {token}, {at}); not run again{how_long}")
}

/// Whose the last grant of `action` was, and whether it still stands.
#[must_use]
pub fn last_granted(action: &Action, seen: &Sighting) -> String {
    match seen.claim {
        Some(_) => holding(action, seen),
        None => format!("{action} is free (last token {})", seen.version.token),
    }
}

/// Who holds `action`, since when, and what is left.
#[must_use]
pub fn holding(action: &Action, seen: &Sighting) -> String {
    let left = match seen.remainder {
        Remainder::Left(left) => format!("{} left", duration(left)),
        Remainder::Lapsed(ago) => format!("lapsed {} ago", duration(ago)),
    };
    let note = if seen.holder.note.is_empty() {
        String::new()
    } else {
        format!(", {}", seen.holder.note)
    };
    let kept = match seen.kept_until {
        Some(_) => ", kept by --min-hold",
        None => "",
    };
    let broken = match (&seen.closed, seen.broken_ago) {
        (Some(_), _) => format!(", {}", closed(seen)),
        (None, Some(_)) => format!(", {}", released(seen)),
        (None, None) => String::new(),
    };
    match seen.state() {
        State::Free if seen.fenced => format!(
            "{action} is free, but wanted by others or fenced by a transaction of its last holder"
        ),
        State::Free => format!("{action} is free and wanted by others"),
        State::Closed => format!("{action} is {}", closed(seen)),
        State::Held | State::Lapsed | State::Broken => format!(
            "{action} is held by {} (token {}, since {}, {left}{kept}{broken}{note})",
            seen.holder.label,
            seen.version.token,
            duration(seen.held_for),
        ),
    }
}

/// Who ended the lease by hand, and why.
#[must_use]
pub fn released(seen: &Sighting) -> String {
    format!("released by {}", operator_and_reason(seen))
}

/// Until when the action is closed, by whom and why.
#[must_use]
pub fn closed(seen: &Sighting) -> String {
    let operator = operator_and_reason(seen);
    match &seen.closed {
        Some(Closed { until, left }) => {
            format!(
                "closed for another {} (until {until}) by {operator}",
                duration(*left)
            )
        }
        None => format!("open again after it was closed by {operator}"),
    }
}

/// Who broke or closed it last: the label.
#[must_use]
pub fn operator(seen: &Sighting) -> Option<&str> {
    seen.operator.as_ref().map(|operator| &*operator.label)
}

fn operator_and_reason(seen: &Sighting) -> String {
    match &seen.operator {
        Some(Operator { label, reason }) if reason.is_empty() => label.clone(),
        Some(Operator { label, reason }) => format!("{label} because {reason}"),
        None => "somebody".to_owned(),
    }
}

/// What is the matter with an action, and what will come of it.
#[must_use]
pub fn diagnosis(seen: &Sighting) -> String {
    let silence = duration(seen.renewed_ago);
    let takeable = duration(takeable_in(seen));
    match Diagnosis::of(seen) {
        Diagnosis::Free => "free".to_owned(),
        Diagnosis::Closed => closed(seen),
        Diagnosis::Renewing => "held and renewing".to_owned(),
        Diagnosis::Kept => format!(
            "kept by --min-hold until {}",
            seen.kept_until.as_deref().unwrap_or("its end")
        ),
        Diagnosis::Broken => format!(
            "{}; its command is being stopped, and can be succeeded in {takeable} at the latest",
            released(seen)
        ),
        Diagnosis::ClockSetBack => format!(
            "held; the server's clock was set back by {} or more since it was renewed",
            duration(seen.renewed_ahead)
        ),
        Diagnosis::Silent => format!(
            "not renewing for {silence}: its process is frozen or cut off; can be taken over in \
             {takeable}"
        ),
        Diagnosis::Gone => format!(
            "holder's connection is gone, renewed {silence} ago: its process is dead or cut off; \
             can be taken over in {takeable}"
        ),
        Diagnosis::Lapsed => lapsed(seen, &takeable),
    }
}

fn lapsed(seen: &Sighting, takeable: &str) -> String {
    let ago = match seen.remainder {
        Remainder::Left(_) => Duration::ZERO,
        Remainder::Lapsed(ago) => ago,
    };
    let session = match seen.session_alive {
        Some(true) => {
            ", but its connection is open: its process is frozen, or the server's clock was set forward"
        }
        Some(false) | None => "",
    };
    let when = match takeable_in(seen) {
        Duration::ZERO => "can be taken over".to_owned(),
        _ => format!("can be taken over in {takeable}"),
    };
    format!("lapsed {} ago{session}; {when}", duration(ago))
}

/// How far the server's clock is from ours, where that is more than what a look takes.
#[must_use]
pub fn clock_difference(server: Duration, ours: Duration) -> Option<String> {
    let (apart, way) = match server.checked_sub(ours) {
        Some(ahead) => (ahead, "ahead of"),
        None => (ours.saturating_sub(server), "behind"),
    };
    (apart >= CLOCKS_APART).then(|| {
        format!(
            "the server's clock is {} {way} this machine's; no lease depends on that",
            duration(apart)
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::duration;

    #[test]
    fn durations_are_short() {
        assert_eq!(duration(Duration::from_micros(123_456_789)), "2m 3s");
        assert_eq!(duration(Duration::from_micros(850_999)), "850ms");
        assert_eq!(duration(Duration::ZERO), "0s");
    }
}
