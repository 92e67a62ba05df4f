//! Sends one packet and reads its response. This file sends all requests except those of `dlock doctor`.

use std::slice;
use std::time::Duration;

use mysql::Row;

use super::connection::{Connection, TakeRow};
use super::database::Database;
use super::group::{GroupView, MemberState};
use super::rows::ReadResult;
use super::statements::{MemberCheck, Selection, WriteCheck};
use super::{columns, rows, statements};
use crate::lease::OwnerId;
use crate::mutant::{self, Safeguard};
use crate::store::{Contender, Failure, FailureKind, LockState, QueueEntry, QueueLock};
use crate::sys::{clock, random};

/// Kind of a packet. It determines whether the packet can grant the lease, and whether its response has a time limit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// The packet changes nothing, and no read takes longer than the limit. With several hosts, a server that refuses
    /// writes may respond if no other host accepts them.
    Read,
    /// The packet changes nothing, and waits on the server for at most this time. Otherwise like `Read`.
    Follow(Duration),
    /// The packet is one statement that changes nothing, and its connection is closed after it. Otherwise like `Read`.
    Glance,
    /// The packet reads or ends sessions, also on a server that has become read-only, and no read takes longer than the
    /// limit.
    Sessions,
    /// The packet cannot grant the lease, and no read takes longer than the limit.
    Plain,
    /// The packet can grant the lease, and no read takes longer than the limit.
    Grant,
    /// The packet can grant the lease, and no read takes longer than the limit. The packet itself checks that the server
    /// accepts writes.
    GrantAfterWait,
    /// The packet hands off the lease, and no read takes longer than the limit.
    HandOff,
    /// The packet can release the lease, and no read takes longer than the limit.
    Release,
    /// The packet waits on the server for at most this time. If it waits for the queue lock without a limit, or alters a
    /// table, the time is None, and its response has no time limit.
    Wait(Option<Duration>),
}

impl RequestKind {
    /// Returns the check that the server must pass before it executes the packet.
    const fn write_check(self) -> WriteCheck {
        match self {
            Self::Read
            | Self::Follow(_)
            | Self::Glance
            | Self::Sessions
            | Self::GrantAfterWait
            | Self::HandOff => WriteCheck::Skip,
            Self::Plain | Self::Grant | Self::Release | Self::Wait(_) => WriteCheck::Require,
        }
    }

    /// Returns the maximum time of a read if no other read of the same request takes longer than `limit`. None sets no
    /// limit. A server measures a wait with its clock. If this clock is set back during the wait, MySQL waits longer by the
    /// difference, so dlock ends the wait.
    fn longest_read(self, limit: Duration) -> Option<Duration> {
        match self {
            Self::Wait(None) => None,
            // The server rounds the time up to whole seconds.
            Self::Wait(Some(wait)) | Self::Follow(wait) => {
                Some(wait + Duration::from_secs(1) + limit)
            }
            _ => Some(limit),
        }
    }

    /// Returns true if the packet waits on the server.
    const fn may_wait(self) -> bool {
        matches!(self, Self::Wait(_) | Self::Follow(_))
    }

    /// Returns true if a server that refuses writes may respond.
    pub(super) const fn accepts_read_only(self) -> bool {
        matches!(self, Self::Read | Self::Follow(_) | Self::Glance)
    }
}

impl Database {
    /// Sends `statements`, then reads the contender's record. If there is an `entry`, also reads the state of the
    /// queue and, if the lease of a holder without the queue lock has expired, whether the holder's session is alive. This
    /// is a second packet, because a statement that contains the list of sessions takes a third of a millisecond longer.
    pub(super) fn query(
        &mut self,
        contender: &Contender,
        statements: &str,
        entry: Option<QueueEntry>,
    ) -> Result<ReadResult, Failure> {
        let select = statements::select_record(contender, entry);
        let is_exclusive = contender.limit.is_exclusive();
        let own = Selection::Named(slice::from_ref(&contender.action));
        // The record is read before the slots.
        let packet = match entry {
            Some(entry) if !is_exclusive => {
                let slots = statements::select_slots(own, entry.queue_lock, None);
                format!("{statements}{select};{slots}")
            }
            _ => format!("{statements}{select}"),
        };
        let mut found = self.exchange(RequestKind::Plain, &packet, rows::read_result)?;
        if let Some(entry) = entry
            && is_exclusive
        {
            self.read_slots(contender, entry.queue_lock, &mut found)?;
        }
        if entry.is_some()
            && let Some(row) = &mut found.row
            && row.state() == LockState::Expired
            && !row.lease.had_queue_lock_here
        {
            let sent = self.timing.sent;
            let session = statements::has_session_without_queue_lock(&contender.action);
            let is_alive = self.exchange(RequestKind::Plain, &session, rows::is_confirmed)?;
            self.timing.sent = sent;
            row.lease.session_alive = is_alive.then_some(true);
        }
        Ok(found)
    }

