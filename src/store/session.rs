//! The sessions that a command has on dlock's server, and the rule that decides which sessions of the process list are
//! the command's. Pure.
//!
//! A client that dies does not end its session: the server continues the statement, and may commit it minutes later.
//! Therefore dlock finds the sessions of the command while the command runs, notes them in the record of the lease, and
//! ends them before another command starts.
//!
//! A session is identified by its server, by the start time of that server, by its id and by the address of its client.
//! A server uses each id only once between two restarts, so a session that has all four is the session that was noted.
//!
//! A session is the command's if the server shows the IP address and the port of a socket that the command had before the
//! list was read, and if a [`SocketCheck`] after that finds that the command still has the socket, or that the dead command
//! has left its connection open. The address and the port then cannot belong to another program.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::lease::Token;
use crate::sys::tcp::{SocketTable, TcpConnection, TcpSocket, is_loopback};

/// Text at the beginning of the note in a record if slots may contain notes too. The note may be empty.
pub const SLOTS_MARK: &str = "slots:";

/// Maximum length of a note in bytes: the length of its column without [`SLOTS_MARK`]. A session takes about 70 bytes.
const MAX_NOTE: usize = 8191 - SLOTS_MARK.len();

/// User name in the process list of a session whose client has not logged in yet.
const LOGGING_IN: &str = "unauthenticated user";

/// What dlock does with the sessions that a command leaves on the server.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    clap::ValueEnum,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum SessionPolicy {
    /// Kill the sessions, and wait until they are gone.
    Kill,
    /// Wait until the sessions execute no statement any more.
    Wait,
    /// Do not look for sessions, and do not wait for them.
    Ignore,
}

/// Connections of the command that may lead to dlock's server, as dlock finds them on its own machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CommandConnections {
    /// TCP sockets.
    pub tcp: BTreeSet<TcpSocket>,
    /// Ids of the processes that may be connected through a Unix socket.
    pub pids: BTreeSet<u32>,
}

impl CommandConnections {
    /// Returns true if there is no connection.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tcp.is_empty() && self.pids.is_empty()
    }

    /// Adds the connections in `other`.
    pub fn add(&mut self, other: &Self) {
        self.tcp.extend(&other.tcp);
        self.pids.extend(&other.pids);
    }

    /// Returns the connections that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self {
            tcp: self.tcp.difference(&other.tcp).copied().collect(),
            pids: self.pids.difference(&other.pids).copied().collect(),
        }
    }
}

/// A server between two restarts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServerInstance {
    /// Host name, port and server id.
    pub server: String,
    /// Start time in seconds since 1970, by the server's clock.
    pub started: i64,
}

/// A session of the command on the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServerSession {
    /// Id of the session in the process list.
    pub id: u64,
    /// Name of the account, for users only. It can change during the session.
    pub account: String,
    /// Address of the client in the process list: host and port, or a host if the client uses a Unix socket.
    pub client: String,
}

/// The sessions of a command, as they are noted in the record of the lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionNote {
    /// The server of the sessions.
    #[serde(flatten)]
    pub instance: ServerInstance,
    /// Token of the lease under which the command ran.
    pub token: Token,
    /// What the holder wants to happen to the sessions.
    pub policy: SessionPolicy,
    /// The sessions.
    pub sessions: Vec<ServerSession>,
}

impl SessionNote {
    /// Returns the text that the record contains. Leaves out the last sessions if the text would be too long.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut note = self.clone();
        loop {
            // Serializing a value without maps cannot fail, so the default value is never used.
            let text = serde_json::to_string(&note).unwrap_or_default();
            if text.len() <= MAX_NOTE || note.sessions.pop().is_none() {
                return text;
            }
        }
    }

    /// Reads the text in a row. None if it contains no note that this dlock can read.
    #[must_use]
    pub fn from_text(text: &[u8]) -> Option<Self> {
        let note = text.strip_prefix(SLOTS_MARK.as_bytes()).unwrap_or(text);
        serde_json::from_slice(note).ok()
    }
}

/// A session in the process list of the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListedSession {
    /// The session.
    pub session: ServerSession,
    /// What the session does: `Query`, `Sleep`, `Killed` and others.
    pub command: String,
    /// The step that the server executes for the session. Empty if there is none.
    pub state: String,
    /// Time in the present state, in seconds.
    pub seconds: u64,
    /// Id of the client's process, in the client's process namespace. None if the client or the server does not say.
    pub pid: Option<u32>,
}

impl ListedSession {
    /// Returns a session that exists, but that dlock's account may not see.
    #[must_use]
    pub const fn hidden(session: ServerSession) -> Self {
        Self {
            session,
            command: String::new(),
            state: String::new(),
            seconds: 0,
            pid: None,
        }
    }

    /// Returns true if the session executes a statement, or rolls one back.
    #[must_use]
    pub fn is_executing(&self) -> bool {
        !matches!(self.command.as_str(), "Sleep" | "Quit")
    }
}

