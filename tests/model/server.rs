//! The model's server: one row, the queue lock and the queue, and the effects of each statement.
//!
//! Each function contains the conditions of one SQL statement in `src/store/mysql/statements.rs`. `tests/compare`
//! compares this server with real servers on random sequences. The server executes a packet in one indivisible step. On
//! a real server, another session may act between the UPDATE of a packet and its SELECT, but the UPDATE changes only
//! one row, and the SELECT proves ownership only if no other session has changed the row.

#[path = "server/queue.rs"]
mod queue;
#[path = "server/release.rs"]
mod release;
#[path = "server/slots.rs"]
mod slots;
#[path = "server/statements.rs"]
pub(crate) mod statements;
#[path = "server/types.rs"]
mod types;

use dlock::lease::limit::Limit;
use dlock::lease::{OwnerId, Token};
use dlock::store::operator::OperatorAction;
use dlock::store::{
    AcquireMode, AcquireRequest, DatabaseId, HistoryOutcome, LastRead, Owner, QueueLock,
    QueueLockOwner, ReleaseRequest, RenewRequest, Request, RoomWait, RunHistory, WaitRequest,
};

use crate::time::{TTL, Tick, whole_ticks};

pub(crate) use self::slots::{SHARED, Slot};
pub(crate) use self::statements::{Note, Statement};
pub(crate) use self::types::{
    Behind, NUMBER_BYTE, Raw, Row, RowView, Rule, Rules, Session, SlotView, Stage, WaiterEntry,
    owner_id_in, owner_id_of_number,
};

const EARLIER_HOLDER: u8 = u8::MAX;

/// Session of the holder that belongs to no client.
const EARLIER_SESSION: Session = Session::current(usize::MAX);

