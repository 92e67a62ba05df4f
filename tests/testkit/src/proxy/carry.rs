//! The threads of a proxy: one accepts connections, and each connection has one thread for requests and one for
//! responses.
//!
//! A thread that holds a packet waits on the proxy's condition variable, so the thread resumes immediately when the
//! fault or the flow changes. If bytes cannot be written, the proxy drops them and does not report the failure to the
//! sender.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use super::state::{Connection, Shared, State};
use super::wire::{self, Kind, Progress, Request};
use super::{AcceptMode, Fault, Flow, Port, Session, local};

/// The payload length of a TLS request, which is a login packet that ends after its fixed part.
const TLS_REQUEST: usize = 32;

pub(super) fn accept(shared: &Arc<Shared>, port: &Port, mut listener: TcpListener) {
    loop {
        let client = listener.accept();
        let door = shared.locked().door;
        match (door, client) {
            (AcceptMode::Refused, client) => {
                drop((client, listener));
                listener = resumed(shared, port);
            }
            // The client closed the connection before the accept.
            (_, Err(_)) => {}
            (AcceptMode::Reset, Ok((client, _))) => abandon(&client, true),
            // The write fails only if the client has closed the connection.
            (AcceptMode::Full, Ok((mut client, _))) => {
                let text = "#08004Too many connections";
                let _ = client.write_all(&wire::error(0, 1040, text));
            }
            (AcceptMode::Silent, Ok((client, _))) => {
                shared.change(|state| state.silent.push(client));
            }
            (AcceptMode::Open, Ok((client, _))) => {
                let number = {
                    let mut state = shared.locked();
                    state.sessions.push(Session::default());
                    state.sessions.len() - 1
                };
                shared.changed.notify_all();
                let shared = Arc::clone(shared);
                thread::spawn(move || serve(&shared, client, number));
            }
        }
    }
}

/// Waits until the door is no longer [`AcceptMode::Refused`]. Returns a new listener.
fn resumed(shared: &Shared, port: &Port) -> TcpListener {
    shared.change(|state| state.is_listening = false);
    let closed = |state: &mut State| state.door == AcceptMode::Refused;
    drop(shared.changed.wait_while(shared.locked(), closed));
    let listener = port.listen().expect("the port is reserved");
    shared.change(|state| state.is_listening = true);
    listener
}

/// If `by_reset` is true, makes the kernel send an RST when `socket` is closed. Otherwise, sends a FIN immediately.
pub(super) fn abandon(socket: &TcpStream, by_reset: bool) {
    // Both calls fail only if the connection of the socket has ended.
    if by_reset {
        let _ = set_socket_linger(socket, Some(Duration::ZERO));
    } else {
        let _ = socket.shutdown(Shutdown::Write);
    }
}

/// Connects to the server and forwards data in both directions until both streams have ended.
fn serve(shared: &Arc<Shared>, client: TcpStream, number: usize) {
    let target = shared.locked().target;
    let Ok(server) = TcpStream::connect(local(target)) else {
        abandon(&client, true);
        drop(client);
        shared.change(|state| state.sessions[number].is_over = true);
        return;
    };
    for socket in [&client, &server] {
        let set = socket.set_nodelay(true);
        set.expect("the socket is a TCP socket");
    }
    let connection = Arc::new(Connection {
        shared: Arc::clone(shared),
        client,
        server,
        number,
        course: Mutex::default(),
    });
    shared.change(|state| {
        state.connections.retain(|other| other.strong_count() > 0);
        state.connections.push(Arc::downgrade(&connection));
    });
    let other = Arc::clone(&connection);
    thread::spawn(move || {
        let _ = other.carry_responses();
        other.wait(|state| !Way::ToClient.flow(state).is_cut());
        let _ = other.client.shutdown(Shutdown::Write);
    });
    let _ = connection.carry_requests();
    connection.wait(|state| !Way::ToServer.flow(state).is_cut());
    let _ = connection.server.shutdown(Shutdown::Write);
    drop(connection);
    shared.change(|state| state.sessions[number].is_over = true);
}

