//! One client: its parent, which runs the real [`Acquire`] and [`Renewals`], its connection to the server, its monitor
//! and the command.
//!
//! No step of the parent is urgent, so that it may be stopped at any time and for any length. The monitor and the
//! kernel do in a tick what is due in it.

use std::sync::Arc;
use std::time::Duration;

use dlock::exit::Status;
use dlock::lease::timing::Timing;
use dlock::outcome::RunOutcome;
use dlock::process::supervisor::{Effect, StopReason, SupervisorInput};
use dlock::protocol::acquire::{Acquire, AcquiredLease, NextRequest, WaitLimits};
use dlock::protocol::release::{self, Released, Releasing};
use dlock::protocol::renew::{Liveness, RenewalOutcome, Renewals};
use dlock::store::{Loss, Request, Response, TimedResponse};
use dlock::sys::tree::ExitReason;

use crate::monitor::Monitor;
use crate::mutation::Variant;
use crate::replies::{interpret, reply};
use crate::server::{Raw, Stage, full};
use crate::time::{TTL, Tick, instant, ticks, timing};

const KILL: i32 = 9;

/// A request in flight.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    pub(crate) request: Arc<Request>,
    /// True for the first request on its connection.
    pub(crate) moved: bool,
    /// The packet that is executed next.
    pub(crate) stage: Stage,
    sent: Tick,
    pub(crate) wire: InFlight,
}

impl Asked {
    /// Returns true if a late execution of the request could do harm: if it changes the row.
    pub(crate) fn may_be_late(&self) -> bool {
        match *self.request {
            Request::TryAcquire(_)
            | Request::Renew(..)
            | Request::HandOff(_)
            | Request::Release(_) => true,
            Request::WaitTurn(_) => self.stage == Stage::HasQueueLock,
            Request::GetWithQueue(_) | Request::Enqueue(_) | Request::Get => false,
        }
    }
}

/// The progress of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum InFlight {
    /// Not yet executed.
    Request,
    /// Executed at this tick, with this result, which the client has not read.
    Reply(Raw, Tick),
}

/// Whether a connection is stalled or a process is stopped. A halt within one tick would only be another order of
/// events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StopState {
    /// Neither stalled nor stopped.
    None,
    /// Halted since this tick.
    Fresh,
    /// Halted since an earlier tick, so that it may resume.
    Old,
}

/// A connection as the client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    /// True while the server has the session.
    pub(crate) alive: bool,
    /// Whether packets are blocked, in both directions.
    pub(crate) stalled: StopState,
    /// Tick of the last request that the server received.
    pub(crate) heard: Tick,
    /// True once a renewal on this connection was read back: from then on the row names its session.
    pub(crate) trusted: bool,
    pub(crate) asked: Option<Asked>,
    /// The previous request, which was given up. Only used by [`Variant::ConnectionKept`].
    pub(crate) stale: Option<Asked>,
}

/// The state of the process that talks to the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Parent {
    Unborn,
    Acquiring(Arc<Acquire>),
    /// The lease is granted, and the monitor does not know it yet.
    Granted(AcquiredLease),
    Holding {
        renewals: Renewals,
        lease: AcquiredLease,
        loss: Option<Loss>,
    },
    Leaving {
        releasing: Releasing,
        outcome: RunOutcome,
        /// The reported loss of the lease. None if no loss was reported.
        loss: Option<Loss>,
        /// True if an operator had revoked the lease.
        revoked: bool,
    },
    Over {
        released: bool,
    },
}

/// The command with its whole tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Command {
    Unstarted,
    Running,
    /// Killed, and dead at the end of this tick.
    Dying,
    Ended,
}

/// A client and its current dlock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// Number of the current dlock of this client. The owner id is made of it and of the client's number.
    pub(crate) life: u8,
    pub(crate) parent: Parent,
    /// Whether the parent is stopped.
    pub(crate) paused: StopState,
    pub(crate) link: Option<Link>,
    /// A request on a connection that was given up, which may still arrive.
    pub(crate) late: Option<Asked>,
    /// True if a renewal was executed late: it writes its old session into the row, until the next renewal.
    pub(crate) late_renewal: bool,
    pub(crate) monitor: Option<Monitor>,
    pub(crate) command: Command,
    /// The token of a run that has just ended with status 0.
    pub(crate) success: Option<u8>,
    /// True if a run ended with status 0 although its lease was reported or recorded as lost or revoked.
    pub(crate) false_success: bool,
}

