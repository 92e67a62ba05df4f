//! One action in full, a line a fact.

use std::fmt::Write as _;

use super::{last_run, line, line_of};
use crate::report::escape::printable;
use crate::report::words::{self, duration};
use crate::store::{Remainder, Sighting, Waiter};

/// One action in full: a line a fact, and the line of its waiters.
#[must_use]
pub fn details(seen: &Sighting, waiters: &[Waiter]) -> String {
    let facts = facts(seen);
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = format!("{}: {}\n", printable(seen.action.as_str()), seen.state());
    for (name, fact) in facts {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:width$}  {}", printable(&fact));
    }
    if line_of(waiters, &seen.action).next().is_some() {
        text.push('\n');
        text.push_str(&line(std::slice::from_ref(seen), waiters));
    }
    text
}

/// All facts of an action by name, as others wrote them: to be escaped where they are shown.
#[must_use]
pub fn facts(seen: &Sighting) -> Vec<(&'static str, String)> {
    let holder = &seen.holder;
    let held = seen.is_leased();
    let named = |label, text: &str| (label, text.to_owned());
    let mut facts = vec![("diagnosis", words::diagnosis(seen))];
    if held {
        facts.extend([
            named("holder", &holder.label),
            ("process", format!("{} on {}", holder.pid, holder.host)),
            named("user", &holder.user),
            named("pod", &holder.pod),
            named("namespace", &holder.namespace),
            named("command", &holder.command),
            named("note", &holder.note),
            ("since", since(seen)),
            ("renewed", renewed(seen)),
            ("lease", lease(seen)),
        ]);
    }
    facts.push(("token", seen.version.token.to_string()));
    if held && let Some(closed) = &seen.closed {
        facts.push(("closed until", closed.until.clone()));
    }
    if let Some(last) = seen.last {
        facts.push((
            "last run",
            format!("{} (token {})", last_run(last), last.token),
        ));
    }
    facts.retain(|(_, text)| !text.is_empty());
    facts
}

fn since(seen: &Sighting) -> String {
    let at = seen.acquired_at.as_deref().unwrap_or("-");
    format!("{at}, {} ago", duration(seen.held_for))
}

fn renewed(seen: &Sighting) -> String {
    let ago = duration(seen.renewed_ago);
    match seen.version.renewals {
        0 => "not yet".to_owned(),
        1 => format!("once, {ago} ago"),
        times => format!("{times} times, {ago} ago"),
    }
}

fn lease(seen: &Sighting) -> String {
    let ttl = duration(seen.ttl);
    match seen.remainder {
        Remainder::Left(left) => format!("{ttl}, lapses in {}", duration(left)),
        Remainder::Lapsed(ago) => format!("{ttl}, lapsed {} ago", duration(ago)),
    }
}
