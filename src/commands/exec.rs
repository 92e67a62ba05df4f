//! `dlock exec`: acquire, run the command, keep the lease, release.
//!
//! One loop on the main thread takes every event (signals, replies of the database thread, the end
//! of the command) and asks the pure state machines what to do: `acquire` until the grant, then
//! `renew` and `supervise` until the command is dead. Nothing in here waits for the server, so
//! deadlines and signals are served whatever the server does. The order at the end is fixed:
//! command dead, renewals over, release, exit.

pub(super) mod desk;
mod hold;
mod release;
mod wait;

use std::ffi::OsString;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;

use self::desk::Desk;
use self::release::Lease;
use crate::acquire::{Acquire, Patience};
use crate::cli::{ExecArgs, Wait};
use crate::exit::{Ending, Status};
use crate::lease::Claim;
use crate::lease::timing::Timing;
use crate::report::Report;
use crate::signals;
use crate::store::mysql::Database;
use crate::store::target::Target;
use crate::store::{Contender, Fate, Fence, Holder, Run};
use crate::sys::process::{Child, Startable, Unstartable, look_up};
use crate::sys::{clock, host, random, signal, terminal};

/// Runs the command under the lock.
///
/// # Errors
/// When the command never ran: it cannot be started, the lock could not be had, a signal came.
pub fn run(args: ExecArgs, target: Target, report: &Report) -> anyhow::Result<Status> {
    let timing =
        Timing::new(args.ttl, args.grace).map_err(|why| Ending::new(Status::USAGE, why))?;
    let program = args.command.first().context("no command")?;
    look_up(program, std::env::var_os("PATH").as_deref())
        .map_err(|why| unstartable(program, &why))?;
    let patience = Patience {
        wait: match args.wait {
            _ if args.nonblock => Some(Duration::ZERO),
            Wait::Forever => None,
            Wait::AtMost(wait) => Some(wait),
        },
        reach: args.db_wait,
    };
    let contender = Contender {
        action: args.action,
        holder: holder(args.holder, args.note),
        ttl: timing.ttl,
        once: args.once.once(),
        history: args.history,
        fence: match args.fence {
            true => Fence::Raised,
            false => Fence::AsItIs,
        },
    };
    let additions = [
        ("DLOCK_ACTION", contender.action.to_string()),
        ("DLOCK_HOLDER", contender.holder.label.clone()),
        (
            "DLOCK_TTL",
            humantime::format_duration(timing.ttl).to_string(),
        ),
    ];

    let claim = Claim::new(random::bytes().context("no random numbers")?);
    let shares_terminal = terminal::is_controlling();
    let (inbox, mask) = signal::open_inbox(shares_terminal).context("cannot take signals")?;
    let mut command = Startable::new(&args.command, &additions, mask, !shares_terminal)
        .context("cannot prepare the command")?;
    let (sender, events) = mpsc::channel();
    signals::start(inbox, sender.clone()).context("cannot start a thread")?;
    let database = Database::new(target, timing.attempt, timing.ttl);
    let mut desk = Desk::open(report, timing, contender, database, (sender, events))
        .context("cannot start a thread")?;

    desk.min_hold = args.once.min_hold.unwrap_or_default();

    let acquire = Acquire::new(claim, timing, patience, clock::now());
    let outcome = match desk.acquire(acquire, args.conflict_exit_code) {
        Err(ending) => Err(ending),
        Ok(hold) => {
            command.add("DLOCK_TOKEN", &hold.grant.token.to_string())?;
            report.finish();
            match Child::spawn(&command) {
                Ok(child) => Ok(desk.hold(&child, &hold, shares_terminal)),
                Err(why) => {
                    let ending = unstartable(program, &why);
                    let run = Run {
                        fate: Fate::Exited(ending.status.code()),
                        took: clock::now().since(hold.sent),
                    };
                    let lease = Lease::Ours(timing.deadline(hold.sent));
                    desk.release(hold.parting(Some(run), None), lease);
                    Err(ending)
                }
            }
        }
    };
    report.finish();
    desk.leave();
    Ok(outcome?)
}

/// Who we are, under the label and the note that the user chose.
pub(super) fn holder(label: Option<String>, note: Option<String>) -> Holder {
    let (host, pid) = (host::name(), host::pid());
    Holder {
        label: label.unwrap_or_else(|| format!("{host}/{pid}")),
        host,
        pid,
        user: host::user(),
        note: note.unwrap_or_default(),
    }
}

fn unstartable(program: &OsString, why: &Unstartable) -> Ending {
    let program = program.to_string_lossy();
    match why {
        Unstartable::NotFound => Ending::new(
            Status::NOT_FOUND,
            format!("cannot run {program}: no such command"),
        ),
        Unstartable::NotExecutable(error) => Ending::new(
            Status::NOT_EXECUTABLE,
            format!("cannot run {program}: {error}"),
        ),
    }
}
