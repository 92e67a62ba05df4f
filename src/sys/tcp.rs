//! The sockets of processes, read from `/proc`. A socket is found through the file descriptors of the processes, and its
//! addresses through the kernel's table of TCP connections.
//!
//! The functions only read. They find only the sockets of this process's own network namespace, and only those of
//! processes whose descriptors this process may read. If `/proc` is not mounted, they find nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::fs::getxattr;
use rustix::net::{getpeername, getsockname};

use super::inherited;

/// States of a socket that waits for connections, and of a connection that both ends have closed, in the kernel's table.
const LISTEN: &str = "0A";
const TIME_WAIT: &str = "06";

/// A TCP connection of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TcpConnection {
    /// Address of this end.
    pub local: SocketAddr,
    /// Address of the other end.
    pub remote: SocketAddr,
}

/// A connected TCP socket of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TcpSocket {
    /// The connection.
    pub connection: TcpConnection,
    /// Inode of the socket. The kernel uses the number again only after four billion other sockets.
    pub inode: u64,
    /// Id of a process that has the socket open, and its descriptor.
    pub file: (u32, RawFd),
}

impl TcpSocket {
    /// Returns the port on this machine.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.connection.local.port()
    }

    /// Returns true if the process still has the socket open with the same descriptor.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let (pid, descriptor) = self.file;
        socket_inode(&PathBuf::from(format!("/proc/{pid}/fd/{descriptor}"))) == Some(self.inode)
    }
}

/// The sockets of a group of processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessSockets {
    /// All connected TCP sockets.
    pub tcp: BTreeSet<TcpSocket>,
    /// Ids of the processes that have at least one Unix socket.
    pub with_unix_sockets: BTreeSet<u32>,
}

/// The kernel's tables of the TCP sockets of the whole machine, for IPv4 and for IPv6. An IPv6 socket can have a connection
/// to an IPv4 address. There is no table for IPv6 if the kernel does not support it.
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];

/// What is known about a socket.
#[derive(Debug, Clone, Copy)]
enum SocketKind {
    Unix,
    Tcp(TcpConnection),
    /// A TCP socket that was in no table, because it is not connected yet. Later, one of these tables can contain it.
    Unconnected(&'static [&'static str]),
    /// A socket that never becomes a TCP connection.
    Other,
}

/// Finds the sockets of processes, repeatedly.
///
/// The kernel needs several milliseconds to print a table of TCP sockets, even if there are few sockets, because it looks at
/// every slot of a large hash table. Therefore a table is read only if a process has a TCP socket whose connection is not
/// known.
#[derive(Debug, Default)]
pub struct SocketFinder {
    known: BTreeMap<u64, SocketKind>,
}

impl SocketFinder {
    /// Returns the sockets of the processes with the ids `processes`, except those that dlock has inherited from its caller.
    /// For example, the standard output of a service is normally a socket, and a client library may leave the sockets of
    /// its connections to every program that the client starts.
    #[must_use]
    pub fn sockets_of(&mut self, processes: impl IntoIterator<Item = u32>) -> ProcessSockets {
        let inherited = inherited::sockets();
        let owners: Vec<(u32, BTreeMap<u64, PathBuf>)> = processes
            .into_iter()
            .map(|process| {
                let mut own = sockets(process);
                own.retain(|inode, _| !inherited.contains(inode));
                (process, own)
            })
            .collect();
        let is_open = |inode: &u64| owners.iter().any(|(_, own)| own.contains_key(inode));
        // The kernel uses the inode of a closed socket again.
        self.known.retain(|inode, _| is_open(inode));
        for (inode, path) in owners.iter().flat_map(|(_, own)| own) {
            if !self.known.contains_key(inode)
                && let Some(kind) = kind_of(*inode, path)
            {
                self.known.insert(*inode, kind);
            }
        }
        self.find_connections();
        let mut found = ProcessSockets::default();
        // Several processes can have the same socket.
        let mut tcp = BTreeMap::new();
        for (process, own) in owners {
            for (inode, path) in own {
                match self.known.get(&inode) {
                    Some(SocketKind::Tcp(connection)) => {
                        let socket = TcpSocket {
                            connection: *connection,
                            inode,
                            file: (process, descriptor(&path).unwrap_or_default()),
                        };
                        tcp.entry(inode).or_insert(socket);
                    }
                    Some(SocketKind::Unix) => drop(found.with_unix_sockets.insert(process)),
                    Some(SocketKind::Unconnected(_) | SocketKind::Other) | None => {}
                }
            }
        }
        found.tcp = tcp.into_values().collect();
        found
    }

