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
use super::plan::ExecPlan;
use super::work::Work;
use crate::event::address_reader::AddressReader;
use crate::event::event_loop::EventLoop;
use crate::event::heartbeat;
use crate::event::queue::EventQueue;
use crate::event::queue_reader::QueueReader;
use crate::lease::OwnerId;
use crate::process::monitor::{Monitor, StopRules};
use crate::protocol::keeper::{Keeper, KeeperSettings};
use crate::report::Report;
use crate::report::clock_jump::ClockComparison;
use crate::report::lease::LeaseReport;
use crate::store::Contender;
use crate::store::target::Targets;
use crate::sys::pending_child::PreparedCommand;
use crate::sys::signal::{JobControl, SignalFd};
use crate::sys::{clock, inherited, random};

/// Number of checks of the heartbeat file in one renewal interval.
const HEARTBEAT_CHECKS: u32 = 4;

impl ExecPlan {
    /// Starts the monitor, which delays the command until the grant, and then starts the threads.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a process, thread or descriptor.
    pub(super) fn start<'a>(
        &'a self,
        targets: Targets,
        report: &'a Report,
    ) -> anyhow::Result<Driver<'a>> {
        const NO_THREAD: &str = "cannot start a thread";
        let (timing, contender) = (self.keeper.timing, &self.contender);
        let owner_id = OwnerId::new(random::bytes().context("cannot get random bytes")?);
        let signals = SignalFd::open(self.job_control).context("cannot receive signals")?;
        let monitor = self.start_monitor(owner_id, &targets)?;
        inherited::close_descriptors();
        // Threads may start after this point, so this process must not fork any more.
        report.write_behind();
        let (queue, events) =
            EventQueue::new(signals, Some(monitor.clone())).context("cannot wait for events")?;
        if let Some(file) = &self.heartbeat_file {
            let check_interval = timing.renew_interval / HEARTBEAT_CHECKS;
            heartbeat::start(file.clone(), check_interval, events.clone()).context(NO_THREAD)?;
        }
        let contender = Contender {
            inside: nested::outer_lease(&targets),
            ..contender.clone()
        };
        let mut observers = RunObservers::none(&contender);
        (observers.start(&self.observe, self.hidden_variables.clone(), &events))
            .context(NO_THREAD)?;
        let (reader, of) = (contender.clone(), targets.clone());
        let queue_reader = QueueReader::new(of, reader, timing, events.clone());
        let (reader, of) = (contender.clone(), targets.clone());
        let address_reader = AddressReader::new(of, reader, timing, events.clone());
        let event_loop = EventLoop::start(contender, targets, timing, queue, events.clone())
            .context(NO_THREAD)?;
        let (action, servers) = (
            self.contender.action.clone(),
            event_loop.servers().to_owned(),
        );
        Ok(Driver {
            plan: self,
            report,
            texts: LeaseReport::new(report, action, servers),
            events: event_loop,
            sender: events,
            keeper: Keeper::new(owner_id, self.keeper, clock::now()),
            work: Work::new(self, report, monitor),
            queue_reader,
            address_reader,
            clock: ClockComparison::default(),
            observers,
            end: None,
        })
    }

    /// Starts the monitor. If this process dies, the monitor ends the lease of `owner_id`.
    fn start_monitor(&self, owner_id: OwnerId, targets: &Targets) -> anyhow::Result<Monitor> {
        let (timing, contender) = (self.keeper.timing, &self.contender);
        let additions = [
            ("DLOCK_ACTION", contender.action.to_string()),
            ("DLOCK_HOLDER", contender.holder.label.clone()),
            ("DLOCK_TTL", format_duration(timing.ttl).to_string()),
            (nested::ADDRESS, nested::address(targets)),
        ];
        let shares_terminal = self.job_control == JobControl::Announced;
        let hidden = &self.hidden_variables;
        let command = PreparedCommand::new(&self.command, &additions, hidden, shares_terminal);
        let rules = StopRules {
            stop_signal: self.stop_signal,
            grace: timing.grace,
            shares_terminal,
        };
        let abandoned = Abandoned {
            owner_id,
            contender: contender.clone(),
            targets: targets.clone(),
            settings: KeeperSettings {
                checks_address: false,
                ..self.keeper
            },
            min_hold: self.min_hold,
        };
        let action = contender.action.as_str();
        Monitor::start(action, command, rules, |left| abandoned.end(left))
            .context("cannot start the monitor")
    }
}
