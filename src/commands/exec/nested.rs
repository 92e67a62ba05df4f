//! `dlock exec` inside the command of a `dlock exec` of the same action: the inner command runs under
//! the outer lease, since to wait for it would never end.
//!
//! On the main thread, before anything is forked: what is decided here is whether anything is.

use std::env;
use std::thread;
use std::time::Duration;

use super::done;
use crate::commands::check::is_current;
use crate::commands::{PATIENCE, ask_within};
use crate::exit::{Ending, Status};
use crate::lease::Token;
use crate::monitor;
use crate::report::words;
use crate::store::target::Target;
use crate::store::{Answer, Contender, Failure, FailureKind, Question, Sighting};
use crate::sys::{clock, host, proc};

/// The variable in which the command is told the server and the database of its lease.
pub const ADDRESS: &str = "DLOCK_DATABASE_ADDRESS";

/// All variables that dlock sets for a command. None of them is ever read as an option of `exec`.
pub const VARIABLES: [&str; 5] = [
    "DLOCK_ACTION",
    "DLOCK_TOKEN",
    "DLOCK_HOLDER",
    "DLOCK_TTL",
    ADDRESS,
];

/// Pause between two tries to reach the server, while `--db-wait` lasts.
const PAUSE: Duration = Duration::from_millis(500);

/// Server and database, without account and password.
pub(super) fn address(target: &Target) -> String {
    format!("{}/{}", target.address, target.database)
}

/// The token of the outer lease: the one that the command has now that we are part of, so that its end is
/// ours. None if we are not started under a lease of the action, another database is meant, or the holder
/// is out of sight: the lock is taken as always.
///
/// # Errors
/// When the lease of the same database is not current any more, when `--once` finds a success, or
/// when the server gives no answer within `patience`.
pub(super) fn outer_token(
    contender: &Contender,
    target: &Target,
    patience: Duration,
) -> anyhow::Result<Option<Token>> {
    let [action, token, ..] = VARIABLES.map(env::var_os);
    let token = token
        .and_then(|token| token.to_str()?.parse().ok())
        .map(Token);
    let (Some(token), Some(outer_address)) = (token, env::var_os(ADDRESS)) else {
        return Ok(None);
    };
    if action.is_none_or(|action| action != contender.action.as_str()) {
        return Ok(None);
    }
    let seen = match look(contender.clone(), target.clone(), patience)? {
        Answer::Looked(seen) => seen,
        Answer::Done(success) => {
            return Err(done(&contender.action, contender.once.as_ref(), success).into());
        }
        other => return Err(Failure::unexpected(&other).into()),
    };
    let is_current = is_current(&seen, token) && seen.broken_ago.is_none();
    if !is_current && *address(target) == *outer_address {
        let now = words::last_granted(&contender.action, &seen);
        let why = format!("the outer dlock's token {token} is not current: {now}");
        return Err(Ending::new(Status::LOST, why).into());
    }
    // Process ids are compared only below a monitor: another container of the same host name may
    // have the holder's id for another process.
    let is_ours = is_current
        && seen.holder.host == host::name()
        && proc::is_above_us(monitor::NAME, seen.holder.pid);
    Ok(is_ours.then_some(token))
}

/// Looks at the row, which nobody has held if there are no tables yet. No thread of this is left when it
/// returns.
fn look(contender: Contender, target: Target, patience: Duration) -> anyhow::Result<Answer> {
    let until = clock::now() + patience;
    ask_within(target, patience + PATIENCE, move |database| {
        loop {
            match database.ask(&contender, &Question::Look).outcome {
                Err(failure) if failure.kind == FailureKind::NoTables => {
                    return Ok(Answer::Looked(Sighting::never_held(contender.action)));
                }
                Err(failure)
                    if failure.kind.status() == Status::UNAVAILABLE && clock::now() < until =>
                {
                    thread::park_timeout(PAUSE);
                }
                outcome => return outcome,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::VARIABLES;
    use crate::cli::Cli;
    use crate::hook;

    #[test]
    fn no_variable_that_dlock_sets_is_an_option_but_for_the_two_of_check() {
        let mut cli = Cli::command();
        cli.build();
        let mut seen = 0;
        for command in std::iter::once(&cli).chain(cli.get_subcommands()) {
            for option in command.get_arguments() {
                let Some(variable) = option.get_env().and_then(|name| name.to_str()) else {
                    continue;
                };
                seen += 1;
                let is_set = VARIABLES.contains(&variable) || hook::VARIABLES.contains(&variable);
                let is_of_check = command.get_name() == "check"
                    && ["DLOCK_ACTION", "DLOCK_TOKEN"].contains(&variable);
                assert_eq!(is_set, is_of_check, "{variable} of {}", command.get_name());
                let is_global = option.is_global_set() || is_of_check;
                let is_prefixed = variable.starts_with("DLOCK_OPT_");
                assert_ne!(is_prefixed, is_global, "{variable}");
            }
        }
        assert!(seen > 40, "only {seen} variables: the test is blind");
        let mut set = VARIABLES.iter().chain(&hook::VARIABLES);
        assert!(!set.any(|variable| variable.starts_with("DLOCK_OPT_")));
    }
}
