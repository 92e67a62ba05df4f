//! The texts about the life of one lease: the wait, the renewals, the sessions on the server, and the release.

use std::collections::BTreeSet;
use std::mem::replace;
use std::time::Duration;

use super::log::{EventKind, EventMeta, WaitFacts, rfc3339};
use super::{Report, lost_grant, messages, waiting};
use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::protocol::acquire::Acquire;
use crate::protocol::keeper::{SessionOwner, SessionWait, SessionsNotEnded};
use crate::protocol::sessions::TrackingProblem;
use crate::store::session::{ListedSession, Untraceable};
use crate::store::{Failure, FailureKind, LockRecord, Loss};

/// Time after which dlock reports that it waits for a session to end. Most killed statements end much sooner.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reports about one lease.
pub struct LeaseReport<'a> {
    report: &'a Report,
    action: Action,
    /// The work under the lease, for example `the command`.
    work: &'a str,
    /// Addresses of the servers.
    servers: String,
    /// The reports about the sessions that a command has left.
    sessions: ReportedSessions,
    /// Instant at which a closed connection is reported. None if there is nothing to report.
    disconnected_at: Option<BootInstant>,
}

/// The reports about the sessions of one command. Each is printed once.
#[derive(Debug, Default)]
struct ReportedSessions {
    ids: BTreeSet<u64>,
    has_server: bool,
    has_unproven: bool,
    has_failure: bool,
}

impl<'a> LeaseReport<'a> {
    /// Returns the reports about a lease of `action` on `servers`, under which `work` is done.
    #[must_use]
    pub fn new(report: &'a Report, action: Action, work: &'a str, servers: String) -> Self {
        Self {
            report,
            action,
            work,
            servers,
            sessions: ReportedSessions::default(),
            disconnected_at: None,
        }
    }

    /// Reports why a contender waits, after a request that has failed with `failure` if it has failed.
    pub fn waiting(
        &self,
        acquire: &Acquire,
        failure: Option<&Failure>,
        waited: Duration,
        now: BootInstant,
    ) {
        let action = &self.action;
        let lost_until = acquire.lost_grant_until(now);
        let text = match (failure, acquire.observed()) {
            // The failure of the queue lock has already been reported, and is not the reason for the wait.
            (Some(failure), _) if failure.kind == FailureKind::NoQueueLock => return,
            (Some(failure), _) => format!("waiting for {action}: {failure}; trying again"),
            (None, Some((record, ..)))
                if record.main_lease().owner_id.is_none() && lost_until.is_some() =>
            {
                let left = lost_until.map_or(Duration::ZERO, |until| until.since(now));
                lost_grant::outwaiting(action, left)
            }
            (None, Some((record, ahead, _)))
                if record.main_lease().owner_id.is_some()
                    || record.fenced
                    || record.pause.is_some() =>
            {
                waiting::waiting(action, record, ahead)
            }
            (None, _) => return,
        };
        let observed = acquire.observed();
        let holder = observed.and_then(|(record, ..)| messages::whose(record));
        let ahead = observed.map(|(_, ahead, _)| ahead);
        let facts = WaitFacts::new(waited, ahead, observed.map(|(record, ..)| record));
        let meta = EventKind::Waiting.by(holder).waiting(facts);
        self.report.remind(meta, text);
    }

    /// Reports that this contender polls because it cannot use the queue lock. If `tries_again` is true, it tries the queue
    /// lock again later.
    pub fn no_queue_lock(&self, tries_again: bool) {
        let action = &self.action;
        let text = match tries_again {
            false => {
                format!("named locks do not work on this server: waiting for {action} by polling")
            }
            true => format!(
                "the queue lock of {action} cannot be used for now, normally because another session keeps it: waiting for {action} by polling"
            ),
        };
        self.report.debug(EventKind::NoNamedLocks, text);
    }

    /// Reports that something between dlock and the server ends connections that are silent for the time `limit`.
    pub fn silence(&self, limit: Duration) {
        let text = format_args!(
            "something between dlock and {} ends connections that are silent for {}; dlock now sends requests more often; \
             raise the idle timeout of the proxy, load balancer or firewall (HAProxy: timeout client, timeout server)",
            self.servers,
            messages::duration(limit)
        );
        self.report.info(EventKind::Disconnected, text);
    }

    /// Reports a successful renewal, and that it ends the failures since `failing_since`.
    pub fn renewed(
        &mut self,
        took: Duration,
        failing_since: Option<BootInstant>,
        now: BootInstant,
    ) {
        self.disconnected();
        let (action, took) = (&self.action, messages::duration(took));
        let text = format_args!("renewed the lease of {action} in {took}");
        self.report.debug(EventKind::Renewal, text);
        if let Some(since) = failing_since {
            let ago = messages::duration(now.since(since));
            let text = format_args!("{action} is renewed again after {ago}");
            self.report.info(EventKind::Renewed, text);
        }
    }