/// The part of the server's process list that a request has asked for, and what identifies dlock's own session in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessList {
    /// The server.
    pub instance: ServerInstance,
    /// Port on which the server accepts TCP connections.
    pub port: u16,
    /// Address of dlock's own session in the process list. None if the list does not contain that session.
    pub own_client: Option<String>,
    /// dlock's own connection. None if it uses a Unix socket.
    pub own_connection: Option<TcpConnection>,
    /// The sessions.
    pub sessions: Vec<ListedSession>,
}

/// Reason why dlock cannot find the command's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Untraceable {
    /// The server does not list dlock's own session.
    NoProcessList,
    /// The server sees dlock's connection with a different address or port, so a proxy or a router is in between.
    Translated,
    /// The server shows the name of dlock's machine in place of its address. Several machines can have the same name.
    Named,
}

/// Checks a socket of the command, after the server has listed its sessions.
pub trait SocketCheck {
    /// Returns true if the command still has `socket`.
    fn is_open(&mut self, socket: &TcpSocket) -> bool;

    /// Returns true if only the command can have the address and the port of `socket`. If `is_exact` is false, the
    /// connection may lead to another server than dlock's, and another socket may lead to dlock's server.
    fn belongs_to_command(&mut self, socket: &TcpSocket, is_exact: bool) -> bool;
}

/// The check on this machine. Reads the kernel's tables of TCP sockets only if the command no longer has the socket, or if
/// the connection is not exact.
#[derive(Debug, Default)]
pub struct SocketsOfMachine(Option<SocketTable>);

impl SocketCheck for SocketsOfMachine {
    fn is_open(&mut self, socket: &TcpSocket) -> bool {
        socket.is_open()
    }

    fn belongs_to_command(&mut self, socket: &TcpSocket, is_exact: bool) -> bool {
        let is_open = socket.is_open();
        if is_open && is_exact {
            return true;
        }
        let table = self.0.get_or_insert_with(SocketTable::read);
        (is_open || table.is_left_open(&socket.connection))
            && (is_exact || !table.has_other(socket, true))
    }
}

/// The sessions of the command in a process list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FoundSessions {
    /// The sessions to note. None if there are none.
    pub note: Option<SessionNote>,
    /// The noted sessions with their present state.
    pub listed: Vec<ListedSession>,
    /// Ports of connections to the server for which the list contains no session. Either the client has not logged in
    /// yet, or dlock's account may not see the session.
    pub unseen: Vec<u16>,
    /// Ports of ended connections that a session in the list has, although another program may use the port now.
    pub unproven: Vec<u16>,
    /// Reason why dlock cannot find the sessions of the command's connections. None if it can.
    pub untraceable: Option<Untraceable>,
}

/// What to look for in the process list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionLook {
    /// Token of the lease.
    pub token: Token,
    /// What the holder wants to happen to the sessions.
    pub policy: SessionPolicy,
    /// Connections whose sessions are to be found.
    pub connections: CommandConnections,
    /// Sessions that are already noted. None if there are none.
    pub note: Option<SessionNote>,
}

impl SessionLook {
    /// Returns true if the process list is not needed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.note.is_none()
    }

    /// Finds the sessions in `list`. `check` looks at the sockets as they are after the list was read. A noted session
    /// remains until the server no longer lists it, even if the client has died or the connection cannot be found any
    /// more.
    #[must_use]
    pub fn find(&self, list: &ProcessList, check: &mut impl SocketCheck) -> FoundSessions {
        let noted = self
            .note
            .as_ref()
            .filter(|note| note.instance == list.instance);
        let is_elsewhere = |note: &SessionNote| note.instance.server != list.instance.server;
        let is_noted = |listed: &ListedSession| {
            noted.is_some_and(|note| {
                let mut sessions = note.sessions.iter();
                sessions
                    .any(|one| one.id == listed.session.id && one.client == listed.session.client)
            })
        };
        let (traced, untraceable) = match self.connections.is_empty() {
            true => (Traced::default(), None),
            false => match list.trace(&self.connections, is_noted, check) {
                Ok(traced) => (traced, None),
                Err(why) => (Traced::default(), Some(why)),
            },
        };
        let is_found =
            |listed: &&ListedSession| is_noted(listed) || traced.ids.contains(&listed.session.id);
        let listed: Vec<ListedSession> = list.sessions.iter().filter(is_found).cloned().collect();
        let sessions: Vec<ServerSession> = listed.iter().map(|one| one.session.clone()).collect();
        let note = SessionNote {
            instance: list.instance.clone(),
            token: self.token,
            policy: self.policy,
            sessions,
        };
        FoundSessions {
            // This server does not list the sessions of another server, so they stay noted.
            note: Some(note)
                .filter(|note| !note.sessions.is_empty())
                .or_else(|| self.note.clone().filter(is_elsewhere)),
            listed,
            unseen: traced.unseen,
            unproven: traced.unproven,
            untraceable,
        }
    }
}

