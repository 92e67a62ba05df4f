//! Formats all facts about one action, one per line.

use super::holders::{holder_table, number};
use super::sessions::session_facts;
use super::table::{NEVER_USED, UNKNOWN_RUN, last_run, paint, state};
use super::waiters::{Queues, waiter_table};
use crate::report::advice::advice;
use crate::report::escape::printable;
use crate::report::layout::Layout;
use crate::report::line::StyledLine;
use crate::report::messages::{self, duration};
use crate::report::style::Style;
use crate::store::diagnosis::Diagnosis;
use crate::store::session_states::SessionStates;
use crate::store::{Expiry, Lease, LockRecord, Snapshot};

/// Name of the fact about a holder in a slot.
const IN_SLOT: &str = "in slot";

/// Formats all facts about one action in `snapshot`, one per line, followed by the table of its holders, if they are in
/// slots, and the table of its waiters.
#[must_use]
pub fn details(record: &LockRecord, snapshot: &Snapshot, layout: Layout) -> String {
    let mut facts = facts(record, &snapshot.sessions);
    // The table of the holders contains more.
    facts.retain(|(name, _)| *name != IN_SLOT);
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let title = format!("{}: {}", record.action, state(record));
    let mut text = layout.paragraph(&StyledLine::default(), 0, &title, paint(record));
    for (name, fact) in facts {
        let paint = match name {
            "diagnosis" => paint(record),
            _ => Style::Plain,
        };
        let name = StyledLine::default().with(2, width, name, Style::Faint);
        text.push_str(&layout.paragraph(&name, 2 + width + 2, &fact, paint));
    }
    let queues = Queues::new(&snapshot.waiters);
    let holders = holder_table(record, layout);
    let waiters = waiter_table(std::slice::from_ref(record), &queues, layout);
    for table in [holders, waiters] {
        if !table.is_empty() {
            text.push('\n');
            text.push_str(&table);
        }
    }
    text
}

/// Formats what an operator can do about an action in `snapshot`, and the command to write. Empty if the action is free.
#[must_use]
pub fn next(record: &LockRecord, snapshot: &Snapshot, layout: Layout) -> String {
    if Diagnosis::of(record) == Diagnosis::Free {
        return String::new();
    }
    let queues = Queues::new(&snapshot.waiters);
    let waits = queues.longest_wait(&record.action).unwrap_or_default();
    let advice = advice(record, queues.waiting(&record.action), waits);
    let paragraph = |text: &str| layout.paragraph(&StyledLine::default(), 0, text, Style::Plain);
    let text = paragraph(&format!("next: {}", advice.advice));
    // A command is never wrapped, so that it can be copied.
    let write = advice.command().map_or(String::new(), |command| {
        let purpose = paragraph(&format!("To {}, write:", command.purpose));
        format!("{purpose}  {}\n", printable(&command.line))
    });
    format!("\n{text}{write}")
}

/// Returns all facts about an action, as pairs of name and value. There is one fact about each holder in a slot. The values
/// contain text from other clients, so the caller must escape the values.
#[must_use]
pub fn facts(record: &LockRecord, sessions: &SessionStates) -> Vec<(&'static str, String)> {
    let main = record.main_lease();
    let holder = &main.holder;
    let is_held = record.is_leased();
    let is_in_record = is_held && record.slots.is_empty();
    let named = |label, text: &str| (label, text.to_owned());
    let mut facts = vec![("diagnosis", messages::diagnosis(record))];
    if is_in_record {
        facts.extend([
            named("holder", &holder.label),
            ("process", format!("{} on {}", holder.pid, holder.host)),
            named("user", &holder.user),
            named("pod", &holder.pod),
            named("namespace", &holder.namespace),
            named("command", &holder.command),
            named("note", &holder.note),
            ("since", held_since(main)),
            ("renewed", renewed(main)),
            ("lease", lease(main)),
        ]);
    }
    facts.extend(record.slots.iter().map(|slot| {
        let Lease {
            holder,
            acquired_at,
            version,
            ..
        } = &slot.lease;
        let since = acquired_at.as_deref().unwrap_or("-");
        let number = number(slot);
        let text = format!(
            "{number}: {} since {since} (token {})",
            holder.label, version.token
        );
        (IN_SLOT, text)
    }));
    if !record.is_known {
        return facts;
    }
    facts.push(("token", record.lease.version.token.to_string()));
    if is_held && let Some(paused) = &record.pause {
        facts.push(("paused until", paused.until.clone()));
    }
    if let Some(last) = record.last {
        facts.push((
            "last run",
            format!("{} (token {})", last_run(last, duration), last.token),
        ));
    }
    if record.is_unused() {
        facts.push(named("last run", NEVER_USED));
    } else if record.last.is_none() && record.main_lease().owner_id.is_none() {
        facts.push(named("last run", UNKNOWN_RUN));
    }
    facts.extend(session_facts(record, sessions));
    facts.retain(|(_, text)| !text.is_empty());
    facts
}

fn held_since(lease: &Lease) -> String {
    let at = lease.acquired_at.as_deref().unwrap_or("-");
    format!("{at}, {} ago", duration(lease.held_for))
}

fn renewed(lease: &Lease) -> String {
    let ago = duration(lease.renewed_ago());
    match lease.version.renewals {
        0 => "not yet".to_owned(),
        1 => format!("once, {ago} ago"),
        times => format!("{times} times, {ago} ago"),
    }
}

fn lease(lease: &Lease) -> String {
    let ttl = duration(lease.ttl);
    match lease.expiry {
        Expiry::In(left) => format!("{ttl}, expires in {}", duration(left)),
        Expiry::Ago(ago) => format!("{ttl}, expired {} ago", duration(ago)),
    }
}
