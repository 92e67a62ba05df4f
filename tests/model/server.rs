//! The server of the model: one row, the queue lock, the queue, and the effect of each statement on them.
//!
//! The conditions are those of the SQL in `src/store/mysql/statements.rs`, one function per statement. `tests/compare`
//! compares them with real servers on random sequences. Every packet is executed at one instant: its UPDATE changes a
//! single row, and the SELECT after it proves ownership only if nothing happened in between.

#[path = "server/queue.rs"]
mod queue;
#[path = "server/release.rs"]
mod release;
#[path = "server/types.rs"]
mod types;

use dlock::lease::{OwnerId, Token};
use dlock::store::operator::OperatorAction;
use dlock::store::{
    AcquireMode, HistoryOutcome, Owner, QueueLock, QueueLockOwner, Request, Version,
};

use crate::time::{TTL, Tick, whole_ticks};

use self::types::owner_id_in;
pub(crate) use self::types::{Look, OWNER_ID, Raw, Row, Rules, Session, Stage, WaiterEntry, full};

/// The state of the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) row: Row,
    /// Sessions in order: the owner of the queue lock, then the sessions that wait for it.
    pub(crate) queue_lock: Vec<Session>,
    pub(crate) queue: Vec<WaiterEntry>,
    /// Owner ids that were handed off, each with the session that did so. A repeated hand-off has several entries.
    pub(crate) handed_off: Vec<(u8, Session)>,
    /// Outcomes of runs, by token.
    pub(crate) history: Vec<(u8, HistoryOutcome)>,
    /// True if a revoked lease was renewed.
    pub(crate) revoked_renewed: bool,
    /// Ticks by which the server's clock is ahead of the true time.
    ahead: i8,
}

impl Server {
    pub(crate) const fn new() -> Self {
        Self {
            row: Row {
                owner_id: None,
                token: 0,
                renewals: 0,
                has_queue_lock: false,
                session: None,
                expires: 0,
                revoked: false,
                paused: None,
            },
            queue_lock: Vec::new(),
            queue: Vec::new(),
            handed_off: Vec::new(),
            history: Vec::new(),
            revoked_renewed: false,
            ahead: 0,
        }
    }

    /// Frees the row while the command may be running.
    pub(crate) fn free_by_hand(&mut self) {
        self.row.owner_id = None;
    }

    /// Applies an operator's action if the row has the token `shown`. The row gets a new token and keeps its owner id.
    /// Returns true if the action was applied.
    pub(crate) fn intervene(&mut self, now: Tick, shown: u8, kind: OperatorAction) -> bool {
        if self.row.token != shown {
            return false;
        }
        let clock = self.clock(now);
        if kind != OperatorAction::Resume {
            let is_held = self.row.owner_id.is_some();
            if is_held && !self.row.revoked {
                self.record(self.row.token, HistoryOutcome::Revoked);
            }
            self.row.revoked = is_held;
        }
        match kind {
            OperatorAction::Release => {}
            OperatorAction::Pause(time) => self.row.paused = Some(clock + whole_ticks(time)),
            OperatorAction::Resume => self.row.paused = None,
        }
        self.row.token += 1;
        true
    }

    /// Sets the clock by `by` ticks.
    pub(crate) const fn step(&mut self, by: i8) {
        self.ahead += by;
    }

    /// Ends a session: it leaves the queue lock, and the rows that name it stay.
    pub(crate) fn end(&mut self, session: Session) {
        self.queue_lock.retain(|other| *other != session);
        self.handed_off.retain(|(_, other)| *other != session);
        self.rename(session, None);
    }

    /// The client drops its connection, which the server does not notice.
    pub(crate) fn abandon(&mut self, client: usize) {
        self.end(Session::dropped(client));
        let (current, dropped) = (Session::current(client), Session::dropped(client));
        let handed_off = self.handed_off.iter_mut().map(|(_, session)| session);
        for session in self.queue_lock.iter_mut().chain(handed_off) {
            if *session == current {
                *session = dropped;
            }
        }
        self.rename(current, Some(dropped));
    }

    fn rename(&mut self, session: Session, to: Option<Session>) {
        let entries = self.queue.iter_mut().map(|entry| &mut entry.session);
        for named in entries.chain([&mut self.row.session]) {
            if *named == Some(session) {
                *named = to;
            }
        }
    }

    /// Restarts the server: all sessions end, the rows stay.
    pub(crate) fn restart(&mut self) {
        self.queue_lock.clear();
        self.handed_off.clear();
        self.row.session = None;
        for entry in &mut self.queue {
            entry.session = None;
        }
    }

