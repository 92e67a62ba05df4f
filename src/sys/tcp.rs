//! The sockets of processes, read from `/proc`. A socket is found through the file descriptors of the processes, and its
//! addresses through the kernel's table of TCP connections.
//!
//! The functions only read. They find only the sockets of this process's own network namespace, and only those of
//! processes whose descriptors this process may read. If `/proc` is not mounted, they find nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, RawFd};

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

/// Number of times that a socket is looked for in the kernel's tables if it is in none of them. A TCP socket is in no table
/// before it connects.
const MAX_READS: u32 = 100;

/// What is known about a socket.
#[derive(Debug, Clone, Copy)]
enum SocketKind {
    Tcp(TcpConnection),
    Unix,
    /// The socket was in no table. Contains the number of times that the tables have been read for it.
    Unknown(u32),
}

/// Finds the sockets of processes, repeatedly.
///
/// The kernel's tables contain the sockets of the whole machine, and reading them can take many milliseconds. Therefore
/// they are read only if a process has a socket that was not found before.
#[derive(Debug, Default)]
pub struct SocketFinder {
    known: BTreeMap<u64, SocketKind>,
}

impl SocketFinder {
    /// Returns the sockets of all descendants of the process `pid`, except those that this process also has. For example,
    /// the standard output of a service is normally a socket, which every process inherits.
    #[must_use]
    pub fn sockets_of_descendants(&mut self, pid: u32) -> ProcessSockets {
        let inherited = socket_inodes(std::process::id());
        let owners: Vec<(u32, BTreeSet<u64>)> = proc::descendants(pid)
            .map(|process| {
                let mut own = socket_inodes(process);
                own.retain(|inode| !inherited.contains(inode));
                (process, own)
            })
            .collect();
        let inodes: BTreeSet<u64> = owners.iter().flat_map(|(_, own)| own).copied().collect();
        // The kernel uses the inode of a closed socket again.
        self.known.retain(|inode, _| inodes.contains(inode));
        self.identify(&inodes);
        let mut found = ProcessSockets::default();
        for (process, own) in owners {
            for kind in own.iter().filter_map(|inode| self.known.get(inode)) {
                match kind {
                    SocketKind::Tcp(connection) => drop(found.tcp.insert(*connection)),
                    SocketKind::Unix => drop(found.with_unix_sockets.insert(process)),
                    SocketKind::Unknown(_) => {}
                }
            }
        }
        found
    }

    /// Reads the kernel's tables if one of `inodes` is not known yet.
    fn identify(&mut self, inodes: &BTreeSet<u64>) {
        let mut wanted = BTreeSet::new();
        for inode in inodes {
            let kind = self.known.entry(*inode).or_insert(SocketKind::Unknown(0));
            if let SocketKind::Unknown(reads) = kind
                && *reads < MAX_READS
            {
                *reads += 1;
                wanted.insert(*inode);
            }
        }
        if wanted.is_empty() {
            return;
        }
        for inode in unix_inodes() {
            if wanted.contains(&inode) {
                self.known.insert(inode, SocketKind::Unix);
            }
        }
        for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
            // There is no table for IPv6 if the kernel does not support it.
            let table = fs::read_to_string(table).unwrap_or_default();
            for (connection, inode) in table.lines().skip(1).filter_map(parse) {
                if wanted.contains(&inode) {
                    self.known.insert(inode, SocketKind::Tcp(connection));
                }
            }
        }
    }
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

/// Returns the inodes of the sockets that the process `pid` has open. Empty if its descriptors cannot be read.
fn socket_inodes(pid: u32) -> BTreeSet<u64> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
    let links = descriptors
        .into_iter()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let inode = |link: std::path::PathBuf| {
        let link = link.to_str()?.strip_prefix("socket:[")?;
        link.strip_suffix(']')?.parse().ok()
    };
    links.filter_map(inode).collect()
}

/// Returns the inodes of all Unix sockets.
fn unix_inodes() -> BTreeSet<u64> {
    let table = fs::read_to_string("/proc/self/net/unix").unwrap_or_default();
    let inode = |line: &str| line.split_whitespace().nth(6)?.parse().ok();
    table.lines().skip(1).filter_map(inode).collect()
}

/// Reads one entry of the kernel's table of TCP sockets: the connection and the inode of the socket. None if the socket
/// waits for connections, or if no process has it open.
fn parse(line: &str) -> Option<(TcpConnection, u64)> {
    let mut words = line.split_whitespace().skip(1);
    let (local, remote) = (words.next()?, words.next()?);
    let state = words.next()?;
    let inode = words.nth(5)?.parse().ok()?;
    let connection = TcpConnection {
        local: address(local)?,
        remote: address(remote)?,
    };
    (state != LISTEN && inode != 0).then_some((connection, inode))
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
}