    /// Reports a failed renewal. `is_first` is false if the renewal before it failed as well.
    pub fn renewal_failed(&mut self, failure: &Failure, is_first: bool) {
        self.disconnected();
        let text = format_args!("cannot renew {}: {failure}; trying again", self.action);
        match is_first {
            true => self.report.info(EventKind::RenewalFailed, text),
            false => self.report.debug(EventKind::RenewalFailed, text),
        }
    }

    /// Reports that the database has lost the grant. `is_first` is false if this process has already tried to write the
    /// grant again.
    pub fn grant_lost(&mut self, is_first: bool) {
        self.disconnected_at = None;
        let text = lost_grant::reasserting(&self.action);
        match is_first {
            true => self.report.info(EventKind::GrantLost, text),
            false => self.report.debug(EventKind::GrantLost, text),
        }
    }

    /// Delays the report of a closed connection until `at`.
    ///
    /// `dlock release` and a take-over also close the connection, and the next renewal reports the loss. Therefore this
    /// report waits for the outcome of that renewal, but no longer than one request timeout.
    pub fn delay_disconnected(&mut self, at: BootInstant) {
        self.disconnected_at.get_or_insert(at);
    }

    /// Returns the instant at which a closed connection is reported. None if there is nothing to report.
    #[must_use]
    pub const fn disconnected_at(&self) -> Option<BootInstant> {
        self.disconnected_at
    }

    /// Reports that the server has closed the connection, unless this has been reported.
    pub fn disconnected(&mut self) {
        if self.disconnected_at.take().is_some() {
            let action = &self.action;
            let text =
                format_args!("the server has closed the connection of {action}; reconnecting");
            self.report.info(EventKind::Disconnected, text);
        }
    }

    /// Reports that the address leads to another server, unless an operator has revoked the lease there, which the next
    /// renewal reports.
    /// A contender tries there, and a holder renews its lease there.
    pub fn moved(&self, is_revoked: bool, has_lease: bool) {
        let (servers, action) = (&self.servers, &self.action);
        let text = match has_lease {
            _ if is_revoked => return,
            true => format!(
                "{servers} now leads to another server or to older data; renewing {action} there"
            ),
            false => {
                format!("waiting for {action}: {servers} now leads to another server; trying there")
            }
        };
        self.report.info(EventKind::Disconnected, text);
    }

