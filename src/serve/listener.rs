//! The listening socket.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, UnixListener};

use crate::cli::serve::Listen;

/// Size in bytes of the kernel's buffer for the data that a client has not received, which the kernel doubles. By default,
/// the kernel keeps up to 4 MiB for each slow client, and does not report for minutes that the client reads.
const SEND_BUFFER: u32 = 64 << 10;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// A connection of a client.
pub trait Connection: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Connection for T {}

/// The listening socket.
#[derive(Debug)]
pub enum Listener {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket and its path. The file is removed when the listener is dropped.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens on `listen`. Replaces a Unix socket on which no process listens any more.
    ///
    /// # Errors
    /// Fails if the address is in use, does not belong to this machine, or may not be used.
    pub fn bind(listen: &Listen) -> io::Result<Self> {
        match listen {
            Listen::Tcp(address) => Ok(Self::Tcp(bind_tcp(*address)?)),
            Listen::Unix(path) => {
                if is_left_behind(path) {
                    fs::remove_file(path)?;
                }
                Ok(Self::Unix(UnixListener::bind(path)?, path.clone()))
            }
        }
    }

    /// Returns the address for users.
    ///
    /// # Errors
    /// Fails if the kernel does not return the address. No cause of such a failure is known.
    pub fn address(&self) -> io::Result<String> {
        Ok(match self {
            Self::Tcp(listener) => format!("http://{}/", listener.local_addr()?),
            Self::Unix(_, path) => format!("unix:{}", path.display()),
        })
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// Fails if there is no free descriptor, or if the client has already ended the connection.
    pub async fn accept(&self) -> io::Result<Box<dyn Connection>> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // The end of a response must not wait for the acknowledgement of its earlier parts.
                let _ = stream.set_nodelay(true);
                Box::new(stream)
            }
            Self::Unix(listener, _) => Box::new(listener.accept().await?.0),
        })
    }
}

/// Listens on `address`. The connections inherit the size of the buffer.
fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // The connections of an earlier process do not prevent a restart.
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // A failure leaves the file behind, which the next process replaces.
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns true if `path` is a socket that refuses connections, because its process has ended.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).err().is_some_and(refused)
}
