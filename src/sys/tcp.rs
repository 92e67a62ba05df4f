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

use super::proc;

/// State of a socket that waits for connections, in the kernel's table.
const LISTEN: &str = "0A";

/// A TCP connection of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TcpConnection {
    /// Address of this end.
    pub local: SocketAddr,
    /// Address of the other end.
    pub remote: SocketAddr,
}

/// The sockets of a group of processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessSockets {
    /// All TCP connections.
    pub tcp: BTreeSet<TcpConnection>,
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
    /// Returns the sockets of all descendants of the process `pid`, except those that this process also has. For example,
    /// the standard output of a service is normally a socket, which every process inherits.
    #[must_use]
    pub fn sockets_of_descendants(&mut self, pid: u32) -> ProcessSockets {
        let inherited: BTreeSet<u64> = sockets(std::process::id()).into_keys().collect();
        let owners: Vec<(u32, BTreeMap<u64, PathBuf>)> = proc::descendants(pid)
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
        for (process, own) in owners {
            for kind in own.keys().filter_map(|inode| self.known.get(inode)) {
                match kind {
                    SocketKind::Tcp(connection) => drop(found.tcp.insert(*connection)),
                    SocketKind::Unix => drop(found.with_unix_sockets.insert(process)),
                    SocketKind::Unconnected(_) | SocketKind::Other => {}
                }
            }
        }
        found
    }

    /// Reads the tables that can contain a socket whose connection is not known.
    fn find_connections(&mut self) {
        for table in TABLES {
            let is_candidate = |kind: &SocketKind| matches!(kind, SocketKind::Unconnected(tables) if tables.contains(&table));
            if !self.known.values().any(is_candidate) {
                continue;
            }
            let text = fs::read_to_string(table).unwrap_or_default();
            for (kind, inode) in text.lines().skip(1).filter_map(parse) {
                if let Some(known) = self.known.get_mut(&inode) {
                    *known = kind;
                }
            }
        }
    }
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

/// Reads one entry of a table of TCP sockets: the connection and the inode of the socket. None if no process has the socket
/// open.
fn parse(line: &str) -> Option<(SocketKind, u64)> {
    let mut words = line.split_whitespace().skip(1);
    let (local, remote) = (words.next()?, words.next()?);
    let state = words.next()?;
    let inode = words.nth(5)?.parse().ok()?;
    let connection = TcpConnection {
        local: address(local)?,
        remote: address(remote)?,
    };
    let kind = match state {
        LISTEN => SocketKind::Other,
        _ => SocketKind::Tcp(connection),
    };
    (inode != 0).then_some((kind, inode))
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

    use super::{SocketFinder, TcpConnection, address, connection_of};

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
                let sockets = finder.sockets_of_descendants(std::process::id());
                assert!(sockets.tcp.contains(&connection), "{sockets:?}");
            }
            drop(server_end);
            child.wait().expect("cat ends with its input");
            let is_same = |other: &TcpConnection| *other == connection;
            let sockets = finder.sockets_of_descendants(std::process::id());
            assert!(!sockets.tcp.iter().any(is_same), "{sockets:?}");
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
            let _ = finder.sockets_of_descendants(std::process::id());
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
        let sockets = finder.sockets_of_descendants(std::process::id());
        child.kill().expect("the child runs");
        child.wait().expect("the child ends");
        assert!(sockets.tcp.contains(&connection), "{sockets:?}");
    }
}
