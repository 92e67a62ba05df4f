//! A connection multiplexer, which sends the requests of all clients through one server session, one request at a time.
//!
//! The first client logs in to the server. The multiplexer sends the server's greeting to later clients too, and
//! accepts their logins without a check. A request that waits in the server, for example for a named lock, delays the
//! requests of all other clients. The session stays open until the test process ends, because the multiplexer does not
//! forward requests to quit. One thread accepts connections, and each client has a thread.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::proxy::packet;
use crate::proxy::wire::{Progress, payload, take};

/// The request that ends a session.
const QUIT: [u8; 1] = [1];

/// An OK packet that reports no changed row, autocommit mode and no warning.
const OK: [u8; 7] = [0, 0, 0, 2, 0, 0, 0];

/// Starts a multiplexer for the server on `port` of 127.0.0.1, and returns the port of the multiplexer.
#[track_caller]
pub fn to(port: u16) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("127.0.0.1 has a free port");
    let own = listener.local_addr().expect("the listener is bound").port();
    let session = Arc::new(Mutex::new(None));
    thread::spawn(move || {
        for client in listener.incoming() {
            let session = Arc::clone(&session);
            thread::spawn(move || {
                let client = Wire::new(client?);
                serve(port, client, &session)
            });
        }
    });
    own
}

/// The session that all clients share.
struct Session {
    server: Wire,
    greeting: Vec<u8>,
}

/// A connection that is read and written packet by packet.
struct Wire {
    stream: TcpStream,
    pending: Vec<u8>,
}

impl Wire {
    fn new(stream: TcpStream) -> Self {
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            pending: Vec::new(),
        }
    }

    /// Reads the next packet, including its header.
    fn receive(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(packet) = take(&mut self.pending) {
                return Ok(packet);
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                length => self.pending.extend_from_slice(&buffer[..length]),
            }
        }
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        self.stream.write_all(packet)
    }
}

/// Serves one client until the client disconnects.
fn serve(port: u16, mut client: Wire, session: &Mutex<Option<Session>>) -> io::Result<()> {
    let locked = || session.lock().unwrap_or_else(PoisonError::into_inner);
    {
        let mut session = locked();
        match &*session {
            None => *session = Some(log_in(port, &mut client)?),
            Some(session) => {
                client.send(&session.greeting)?;
                client.receive()?;
                client.send(&packet(2, &OK))?;
            }
        }
    }
    loop {
        let request = client.receive()?;
        if payload(&request) == QUIT {
            return Ok(());
        }
        let mut session = locked();
        let server = &mut session.as_mut().expect("a client has logged in").server;
        server.send(&request)?;
        let mut progress = Progress::default();
        let mut is_last = false;
        while !is_last {
            let response = server.receive()?;
            is_last = progress.ends_with(payload(&response));
            // Other clients need the session, so this loop reads the whole response even if this client has
            // disconnected.
            let _ = client.send(&response);
        }
    }
}

/// Forwards the login of the first client.
fn log_in(port: u16, client: &mut Wire) -> io::Result<Session> {
    let mut server = Wire::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?);
    let greeting = server.receive()?;
    client.send(&greeting)?;
    loop {
        server.send(&client.receive()?)?;
        // The packet [1, 3] means that the password is in the server's cache. The client sends nothing after this
        // packet.
        let mut response = server.receive()?;
        while payload(&response) == [1, 3] {
            client.send(&response)?;
            response = server.receive()?;
        }
        client.send(&response)?;
        match payload(&response).first() {
            Some(0) => return Ok(Session { server, greeting }),
            Some(0xff) => return Err(ErrorKind::PermissionDenied.into()),
            _ => {}
        }
    }
}
