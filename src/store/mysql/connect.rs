//! Chooses the server of a new connection, and connects to it.
//!
//! With one host, dlock connects to it, and the first packet is the first request. With several hosts, dlock tries them
//! in the order of the settings, and uses the first server that accepts writes. A packet that changes nothing checks
//! the server before the first request is sent. Therefore dlock never sends one request to two servers.
//!
//! dlock tries the next host if a host cannot be reached, has no free connection or refuses writes. A refused login, a
//! TLS failure and an unknown database end the search, because the user must know about them.

use std::time::Duration;

use super::connection::{Connection, Limits};
use super::database::Database;
use super::exchange::{RequestKind, new_request_id};
use super::hosts::{FoundHost, HostState, is_next_tried};
use super::statements::MemberCheck;
use super::{rows, statements};
use crate::store::target::Target;
use crate::store::{Failure, FailureKind};
use crate::sys::clock;

impl Database {
    /// Returns the server of the open connection, or of the latest attempt to connect.
    pub(super) fn target(&self) -> &Target {
        &self.hosts.current().target
    }

    /// Opens a connection for a packet of this `kind`.
    ///
    /// # Errors
    /// With several hosts, returns `Unreachable` or `TooManyConnections` if no server accepts writes. A packet that only
    /// reads then uses the first server that responds.
    pub(super) fn connect(&mut self, kind: RequestKind) -> Result<Connection, Failure> {
        if !self.hosts.targets.are_several() {
            return self.open(self.limits());
        }
        let mut kinds = Vec::new();
        let mut read_only = None;
        self.skipped.clear();
        self.hosts.is_fallback = false;
        let order = self.hosts.next_order(self.idle);
        let started = clock::now();
        for (at, (number, _)) in order.iter().enumerate() {
            self.hosts.current = *number;
            let limits = self.share(clock::now().since(started), order.len() - at);
            let failure = match self.open_checked(limits) {
                Ok((connection, false)) => {
                    // The hosts that have refused a request come last.
                    for (number, refusal) in &order[at + 1..] {
                        if let Some(refusal) = refusal {
                            let skipped = self.hosts.skipped(*number, refusal);
                            self.skipped.push(skipped);
                        }
                    }
                    return self.ready(connection);
                }
                Ok((_, true)) => {
                    read_only.get_or_insert(*number);
                    let address = &self.target().address;
                    let message = format!("{address} is read-only, probably a replica");
                    Failure::new(FailureKind::Unreachable, message)
                }
                Err(failure) if is_next_tried(failure.kind) => failure,
                Err(failure) => return Err(self.with_skipped_hosts(failure)),
            };
            self.connected = None;
            kinds.push(failure.kind);
            let skipped = self.hosts.skipped(*number, failure.message);
            self.skipped.push(skipped);
        }
        if let (true, Some(number)) = (kind.accepts_read_only(), read_only) {
            (self.hosts.current, self.hosts.is_fallback) = (number, true);
            let address = self.target().address.clone();
            self.skipped.retain(|skipped| skipped.address != address);
            let connection = self.open(self.limits())?;
            return self.ready(connection);
        }
        let is_full = kinds.contains(&FailureKind::TooManyConnections);
        let kind = match is_full {
            true => FailureKind::TooManyConnections,
            false => FailureKind::Unreachable,
        };
        Err(self.with_skipped_hosts(Failure::new(kind, "no host accepts writes")))
    }

    /// Checks all hosts, and returns their states in order.
    pub(super) fn host_states(&mut self) -> Vec<HostState> {
        let numbers = 0..self.hosts.count();
        numbers
            .map(|number| {
                self.hosts.current = number;
                let (connection, is_read_only) = self.open_checked(self.limits())?;
                let (_, sets) = connection.exchange(statements::CLUSTER, self.target());
                let cluster = rows::cluster(&sets?)?;
                Ok(FoundHost {
                    is_read_only,
                    cluster,
                })
            })
            .collect()
    }

    /// Connects to the current host.
    fn open(&mut self, limits: Limits) -> Result<Connection, Failure> {
        let connection = Connection::open(self.target(), limits, &self.interrupter)?;
        self.connected = Some(connection.facts(self.target()));
        Ok(connection)
    }

    /// Connects to the current host, and checks it with a packet that changes nothing. Returns the connection, and true
    /// if the server is read-only.
    fn open_checked(&mut self, limits: Limits) -> Result<(Connection, bool), Failure> {
        loop {
            let check = self.hosts.current().member_check;
            let outcome = self.open_and_check(check, limits);
            let Err(failure) = &outcome else {
                return outcome;
            };
            match check.next(&failure.message) {
                Some(next) => self.hosts.current_mut().member_check = next,
                None => return outcome,
            }
        }
    }

    fn open_and_check(
        &mut self,
        check: MemberCheck,
        limits: Limits,
    ) -> Result<(Connection, bool), Failure> {
        let connection = self.open(limits)?;
        let request_id = new_request_id()?;
        let packet = statements::with_request_id(&statements::check_server(check), request_id);
        let packet = self.hosts.current().packet(packet);
        let (connection, response) = connection.exchange(&packet, self.target());
        let sets = response.map_err(|failure| self.explain_member(failure))?;
        rows::check(&sets, request_id)?;
        let is_read_only = rows::is_read_only(&sets)?;
        let lost = || Failure::new(FailureKind::Unknown, "the connection is lost");
        Ok((connection.ok_or_else(lost)?, is_read_only))
    }

    /// Returns the connection for the requests, which have more time than the connect.
    fn ready(&mut self, connection: Connection) -> Result<Connection, Failure> {
        if let Some(server) = self.connected.as_mut() {
            server.skipped.clone_from(&self.skipped);
        }
        connection.limit_reads(Some(self.limit))?;
        Ok(connection)
    }

    /// Returns the time limits of a new connection. The hosts share the time of one connect, so that a holder reaches
    /// the last host before its deadline if all others are silent.
    pub(super) fn limits(&self) -> Limits {
        self.share(Duration::ZERO, self.hosts.count())
    }

    /// Returns the time limits of a connection in a search that has taken `elapsed`, if `left` hosts have not been tried
    /// yet. They also share the time that the other hosts have not used.
    fn share(&self, elapsed: Duration, left: usize) -> Limits {
        let part = |time: Duration, hosts: usize| time / u32::try_from(hosts).unwrap_or(1).max(1);
        let rest = part(self.limit.saturating_sub(elapsed), left);
        Limits {
            connect: rest.max(part(self.limit, self.hosts.count())),
            request: self.limit,
        }
    }

    /// Records that the current server refused a request because of its state. The next searches try it last.
    pub(super) fn record_refusal(&mut self, failure: &Failure) {
        let reason = match failure.kind {
            _ if failure.message.contains(statements::NOT_USABLE) => "it is not a usable member",
            FailureKind::Unreachable => &failure.message,
            _ => return,
        };
        let text = format!("it has refused a request: {reason}");
        self.hosts.record_refusal(text);
    }

    /// Adds the hosts that were not used to `failure`.
    pub(super) fn with_skipped_hosts(&self, failure: Failure) -> Failure {
        let skipped = self.skipped.iter().map(|host| format!("; {host}"));
        Failure {
            message: std::iter::once(failure.message).chain(skipped).collect(),
            ..failure
        }
    }
}