    /// Returns why the lease is lost, and the label of the process or the operator that has caused it. `is_early` is true
    /// if the lease had not ended by the holder's clock.
    pub fn loss<'b>(
        &mut self,
        loss: Loss,
        record: &'b LockRecord,
        is_early: bool,
    ) -> (String, Option<&'b str>) {
        self.disconnected_at = None;
        let action = &self.action;
        let (why, other) = match (loss, record.main_lease().owner_id) {
            (Loss::Revoked, _) => (messages::released(record), messages::operator(record)),
            (Loss::LostGrant, _) => (
                lost_grant::not_reasserted(action, record),
                messages::whose(record),
            ),
            // Other holders in slots do not show who has freed the slot.
            (Loss::TakenOver, _) if record.is_shared() => {
                ("its slot was freed by another session".to_owned(), None)
            }
            (Loss::TakenOver, Some(_)) => {
                let text = match is_early {
                    true => lost_grant::taken_early(action, record),
                    false => messages::holding(action, record),
                };
                (text, Some(&*record.main_lease().holder.label))
            }
            (Loss::TakenOver, None) => ("its record was freed by another session".to_owned(), None),
        };
        (format!("lost {action}: {why}"), other)
    }

    /// Reports that sessions of the command cannot be noted in the record.
    pub fn tracking_problem(&self, problem: TrackingProblem) {
        let why = match problem {
            TrackingProblem::Unseen(ports) => {
                format!(
                    "dlock's account does not see the sessions of its connections from port {}; \
                     dlock doctor --session-user USER shows the missing privilege",
                    messages::ports(&ports)
                )
            }
            TrackingProblem::Unproven(ports) => messages::unproven_sessions(&ports),
            TrackingProblem::Untraceable(Untraceable::Named) => {
                "the server shows the name of this machine in place of its IP address, and \
                 several machines can have the same name (skip_name_resolve is off)"
                    .to_owned()
            }
            TrackingProblem::Untraceable(Untraceable::NoProcessList) => {
                "the server does not list its sessions (performance_schema is off)".to_owned()
            }
            TrackingProblem::Untraceable(Untraceable::Translated) => {
                "a proxy or a router changes the addresses of the connections".to_owned()
            }
            TrackingProblem::Failed(failure) => {
                let (work, action) = (self.work, &self.action);
                let text = format_args!(
                    "cannot look for the sessions of {work} of {action} on the server: {failure}; trying again"
                );
                return self.report.info(EventKind::SessionsLeft, text);
            }
        };
        let (work, action) = (self.work, &self.action);
        let text = format_args!(
            "sessions that {work} of {action} leaves on the server will not be ended: {why}"
        );
        self.report.info(EventKind::SessionsLeft, text);
    }

    /// Reports the sessions that do not end: at once those that dlock's account may not kill, and the others after a
    /// second.
    pub fn sessions_left(&mut self, wait: &SessionWait, now: BootInstant) {
        let sessions = wait.sessions();
        let left_by = format!("{} of {}", self.whose(wait.owner()), self.action);
        if let Some(server) = sessions.elsewhere()
            && !replace(&mut self.sessions.has_server, true)
        {
            let text = format_args!(
                "sessions that {left_by} left on the server {server} cannot be ended from this server"
            );
            self.report.info(EventKind::SessionsLeft, text);
        }
        let unproven = sessions.unproven();
        if !unproven.is_empty() && !replace(&mut self.sessions.has_unproven, true) {
            let text = format_args!(
                "sessions that {left_by} may have left on the server will not be ended: {}",
                messages::unproven_sessions(unproven)
            );
            self.report.info(EventKind::SessionsLeft, text);
        }
        let is_late = now.since(sessions.started()) >= PATIENCE;
        for listed in sessions.left() {
            let id = listed.session.id;
            let session = messages::session(listed);
            let is_denied = sessions.denied().contains(&id);
            let is_new = (is_denied || is_late) && self.sessions.ids.insert(id);
            let text = match is_denied {
                true => format!(
                    "{session}, which {left_by} left on the server, cannot be ended: \
                     dlock's account may not kill it; waiting until it ends"
                ),
                false => {
                    format!(
                        "waiting until {session}, which {left_by} left on the server, has ended"
                    )
                }
            };
            match is_new {
                true => self.report.info(EventKind::SessionsLeft, text),
                false if is_late => self.report.remind(EventKind::SessionsLeft, text),
                false => {}
            }
        }
        if let Some(failure) = sessions.failure()
            && !replace(&mut self.sessions.has_failure, true)
        {
            let text = format_args!(
                "cannot look for the sessions that {left_by} left on the server: {failure}; trying again"
            );
            self.report.info(EventKind::SessionsLeft, text);
        }
    }

    /// Reports that the sessions of a command have ended, and how many dlock has killed.
    pub fn sessions_ended(&mut self, owner: SessionOwner, killed: u32) {
        self.sessions = ReportedSessions::default();
        if killed > 0 {
            let sessions = messages::count(killed, "session");
            let (whose, action) = (self.whose(owner), &self.action);
            let text = format_args!("ended {sessions} that {whose} of {action} left on the server");
            self.report.info(EventKind::SessionsEnded, text);
        }
    }

    /// Reports that the sessions of the own command may not have ended.
    pub fn sessions_not_ended(&self, why: &SessionsNotEnded) {
        let why = match why {
            SessionsNotEnded::Unreachable => "the lease has ended",
            SessionsNotEnded::Lost(_) => "the lease is lost",
            SessionsNotEnded::GivenUp | SessionsNotEnded::TimedOut => "a signal ended the wait",
        };
        let (work, action) = (self.work, &self.action);
        let text = format_args!(
            "sessions that {work} of {action} left on the server may still execute statements: {why}"
        );
        self.report.error(EventKind::SessionsLeft, text);
    }

    /// Reports the sessions that still execute statements of a successful command.
    pub fn executing(&self, listed: &[ListedSession]) {
        for listed in listed {
            let session = messages::session(listed);
            let work = self.work;
            let text = format_args!("{session} of {work} still executes a statement on the server");
            self.report.debug(EventKind::SessionsLeft, text);
        }
    }

    /// Reports the release. `held_until` is the time since 1970 until which the lease stays held for `--min-hold`.
    pub fn released(&self, held_until: Option<Duration>) {
        let action = &self.action;
        let text = match held_until {
            Some(until) => {
                let until = rfc3339(until);
                format!("{action} stays held for --min-hold until {until}")
            }
            None => format!("{action} is released"),
        };
        let meta = EventMeta::from(EventKind::Released).held_until(held_until);
        self.report.milestone(meta, text, false);
    }

    const fn whose(&self, owner: SessionOwner) -> &'a str {
        match owner {
            SessionOwner::OwnWork => self.work,
            SessionOwner::EarlierRun => "an earlier run",
        }
    }

    /// Reports that the history could not be written.
    pub fn unrecorded(&self, failure: &Failure) {
        let action = &self.action;
        let text = format_args!("this run of {action} is not in the history: {failure}");
        self.report.info(EventKind::NotRecorded, text);
    }

    /// Reports that the release has failed, after which the lease ends at its expiry.
    pub fn not_released(&self, why: &str, ttl: Duration) {
        let (action, ttl) = (&self.action, messages::duration(ttl));
        let text = format_args!("cannot release {action}: {why}; it expires within {ttl}");
        self.report.info(EventKind::NotReleased, text);
    }
}