#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) row: Row,
    pub(crate) slots: Vec<Slot>,
    /// The owner ids whose holder lock a session owns.
    pub(crate) holder_locks: Vec<(u8, Session)>,
    /// The limits of the owner ids whose leases are not exclusive.
    limits: Vec<(u8, Limit)>,
    /// The session that owns the queue lock, followed by the sessions that wait for it, in their order.
    pub(crate) queue_lock: Vec<Session>,
    /// The sessions that execute a wait for the queue lock.
    waiting: Vec<Session>,
    /// The sessions that wait again after they have let a waiter pass, each with the position of that waiter.
    passing: Vec<(Session, u8)>,
    /// Owner ids of waiters that have let another waiter pass, each with the position of that waiter.
    pub(crate) let_pass: Vec<(u8, u8)>,
    /// True if a waiter was granted the queue lock and kept it although an earlier waiter was waiting for it, which it had
    /// never let pass.
    pub(crate) has_overtaken: bool,
    /// True if a waiter has let the same waiter pass twice.
    pub(crate) has_passed_twice: bool,
    pub(crate) queue: Vec<WaiterEntry>,
    /// Owner ids with a hand-off, each with the session that made the hand-off. A repeated hand-off has several
    /// entries.
    pub(crate) handed_off: Vec<(u8, Session)>,
    /// Token of the recorded success, which makes a run unnecessary. 0 if none is recorded. None if the contenders do not
    /// use `--once`.
    pub(crate) success: Option<u8>,
    /// Outcomes of runs, by token.
    pub(crate) history: Vec<(u8, HistoryOutcome)>,
    pub(crate) statements: Vec<Statement>,
    /// Number of statements that were started since the last restart.
    statement_count: u8,
    restarts: u8,
    pub(crate) revoked_renewed: bool,
    /// The number of the database. It changes if a replica replaces the server.
    pub(crate) database: u8,
    /// The highest token that any database has issued. Real tokens are at least the server time, so a token is not used
    /// twice even if the database loses a grant.
    issued: u8,
    /// Number of ticks by which the server's clock is ahead of the true time. Negative if the clock is behind.
    ahead: i8,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a holder that belongs to no client, whose lease with `limit` does not expire.
    pub(crate) fn add_earlier_holder(&mut self, limit: Limit, rules: Rules) {
        self.set_limit(EARLIER_HOLDER, limit);
        self.try_queue_lock(EARLIER_SESSION);
        let owner = (EARLIER_HOLDER, QueueLock::Available);
        self.try_holder_lock(EARLIER_HOLDER, EARLIER_SESSION);
        self.try_acquire(0, EARLIER_SESSION, owner, AcquireMode::First, rules);
        if let Some(row) = self.lease_of_mut(EARLIER_HOLDER) {
            row.expires = i8::MAX;
        }
    }

    /// Returns true if the holder that belongs to no client holds the lease.
    pub(crate) fn has_earlier_holder(&self) -> bool {
        (self.lease_of(EARLIER_HOLDER)).is_some_and(|row| row.owner_id == Some(EARLIER_HOLDER))
    }

    /// Ends the session of the holder that belongs to no client.
    pub(crate) fn cut_earlier_holder(&mut self) {
        self.end(EARLIER_SESSION);
    }

    /// Releases the lease of the holder that belongs to no client.
    pub(crate) fn end_earlier_holder(&mut self) {
        self.cut_earlier_holder();
        if let Some(row) = self.lease_of_mut(EARLIER_HOLDER) {
            row.owner_id = None;
        }
        self.free_shared_record();
    }

    /// Returns true if nobody holds, pauses or waits for the action, so that its row can be removed.
    pub(crate) fn is_unused(&self) -> bool {
        let row = &self.row;
        row.owner_id.is_none()
            && row.paused.is_none()
            && row.note.is_none()
            && !row.may_have_noted_slots
            && self.queue.is_empty()
    }

    /// Removes the row, which the next attempt creates again. Only the row is left to make tokens grow, because the
    /// server's clock may have been set back. The history stays: `dlock prune` removes only what is older than an hour.
    pub(crate) fn prune(&mut self, rules: Rules) {
        let lowest = match rules.has(Rule::LowestTokenIsMissing) {
            true => 0,
            false => self.row.token + 1,
        };
        self.row = Row::new(lowest);
        self.issued = 0;
    }

    /// Applies an operator request if the row has the token `token`. The row gets a new token and keeps its owner id.
    /// The end of a pause does not apply to a live lease. Returns true if the request was applied.
    pub(crate) fn apply_operator_action(
        &mut self,
        now: Tick,
        token: u8,
        action: OperatorAction,
    ) -> bool {
        let is_live = self.row.owner_id.is_some() && !self.row.revoked;
        if self.row.token != token || action == OperatorAction::Resume && is_live {
            return false;
        }
        let clock = self.clock(now);
        if action != OperatorAction::Resume {
            let is_held = self.row.owner_id.is_some();
            if is_held && !self.row.revoked {
                self.record(self.row.token, HistoryOutcome::Revoked);
            }
            self.row.revoked = is_held;
        }
        match action {
            OperatorAction::Release => {}
            OperatorAction::Pause(time) => self.row.paused = Some(clock + whole_ticks(time)),
            OperatorAction::Resume => self.row.paused = None,
        }
        self.row.token = self.next_token();
        true
    }

    /// Returns the token that follows the tokens of the row and of all slots.
    fn next_token(&mut self) -> u8 {
        let slots = self.slots.iter().map(|slot| slot.row.token);
        self.issued = slots.fold(self.issued.max(self.row.token), u8::max) + 1;
        self.issued
    }

    /// Returns the part of the state that a backup or a replica contains. No session belongs to it.
    pub(crate) fn backup(&self) -> Self {
        let mut backup = self.clone();
        backup.restart();
        backup.restarts = self.restarts;
        backup
    }

    /// Replaces the server by `backup`, which lacks the latest writes. The identity of the database changes if
    /// `is_elsewhere` is true.
    pub(crate) fn lose_writes(&mut self, backup: Self, is_elsewhere: bool) {
        *self = Self {
            database: self.database + u8::from(is_elsewhere),
            issued: self.issued,
            ahead: self.ahead,
            revoked_renewed: self.revoked_renewed,
            ..backup
        };
    }

    pub(crate) const fn step_clock(&mut self, by: i8) {
        self.ahead += by;
    }

    /// Ends a session. The session releases the queue lock or stops waiting for it. The rows with this session remain.
    pub(crate) fn end(&mut self, session: Session) {
        self.queue_lock.retain(|other| *other != session);
        self.waiting.retain(|other| *other != session);
        self.passing.retain(|(other, _)| *other != session);
        self.handed_off.retain(|(_, other)| *other != session);
        self.holder_locks.retain(|(_, other)| *other != session);
        self.replace_session(session, None);
    }

    /// Drops the connection of a client. The server does not detect this, so the session remains.
    pub(crate) fn drop_connection(&mut self, client: usize) {
        self.end(Session::dropped(client));
        let (current, dropped) = (Session::current(client), Session::dropped(client));
        let handed_off = self.handed_off.iter_mut().map(|(_, session)| session);
        let passing = self.passing.iter_mut().map(|(session, _)| session);
        let queue_lock = self.queue_lock.iter_mut().chain(&mut self.waiting);
        let holder_locks = self.holder_locks.iter_mut().map(|(_, session)| session);
        for session in queue_lock
            .chain(passing)
            .chain(handed_off)
            .chain(holder_locks)
        {
            if *session == current {
                *session = dropped;
            }
        }
        self.replace_session(current, Some(dropped));
    }

    fn replace_session(&mut self, session: Session, to: Option<Session>) {
        let entries = self.queue.iter_mut().map(|entry| &mut entry.session);
        let slots = self.slots.iter_mut().map(|slot| &mut slot.row.session);
        for named in entries.chain(slots).chain([&mut self.row.session]) {
            if *named == Some(session) {
                *named = to;
            }
        }
    }

    /// Restarts the server. All sessions and statements end, and the rows remain.
    pub(crate) fn restart(&mut self) {
        self.queue_lock.clear();
        self.waiting.clear();
        self.passing.clear();
        self.handed_off.clear();
        self.holder_locks.clear();
        self.row.session = None;
        for slot in &mut self.slots {
            slot.row.session = None;
        }
        self.statements.clear();
        self.statement_count = 0;
        self.restarts += 1;
        for entry in &mut self.queue {
            entry.session = None;
        }
    }

    /// Returns true if `session` waits for the queue lock.
    pub(crate) fn keeps_waiting(&self, session: Session) -> bool {
        self.queue_lock.iter().skip(1).any(|it| *it == session)
    }

    /// Removes state that no longer has an effect. The history keeps only the runs with one of `tokens`.
    pub(crate) fn normalize(&mut self, tokens: &[u8]) {
        self.history.retain(|(token, _)| tokens.contains(token));
        if self.row.owner_id.is_none() {
            self.row = Row {
                // A waiter that has read a renewed lease would take a row without its renewals for an older one.
                renewals: self.row.renewals,
                paused: self.row.paused,
                note: self.row.note,
                may_have_noted_slots: self.row.may_have_noted_slots,
                ..Row::new(self.row.token)
            };
        }
        // The session in the row has an effect only if it owns the queue lock or made a hand-off.
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

    /// Returns true if a late execution of `request` could still change the state of the server.
    pub(crate) fn can_be_changed_by(&self, request: &Request) -> bool {
        let lease = |owner_id: OwnerId| self.held_lease_of(owner_id.bytes()[NUMBER_BYTE]);
        match request {
            Request::Renew(request) => {
                let grant = request.grant;
                let has_token = |row: &Row| row.version().token == grant.token;
                request.reassertion.is_some() || lease(grant.owner_id).is_some_and(has_token)
            }
            Request::Release(request) => {
                lease(request.owner_id).is_some()
                    || request.token.is_none()
                    || self.row.owner_id == Some(SHARED)
            }
            _ => true,
        }
    }

    /// Returns true if `session` owns the queue lock or waits for it. Only then does the end of the session have an
    /// effect.
    pub(crate) fn has_queue_lock_or_waits(&self, session: Session) -> bool {
        self.queue_lock.contains(&session)
            || self.holder_locks.iter().any(|(_, other)| *other == session)
    }

    /// Executes the packet `stage` of `request` in `session`. Returns None if the session now waits for the queue lock.
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
            Request::Renew(request) => request.queue_lock,
            Request::Release(request) => request.queue_lock,
            Request::Get
            | Request::GetNote(_)
            | Request::RemoveNote(_)
            | Request::EndSessions(_) => QueueLock::Unavailable,
        };
        if rules.has(Rule::NoQueueLock) && queue_lock == QueueLock::Available {
            return Some(Raw::NoNamedLocks);
        }
        let clock = self.clock(now);
        let owner_id = owner_id_in(request);
        Some(match request {
            Request::TryAcquire(request) => self.attempt(clock, session, request, stage, rules),
            Request::WaitTurn(turn) if stage == Stage::HasQueueLock => {
                self.attempt_after_wait(clock, session, turn, rules)
            }
            Request::GetWithQueue(_) => {
                self.read_row_and_queue(clock, session, owner_id, queue_lock, false)
            }
            Request::Enqueue(_) => {
                self.enqueue(clock, session, owner_id, queue_lock);
                self.read_row_and_queue(clock, session, owner_id, queue_lock, true)
            }
            // A wait for room may end at any time. The world decides how long it lasts.
            Request::WaitTurn(turn) if turn.room.is_some() => Raw::HasQueueLock,
            Request::WaitTurn(turn) => {
                self.enqueue_and_mark(clock, session, owner_id, rules);
                self.wait_in_line(session)?;
                let mut passed = self.take_passed(session);
                if passed.is_none() && turn.lets_pass {
                    passed = self.let_earlier_waiter_pass(session, owner_id, turn.let_pass, rules);
                    if let Some(position) = passed {
                        self.passing.push((session, position));
                        self.wait_in_line(session)?;
                        self.take_passed(session);
                    }
                }
                match passed {
                    Some(position) => Raw::HasLetPass(position),
                    None => Raw::HasQueueLock,
                }
            }
            Request::Renew(request) => self.renew(clock, session, request, stage, rules),
            Request::HandOff(_) => {
                let mut handed_off = self.handed_off.iter();
                let is_allowed = self.row.owner_id == Some(owner_id)
                    && handed_off.all(|(other, by)| *other != owner_id || *by == session);
                if is_allowed {
                    self.handed_off.push((owner_id, session));
                    self.release_queue_lock(session);
                }
                Raw::HandedOff(is_allowed)
            }
            Request::Release(request) if let Stage::Settle(read_back) = stage => {
                self.reconcile(clock, request, read_back.revoked);
                Raw::Settled(read_back)
            }
            Request::Release(ReleaseRequest {
                run: Some(_),
                history: RunHistory::Written,
                ..
            }) if rules.has(Rule::HistoryIsRefused) => Raw::Refused,
            Request::Release(request) => {
                Raw::Released(self.release(clock, session, request, rules))
            }
            Request::EndSessions(request) => self.end_sessions(session, request),
            Request::GetNote(request) => self.next_note(clock, request),
            Request::RemoveNote(noted) => self.remove_note(noted),
            Request::Get => Raw::Row(
                self.view_of_row(clock, QueueLockOwner::NotQueried, 0),
                false,
            ),
        })
    }

    /// Executes a packet of an attempt. With `--once`, the first packet of the first attempt reads the successes.
    fn attempt(
        &mut self,
        clock: i8,
        session: Session,
        request: &AcquireRequest,
        stage: Stage,
        rules: Rules,
    ) -> Raw {
        let owner_id = request.owner_id.bytes()[NUMBER_BYTE];
        let queue_lock = request.queue_lock;
        let is_first = request.mode == AcquireMode::First;
        if self.success.is_some() && is_first && stage == Stage::First {
            return Raw::Done(self.is_done());
        }
        if queue_lock == QueueLock::Available && !request.is_take_over() {
            self.try_queue_lock(session);
        }
        if queue_lock == QueueLock::Available {
            self.try_holder_lock(owner_id, session);
        }
        let must_wait = request.in_order
            && match is_first {
                // The first attempt has no queue entry yet.
                true => self.has_live_poller(clock),
                false => self.is_behind_other(clock, owner_id),
            };
        let owner = (owner_id, queue_lock);
        let changed = !must_wait
            && self.is_not_before(request.last_read, rules)
            && self.try_acquire(clock, session, owner, request.mode, rules);
        self.leave_queue_with_slot(owner_id);
        self.read_row_and_queue(clock, session, owner_id, queue_lock, changed)
    }

    /// Executes the attempt that follows a wait for the queue lock or for room.
    fn attempt_after_wait(
        &mut self,
        clock: i8,
        session: Session,
        turn: &WaitRequest,
        rules: Rules,
    ) -> Raw {
        let owner_id = turn.owner_id.bytes()[NUMBER_BYTE];
        let ignores_marks = turn.lets_pass || turn.room.is_some();
        let is_overtaking = !ignores_marks && self.is_before_a_waiting_one(owner_id);
        let mode = match turn.room {
            Some(RoomWait { fenced, .. }) => AcquireMode::AmongSlots { dead: None, fenced },
            None => AcquireMode::IfFree,
        };
        let owner = (owner_id, QueueLock::Available);
        if turn.may_acquire {
            self.try_holder_lock(owner_id, session);
        }
        let changed = turn.may_acquire
            && !self.is_behind_other(clock, owner_id)
            && (ignores_marks || !self.is_behind_mark(owner_id, turn.let_pass))
            && self.is_not_before(turn.last_read, rules)
            && self.try_acquire(clock, session, owner, mode, rules);
        // A late copy of the packet belongs to a waiter that no longer waits for the response.
        if turn.may_acquire {
            self.leave_queue_with_slot(owner_id);
        }
        self.has_overtaken |= changed && is_overtaking && !session.dropped;
        self.read_row_and_queue(clock, session, owner_id, QueueLock::Available, changed)
    }

    /// Executes a packet of a renewal.
    fn renew(
        &mut self,
        clock: i8,
        session: Session,
        request: &RenewRequest,
        stage: Stage,
        rules: Rules,
    ) -> Raw {
        let owner_id = request.grant.owner_id.bytes()[NUMBER_BYTE];
        if let Some(list) = self.list_for(session, request, stage) {
            return list;
        }
        let grant = request.grant;
        let has_lock =
            request.queue_lock == QueueLock::Available && self.take_lease_lock(owner_id, session);
        let is_owner = match request.reassertion {
            None => self.is_held_by(owner_id, Some(grant.token), rules),
            Some(_) => self.can_reassert(clock, grant, rules),
        };
        if is_owner {
            if let Some(lost) = request.reassertion {
                self.reassert(grant, lost.renewals);
            }
            let mut is_revoked = false;
            if let Some(row) = self.lease_of_mut(owner_id) {
                if request.reassertion.is_none() {
                    is_revoked = row.revoked;
                    row.renewals += 1;
                }
                row.expires = clock + TTL.cast_signed();
                if !rules.has(Rule::SessionIsNotUpdated) {
                    row.session = Some(session);
                    row.has_queue_lock = has_lock;
                }
            }
            self.revoked_renewed |= is_revoked;
            self.note(request, stage);
        }
        // A holder that has not lost its grant reads only its own slot.
        let is_lost = u64::from(self.row.token) < grant.token.0;
        let slots = self.slot_views(clock, QueueLock::Unavailable);
        let view_of_row = RowView {
            slots: slots.map(|slot| slot.filter(|slot| is_lost || slot.owner_id == owner_id)),
            ..self.view_of_row(clock, QueueLockOwner::NotQueried, 0)
        };
        match stage {
            Stage::Note(listed) => Raw::Noted(view_of_row, is_owner, listed),
            _ => Raw::Row(view_of_row, is_owner),
        }
    }

    pub(super) fn is_paused(&self, clock: i8) -> bool {
        self.row.paused.is_some_and(|until| until > clock)
    }

    /// Returns true if `owner_id` holds the lease. The condition is the same as in the SQL statements.
    fn is_held_by(&self, owner_id: u8, token: Option<Token>, rules: Rules) -> bool {
        self.lease_of(owner_id).is_some_and(|row| {
            let owner = Owner {
                owner_id: row.owner_id.map(owner_id_of_number),
                token: Token(row.token.into()),
                is_revoked: row.revoked && !rules.has(Rule::RevokedIsHeld),
            };
            owner.is_held_by(owner_id_of_number(owner_id), token)
        })
    }

    /// Returns true if the database is the one of `last_read` and the row is not older.
    fn is_not_before(&self, last_read: Option<LastRead>, rules: Rules) -> bool {
        let version = self.row.version();
        let database = DatabaseId(self.database.into());
        last_read.is_none_or(|last| {
            rules.has(Rule::LastReadIsIgnored)
                || last.database.is_none_or(|seen| seen == database) && version >= last.version
        })
    }

    /// Records the run in the row as lost if the attempt takes it over, and removes the queue entry of its holder.
    fn end_old_holder(&mut self, mode: AcquireMode, by_hand_off: bool) {
        if let (AcquireMode::TakeOver { .. }, Some(before)) = (mode, self.row.owner_id) {
            if !self.row.revoked && !by_hand_off {
                self.record(self.row.token, HistoryOutcome::Lost);
            }
            self.queue.retain(|entry| entry.owner_id != before);
        }
    }

    /// Returns the row and the state of the queue, as the SELECT after a statement reads them. `changed` is true if the
    /// statement changed the row.
    fn read_row_and_queue(
        &self,
        clock: i8,
        session: Session,
        owner_id: u8,
        queue_lock: QueueLock,
        changed: bool,
    ) -> Raw {
        let (lock_owner, ahead) = self.queue_state(clock, session, owner_id, queue_lock);
        let behind = match queue_lock {
            QueueLock::Available => Behind {
                poller: self.is_behind_other(clock, owner_id),
                mark: self.is_behind_mark(owner_id, 0),
            },
            QueueLock::Unavailable => Behind::default(),
        };
        let view_of_row = RowView {
            behind,
            // An exclusive contender reads only the record.
            has_slot_note: !self.limit_of(owner_id).is_exclusive() && self.has_slot_note(owner_id),
            slots: self.slot_views(clock, queue_lock),
            ..self.view_of_row(clock, lock_owner, ahead)
        };
        Raw::Row(view_of_row, changed)
    }

    /// Returns the row as a read on another connection returns it, without the queue.
    pub(crate) const fn read_row(&self, now: Tick) -> RowView {
        self.view_of_row(self.clock(now), QueueLockOwner::NotQueried, 0)
    }

    const fn view_of_row(&self, clock: i8, lock_owner: QueueLockOwner, ahead: u8) -> RowView {
        RowView {
            owner_id: self.row.owner_id,
            token: self.row.token,
            renewals: self.row.renewals,
            left: self.row.expires - clock,
            revoked: self.row.revoked,
            has_queue_lock: self.row.has_queue_lock,
            paused: match self.row.paused {
                _ if self.row.owner_id.is_some() && !self.row.revoked => 0,
                Some(until) if until > clock => (until - clock).unsigned_abs(),
                Some(_) | None => 0,
            },
            lock_owner,
            ahead,
            behind: Behind {
                poller: false,
                mark: false,
            },
            note: self.row.note,
            may_have_noted_slots: self.row.may_have_noted_slots,
            database: self.database,
            is_done: self.is_done(),
            has_slot_note: false,
            slots: [None; types::SLOT_VIEWS],
        }
    }

    pub(crate) const fn is_done(&self) -> bool {
        matches!(self.success, Some(1..))
    }

    const fn clock(&self, now: Tick) -> i8 {
        now.cast_signed() + self.ahead
    }
}
