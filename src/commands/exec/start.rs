//! Starts the processes and the threads of a run before its first attempt.
//!
//! Runs on the main thread. The monitor is forked before the other threads start, because a process
//! with threads must not fork.

use anyhow::Context;
use humantime::format_duration;

use super::abandoned::Abandoned;
use super::driver::Driver;
use super::nested;
use super::observers::RunObservers;
use super::plan::RunPlan;
use super::work::Work;
use crate::commands::outer;
use crate::event::event_loop::EventLoop;
use crate::event::heartbeat;
use crate::event::queue::EventQueue;
use crate::lease::OwnerId;
use crate::process::monitor::{Monitor, StopRules, Subject};
use crate::protocol::keeper::KeeperSettings;
use crate::protocol::keepers::Keepers;
use crate::report::Report;
use crate::store::target::Targets;
use crate::sys::pending_child::PreparedCommand;
use crate::sys::signal::{JobControl, SignalFd};
use crate::sys::{clock, inherited, random};

/// Number of checks of the heartbeat file in one renewal interval.
const HEARTBEAT_CHECKS: u32 = 4;

/// The work of a run, and its monitor.
pub(in crate::commands) type Prepared<'a> = (Box<dyn Work + 'a>, Option<Monitor>);

impl RunPlan {
    /// Returns the variables for processes that run under the leases, without the tokens.
    pub(in crate::commands) fn variables(&self, targets: &Targets) -> Vec<(&'static str, String)> {
        let (timing, first) = (self.keeper.timing, self.first());
        vec![
            ("DLOCK_ACTION", first.action.to_string()),
            ("DLOCK_HOLDER", first.holder.label.clone()),
            ("DLOCK_TTL", format_duration(timing.ttl).to_string()),
            (outer::ADDRESS, nested::address(targets)),
            (outer::OUTER_TOKENS, nested::outer_lines(targets)),
        ]
    }

    /// Prepares the work, and then starts the threads. `prepare` gets the owner ids of the leases, and returns the work, and
    /// the monitor if there is one.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a process, thread or descriptor.
    pub(in crate::commands) fn start<'a>(
        &'a self,
        targets: Targets,
        report: &'a Report,
        prepare: impl FnOnce(&[OwnerId], &Targets) -> anyhow::Result<Prepared<'a>>,
    ) -> anyhow::Result<Driver<'a>> {
        const NO_THREAD: &str = "cannot start a thread";
        let timing = self.keeper.timing;
        let owner_ids = (self.contenders.iter())
            .map(|_| random::bytes().map(OwnerId::new))
            .collect::<Result<Vec<_>, _>>()
            .context("cannot get random bytes")?;
        let signals = SignalFd::open(self.job_control).context("cannot receive signals")?;
        let (work, monitor) = prepare(&owner_ids, &targets)?;
        inherited::close_descriptors();
        // Threads may start after this point, so this process must not fork any more.
        report.write_behind();
        let (queue, events) =
            EventQueue::new(signals, monitor).context("cannot wait for events")?;
        if let Some(file) = &self.heartbeat_file {
            let check_interval = timing.renew_interval / HEARTBEAT_CHECKS;
            heartbeat::start(file.clone(), check_interval, events.clone()).context(NO_THREAD)?;
        }
        let mut observers = RunObservers::none(&self.contenders);
        (observers.start(&self.observe, self.hidden_variables.clone(), &events))
            .context(NO_THREAD)?;
        let mut driver = Driver {
            plan: self,
            report,
            events: EventLoop::new(queue, events),
            keepers: Keepers::new(owner_ids, self.keeper, clock::now()),
            targets,
            leases: Vec::new(),
            work,
            started: None,
            observers,
            end: None,
        };
        driver.start_lease().context(NO_THREAD)?;
        Ok(driver)
    }

    /// Returns the command with its environment and its process group.
    pub(super) fn prepared(&self, targets: &Targets) -> Subject {
        let additions = self.variables(targets);
        let names = self.contenders.iter().map(|it| it.action.to_string());
        let hidden = &self.hidden_variables;
        let shares_terminal = self.shares_terminal();
        let command = PreparedCommand::new(&self.command, &additions, hidden, shares_terminal);
        Subject::Command(command.under(names.collect()))
    }

    /// Returns true if the terminal's signals reach the command directly.
    fn shares_terminal(&self) -> bool {
        self.job_control == JobControl::Announced
    }

    /// Starts the monitor of `subject`, which delays a command until the grant. If this process dies, the monitor ends the
    /// leases with `owner_ids`.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a process.
    pub(in crate::commands) fn start_monitor(
        &self,
        subject: Subject,
        owner_ids: &[OwnerId],
        targets: &Targets,
    ) -> anyhow::Result<Monitor> {
        let rules = StopRules {
            stop_signal: self.stop_signal,
            grace: self.keeper.timing.grace,
            shares_terminal: self.shares_terminal(),
        };
        let abandoned = Abandoned {
            leases: owner_ids
                .iter()
                .copied()
                .zip(self.contenders.clone())
                .collect(),
            targets: targets.clone(),
            settings: KeeperSettings {
                checks_address: false,
                ..self.keeper
            },
            min_hold: self.min_hold,
        };
        Monitor::start(&self.names, subject, rules, |left| {
            abandoned.end(&left);
        })
        .context("cannot start the monitor")
    }
}