    /// Returns true if `session` waits for the queue lock behind another session.
    pub(crate) fn keeps_waiting(&self, session: Session) -> bool {
        self.queue_lock
            .iter()
            .skip(1)
            .any(|other| *other == session)
    }

    /// Removes state that has no effect any more. Of the history, only the runs of `tokens` are kept.
    pub(crate) fn forget(&mut self, tokens: &[u8]) {
        self.history.retain(|(token, _)| tokens.contains(token));
        if self.row.owner_id.is_none() {
            self.row = Row {
                owner_id: None,
                token: self.row.token,
                renewals: 0,
                has_queue_lock: false,
                session: None,
                expires: 0,
                revoked: false,
                paused: self.row.paused,
            };
        }
        // A session only matters if it owns a queue lock or did a hand-off.
        let row = &mut self.row;
        row.session = row.session.filter(|session| {
            !session.dropped || self.queue_lock.contains(session) || row.owner_id.is_some()
        });
        let named = (row.owner_id, row.session);
        self.handed_off
            .retain(|(owner_id, session)| named == (Some(*owner_id), Some(*session)));
        for entry in &mut self.queue {
            entry.session = entry
                .session
                .filter(|session| !session.dropped || self.queue_lock.contains(session));
        }
    }

    /// Returns true if a late execution of `request` could still change anything.
    pub(crate) fn heeds(&self, request: &Request) -> bool {
        let names = |owner_id: &OwnerId| self.row.owner_id == Some(owner_id.bytes()[OWNER_ID]);
        match request {
            Request::Renew(grant, _) => {
                names(&grant.owner_id) && u64::from(self.row.token) == grant.token.0
            }
            Request::Release(request) => names(&request.owner_id) || request.token.is_none(),
            _ => true,
        }
    }

    /// Returns true if `session` owns the queue lock or waits for it, so that its end has an effect.
    pub(crate) fn knows(&self, session: Session) -> bool {
        self.queue_lock.contains(&session)
    }

    /// Returns the session that the row names. None if there is none.
    pub(crate) const fn holder_session(&self) -> Option<Session> {
        self.row.session
    }

    /// Returns true if a session owns the queue lock.
    pub(crate) const fn is_queue_lock_owned(&self) -> bool {
        !self.queue_lock.is_empty()
    }

    /// Executes the packet `stage` of `request` for `session`. Returns None if the session now waits for the queue
    /// lock.
    pub(crate) fn execute(
        &mut self,
        now: Tick,
        session: Session,
        request: &Request,
        stage: Stage,
        rules: Rules,
    ) -> Option<Raw> {
        let queue_lock = match request {
            Request::TryAcquire(request) => request.queue_lock,
            Request::GetWithQueue(entry) | Request::Enqueue(entry) => entry.queue_lock,
            Request::WaitTurn(_) | Request::HandOff(_) => QueueLock::Available,
            Request::Renew(_, queue_lock) => *queue_lock,
            Request::Release(request) => request.queue_lock,
            Request::Get => QueueLock::Unavailable,
        };
        if rules.no_queue_lock && queue_lock == QueueLock::Available {
            return Some(Raw::NoNamedLocks);
        }
        let clock = self.clock(now);
        let owner_id = owner_id_in(request);
        Some(match request {
            Request::TryAcquire(request) => {
                if queue_lock == QueueLock::Available && !request.is_take_over() {
                    self.try_queue_lock(session);
                }
                let changed =
                    self.attempt(clock, session, (owner_id, queue_lock), request.mode, rules);
                self.seen(clock, session, owner_id, queue_lock, changed)
            }
            Request::WaitTurn(_) if stage == Stage::HasQueueLock => {
                let changed = self.attempt(
                    clock,
                    session,
                    (owner_id, queue_lock),
                    AcquireMode::IfFree,
                    rules,
                );
                self.seen(clock, session, owner_id, queue_lock, changed)
            }
            Request::GetWithQueue(_) => self.seen(clock, session, owner_id, queue_lock, false),
            Request::Enqueue(_) => {
                self.queue(clock, session, owner_id, queue_lock);
                self.seen(clock, session, owner_id, queue_lock, true)
            }
            Request::WaitTurn(_) => {
                self.queue(clock, session, owner_id, queue_lock);
                if !self.queue_lock.contains(&session) {
                    self.queue_lock.push(session);
                }
                if self.queue_lock.first() != Some(&session) {
                    return None;
                }
                Raw::HasQueueLock
            }
            Request::Renew(grant, _) => {
                if queue_lock == QueueLock::Available {
                    self.try_queue_lock(session);
                }
                let is_owner = self.is_held_by(owner_id, Some(grant.token), rules);
                if is_owner {
                    self.revoked_renewed |= self.row.revoked;
                    self.row.renewals += 1;
                    self.row.expires = clock + TTL.cast_signed();
                    if !rules.session_stays {
                        self.row.session = Some(session);
                        self.row.has_queue_lock = queue_lock == QueueLock::Available
                            && self.queue_lock.first() == Some(&session);
                    }
                }
                Raw::Row(self.look(clock, QueueLockOwner::NotQueried, 0), is_owner)
            }
            Request::HandOff(_) => {
                let mut handed_off = self.handed_off.iter();
                let can = handed_off.all(|(other, by)| *other != owner_id || *by == session);
                if can {
                    self.handed_off.push((owner_id, session));
                    self.pass(session);
                }
                Raw::HandedOff(can)
            }
            Request::Release(request) if let Stage::Settle(freed) = stage => {
                self.settle(clock, request, freed.revoked);
                Raw::Settled(freed)
            }
            Request::Release(request) => Raw::Freed(self.release(clock, session, request, rules)),
            // Sent by `dlock wait`, which is no contender.
            Request::Get => Raw::Row(self.look(clock, QueueLockOwner::NotQueried, 0), false),
        })
    }