impl ProcessList {
    /// Returns the host of dlock's own session, whose address and port have arrived unchanged at the server.
    fn proven_own_host(&self) -> Result<&str, Untraceable> {
        let own = self.own_client.as_deref();
        let (own_host, own_port) = host_and_port(own.ok_or(Untraceable::NoProcessList)?);
        let Some(connection) = self.own_connection else {
            return Ok(own_host);
        };
        match shown_ip(own_host) {
            ShownIp::Name => Err(Untraceable::Named),
            shown if !shown.is_ip(connection.local.ip()) => Err(Untraceable::Translated),
            _ if own_port != Some(connection.local.port()) => Err(Untraceable::Translated),
            _ => Ok(own_host),
        }
    }

    /// Returns the sessions of `connections`.
    ///
    /// A session belongs to a TCP connection if the process list shows the address and the port of the connection, and if
    /// `check` confirms it. dlock's own session proves that addresses and ports arrive unchanged at the server. A session
    /// belongs to a process with a Unix socket if its client reports the id of that process and uses a Unix socket. A
    /// session that `is_noted` needs no further check, because the server uses its id only once.
    fn trace(
        &self,
        connections: &CommandConnections,
        is_noted: impl Fn(&ListedSession) -> bool,
        check: &mut impl SocketCheck,
    ) -> Result<Traced, Untraceable> {
        let own_host = self.proven_own_host()?;
        let mut traced = Traced::default();
        for socket in &connections.tcp {
            let TcpConnection { local, remote } = socket.connection;
            // dlock does not know the port of a server that it reaches through a Unix socket, so the server's own port
            // counts.
            if self.own_connection.is_none() && remote.port() != self.port {
                continue;
            }
            let sessions = self.sessions.iter().filter(|listed| {
                let (host, port) = host_and_port(&listed.session.client);
                port == Some(local.port()) && shown_ip(host).is_ip(local.ip())
            });
            // On the loopback interface, IPv4 and IPv6 connections can have the same port. One of two such sessions
            // may belong to another program.
            let sessions: Vec<&ListedSession> = sessions.collect();
            let is_shown_as_ip = sessions.iter().all(|listed| {
                let (host, _) = host_and_port(&listed.session.client);
                matches!(shown_ip(host), ShownIp::Ip(_))
            });
            let has_own_remote = self.own_connection.is_some_and(|own| own.remote == remote);
            let is_exact = is_shown_as_ip && has_own_remote;
            match sessions[..] {
                [] if check.is_open(socket) => traced.unseen.push(local.port()),
                // The session has ended with its connection.
                [] => {}
                // The address of a session that still logs in can change.
                [listed] if listed.session.account == LOGGING_IN => {
                    traced.unseen.push(local.port());
                }
                [listed] if is_noted(listed) || check.belongs_to_command(socket, is_exact) => {
                    traced.ids.insert(listed.session.id);
                }
                _ => traced.unproven.push(local.port()),
            }
        }
        let is_own_machine = match shown_ip(own_host) {
            ShownIp::Localhost => true,
            ShownIp::Ip(ip) => is_loopback(ip),
            ShownIp::Name => false,
        };
        let local = self.sessions.iter().filter(|listed| {
            let (host, port) = host_and_port(&listed.session.client);
            let is_local = is_own_machine && port.is_none() && host == "localhost";
            is_local
                && listed.session.account != LOGGING_IN
                && listed
                    .pid
                    .is_some_and(|pid| connections.pids.contains(&pid))
        });
        traced.ids.extend(local.map(|listed| listed.session.id));
        Ok(traced)
    }
}

/// The sessions of connections in a process list.
#[derive(Debug, Default)]
struct Traced {
    /// Ids of the sessions.
    ids: BTreeSet<u64>,
    /// See [`FoundSessions::unseen`].
    unseen: Vec<u16>,
    /// See [`FoundSessions::unproven`].
    unproven: Vec<u16>,
}

/// The part of the process list that normally contains the IP address of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShownIp {
    Ip(IpAddr),
    /// The name of each loopback address.
    Localhost,
    /// Another name. It proves nothing, because several machines can have the same name.
    Name,
}

impl ShownIp {
    fn is_ip(self, ip: IpAddr) -> bool {
        match self {
            Self::Ip(shown) => shown == ip,
            Self::Localhost => is_loopback(ip),
            Self::Name => false,
        }
    }
}

/// Returns the host name that the server shows for `client`. None if it shows an IP address, or `localhost`.
#[must_use]
pub fn shown_name(client: &str) -> Option<String> {
    let (host, _) = host_and_port(client);
    (shown_ip(host) == ShownIp::Name).then(|| host.to_owned())
}

fn shown_ip(host: &str) -> ShownIp {
    match host.parse::<IpAddr>() {
        Ok(ip) => ShownIp::Ip(ip.to_canonical()),
        Err(_) if host == "localhost" => ShownIp::Localhost,
        Err(_) => ShownIp::Name,
    }
}

/// Returns the host and the port of a client in the process list. The port is None if the client uses a Unix socket.
fn host_and_port(client: &str) -> (&str, Option<u16>) {
    match client.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => (host, port.parse().ok()),
        _ => (client, None),
    }
}

#[cfg(test)]
mod tests;
