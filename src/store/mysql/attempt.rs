//! Acquires the lease, either immediately or after a wait for the queue lock.
//!
//! A grant counts only if the record is read back after the statement that made the grant, in a response that contains
//! the id of the request.

use super::database::Database;
use super::exchange::RequestKind;
use super::{rows, statements};
use crate::store::read_back::AttemptReadBack;
use crate::store::{
    AcquireMode, AcquireRequest, Contender, Failure, FailureKind, QueueEntry, QueueLock, Response,
    RoomWait, Store, Success, WaitRequest,
};

/// Data read back after an attempt, and the success that makes the run unnecessary, if there is one. None if the action
/// has no row in `dlock_lock`.
type AttemptOutcome = Option<(AttemptReadBack, Option<Success>)>;

/// The position in the queue and the session of an entry.
type DeadEntry = (u64, u64);

impl Database {
    /// Makes one attempt. Creates the tables if they do not exist.
    pub(super) fn attempt_unless_done(
        &mut self,
        contender: &Contender,
        request: &AcquireRequest,
    ) -> Result<Response, Failure> {
        match self.try_once(contender, request) {
            Err(failure) if failure.kind == FailureKind::NoTables => {
                self.create_tables()?;
                self.try_once(contender, request)
            }
            outcome => outcome,
        }
    }

    /// Makes one attempt. With `--once`, the first attempt of a process begins with a query for a recorded success that
    /// makes the run unnecessary. If the run is unnecessary, the process writes nothing and does not take the queue
    /// lock.
    fn try_once(
        &mut self,
        contender: &Contender,
        request: &AcquireRequest,
    ) -> Result<Response, Failure> {
        if request.mode == AcquireMode::First
            && contender.once.is_some()
            && let Some(success) = self.query(contender, "", None)?.success
        {
            return Ok(Response::AlreadyDone(success));
        }
        let guard = statements::may_record(contender);
        let attempt = statements::attempt(contender, request, None);
        let packet = format!("{guard}{attempt}");
        let mut outcome = self.exchange(RequestKind::Grant, &packet, rows::proof)?;
        if outcome.is_none() {
            let create = statements::create_row(&contender.action);
            let packet = format!("{create}{packet}");
            outcome = self.exchange(RequestKind::Grant, &packet, rows::proof)?;
        }
        self.check_queue_lock(request)?;
        let has_old_entry = outcome.as_ref().is_some_and(|(row, _)| row.has_old_entry);
        let response = self.outcome(contender, request, outcome)?;
        if matches!(response, Response::Granted(..)) && has_old_entry {
            // The deadline counts from the send time of the attempt, not from that of the packets that follow.
            let timing = self.timing;
            let removed = self.remove_dead_entries(contender);
            self.timing = timing;
            removed?;
        }
        Ok(response)
    }

    /// Removes the queue entries of dead waiters of the contender's action.
    fn remove_dead_entries(&mut self, contender: &Contender) -> Result<(), Failure> {
        let dead = self.dead_entries(contender)?;
        if !dead.is_empty() {
            let remove = statements::remove_entries(&dead);
            self.exchange(RequestKind::Plain, &remove, rows::is_confirmed)?;
        }
        Ok(())
    }

    fn dead_entries(&mut self, contender: &Contender) -> Result<Vec<DeadEntry>, Failure> {
        let dead = statements::dead_entries(&contender.action);
        self.exchange(RequestKind::Plain, &dead, rows::dead_entries)
    }

    /// Waits for the queue lock or for room, then attempts to acquire the lease or, if the request says so, only reads the record.
    pub(super) fn wait_then_attempt(
        &mut self,
        contender: &Contender,
        turn: &WaitRequest,
    ) -> Result<Response, Failure> {
        let dead = match turn.prune_dead {
            true => self.dead_entries(contender)?,
            false => Vec::new(),
        };
        let request = AcquireRequest {
            owner_id: turn.owner_id,
            mode: match turn.room {
                Some(RoomWait { fenced, .. }) => AcquireMode::AmongSlots { dead: None, fenced },
                None => AcquireMode::IfFree,
            },
            queue_lock: QueueLock::Available,
            last_read: turn.last_read,
            in_order: true,
            prune_dead: false,
        };
        // The packet is built before the wait, because all waiters behind this session wait for the attempt as soon as
        // this session owns the queue lock.
        let attempt = statements::attempt(contender, &request, Some(turn));
        let (wait, longest) = match &turn.room {
            Some(room) => (
                statements::wait_room(contender, room, turn.limit),
                Some(room.longest),
            ),
            None => (statements::wait_turn(contender, turn, &dead), turn.limit),
        };
        let kind = RequestKind::Wait(longest);
        if let Some(response) = self.exchange(kind, &wait, rows::wait_result)? {
            return Ok(response);
        }
        if !turn.may_acquire {
            let entry = QueueEntry {
                owner_id: turn.owner_id,
                queue_lock: QueueLock::Available,
            };
            let found = self.query(contender, "", Some(entry))?;
            let found = found.or_unknown(&contender.action);
            return found.unless_done(Response::NotAcquired);
        }
        let outcome = self.exchange(RequestKind::GrantAfterWait, &attempt, rows::proof)?;
        self.outcome(contender, &request, outcome)
    }

    /// Returns an error if `request` relies on a named lock that does not exclude other sessions. The outcome of the
    /// attempt then counts as unknown, and the next attempt does not use the queue lock.
    fn check_queue_lock(&mut self, request: &AcquireRequest) -> Result<(), Failure> {
        if !self.has_shared_locks || request.queue_lock == QueueLock::Unavailable {
            return Ok(());
        }
        self.hang_up();
        Err(Failure::new(
            FailureKind::NoQueueLock,
            "named locks on this server do not exclude other sessions",
        ))
    }

    /// Returns the response to `request`, whose attempt had this `outcome`. A contender that was not granted the lease
    /// reads the record and the queue with a second packet. Reading both in the packet of the attempt would slow down
    /// every uncontended grant.
    fn outcome(
        &mut self,
        contender: &Contender,
        request: &AcquireRequest,
        outcome: AttemptOutcome,
    ) -> Result<Response, Failure> {
        let AcquireRequest {
            owner_id,
            queue_lock,
            ..
        } = *request;
        let Some((row, success)) = outcome else {
            // Either no row was created because dlock does not work with the version of the tables, or another client
            // deletes rows. In the first case, the query returns an error.
            self.query(contender, "", None)?;
            return Err(rows::row_missing());
        };
        match (row.granted(owner_id), success) {
            // While this process holds the lease, no other contender can record a success.
            (Some(_), Some(success)) => Ok(Response::HeldThoughDone(row.owner.token, success)),
            (Some(response), None) => Ok(response),
            (None, _) => {
                let found = self.query(
                    contender,
                    "",
                    Some(QueueEntry {
                        owner_id,
                        queue_lock,
                    }),
                )?;
                match &found.row {
                    // An earlier attempt, whose response was lost, was executed after this attempt and acquired the
                    // lease.
                    Some(row) if row.is_held_by(owner_id, None) => {
                        let own = row.own_grant(owner_id);
                        Ok(Response::AlreadyHeld(own.token, own.slot))
                    }
                    _ => found.unless_done(Response::NotAcquired),
                }
            }
        }
    }
}
