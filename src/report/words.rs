//! How a lock, an age and a remainder are put into words, the same in every message.

use std::time::Duration;

use crate::lease::action::Action;
use crate::lease::once::{Key, Once};
use crate::store::{Remainder, Sighting, State, Success};

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

/// Who has it: the label, none when it is free.
#[must_use]
pub fn whose(seen: &Sighting) -> Option<&str> {
    match seen.state() {
        State::Free => None,
        State::Held | State::Lapsed => Some(&seen.holder.label),
    }
}

/// Who held `action` when that was last seen.
#[must_use]
pub fn was_held(action: &Action, seen: &Sighting) -> String {
    match seen.state() {
        State::Free => format!("{action} was changing hands"),
        State::Held | State::Lapsed => format!(
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
    match seen.state() {
        State::Free if seen.fenced => format!(
            "{action} is free, but wanted by others or fenced by a transaction of its last holder"
        ),
        State::Free => format!("{action} is free and wanted by others"),
        State::Held | State::Lapsed => format!(
            "{action} is held by {} (token {}, since {}, {left}{kept}{note})",
            seen.holder.label,
            seen.version.token,
            duration(seen.held_for),
        ),
    }
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