    /// Reads the tables that can contain a socket whose connection is not known.
    fn find_connections(&mut self) {
        for table in TABLES {
            let is_candidate = |kind: &SocketKind| matches!(kind, SocketKind::Unconnected(tables) if tables.contains(&table));
            if !self.known.values().any(is_candidate) {
                continue;
            }
            for entry in read_table(table) {
                if let Some(known) = self.known.get_mut(&entry.inode) {
                    *known = match entry.state {
                        State::Listens => SocketKind::Other,
                        State::Connected => SocketKind::Tcp(entry.connection),
                    };
                }
            }
        }
    }
}

/// The kernel's tables of TCP sockets at one time.
#[derive(Debug, Default)]
pub struct SocketTable(Vec<Entry>);

/// One entry of a table.
#[derive(Debug)]
struct Entry {
    connection: TcpConnection,
    state: State,
    /// Inode of the socket. 0 if no process has the socket open.
    inode: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The socket waits for connections.
    Listens,
    /// At least one end of the connection is open.
    Connected,
}

impl SocketTable {
    /// Reads the tables of the network namespace of this process. Empty if `/proc` is not mounted.
    #[must_use]
    pub fn read() -> Self {
        Self(TABLES.into_iter().flat_map(read_table).collect())
    }

    /// Returns true if no process has the socket of `connection` any more, and its server has not closed its end. No other
    /// program can then use the same addresses and ports.
    #[must_use]
    pub fn is_left_open(&self, connection: &TcpConnection) -> bool {
        let mut entries = self.0.iter();
        entries.any(|entry| {
            entry.connection == *connection && entry.state == State::Connected && entry.inode == 0
        })
    }

    /// Returns true if another socket than `socket` has the same local port, and is connected to a server with the same
    /// port that may be the same server: at the same address, or if `includes_loopback` is true, at any loopback address.
    #[must_use]
    pub fn has_other(&self, socket: &TcpSocket, includes_loopback: bool) -> bool {
        let TcpConnection { local, remote } = socket.connection;
        let mut entries = self.0.iter();
        entries.any(|entry| {
            let other = entry.connection;
            entry.state == State::Connected
                && entry.inode != socket.inode
                && other != socket.connection
                && other.local.port() == local.port()
                && other.remote.port() == remote.port()
                && (other.remote == remote || includes_loopback && is_loopback(other.remote.ip()))
        })
    }
}

fn read_table(table: &str) -> Vec<Entry> {
    let text = fs::read_to_string(table).unwrap_or_default();
    text.lines().skip(1).filter_map(parse).collect()
}

/// Returns what the kernel tells about the socket `inode` with the path `path` in the list of open files. None if the path
/// leads to a different file now.
fn kind_of(inode: u64, path: &Path) -> Option<SocketKind> {
    let mut protocol = [0; 32];
    let length = getxattr(path, "system.sockprotoname", &mut protocol);
    let kind = match length.map(|length| &protocol[..length]) {
        Ok(b"TCP\0") => SocketKind::Unconnected(&TABLES[..1]),
        Ok(b"TCPv6\0") => SocketKind::Unconnected(&TABLES[1..]),
        Ok(name) if name.starts_with(b"UNIX") => SocketKind::Unix,
        Ok(_) => SocketKind::Other,
        Err(_) => SocketKind::Unconnected(&TABLES),
    };
    (socket_inode(path) == Some(inode)).then_some(kind)
}

/// Returns the addresses of the connection with the descriptor `fd`. None if it is not a TCP connection.
#[must_use]
pub fn connection_of(fd: impl AsFd) -> Option<TcpConnection> {
    let local = SocketAddr::try_from(getsockname(&fd).ok()?).ok()?;
    let remote = SocketAddr::try_from(getpeername(&fd).ok()??).ok()?;
    Some(TcpConnection {
        local: canonical(local),
        remote: canonical(remote),
    })
}

/// Like [`connection_of`], for a raw descriptor.
#[must_use]
pub fn connection_of_raw(fd: RawFd) -> Option<TcpConnection> {
    // SAFETY: the caller owns the connection that `fd` belongs to and keeps it open during this call; the borrow ends
    // here.
    connection_of(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Returns the sockets that the process `pid` has open: for each inode, a path in the list of open files. Empty if the list
/// cannot be read.
fn sockets(pid: u32) -> BTreeMap<u64, PathBuf> {
    let files = fs::read_dir(format!("/proc/{pid}/fd"));
    let paths = files.into_iter().flatten().flatten().map(|it| it.path());
    paths
        .filter_map(|path| Some((socket_inode(&path)?, path)))
        .collect()
}

/// Returns the inode of the open socket with this path. None if it is not a socket.
fn socket_inode(path: &Path) -> Option<u64> {
    let link = fs::read_link(path).ok()?;
    let inode = link.to_str()?.strip_prefix("socket:[")?;
    inode.strip_suffix(']')?.parse().ok()
}

/// Returns the descriptor with this path in the list of open files.
fn descriptor(path: &Path) -> Option<RawFd> {
    path.file_name()?.to_str()?.parse().ok()
}

/// Reads one entry of a table of TCP sockets. None for a connection whose ends are both closed. Such an entry belongs to no
/// process, and a busy machine has thousands of them.
fn parse(line: &str) -> Option<Entry> {
    let mut words = line.split_whitespace().skip(1);
    let (local, remote) = (words.next()?, words.next()?);
    let state = match words.next()? {
        TIME_WAIT => return None,
        LISTEN => State::Listens,
        _ => State::Connected,
    };
    let inode = words.nth(5)?.parse().ok()?;
    Some(Entry {
        connection: TcpConnection {
            local: address(local)?,
            remote: address(remote)?,
        },
        state,
        inode,
    })
}

/// Reads an address such as `0100007F:0CEA`. The kernel prints an IP address as 32-bit words in the byte order of the
/// processor.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let word = u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let octets: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::from(octets)
        }
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}

