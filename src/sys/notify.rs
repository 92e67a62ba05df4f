//! Messages to the service manager that has started this process, in the protocol of `sd_notify(3)`.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable with the address of the manager's socket.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Sends `state`, for example `READY=1`, if a service manager waits for it. Never waits: the message is lost if the socket of
/// the manager is full.
pub fn send(state: &str) {
    if let Some(socket) = env::var_os(SOCKET) {
        // Nobody is left to whom a failure could be reported: the manager then reports a start that takes too long.
        let _ = send_to(&socket, state);
    }
}

fn send_to(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    use super::send_to;

    #[test]
    fn state_is_sent_to_a_path_and_to_an_abstract_name() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("socket");
        let name = format!("dlock-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).expect("a short name");
        let managers = [
            (
                UnixDatagram::bind(&path).expect("the path is free"),
                path.into_os_string(),
            ),
            (
                UnixDatagram::bind_addr(&abstract_name).expect("the name is free"),
                format!("@{name}").into(),
            ),
        ];
        for (manager, socket) in managers {
            send_to(&socket, "READY=1").expect("the manager receives it");
            let mut received = [0; 64];
            let length = manager.recv(&mut received).expect("a message");
            assert_eq!(&received[..length], b"READY=1");
        }
        assert!(send_to(OsStr::new("/nonexistent/socket"), "READY=1").is_err());
    }
}
