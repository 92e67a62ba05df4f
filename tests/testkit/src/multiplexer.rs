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
use crate::proxy::wire::{Progress, payload};

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
                let client = client?;
                client.set_nodelay(true)?;
                serve(port, client, &session)
            });
        }
    });
    own
}

struct Session {
    server: TcpStream,
    greeting: Vec<u8>,
}

/// Reads the next packet, including its header.
fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; 4];
    stream.read_exact(&mut packet)?;
    let length = u32::from_le_bytes([packet[0], packet[1], packet[2], 0]);
    packet.resize(4 + length as usize, 0);
    stream.read_exact(&mut packet[4..])?;
    Ok(packet)
}

/// Serves one client until the client disconnects.
fn serve(port: u16, mut client: TcpStream, session: &Mutex<Option<Session>>) -> io::Result<()> {
    let locked = || session.lock().unwrap_or_else(PoisonError::into_inner);
    {
        let mut session = locked();
        match &*session {
            None => *session = Some(log_in(port, &mut client)?),
            Some(session) => {
                client.write_all(&session.greeting)?;
                receive(&mut client)?;
                client.write_all(&packet(2, &OK))?;
            }
        }
    }
    loop {
        let request = receive(&mut client)?;
        if payload(&request) == QUIT {
            return Ok(());
        }
        let mut session = locked();
        let server = &mut session.as_mut().expect("a client has logged in").server;
        server.write_all(&request)?;
        let mut progress = Progress::default();
        let mut is_last = false;
        while !is_last {
            let response = receive(server)?;
            is_last = progress.ends_with(payload(&response));
            // Other clients need the session, so this loop reads the whole response even if this client has
            // disconnected.
            let _ = client.write_all(&response);
        }
    }
}

fn log_in(port: u16, client: &mut TcpStream) -> io::Result<Session> {
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    server.set_nodelay(true)?;
    let greeting = receive(&mut server)?;
    client.write_all(&greeting)?;
    loop {
        server.write_all(&receive(client)?)?;
        // The packet [1, 3] means that the password is in the server's cache. The client sends nothing after this
        // packet.
        let mut response = receive(&mut server)?;
        while payload(&response) == [1, 3] {
            client.write_all(&response)?;
            response = receive(&mut server)?;
        }
        client.write_all(&response)?;
        match payload(&response).first() {
            Some(0) => return Ok(Session { server, greeting }),
            Some(0xff) => return Err(ErrorKind::PermissionDenied.into()),
            _ => {}
        }
    }
}
