//! What an operator can do about the state of an action, and the commands for it. Pure.

use std::time::Duration;

use serde::Serialize;

use super::messages::{age, count, duration};
use crate::cli::words;
use crate::lease::action::Action;
use crate::store::LockRecord;
use crate::store::diagnosis::{Diagnosis, is_revoked_late, takeover_in};

/// Advice about one action.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// One or more sentences.
    pub advice: String,
    /// True if none of the commands improves the state.
    #[serde(skip)]
    pub needs_no_command: bool,
    /// Commands that help, the most useful first.
    pub commands: Vec<Command>,
}

/// A command line to copy.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Command {
    /// What the command does.
    pub purpose: &'static str,
    /// The command line, as a shell reads it.
    pub line: String,
}

impl Advice {
    /// Returns the command that carries out the advice. None if an operator need not do anything.
    #[must_use]
    pub fn command(&self) -> Option<&Command> {
        let first = self.commands.first();
        first.filter(|command| command.line.starts_with("dlock release ") && !self.needs_no_command)
    }
}

/// Returns the advice about `record`, for which `waiting` contenders wait, the first of them for `waits`.
#[must_use]
pub fn advice(record: &LockRecord, waiting: usize, waits: Duration) -> Advice {
    Advice {
        advice: sentences(record, waiting, waits),
        needs_no_command: needs_no_command(record),
        commands: commands(record),
    }
}

/// Returns true if none of the commands of [`advice`] improves the state of `record`, because it ends without them.
#[must_use]
pub fn needs_no_command(record: &LockRecord) -> bool {
    matches!(
        Diagnosis::of(record),
        Diagnosis::NotRenewing
            | Diagnosis::Gone
            | Diagnosis::Expired
            | Diagnosis::MinHold
            | Diagnosis::ClockSetBack
    )
}

fn sentences(record: &LockRecord, waiting: usize, waits: Duration) -> String {
    let holder = &record.main_lease().holder;
    let process = format!("process {} on {}", holder.pid, holder.host);
    let left = duration(takeover_in(record));
    let queue = match u32::try_from(waiting).unwrap_or(u32::MAX) {
        0 => "No contender waits.".to_owned(),
        1 => format!("1 contender has waited for {}.", age(waits)),
        number => format!(
            "{} wait, the longest for {}.",
            count(number, "contender"),
            age(waits)
        ),
    };
    let next = match waiting {
        0 => "the lock is free for the next dlock exec",
        _ => "the next contender starts",
    };
    match Diagnosis::of(record) {
        Diagnosis::Free if record.is_unused() => "The lock was never used.".to_owned(),
        Diagnosis::Free => format!("The lock is free. {queue}"),
        Diagnosis::Paused => {
            format!(
                "No command can start before the end of the pause. {queue} Resume the lock when your work is done."
            )
        }
        Diagnosis::Renewing => match &record.waits_for {
            Some(other) => format!(
                "The holder waits for the lock {other}: {process}. Look at that lock first. {queue} A release stops the \
                 holder, and then {next}."
            ),
            None => format!(
                "The command runs; its dlock is {process}. {queue} If the command hangs, look at its processes. A \
                 release stops the command, and then {next}."
            ),
        },
        Diagnosis::Deadlocked => {
            let other = record.deadlock_with.as_ref();
            let other = other.map_or_else(String::new, ToString::to_string);
            format!(
                "The command waits for the lock {other}, and the command that holds {other} waits for this lock. Neither \
                 ends before one of them gives up. Release one of the two locks, which stops its command, and let all \
                 commands take the locks in the same order. {queue}"
            )
        }
        Diagnosis::MinHold => {
            format!("The command has ended, and the lock is kept for --min-hold. {queue}")
        }
        Diagnosis::Revoked if is_revoked_late(record) => format!(
            "The holder is frozen or cut off, and stops its command when it continues: {process}. Within {left}, {next}. \
             {queue}"
        ),
        Diagnosis::Revoked => {
            format!("The holder stops its command: {process}. Within {left}, {next}. {queue}")
        }
        Diagnosis::ClockSetBack => {
            format!(
                "Check the clock of the database server. The command runs; its dlock is {process}. \
                 {queue}"
            )
        }
        Diagnosis::NotRenewing | Diagnosis::Gone => format!(
            "You need not do anything: if the holder does not return, {next} in {left}. dlock normally kills the command \
             before then; if both are frozen, the command can continue for a moment after the thaw. To find the cause, \
             look at {process}, and at its connection to the database. {queue}"
        ),
        Diagnosis::Odd => {
            "dlock does not use this row. Find out who has written it, and repair it with SQL."
                .to_owned()
        }
        Diagnosis::Expired => format!(
            "You need not do anything: {next} {}. The holder was {process}. {queue}",
            match takeover_in(record) {
                Duration::ZERO => "now".to_owned(),
                time => format!("in {}", duration(time)),
            }
        ),
    }
}

/// Returns the words with which a shell passes the name of `action` to a subcommand.
#[must_use]
pub fn argument(action: &Action) -> String {
    let quoted = words::quoted(action.as_str().as_ref());
    // A name that begins with a dash would be an option.
    match action.as_str().starts_with('-') {
        true => format!("--action={quoted}"),
        false => quoted,
    }
}

fn commands(record: &LockRecord) -> Vec<Command> {
    let name = argument(&record.action);
    let token = record.lease.version.token;
    let main = record.main_lease();
    let mut commands = Vec::new();
    let mut add = |purpose, line| commands.push(Command { purpose, line });
    if record.pause.is_some() {
        add(
            "resume the lock",
            format!("dlock release {name} --token {token} --resume"),
        );
    }
    if record.is_leased() && main.revoked_ago.is_none() {
        let (stop, pause) = match Diagnosis::of(record) {
            Diagnosis::NotRenewing | Diagnosis::Gone | Diagnosis::Expired => (
                "make sure that the holder does not continue",
                "let no command start for an hour",
            ),
            Diagnosis::MinHold => ("free the lock now", "let no command start for an hour"),
            _ => (
                "stop the command, so that the next one can start",
                "stop the command, and let none start for an hour",
            ),
        };
        let main = main.version.token;
        add(stop, format!("dlock release {name} --token {main}"));
        add(
            pause,
            format!("dlock release {name} --token {token} --pause 1h"),
        );
    }
    add("show all facts", format!("dlock status {name}"));
    add("show the last runs", format!("dlock history {name}"));
    if let Some(status) = record.last.and_then(|last| last.dlock_status) {
        add(
            "explain the end of the last run",
            format!("dlock explain {status}"),
        );
    }
    commands
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::advice;
    use crate::store::LockRecord;

    #[test]
    fn names_are_quoted_for_the_shell() {
        for (name, wanted) in [
            ("init", "dlock status init"),
            ("two words", "dlock status 'two words'"),
            ("it's;rm -rf /", r"dlock status 'it'\''s;rm -rf /'"),
            ("$(reboot)", "dlock status '$(reboot)'"),
            ("--all", "dlock status --action=--all"),
            ("=ls", "dlock status '=ls'"),
        ] {
            let record = LockRecord::never_held(name.parse().expect("a name"));
            let advice = advice(&record, 0, Duration::ZERO);
            assert_eq!(advice.commands[0].line, wanted);
        }
    }
}