impl Connection {
    fn carry_requests(&self) -> io::Result<()> {
        let mut pending = Vec::new();
        while receive(&self.client, &mut pending)? {
            while !self.is_encrypted()
                && let Some(packet) = wire::take(&mut pending)
            {
                self.carry_request(packet);
            }
            self.pass_unread(Way::ToServer, &mut pending);
        }
        Ok(())
    }

    /// Forwards a packet from the client, or injects a fault.
    fn carry_request(&self, mut packet: Vec<u8>) {
        let injection = self.take_in(&mut packet);
        self.course().injection.clone_from(&injection);
        match injection {
            Some((number, Fault::LoseRequest)) => self.hit(number),
            Some((number, Fault::HoldRequest)) => {
                self.hit(number);
                self.wait(|state| state.injections[number].may_go);
                self.send(Way::ToServer, &packet);
            }
            Some((number, Fault::Reset)) => {
                self.shared.change(|_| self.end(true));
                self.hit(number);
            }
            Some((number, Fault::Respond(replacement))) => {
                self.send(Way::ToClient, &replacement);
                self.hit(number);
            }
            _ => self.send(Way::ToServer, &packet),
        }
    }

    /// Records a packet from the client and applies [`super::Proxy::rewrite`]. Returns the fault for the packet, with its
    /// index. None means that no fault affects the packet.
    fn take_in(&self, packet: &mut [u8]) -> Option<(usize, Fault)> {
        let mut state = self.shared.locked();
        let mut injection = None;
        if wire::number(packet) == 0 {
            let request = Request::of(wire::payload(packet));
            if let Some(kind) = request.kind() {
                *state.asked.entry(kind).or_default() += 1;
                injection = state.next_fault(kind);
            }
            if state.keeps_texts {
                state.sessions[self.number].requests.push(request);
            }
            if let Some((original, replacement)) = state.rewrite {
                rewrite(packet, original.as_bytes(), replacement.as_bytes());
            }
        } else if wire::number(packet) == 1 && wire::payload(packet).len() == TLS_REQUEST {
            state.sessions[self.number].is_encrypted = true;
        } else {
            state.sessions[self.number].login += 1;
        }
        drop(state);
        self.shared.changed.notify_all();
        injection
    }

    fn carry_responses(&self) -> io::Result<()> {
        let mut pending = Vec::new();
        let mut response = Vec::new();
        let mut progress = Progress::default();
        let mut greeting = self.shared.locked().greeting.clone();
        while receive(&self.server, &mut pending)? {
            while !self.is_encrypted()
                && let Some(packet) = wire::take(&mut pending)
            {
                let injection = self.course().injection.clone();
                if let Some(tamper) = greeting.take() {
                    self.send(Way::ToClient, &tamper(&packet));
                } else if let Some((number, fault)) = injection {
                    let is_last = progress.ends_with(wire::payload(&packet));
                    response.extend(packet);
                    if is_last {
                        progress = Progress::default();
                        self.respond(number, &fault, &response);
                        response.clear();
                    }
                } else {
                    self.send(Way::ToClient, &packet);
                }
            }
            self.pass_unread(Way::ToClient, &mut pending);
        }
        Ok(())
    }

    /// Forwards the `pending` bytes if the connection is encrypted, because the proxy cannot parse them.
    fn pass_unread(&self, way: Way, pending: &mut Vec<u8>) {
        if self.is_encrypted() {
            self.send(way, &std::mem::take(pending));
        }
    }

