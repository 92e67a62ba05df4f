//! `dlock exec`: acquire, run the command, keep the lease, release.
//!
//! One loop on the main thread takes every event (signals, replies of the database thread, words of
//! the monitor) and asks the pure state machines what to do: `acquire` until the grant, then `renew`
//! until the monitor says that the command's tree is dead. Nothing in here waits for the server, so
//! deadlines and signals are served whatever the server does. The order at the end is fixed:
//! command dead, renewals over, release, exit.

pub(super) mod desk;
mod hold;
pub mod nested;
mod news;
mod release;
mod wait;

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use self::desk::Desk;
use self::hold::Job;
use self::nested::Outer;
use crate::acquire::{Acquire, WaitLimits};
use crate::cli::{ExecArgs, Wait};
use crate::event::queue::{Queue, Teller};
use crate::exit::{Ending, Status};
use crate::heartbeat::{self, Watching};
use crate::lease::Claim;
use crate::lease::timing::Timing;
use crate::monitor::Monitor;
use crate::outcome::RunOutcome;
use crate::report::Report;
use crate::report::log::What;
use crate::store::mysql::Database;
use crate::store::target::Target;
use crate::store::{Contender, Fence, Holder};
use crate::sys::pending_child::PreparedCommand;
use crate::sys::process::{Unstartable, look_up};
use crate::sys::{clock, host, inherited, random, replace, signal, terminal};

/// The most bytes of a fact about a holder.
const FACT: usize = 255;

/// How often in an interval the heartbeat file is looked at.
const BEATS: u32 = 4;

/// Runs the command under the lock.
///
/// # Errors
/// When the command never ran: it cannot be started, the lock could not be had, a signal came.
pub fn run(args: ExecArgs, target: Target, report: &Report) -> anyhow::Result<Status> {
    report.about(&args.action);
    let timing =
        Timing::new(args.ttl, args.grace).map_err(|why| Ending::new(Status::USAGE, why))?;
    let program = args.command.first().context("no command")?.clone();
    look_up(&program, std::env::var_os("PATH").as_deref())
        .map_err(|why| unstartable(&program, &why))?;
    let job = Job {
        program,
        max_runtime: args.max_runtime,
        heartbeat_file: args.heartbeat_file,
    };
    let limits = WaitLimits {
        wait: match args.wait {
            _ if args.nonblock => Some(Duration::ZERO),
            Wait::Forever => None,
            Wait::AtMost(wait) => Some(wait),
        },
        connect: args.db_wait,
    };
    let command = Path::new(&job.program).file_name().unwrap_or(&job.program);
    let contender = Contender {
        action: args.action,
        holder: Holder {
            command: fitting(command.to_string_lossy().into_owned()),
            ..holder(args.holder, args.note)
        },
        ttl: timing.ttl,
        once: args.once.once(),
        history: args.history,
        fence: match args.fence {
            true => Fence::Raised,
            false => Fence::AsItIs,
        },
    };
    if let Some(outer) = Outer::of(&contender.action)
        && outer.is_ours(&contender, &target, args.db_wait)?
    {
        report.granted(outer.token);
        let (action, token) = (&contender.action, outer.token);
        let text = format_args!(
            "{action} is held by the outer dlock (token {token}): running under its lease"
        );
        report.detail(What::Nested, text);
        return Err(unstartable(&job.program, &replace::with(&args.command)).into());
    }
    let ttl = humantime::format_duration(timing.ttl).to_string();
    let additions = [
        ("DLOCK_ACTION", contender.action.to_string()),
        ("DLOCK_HOLDER", contender.holder.label.clone()),
        ("DLOCK_TTL", ttl),
        (nested::ADDRESS, nested::address(&target)),
    ];

    let claim = Claim::new(random::bytes().context("no random numbers")?);
    let shares_terminal = terminal::is_controlling();
    let (inbox, mask) = signal::open_inbox(shares_terminal).context("cannot take signals")?;
    let command = PreparedCommand::new(&args.command, &additions, mask, shares_terminal);
    let monitor = Monitor::start(command, timing.grace, shares_terminal)
        .context("cannot start the monitor")?;
    inherited::close_descriptors();
    // Nothing is forked any more.
    report.write_behind().context("cannot start a thread")?;
    let (events, teller) =
        Queue::new(inbox, Some(monitor.clone())).context("cannot wait for events")?;
    let _watching = watch(&job, timing, teller.clone()).context("cannot start a thread")?;
    let database = Database::new(target, timing.attempt, timing.ttl);
    let label = contender.holder.label.clone();
    let for_news = teller.clone();
    let mut desk = Desk::open(report, timing, contender, database, (events, teller))
        .context("cannot start a thread")?;
    let (file, hook) = (args.observe.metrics_file, args.observe.on_event);
    let hook = hook.map(|command| (command, mask));
    (desk.news.tell(label, file, hook, &for_news)).context("cannot start a thread")?;
    desk.min_hold = args.once.min_hold.unwrap_or_default();

    let acquire = Acquire::new(claim, timing, limits, clock::now());
    let outcome = desk
        .acquire(acquire, args.conflict_exit_code)
        .and_then(|lease| {
            report.finish();
            let run = desk.supervise(&lease, &job, &monitor);
            // With a process of the command alive, the lease has to stay.
            let run = match run.outcome {
                RunOutcome::LeftBehind => run,
                _ => desk.release(&lease, run),
            };
            desk.news.ended(run.outcome.result(), &run.reason);
            run.result()
        });
    report.finish();
    desk.conclude(outcome.as_ref().map(|status| *status));
    desk.leave();
    Ok(outcome?)
}

/// Watches for the job's signs of life, if it is to give any.
fn watch(job: &Job, timing: Timing, events: Teller) -> io::Result<Option<Watching>> {
    let file = job.heartbeat_file.clone();
    file.map(|file| heartbeat::start(file, timing.interval / BEATS, events))
        .transpose()
}

/// Who we are, under the label and the note that the user chose.
pub(super) fn holder(label: Option<String>, note: Option<String>) -> Holder {
    let (host, pid) = (host::name(), host::pid());
    let (pod, namespace) = host::pod();
    Holder {
        label: label.unwrap_or_else(|| format!("{host}/{pid}")),
        host,
        pid,
        user: host::user(),
        note: note.unwrap_or_default(),
        pod: fitting(pod),
        namespace: fitting(namespace),
        command: String::new(),
    }
}

/// What of `text` has room in the tables: facts for people, which must not keep a command from running.
fn fitting(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(FACT));
    text
}

/// The end of a dlock whose command cannot be run.
fn unstartable(program: &OsStr, why: &Unstartable) -> Ending {
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
