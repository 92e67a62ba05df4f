//! What comes before the first attempt: the settings of a run, its processes and its threads.
//!
//! Runs on the main thread, before there is any other: the monitor is forked in here, and nothing is
//! forked once a thread was started.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use humantime::format_duration;

use super::desk::Desk;
use super::{nested, unstartable};
use crate::acquire::{Acquire, WaitLimits};
use crate::cli::{ExecArgs, Wait};
use crate::commands::{fitting, holder};
use crate::event::queue::Queue;
use crate::exit::{Ending, Status};
use crate::heartbeat;
use crate::lease::timing::Timing;
use crate::lease::{Claim, Token};
use crate::monitor::Monitor;
use crate::report::Report;
use crate::report::log::What;
use crate::store::target::Target;
use crate::store::{Contender, Fence, Holder};
use crate::sys::pending_child::PreparedCommand;
use crate::sys::process::look_up;
use crate::sys::signal::Inbox;
use crate::sys::{clock, inherited, random, terminal};

/// How often in an interval the heartbeat file is looked at.
const BEATS: u32 = 4;

/// What a run is to be, checked as far as that is possible without a server.
pub(super) struct Plan {
    pub(super) args: ExecArgs,
    timing: Timing,
    pub(super) contender: Contender,
}

impl Plan {
    /// The plan that `args` ask for.
    ///
    /// # Errors
    /// When durations do not fit together, or there is no such command.
    pub(super) fn new(args: ExecArgs) -> anyhow::Result<Self> {
        let timing =
            Timing::new(args.ttl, args.grace).map_err(|why| Ending::new(Status::USAGE, why))?;
        let program = args.command.first().context("no command")?;
        look_up(program, std::env::var_os("PATH").as_deref())
            .map_err(|why| unstartable(&args.command, &why))?;
        let name = Path::new(program).file_name().unwrap_or(program);
        let contender = Contender {
            action: args.action.clone(),
            holder: Holder {
                command: fitting(name.to_string_lossy().into_owned()),
                ..holder(args.holder.clone(), args.note.clone())
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
            args,
            timing,
            contender,
        })
    }

    /// Becomes the command, under the outer lease with `token`. Returns why it could not.
    pub(super) fn run_under(&self, token: Token, report: &Report) -> Ending {
        report.granted(token);
        let action = &self.contender.action;
        let text = format_args!(
            "{action} is held by the outer dlock (token {token}): running under its lease"
        );
        report.detail(What::Nested, text);
        unstartable(
            &self.args.command,
            &PreparedCommand::new(&self.args.command, &[], true).exec(),
        )
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
        let (args, timing, contender) = (&self.args, self.timing, &self.contender);
        let additions = [
            ("DLOCK_ACTION", contender.action.to_string()),
            ("DLOCK_HOLDER", contender.holder.label.clone()),
            ("DLOCK_TTL", format_duration(timing.ttl).to_string()),
            (nested::ADDRESS, nested::address(&target)),
        ];
        let claim = Claim::new(random::bytes().context("no random numbers")?);
        let shares_terminal = terminal::is_controlling();
        let inbox = Inbox::open(shares_terminal).context("cannot take signals")?;
        let command = PreparedCommand::new(&args.command, &additions, shares_terminal);
        let monitor = Monitor::start(command, timing.grace, shares_terminal)
            .context("cannot start the monitor")?;
        inherited::close_descriptors();
        // Nothing is forked any more.
        report.write_behind();
        let (queue, events) =
            Queue::new(inbox, Some(monitor.clone())).context("cannot wait for events")?;
        if let Some(file) = &args.heartbeat_file {
            let pause = timing.interval / BEATS;
            heartbeat::start(file.clone(), pause, events.clone()).context(NO_THREAD)?;
        }
        let contender = contender.clone();
        let mut desk = Desk::open(report, timing, contender, target, queue, events.clone())
            .context(NO_THREAD)?;
        (desk.news.tell(&args.observe, &events)).context(NO_THREAD)?;
        let limits = WaitLimits {
            wait: match args.wait {
                _ if args.nonblock => Some(Duration::ZERO),
                Wait::Forever => None,
                Wait::AtMost(wait) => Some(wait),
            },
            connect: args.db_wait,
        };
        let acquire = Acquire::new(claim, timing, limits, clock::now());
        Ok((desk, acquire, monitor))
    }
}