impl Client {
    pub(crate) const fn new() -> Self {
        Self {
            life: 0,
            parent: Parent::Unborn,
            paused: StopState::None,
            link: None,
            late: None,
            late_renewal: false,
            monitor: None,
            command: Command::Unstarted,
            success: None,
            false_success: false,
        }
    }

    pub(crate) const fn is_running(&self) -> bool {
        matches!(self.command, Command::Running | Command::Dying)
    }

    /// Returns true if the parent waits for no response.
    pub(crate) fn is_quiet(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.asked.is_none())
    }

    /// Starts a new dlock, which acquires the lease.
    pub(crate) fn begin(&mut self, now: Tick, number: usize) {
        self.life += 1;
        let owner_id = full(owner_id_of(number, self.life));
        let limits = WaitLimits {
            wait: None,
            connect: ticks(u8::MAX),
        };
        self.monitor = None;
        self.command = Command::Unstarted;
        let acquire = Acquire::new(owner_id, timing(), limits, instant(now));
        self.parent = Parent::Acquiring(Arc::new(acquire));
    }

    /// Returns true if the parent can make a step without an input.
    pub(crate) fn has_to_act(&self, now: Tick, variant: Variant) -> bool {
        self.is_quiet()
            && match &self.parent {
                Parent::Unborn | Parent::Granted(_) | Parent::Over { .. } => false,
                _ => self.clone().act(now, variant),
            }
    }

    /// Makes a step of the parent without an input. Returns false if there was nothing to do.
    pub(crate) fn act(&mut self, now: Tick, variant: Variant) -> bool {
        match &mut self.parent {
            Parent::Acquiring(acquire) => match Arc::make_mut(acquire).next(instant(now)) {
                NextRequest::Send(request) => self.ask(now, request),
                NextRequest::Granted(lease) => self.parent = Parent::Granted(lease),
                NextRequest::Wait(_) => return false,
                other => panic!("no wait limit is set here: {other:?}"),
            },
            Parent::Holding { lease, loss, .. }
                if self.command == Command::Ended
                    || (variant == Variant::EarlyRelease
                        && self.monitor.is_some_and(|monitor| monitor.is_stopping())) =>
            {
                let (lease, loss) = (*lease, *loss);
                self.leave(now, lease, loss, variant);
            }
            Parent::Holding { renewals, .. } => match renewals.due(instant(now)) {
                Some(request) => self.ask(now, request),
                None => return false,
            },
            Parent::Leaving { releasing, .. } => match releasing.next(instant(now)) {
                release::ReleaseStep::Send(Request::HandOff(_)) if self.link.is_none() => {
                    // Nothing is sent: a hand-off on a new session is not valid.
                    let answer = reply(now, now, Ok(Response::NotHolder(None)));
                    releasing.handle_response(instant(now), &answer);
                    self.act(now, variant);
                }
                release::ReleaseStep::Send(request) => self.ask(now, request),
                release::ReleaseStep::Wait(_) => return false,
                release::ReleaseStep::Finished(released) => self.end(&released, variant),
            },
            Parent::Unborn | Parent::Granted(_) | Parent::Over { .. } => return false,
        }
        true
    }

    /// Begins the release of the lease, because the command is dead or was asked to stop.
    fn leave(&mut self, now: Tick, lease: AcquiredLease, loss: Option<Loss>, variant: Variant) {
        let is_stopped = self.monitor.is_some_and(|monitor| monitor.is_stopping());
        let (end, blame) = match is_stopped && loss.is_none() {
            true => (ExitReason::Killed(KILL), StopReason::Expired),
            // Even after a reported loss, the command may have exited on its own at that time.
            false => (ExitReason::Exited(0), StopReason::None),
        };
        let told = loss.filter(|_| variant != Variant::EndBelieved);
        let outcome = RunOutcome::of(end, blame, told);
        let request = outcome.request(&lease, Duration::ZERO, Duration::ZERO);
        self.parent = Parent::Leaving {
            releasing: Releasing::new(request, true, instant(now)),
            outcome,
            loss,
            revoked: outcome == RunOutcome::Revoked,
        };
        self.act(now, variant);
    }

    /// Ends this dlock after its release.
    fn end(&mut self, released: &Released, variant: Variant) {
        if let Parent::Leaving { outcome, loss, .. } = &self.parent {
            let outcome = match variant {
                Variant::EndBelieved => *outcome,
                _ => outcome.after(released),
            };
            if outcome.status() == Status::OK {
                self.false_success |= loss.is_some();
                self.success = self.token();
            }
            let released = outcome.held_lease();
            self.parent = Parent::Over { released };
        }
    }

    fn ask(&mut self, now: Tick, request: Request) {
        let moved = self.link.is_none();
        let link = self.link.get_or_insert(Link {
            alive: true,
            stalled: StopState::None,
            heard: now,
            trusted: false,
            asked: None,
            stale: None,
        });
        link.asked = Some(Asked {
            request: Arc::new(request),
            moved,
            stage: Stage::First,
            sent: now,
            wire: InFlight::Request,
        });
    }

    /// The monitor gets the grant and starts the command, unless it is too late. Returns true if it started the
    /// command.
    pub(crate) fn launch(&mut self, now: Tick, lease: AcquiredLease, variant: Variant) -> bool {
        let timing = model_timing(variant);
        let mut monitor = Monitor::new(timing.deadline(lease.sent));
        self.parent = Parent::Holding {
            renewals: Renewals::new(
                lease.grant,
                lease.queue_lock,
                timing,
                lease.sent,
                Liveness::NotRequired,
            ),
            lease,
            loss: None,
        };
        let late = !monitor.step(now, SupervisorInput::Tick).is_empty();
        if late && variant != Variant::BlindStart {
            self.command = Command::Ended;
            return false;
        }
        self.monitor = Some(monitor);
        self.command = Command::Running;
        true
    }

    /// The parent reads the response that has arrived.
    pub(crate) fn read(&mut self, now: Tick, variant: Variant) {
        let link = self.link.as_mut().expect("there is a response");
        let mut asked = link.asked.take().expect("there is a request");
        let wire = match link.stale.take() {
            Some(stale) => {
                // From here on each response belongs to the previous request.
                link.stale = Some(asked.clone());
                stale.wire
            }
            None => asked.wire,
        };
        let InFlight::Reply(raw, received) = wire else {
            panic!("there is a response");
        };
        if let Some(next) = raw.next(&asked.request) {
            asked.stage = next;
            // Deadlines count from the packet that the response belongs to.
            asked.sent = now;
            asked.wire = InFlight::Request;
            link.asked = Some(asked);
            return;
        }
        let outcome = interpret(&asked.request, raw, variant);
        match &outcome {
            Err(_) => self.link = None,
            Ok(answer) => link.trusted |= matches!(answer, Response::Renewed),
        }
        let sent = match variant {
            Variant::DeadlineFromReply => now,
            _ => asked.sent,
        };
        self.hear(now, reply(sent, received, outcome), variant);
    }

    /// Passes a response or a failure to the state machine that waits for it.
    pub(crate) fn hear(&mut self, now: Tick, reply: TimedResponse, variant: Variant) {
        match &mut self.parent {
            Parent::Acquiring(acquire) => {
                Arc::make_mut(acquire).handle_response(instant(now), &reply);
                self.act(now, variant);
            }
            Parent::Holding { renewals, loss, .. } => {
                let input = match renewals.handle_response(instant(now), reply) {
                    RenewalOutcome::Renewed(deadline) => SupervisorInput::Renewed(deadline),
                    RenewalOutcome::Lost(how, _) => {
                        *loss = Some(how);
                        SupervisorInput::Lost
                    }
                    RenewalOutcome::Failed(_) => return,
                };
                self.watch(now, input);
            }
            Parent::Leaving { releasing, .. } => {
                // The response to a pending renewal comes before the release is sent.
                if releasing.is_in_flight() {
                    releasing.handle_response(instant(now), &reply);
                }
                self.act(now, variant);
            }
            Parent::Unborn | Parent::Granted(_) | Parent::Over { .. } => {
                panic!("no request was sent")
            }
        }
    }

    /// Passes an input to the monitor, which may kill the command.
    pub(crate) fn watch(&mut self, now: Tick, input: SupervisorInput) {
        let (Some(monitor), Command::Running) = (&mut self.monitor, self.command) else {
            return;
        };
        if monitor.step(now, input).contains(&Effect::Stop(KILL)) {
            self.command = Command::Dying;
        }
    }

    /// Returns true if the monitor has to act in this tick.
    pub(crate) fn is_due(&self, now: Tick) -> bool {
        self.command == Command::Running
            && self.monitor.is_some_and(|monitor| {
                let wake = monitor.supervisor().wake_at();
                wake.is_some_and(|wake| wake <= instant(now))
            })
    }

    /// Removes state that has no effect any more.
    pub(crate) fn forget(&mut self, now: Tick, ticked: bool) {
        if let Parent::Acquiring(acquire) = &mut self.parent {
            // An `Acquire` that is shared with the previous state has not changed.
            if ticked || Arc::get_mut(acquire).is_some() {
                Arc::make_mut(acquire).normalize_for_model(instant(now));
            }
        }
        if let Parent::Leaving { releasing, .. } = &mut self.parent {
            releasing.normalize_for_model(instant(now));
        }
        if let Some(link) = &mut self.link {
            let asked = link.asked.as_ref();
            if asked.is_some_and(|a| a.wire == InFlight::Request) || now >= link.heard + TTL {
                link.heard = 0;
            }
            if let Some(asked) = &mut link.asked
                && !matches!(
                    *asked.request,
                    Request::TryAcquire(_) | Request::Renew(..) | Request::WaitTurn(_)
                )
            {
                asked.sent = 0;
            }
        }
        if let Some(late) = &mut self.late {
            late.sent = 0;
        }
        if !self.is_running()
            && let Some(monitor) = &mut self.monitor
        {
            *monitor = Monitor::new(timing().deadline(instant(0)));
        }
    }

    /// Drops the connection. A request on it may still arrive.
    pub(crate) fn drop_link(&mut self) {
        if let Some(link) = self.link.take()
            && let Some(asked) = link.asked
            && link.alive
            && asked.wire == InFlight::Request
            && asked.may_be_late()
        {
            self.late = Some(asked);
        }
    }

    /// Returns true if the monitor has not stopped the command and no loss of the lease was reported.
    pub(crate) fn is_unharmed(&self) -> bool {
        let is_stopped = self.monitor.is_some_and(|monitor| monitor.is_stopping());
        !is_stopped && !matches!(self.parent, Parent::Holding { loss: Some(_), .. })
    }

    /// Returns the token of the lease that this dlock holds or held. None if there is none.
    pub(crate) fn token(&self) -> Option<u8> {
        let token = match &self.parent {
            Parent::Granted(lease) | Parent::Holding { lease, .. } => lease.grant.token,
            Parent::Leaving { releasing, .. } => releasing.token()?,
            Parent::Acquiring(_) | Parent::Unborn | Parent::Over { .. } => return None,
        };
        u8::try_from(token.0).ok()
    }

    /// Returns the owner id of the current dlock.
    pub(crate) fn owner_id(&self, number: usize) -> u8 {
        owner_id_of(number, self.life)
    }
}

fn owner_id_of(number: usize, life: u8) -> u8 {
    u8::try_from(number).expect("two clients") * 8 + life
}

fn model_timing(variant: Variant) -> Timing {
    match variant {
        Variant::NoMargin => Timing {
            margin: ticks(0),
            ..timing()
        },
        _ => timing(),
    }
}
