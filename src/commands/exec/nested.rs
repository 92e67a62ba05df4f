//! Runs a `dlock exec` that was started inside the command of another `dlock exec` of the same
//! action. The inner command runs under the outer lease. An inner dlock that waited for its own
//! lease would wait forever, because the outer dlock holds the action until the inner dlock has
//! ended.
//!
//! Runs on the main thread before any fork, because this module decides whether a fork is
//! necessary.

use std::thread;
use std::time::Duration;

use super::exits::done;
use crate::commands::check::is_current;
use crate::commands::outer::{from_environment, hold_pid};
use crate::commands::{QUERY_TIMEOUT, query_within};
use crate::exit::{ExitError, Status};
use crate::lease::Token;
use crate::lease::limit::Limit;
use crate::report::messages;
use crate::store::target::{Address, Targets};
use crate::store::{
    Contender, FailureKind, Lease, LockRecord, OuterLease, Request, Response, Store,
};
use crate::sys::{clock, host, proc, process};

/// Pause between two attempts to reach the server. The attempts end after `--connect-timeout`.
const PAUSE: Duration = Duration::from_millis(500);

/// Returns the addresses of the servers and the name of the database in `targets`, without the account
/// or the password.
pub(super) fn address(targets: &Targets) -> String {
    format!("{targets}/{}", targets.database())
}

/// Returns true if `targets` and `outer`, which [`address`] returned, have a server in common and name
/// the same database. All servers of a list have the same database.
fn is_same_database(targets: &Targets, outer: &str) -> bool {
    targets.iter().any(|target| match &target.address {
        // Host names contain no slash.
        Address::Tcp { .. } => outer.split_once('/').is_some_and(|(servers, database)| {
            let address = target.address.to_string();
            database == target.database && servers.split(',').any(|server| server == address)
        }),
        Address::Socket(path) => outer == format!("{}/{}", path.display(), target.database),
    })
}

/// Returns the innermost lease in `targets` under which this process runs, as far as the environment shows. None if there
/// is none.
pub(super) fn outer_lease(targets: &Targets) -> Option<OuterLease> {
    let (leases, address) = from_environment();
    let outer = leases.into_iter().next()?;
    is_same_database(targets, &address).then_some(outer)
}

/// Returns the lines of [`OUTER_TOKENS`](crate::commands::outer::OUTER_TOKENS) for a command that this process starts with a lease in `targets`.
pub(super) fn outer_lines(targets: &Targets) -> String {
    let (leases, address) = from_environment();
    let lines = leases.iter();
    let lines: Vec<_> = lines
        .map(|outer| format!("{}={}", outer.action, outer.token))
        .collect();
    match is_same_database(targets, &address) {
        true => lines.join("\n"),
        false => String::new(),
    }
}

/// Returns the token of the outer lease if this process belongs to the process tree of the command
/// that runs under that lease. When the outer dlock stops that tree, it also stops this process.
/// None if this process was not started under a lease of the action, if the lease is in a different
/// database, or if the outer dlock is not a visible ancestor of this process. In these cases, the
/// caller acquires the lock as usual.
///
/// # Errors
/// Fails if the lease is in the same database but is revoked or no longer current, if `--once`
/// finds a recorded success, if the outer dlock accepts more holders than `contender` does, if the server
/// refuses the request, or if the server is still unavailable after `timeout`.
pub(in crate::commands) fn outer_token(
    contender: &Contender,
    targets: &Targets,
    timeout: Duration,
) -> anyhow::Result<Option<Token>> {
    let (leases, address) = from_environment();
    let Some(outer) = (leases.into_iter()).find(|outer| outer.action == contender.action) else {
        return Ok(None);
    };
    let token = outer.token;
    let record = match read_record(contender.clone(), targets.clone(), timeout)? {
        Response::Record(record) => record,
        Response::AlreadyDone(success) => {
            return Err(done(&contender.action, contender.once.as_ref(), success).into());
        }
        other => return Err(other.unexpected().into()),
    };
    let of_token = |lease: &&Lease| lease.version.token == token && lease.revoked_ago.is_none();
    let lease = record.leases().find(of_token);
    let lease = lease.filter(|_| is_current(&record, token));
    if lease.is_none() && is_same_database(targets, &address) {
        let last_grant = messages::last_granted(&contender.action, &record);
        let why = format!("the outer dlock's token {token} is not current: {last_grant}");
        return Err(ExitError::new(Status::LOST, why).into());
    }
    // Compare the holder's process id only with the parents of monitors among this process's
    // ancestors. In another container with the same host name, a different process may have that
    // id.
    let is_inherited = |lease: &Lease| {
        let holder = &lease.holder;
        // The program of a hold is not below it. Its own children have the variable from the program. A hold of --pid is in
        // the background, so its parent is one that adopts orphans, also those of this process.
        let is_hold = || hold_pid() == Some(holder.pid) && proc::is_child_above_us(holder.pid);
        let is_above = || proc::is_above_us(process::MONITOR, holder.pid);
        holder.host == host::name() && (is_above() || is_hold())
    };
    if !lease.is_some_and(is_inherited) {
        return Ok(None);
    }
    match contender.limit < record.limit_of(token) {
        true => Err(waits_for_itself(contender, record.limit_of(token), token).into()),
        false => Ok(Some(token)),
    }
}