    /// Injects the fault with this number into a complete response.
    fn respond(&self, number: usize, fault: &Fault, response: &[u8]) {
        let pass = |bytes: &[u8]| self.send(Way::ToClient, bytes);
        let may_go = |state: &State| state.injections[number].may_go;
        self.shared.locked().injections[number].response = response.to_vec();
        match fault {
            Fault::LoseResponse => self.hit(number),
            Fault::HoldResponse => {
                self.hit(number);
                self.wait(may_go);
                pass(response);
            }
            Fault::ResetAfter => {
                self.shared.change(|_| self.end(true));
                self.hit(number);
            }
            Fault::Truncate(length) => {
                pass(&response[..response.len().min(*length)]);
                self.shared.change(|_| self.end(false));
                self.hit(number);
            }
            Fault::Drip(pause) => {
                self.hit(number);
                self.drip(&self.client, response, *pause, may_go);
            }
            Fault::Alter(alter) => {
                pass(&alter(response));
                self.hit(number);
            }
            Fault::RespondAfter(replacement) => {
                pass(replacement);
                self.hit(number);
            }
            // These faults affect the request, not the response.
            Fault::LoseRequest | Fault::HoldRequest | Fault::Reset | Fault::Respond(_) => {
                pass(response);
            }
        }
    }

    /// Sends `bytes` in the direction `way`, as the flow in this direction specifies.
    fn send(&self, way: Way, bytes: &[u8]) {
        let mut to = match way {
            Way::ToServer => &self.server,
            Way::ToClient => &self.client,
        };
        self.wait(|state| way.flow(state) != Flow::Hold);
        if self.course().is_dead {
            return;
        }
        let flow = way.flow(&self.shared.locked());
        match flow {
            Flow::Lose => {}
            Flow::Drip(pause) => self.drip(to, bytes, pause, |state| way.flow(state) != flow),
            Flow::Pass | Flow::Hold => {
                let _ = to.write_all(bytes);
            }
        }
    }

    /// Sends `bytes` one by one, with `pause` after each byte. Sends all remaining bytes in one write as soon as `hurry`
    /// returns true.
    fn drip(
        &self,
        mut to: &TcpStream,
        bytes: &[u8],
        pause: Duration,
        hurry: impl Fn(&State) -> bool,
    ) {
        for (at, byte) in bytes.iter().enumerate() {
            if to.write_all(&[*byte]).is_err() || self.course().is_dead {
                return;
            }
            let pauses = |state: &mut State| !hurry(state) && !self.course().is_dead;
            let changed = &self.shared.changed;
            let waited = changed.wait_timeout_while(self.shared.locked(), pause, pauses);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if hurry(&state) {
                drop(state);
                let _ = to.write_all(&bytes[at + 1..]);
                return;
            }
        }
    }

    fn is_encrypted(&self) -> bool {
        self.shared.locked().sessions[self.number].is_encrypted
    }

    fn hit(&self, number: usize) {
        (self.shared).change(|state| state.injections[number].hits += 1);
    }

    /// Waits until `condition` returns true or the connection is dead.
    fn wait(&self, condition: impl Fn(&State) -> bool) {
        let waiting = |state: &mut State| !condition(state) && !self.course().is_dead;
        drop((self.shared.changed).wait_while(self.shared.locked(), waiting));
    }
}

fn rewrite(packet: &mut [u8], original: &[u8], replacement: &[u8]) {
    let mut at = 0;
    while let Some(found) = packet[at..]
        .windows(original.len())
        .position(|text| text == original)
    {
        at += found;
        packet[at..at + original.len()].copy_from_slice(replacement);
    }
}

/// Reads available bytes and appends them to `pending`. Returns false at the end of the stream.
fn receive(mut from: &TcpStream, pending: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    let length = from.read(&mut buffer)?;
    pending.extend_from_slice(&buffer[..length]);
    Ok(length > 0)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

impl Way {
    fn flow(self, state: &State) -> Flow {
        match self {
            Self::ToServer => state.requests,
            Self::ToClient => state.responses,
        }
    }
}

impl Flow {
    const fn is_cut(self) -> bool {
        matches!(self, Self::Hold | Self::Lose)
    }
}

impl State {
    /// Returns the fault for a request of this kind, with its index, and counts the request. None means that no fault
    /// affects the request.
    fn next_fault(&mut self, kind: Kind) -> Option<(usize, Fault)> {
        let mut injections = self.injections.iter_mut().enumerate();
        let (number, injection) =
            injections.find(|(_, injection)| injection.kind == kind && injection.left > 0)?;
        if injection.left < usize::MAX {
            injection.left -= 1;
        }
        Some((number, injection.fault.clone()))
    }
}