    /// The predicate of ownership, as in the SQL.
    fn is_held_by(&self, owner_id: u8, token: Option<Token>, rules: Rules) -> bool {
        let owner = Owner {
            is_revoked: self.row.revoked && !rules.revoked_is_held,
            ..self.owner()
        };
        owner.is_held_by(full(owner_id), token)
    }

    /// Returns the owner of the row, as it is read back.
    fn owner(&self) -> Owner {
        Owner {
            owner_id: self.row.owner_id.map(full),
            token: Token(self.row.token.into()),
            is_revoked: self.row.revoked,
        }
    }

    /// Executes the conditional UPDATE. Returns true if it changed the row.
    fn attempt(
        &mut self,
        clock: i8,
        session: Session,
        (owner_id, queue_lock): (u8, QueueLock),
        mode: AcquireMode,
        rules: Rules,
    ) -> bool {
        let has_queue_lock = self.queue_lock.first() == Some(&session);
        let row = &self.row;
        let hand_off = row.owner_id.zip(row.session);
        let by_hand_off = hand_off.is_some_and(|hand_off| self.handed_off.contains(&hand_off));
        let passed = row.has_queue_lock
            && row
                .session
                .is_none_or(|holder| !self.queue_lock.contains(&holder));
        let version = Version {
            token: Token(row.token.into()),
            renewals: row.renewals.into(),
        };
        let can_take_over = match mode {
            AcquireMode::TakeOver { version: seen, .. } => seen == version,
            AcquireMode::First | AcquireMode::IfFree => {
                row.owner_id.is_none()
                    || (queue_lock == QueueLock::Available && by_hand_off)
                    || (rules.queue_lock_alone && passed)
                    || (rules.clock_alone && clock > row.expires)
            }
        };
        let is_paused = row.paused.is_some_and(|until| until > clock);
        if !can_take_over || is_paused || (queue_lock == QueueLock::Available && !has_queue_lock) {
            return false;
        }
        if let (AcquireMode::TakeOver { .. }, Some(before)) = (mode, row.owner_id) {
            if !row.revoked {
                self.record(self.row.token, HistoryOutcome::Lost);
            }
            self.queue.retain(|entry| entry.owner_id != before);
        }
        self.row = Row {
            owner_id: Some(owner_id),
            token: self.row.token + 1,
            renewals: 0,
            has_queue_lock: queue_lock == QueueLock::Available,
            session: Some(session),
            expires: clock + TTL.cast_signed(),
            revoked: false,
            paused: self.row.paused,
        };
        true
    }

    /// Returns the row and the queue, as the SELECT after a statement reads them. `changed` is true if the statement
    /// changed the row.
    fn seen(
        &self,
        clock: i8,
        session: Session,
        owner_id: u8,
        queue_lock: QueueLock,
        changed: bool,
    ) -> Raw {
        let (lock_owner, ahead) = self.view(clock, session, owner_id, queue_lock);
        Raw::Row(self.look(clock, lock_owner, ahead), changed)
    }

    const fn look(&self, clock: i8, lock_owner: QueueLockOwner, ahead: u8) -> Look {
        Look {
            owner_id: self.row.owner_id,
            token: self.row.token,
            renewals: self.row.renewals,
            left: self.row.expires - clock,
            revoked: self.row.revoked,
            has_queue_lock: self.row.has_queue_lock,
            paused: match self.row.paused {
                Some(until) if until > clock => (until - clock).unsigned_abs(),
                Some(_) | None => 0,
            },
            lock_owner,
            ahead,
        }
    }

    const fn clock(&self, now: Tick) -> i8 {
        now.cast_signed() + self.ahead
    }
}