    /// Reads the leases in slots, if the record shows that there may be one.
    pub(super) fn read_slots(
        &mut self,
        contender: &Contender,
        queue_lock: QueueLock,
        found: &mut ReadResult,
    ) -> Result<(), Failure> {
        if let Some(row) = &mut found.row
            && row.is_shared()
        {
            let sent = self.timing.sent;
            let own = Selection::Named(slice::from_ref(&contender.action));
            let packet = statements::select_slots(own, queue_lock, None);
            row.slots = self.exchange(RequestKind::Read, &packet, rows::slots)?;
            self.timing.sent = sent;
        }
        Ok(())
    }

    /// Does the same as [`Self::query`] without an entry, but also reads the lease of `owner_id` if it is in a slot.
    pub(super) fn query_own(
        &mut self,
        contender: &Contender,
        statements: &str,
        owner_id: OwnerId,
    ) -> Result<ReadResult, Failure> {
        if contender.limit.is_exclusive() {
            return self.query(contender, statements, None);
        }
        let select = statements::select_record(contender, None);
        let unread = QueueLock::Unavailable;
        let own = Selection::Named(slice::from_ref(&contender.action));
        let slot = statements::select_slots(own, unread, Some(owner_id));
        let packet = format!("{statements}{select};{slot}");
        self.exchange(RequestKind::Plain, &packet, rows::read_result)
    }

