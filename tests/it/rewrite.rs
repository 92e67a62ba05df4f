//! A relay in front of a server that changes a word of what the client says: the way to a server
//! on which named locks are denied or do not do what they should.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// What every client says and what the server hears instead; both of the same length, so that no
/// packet's header has to change.
#[derive(Clone, Copy)]
pub(crate) struct Rewrite {
    pub(crate) said: &'static str,
    pub(crate) heard: &'static str,
}

impl Rewrite {
    /// Starts a relay to `server` on 127.0.0.1 that lives as long as the test process; its port.
    pub(crate) fn start(self, server: u16) -> u16 {
        assert_eq!(
            self.said.len(),
            self.heard.len(),
            "a packet keeps its length"
        );
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("is bound").port();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A refused connection ends the client's; that is what the client is to see.
                let _ = self.join(client, server);
            }
        });
        port
    }

    fn join(self, client: TcpStream, server: u16) -> io::Result<()> {
        let server = TcpStream::connect(("127.0.0.1", server))?;
        let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
        thread::spawn(move || io::copy(&mut from_server, &mut to_client));
        thread::spawn(move || self.forward(client, server));
        Ok(())
    }

    /// Forwards packet by packet: a word never stands across two of them.
    fn forward(self, mut client: TcpStream, mut server: TcpStream) -> io::Result<()> {
        loop {
            let mut header = [0; 4];
            client.read_exact(&mut header)?;
            let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
            let mut packet = vec![0; length as usize];
            client.read_exact(&mut packet)?;
            let mut at = 0;
            let (said, heard) = (self.said.as_bytes(), self.heard.as_bytes());
            while let Some(found) = packet[at..]
                .windows(said.len())
                .position(|text| text == said)
            {
                at += found;
                packet[at..at + said.len()].copy_from_slice(heard);
            }
            server.write_all(&header)?;
            server.write_all(&packet)?;
        }
    }
}