/// Returns `address` with an IPv4 address in place of an IPv6 address that contains one.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Returns true if `ip` is an address of this machine that no other machine can reach.
#[must_use]
pub fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip == Ipv4Addr::UNSPECIFIED,
        IpAddr::V6(ip) => ip.is_loopback() || ip == Ipv6Addr::UNSPECIFIED,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};

    use rustix::net::{AddressFamily, SocketType, connect, socket};
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

    use super::{SocketFinder, address, connection_of};
    use crate::sys::proc;

    fn own_descendants() -> impl Iterator<Item = u32> {
        proc::descendants(std::process::id())
    }

    #[test]
    fn addresses_of_the_kernel_are_read() {
        let read = |text| address(text).map(|address| address.to_string());
        assert_eq!(read("0100007F:0CEA").as_deref(), Some("127.0.0.1:3306"));
        let six = read("00000000000000000000000001000000:0CEA");
        assert_eq!(six.as_deref(), Some("[::1]:3306"));
        let mapped = read("0000000000000000FFFF00000100007F:0001");
        assert_eq!(mapped.as_deref(), Some("127.0.0.1:1"));
        for text in ["", "0100007F", "0100007F:", "01:1", "G100007F:0001"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn connection_of_a_descendant_is_found_until_the_descendant_ends() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(listen).expect("a free port");
            let stream = TcpStream::connect(listener.local_addr().expect("a local address"))
                .expect("the listener accepts");
            let connection = connection_of(&stream).expect("a TCP connection");
            // The connection belongs to the shell and to `cat`, but not to this process any more.
            let mut child = Command::new("sh")
                .args(["-c", "cat; exit 0"])
                .stdin(OwnedFd::from(stream))
                .stdout(Stdio::piped())
                .spawn()
                .expect("sh runs");
            let (mut server_end, _) = listener.accept().expect("one connection");
            server_end.write_all(b"x").expect("the child reads");
            let mut byte = [0];
            let mut stdout = child.stdout.take().expect("a pipe");
            stdout.read_exact(&mut byte).expect("cat runs");
            let mut finder = SocketFinder::default();
            for _ in 0..2 {
                let sockets = finder.sockets_of(own_descendants());
                let socket = sockets.tcp.iter().find(|one| one.connection == connection);
                assert!(socket.expect("the socket of cat").is_open(), "{sockets:?}");
            }
            drop(server_end);
            child.wait().expect("cat ends with its input");
            let sockets = finder.sockets_of(own_descendants());
            let mut sockets = sockets.tcp.iter();
            assert!(!sockets.any(|one| one.connection == connection));
        }
    }
    #[test]
    fn connection_that_a_descendant_opens_late_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let unconnected = socket(AddressFamily::INET, SocketType::STREAM, None);
        let mut child = Command::new("sleep")
            .arg("1d")
            .stdin(unconnected.expect("a socket can be created"))
            .spawn()
            .expect("sleep runs");
        let mut finder = SocketFinder::default();
        for _ in 0..110 {
            let _ = finder.sockets_of(own_descendants());
        }
        let pid = Pid::from_raw(child.id().cast_signed()).expect("the id is positive");
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("the child runs");
        // Later, this process no longer has the socket.
        let connection = {
            let stdin = pidfd_getfd(pidfd, 0, PidfdGetfdFlags::empty());
            let stdin = stdin.expect("a parent may use the files of its child");
            let server = listener.local_addr().expect("a local address");
            connect(&stdin, &server).expect("the listener accepts");
            connection_of(&stdin).expect("a TCP connection")
        };
        let sockets = finder.sockets_of(own_descendants());
        child.kill().expect("the child runs");
        child.wait().expect("the child ends");
        let mut found = sockets.tcp.iter();
        assert!(found.any(|one| one.connection == connection), "{sockets:?}");
    }
}