/// Returns the error of a dlock whose outer one accepts more holders than this one does. It would wait for the end of the
/// outer one.
fn waits_for_itself(contender: &Contender, outer: Limit, token: Token) -> ExitError {
    let option = |limit: Limit| match limit.count() {
        None => "--shared".to_owned(),
        Some(count) => format!("--slots {count}"),
    };
    let inner = match contender.limit.is_exclusive() {
        true => "an exclusive lock".to_owned(),
        false => option(contender.limit),
    };
    let action = &contender.action;
    let why = format!(
        "the outer dlock exec holds {action} with {outer} (token {token}), and {inner} inside it would wait for it for \
         ever: use {outer} here too, or another name",
        outer = option(outer),
    );
    ExitError::new(Status::USAGE, why)
}

/// Reads the record of the action. If the tables do not exist yet, returns the record of an action
/// that was never held. The query thread has ended when this function returns a response.
fn read_record(
    contender: Contender,
    targets: Targets,
    timeout: Duration,
) -> anyhow::Result<Response> {
    let until = clock::now() + timeout;
    // With a limit of zero, there is one attempt, which has time for one connect and one response.
    let limit = match timeout {
        Duration::ZERO => QUERY_TIMEOUT,
        timeout => timeout,
    };
    query_within(targets, limit, move |database| {
        loop {
            match database.request(&contender, &Request::Get).outcome {
                Err(failure) if failure.kind == FailureKind::NoTables => {
                    return Ok(Response::Record(LockRecord::never_held(contender.action)));
                }
                Err(failure)
                    // The caller must receive the failure before its own limit ends.
                    if failure.kind.status() == Status::UNAVAILABLE
                        && clock::now() + PAUSE < until =>
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

    use super::is_same_database;
    use crate::cli::Cli;
    use crate::commands::outer::VARIABLES;
    use crate::config::connection_variables;
    use crate::process::hook;
    use crate::store::target::{Address, SslMode, Target, Targets, Tls};

    fn target(address: Address) -> Target {
        Target {
            address,
            user: "u".to_owned(),
            password: None,
            database: "x/y".to_owned(),
            tls: Tls {
                mode: SslMode::Disabled,
                chosen: true,
                ca: None,
                identity: None,
            },
        }
    }

    #[test]
    fn one_common_server_means_the_same_database() {
        let tcp = |host: &str| {
            target(Address::Tcp {
                host: host.to_owned(),
                port: 3306,
            })
        };
        let mut hosts = Targets::from(tcp("a"));
        hosts.extend([tcp("b")]);
        for (outer, wanted) in [
            ("a:3306,b:3306/x/y", true),
            ("c:3306,b:3306/x/y", true),
            ("b:3306/x/y", true),
            ("c:3306/x/y", false),
            ("b:3307/x/y", false),
            ("a:3306/x", false),
            ("/run/a:3306/x/y", false),
            ("", false),
        ] {
            assert_eq!(is_same_database(&hosts, outer), wanted, "{outer}");
        }
        let socket = Targets::from(target(Address::Socket("/run/s".into())));
        assert!(is_same_database(&socket, "/run/s/x/y"));
        assert!(!is_same_database(&socket, "a:3306/x/y"));
    }

    #[test]
    fn variables_set_by_dlock_are_options_only_of_check_and_note() {
        let mut cli = Cli::command();
        cli.build();
        let (connection, mut count) = (connection_variables(), 0);
        for command in std::iter::once(&cli).chain(cli.get_subcommands()) {
            for option in command.get_arguments() {
                let Some(variable) = option.get_env().and_then(|name| name.to_str()) else {
                    continue;
                };
                count += 1;
                let is_set = VARIABLES.contains(&variable) || hook::VARIABLES.contains(&variable);
                let is_of_check = ["check", "note"].contains(&command.get_name())
                    && ["DLOCK_ACTION", "DLOCK_TOKEN"].contains(&variable);
                assert_eq!(is_set, is_of_check, "{variable} of {}", command.get_name());
                let is_connection = connection.iter().any(|name| name == variable);
                let is_prefixed = variable.starts_with("DLOCK_OPT_");
                assert_ne!(is_prefixed, is_connection || is_of_check, "{variable}");
            }
        }
        assert!(
            count > 40,
            "found only {count} variables, so the test misses options"
        );
        let mut set = VARIABLES.iter().chain(&hook::VARIABLES);
        assert!(!set.any(|variable| variable.starts_with("DLOCK_OPT_")));
    }
}