    /// Sends one packet with a new request id, checks the id in the response, and returns the result of `read`. The
    /// connection is kept only if no error occurred.
    pub(super) fn exchange<T>(
        &mut self,
        kind: RequestKind,
        packet: &str,
        read: impl FnOnce(&[Vec<Row>]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.exchange_rows(kind, packet, &mut |_, row| Some(row), read)
    }

    /// Does the same, but `read` gets only the rows that `take` keeps. `take` must keep the first row of each SELECT. What
    /// it reads from the other rows must not be used before `read` is called, because the response may fail later.
    pub(super) fn exchange_rows<T>(
        &mut self,
        kind: RequestKind,
        packet: &str,
        take: TakeRow,
        read: impl FnOnce(&[Vec<Row>]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut response = self.send(kind, packet, take);
        while let Err(failure) = &response
            && let Some(check) = self.hosts.current().member_check.next(&failure.message)
        {
            // The server executed nothing of the packet.
            self.hosts.current_mut().member_check = check;
            response = self.send(kind, packet, take);
        }
        let (connection, sets) = response?;
        let outcome = read(&sets);
        if outcome.is_ok() || mutant::is_disabled(Safeguard::FreshConnection) {
            self.keep(kind, connection)?;
        }
        outcome
    }

    /// Keeps the connection for the next packet.
    fn keep(&mut self, kind: RequestKind, connection: Option<Connection>) -> Result<(), Failure> {
        if let (Some(connection), true) = (&connection, kind.may_wait()) {
            connection.limit_reads(Some(self.limit))?;
        }
        let is_kept = kind != RequestKind::Glance && !self.hosts.is_fallback;
        self.connection = connection.filter(|_| is_kept);
        Ok(())
    }

    /// Adds the state of the group member to `failure` of a packet, if the server refused a statement because of this
    /// state. Reads the state over a new connection, so a host that did not respond must not be asked.
    pub(super) fn explain_member(&mut self, failure: Failure) -> Failure {
        let is_refused = failure.message.contains(statements::NOT_USABLE);
        if !self.hosts.current().is_in_group()
            || (!is_refused && failure.kind != FailureKind::Unreachable)
        {
            return failure;
        }
        let opened = Connection::open(self.target(), self.limits(), &self.interrupter);
        let Ok(connection) = opened else {
            return failure;
        };
        let (connection, sets) = connection.exchange(statements::GROUP_MEMBERS, self.target());
        drop(connection);
        let rows = sets.ok().and_then(|sets| sets.into_iter().next());
        let view = GroupView::read(columns::cells(rows.unwrap_or_default()));
        let (state, advice) = (view.own_state(), view.advice());
        match (is_refused, &state) {
            (true, MemberState::Secondary | MemberState::Primary(_)) => Failure::new(
                FailureKind::Unreachable,
                format!("{} has just returned to its group", self.target().address),
            ),
            (true, _) => Failure::new(
                FailureKind::Unreachable,
                format!("{} is {state}; {advice}", self.target().address),
            ),
            (false, MemberState::Primary(_)) => failure,
            (false, _) => Failure::new(
                failure.kind,
                format!("{}; it is {state}; {advice}", failure.message),
            ),
        }
    }

    /// Sends one packet, and returns the connection and the rows that `take` keeps, after the check of the request id in
    /// all rows.
    fn send(
        &mut self,
        kind: RequestKind,
        packet: &str,
        take: TakeRow,
    ) -> Result<(Option<Connection>, Vec<Vec<Row>>), Failure> {
        // The connection is moved out of `self`, so that any error below drops it.
        let writes = kind.write_check();
        let (connection, session) = if let Some(connection) = self.connection.take() {
            let check = match (self.hosts.current().is_in_group(), writes) {
                (true, _) => statements::check_again(MemberCheck::Require, writes),
                (false, WriteCheck::Require) => statements::check_again(MemberCheck::Skip, writes),
                (false, WriteCheck::Skip) => String::new(),
            };
            (connection, check)
        } else {
            let connection = self.connect(kind)?;
            self.server_name = None;
            let check = self.hosts.current().member_check;
            let session = match kind {
                RequestKind::Glance => String::new(),
                _ => statements::session(&self.target().database, self.idle, check, writes),
            };
            (connection, session)
        };
        let request_id = new_request_id()?;
        let packet = format!(
            "{session}{}",
            match self.server_name.is_none() {
                true =>
                    statements::with_request_id(&statements::with_server_facts(packet), request_id),
                false => statements::with_request_id(packet, request_id),
            }
        );
        let packet = self.hosts.current().packet(packet);
        if kind.may_wait() {
            connection.limit_reads(kind.longest_read(self.limit))?;
        }
        self.timing.could_grant |= matches!(kind, RequestKind::Grant | RequestKind::GrantAfterWait);
        self.timing.could_release |= kind == RequestKind::Release;
        self.timing.sent = clock::now();
        let mut checked = Ok(());
        let mut check_and_take = |select: usize, row: Row| {
            if checked.is_ok() {
                checked = rows::check_row(&row, request_id);
            }
            take(select, row)
        };
        let (connection, response) =
            connection.exchange_rows(&packet, self.target(), &mut check_and_take);
        if mutant::is_disabled(Safeguard::SendTime) {
            self.timing.sent = clock::now();
        }
        let sets = response.and_then(|sets| {
            checked?;
            let time = rows::check(&sets, request_id)?;
            self.timing.server_time = time.or(self.timing.server_time);
            if self.server_name.is_none()
                && let Some((version, name)) = rows::server_facts(&sets)
            {
                self.has_shared_locks = has_shared_locks(&version);
                self.server_name = Some(name);
                if let Some(server) = self.connected.as_mut() {
                    server.version = Some(version);
                }
            }
            Ok(sets)
        });
        match sets {
            Ok(sets) => Ok((connection, sets)),
            Err(failure) => {
                self.record_refusal(&failure);
                match mutant::is_disabled(Safeguard::FreshConnection) {
                    true => self.keep(kind, connection)?,
                    // The server may still wait. It then notices the end of the connection, but not if there is a QUIT to
                    // read, which the driver would send.
                    false if failure.kind == FailureKind::Unknown => self.interrupter.interrupt(),
                    false => {}
                }
                Err(self.explain_member(failure))
            }
        }
    }
}

/// Returns the random id of a new request.
///
/// # Errors
/// Fails if the kernel returns no random bytes.
pub(super) fn new_request_id() -> Result<[u8; 8], Failure> {
    random::bytes().map_err(|error| {
        let message = format!("cannot get random numbers: {error}");
        Failure::new(FailureKind::Unreachable, message)
    })
}

/// Returns true if two sessions can hold the same named lock on a server with this version. On TiDB, this was observed
/// (issue 38706 of pingcap/tidb), and `IS_USED_LOCK` does not return the id of a session.
fn has_shared_locks(version: &str) -> bool {
    version.to_ascii_lowercase().contains("tidb")
}
