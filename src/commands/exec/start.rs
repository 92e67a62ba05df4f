//! What comes before the first attempt: the settings of a run, its processes and its threads.
//!
//! Runs on the main thread, before there is any other: the monitor is forked in here, and nothing is
//! forked once a thread was started.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use humantime::format_duration;

use super::desk::Desk;
use super::hold::Job;
use super::nested::{self, Outer};
use super::{fitting, holder, unstartable};
use crate::acquire::{Acquire, WaitLimits};
use crate::cli::observe::ObserveArgs;
use crate::cli::{ExecArgs, Wait};
use crate::event::queue::Queue;
use crate::exit::{Ending, Status};
use crate::heartbeat;
use crate::lease::Claim;
use crate::lease::timing::Timing;
use crate::monitor::Monitor;
use crate::report::Report;
use crate::report::log::What;
use crate::store::target::Target;
use crate::store::{Contender, Fence, Holder};
use crate::sys::pending_child::PreparedCommand;
use crate::sys::process::look_up;
use crate::sys::{clock, inherited, random, replace, signal, terminal};

/// How often in an interval the heartbeat file is looked at.
const BEATS: u32 = 4;

/// The settings of a run, checked as far as that is possible without a server.
pub(super) struct Plan {
    command: Vec<OsString>,
    timing: Timing,
    limits: WaitLimits,
    /// Status for an end of the wait without the lease.
    pub(super) conflict: u8,
    contender: Contender,
    pub(super) job: Job,
    observe: ObserveArgs,
}

impl Plan {
    /// The plan that `args` ask for.
    ///
    /// # Errors
    /// When durations do not fit together, or there is no such command.
    pub(super) fn new(args: ExecArgs) -> anyhow::Result<Self> {
        let timing =
            Timing::new(args.ttl, args.grace).map_err(|why| Ending::new(Status::USAGE, why))?;
        let program = args.command.first().context("no command")?.clone();
        look_up(&program, std::env::var_os("PATH").as_deref())
            .map_err(|why| unstartable(&program, &why))?;
        let name = Path::new(&program).file_name().unwrap_or(&program);
        let contender = Contender {
            action: args.action,
            holder: Holder {
                command: fitting(name.to_string_lossy().into_owned()),
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
        Ok(Self {
            command: args.command,
            timing,
            limits: WaitLimits {
                wait: match args.wait {
                    _ if args.nonblock => Some(Duration::ZERO),
                    Wait::Forever => None,
                    Wait::AtMost(wait) => Some(wait),
                },
                connect: args.db_wait,
            },
            conflict: args.conflict_exit_code,
            contender,
            job: Job {
                program,
                max_runtime: args.max_runtime,
                heartbeat_file: args.heartbeat_file,
                min_hold: args.once.min_hold.unwrap_or_default(),
            },
            observe: args.observe,
        })
    }

    /// The run of this action that we are in, if there is one whose lease still stands.
    ///
    /// # Errors
    /// When its lease is over, or the server does not say.
    pub(super) fn outer(&self, target: &Target) -> anyhow::Result<Option<Outer>> {
        let Some(outer) = Outer::of(&self.contender.action) else {
            return Ok(None);
        };
        let is_ours = outer.is_ours(&self.contender, target, self.limits.connect)?;
        Ok(Some(outer).filter(|_| is_ours))
    }

    /// Becomes the command, under the lease of `outer`. Returns why it could not.
    pub(super) fn run_under(&self, outer: &Outer, report: &Report) -> Ending {
        report.granted(outer.token);
        let (action, token) = (&self.contender.action, outer.token);
        let text = format_args!(
            "{action} is held by the outer dlock (token {token}): running under its lease"
        );
        report.detail(What::Nested, text);
        unstartable(&self.job.program, &replace::with(&self.command))
    }

    /// Starts the monitor with the command behind it, then the threads.
    ///
    /// # Errors
    /// When the kernel gives no process, thread or descriptor.
    pub(super) fn start<'a>(
        &self,
        target: Target,
        report: &'a Report,
    ) -> anyhow::Result<(Desk<'a>, Acquire, Monitor)> {
        const NO_THREAD: &str = "cannot start a thread";
        let (timing, contender) = (self.timing, &self.contender);
        let additions = [
            ("DLOCK_ACTION", contender.action.to_string()),
            ("DLOCK_HOLDER", contender.holder.label.clone()),
            ("DLOCK_TTL", format_duration(timing.ttl).to_string()),
            (nested::ADDRESS, nested::address(&target)),
        ];
        let claim = Claim::new(random::bytes().context("no random numbers")?);
        let shares_terminal = terminal::is_controlling();
        let (inbox, mask) = signal::open_inbox(shares_terminal).context("cannot take signals")?;
        let command = PreparedCommand::new(&self.command, &additions, mask, shares_terminal);
        let monitor = Monitor::start(command, timing.grace, shares_terminal)
            .context("cannot start the monitor")?;
        inherited::close_descriptors();
        // Nothing is forked any more.
        report.write_behind().context(NO_THREAD)?;
        let (queue, events) =
            Queue::new(inbox, Some(monitor.clone())).context("cannot wait for events")?;
        if let Some(file) = &self.job.heartbeat_file {
            let pause = timing.interval / BEATS;
            heartbeat::start(file.clone(), pause, events.clone()).context(NO_THREAD)?;
        }
        let arrivals = (queue, events.clone());
        let mut desk =
            Desk::open(report, timing, contender.clone(), target, arrivals).context(NO_THREAD)?;
        (desk.news.tell(&self.observe, mask, &events)).context(NO_THREAD)?;
        let acquire = Acquire::new(claim, timing, self.limits, clock::now());
        Ok((desk, acquire, monitor))
    }
}
