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
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use super::state::{Connection, Shared, State};
use super::wire::{self, Kind, Progress, Request};
use super::{AcceptMode, Fault, Flow, Port, Session, local};

/// The payload length of a TLS request, which is a login packet that ends after its fixed part.
const TLS_REQUEST: usize = 32;

/// Accepts connections until the process ends.
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
                let _ = client.write_all(&wire::full_greeting());
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
        socket
            .set_nodelay(true)
            .expect("the socket is a TCP socket");
    }
    let connection = Arc::new(Connection {
        client,
        server,
        number,
        course: Mutex::default(),
    });
    shared.change(|state| {
        state.connections.retain(|other| other.strong_count() > 0);
        state.connections.push(Arc::downgrade(&connection));
    });
    let (other, its_shared) = (Arc::clone(&connection), Arc::clone(shared));
    thread::spawn(move || {
        let _ = responses(&its_shared, &other);
        its_shared.wait(&other, |state| !Way::ToClient.flow(state).is_cut());
        let _ = other.client.shutdown(Shutdown::Write);
    });
    let _ = requests(shared, &connection);
    shared.wait(&connection, |state| !Way::ToServer.flow(state).is_cut());
    let _ = connection.server.shutdown(Shutdown::Write);
    drop(connection);
    shared.change(|state| state.sessions[number].is_over = true);
}

fn requests(shared: &Shared, connection: &Connection) -> io::Result<()> {
    let mut pending = Vec::new();
    while receive(&connection.client, &mut pending)? {
        while !shared.is_encrypted(connection)
            && let Some(packet) = wire::take(&mut pending)
        {
            request(shared, connection, packet);
        }
        pass_unread(shared, connection, Way::ToServer, &mut pending);
    }
    Ok(())
}

/// Forwards a packet from the client, or injects a fault.
fn request(shared: &Shared, connection: &Connection, mut packet: Vec<u8>) {
    let injection = take_in(shared, connection, &mut packet);
    connection.course().injection.clone_from(&injection);
    match injection {
        Some((number, Fault::LoseRequest)) => shared.hit(number),
        Some((number, Fault::HoldRequest)) => {
            shared.hit(number);
            shared.wait(connection, |state| state.injections[number].may_go);
            send(shared, connection, Way::ToServer, &packet);
        }
        Some((number, Fault::Reset)) => {
            shared.change(|_| connection.end(true));
            shared.hit(number);
        }
        Some((number, Fault::Respond(replacement))) => {
            send(shared, connection, Way::ToClient, &replacement);
            shared.hit(number);
        }
        _ => send(shared, connection, Way::ToServer, &packet),
    }
}

/// Records a packet from the client and applies [`super::Proxy::rewrite`]. Returns the fault for the packet, with its
/// index. None means that no fault affects the packet.
fn take_in(shared: &Shared, connection: &Connection, packet: &mut [u8]) -> Option<(usize, Fault)> {
    let mut state = shared.locked();
    let mut injection = None;
    if wire::number(packet) == 0 {
        let request = Request::of(wire::payload(packet));
        if let Some(kind) = request.kind() {
            *state.asked.entry(kind).or_default() += 1;
            injection = state.next_fault(kind);
        }
        if state.keeps_texts {
            state.sessions[connection.number].requests.push(request);
        }
        if let Some((original, replacement)) = state.rewrite {
            rewrite(packet, original.as_bytes(), replacement.as_bytes());
        }
    } else if wire::number(packet) == 1 && wire::payload(packet).len() == TLS_REQUEST {
        state.sessions[connection.number].is_encrypted = true;
    } else {
        state.sessions[connection.number].login += 1;
    }
    drop(state);
    shared.changed.notify_all();
    injection
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

fn responses(shared: &Shared, connection: &Connection) -> io::Result<()> {
    let mut pending = Vec::new();
    let mut response = Vec::new();
    let mut progress = Progress::default();
    let mut greeting = shared.locked().greeting.clone();
    while receive(&connection.server, &mut pending)? {
        while !shared.is_encrypted(connection)
            && let Some(packet) = wire::take(&mut pending)
        {
            if let Some(tamper) = greeting.take() {
                send(shared, connection, Way::ToClient, &tamper(&packet));
                continue;
            }
            let injection = connection.course().injection.clone();
            let Some((number, fault)) = injection else {
                send(shared, connection, Way::ToClient, &packet);
                continue;
            };
            let is_last = progress.ends_with(wire::payload(&packet));
            response.extend(packet);
            if is_last {
                progress = Progress::default();
                let response = std::mem::take(&mut response);
                shared.locked().injections[number]
                    .response
                    .clone_from(&response);
                inject_into_response(shared, connection, number, &fault, &response);
            }
        }
        pass_unread(shared, connection, Way::ToClient, &mut pending);
    }
    Ok(())
}

/// Reads available bytes and appends them to `pending`. Returns false at the end of the stream.
fn receive(mut from: &TcpStream, pending: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    let length = from.read(&mut buffer)?;
    pending.extend_from_slice(&buffer[..length]);
    Ok(length > 0)
}

/// Forwards the `pending` bytes if the connection is encrypted, because the proxy cannot parse them.
fn pass_unread(shared: &Shared, connection: &Connection, way: Way, pending: &mut Vec<u8>) {
    if shared.is_encrypted(connection) {
        send(shared, connection, way, &std::mem::take(pending));
    }
}

/// Injects `fault` into a complete response.
fn inject_into_response(
    shared: &Shared,
    connection: &Connection,
    number: usize,
    fault: &Fault,
    response: &[u8],
) {
    let pass = |bytes: &[u8]| send(shared, connection, Way::ToClient, bytes);
    match fault {
        Fault::LoseResponse => shared.hit(number),
        Fault::HoldResponse => {
            shared.hit(number);
            shared.wait(connection, |state| state.injections[number].may_go);
            pass(response);
        }
        Fault::ResetAfter => {
            shared.change(|_| connection.end(true));
            shared.hit(number);
        }
        Fault::Truncate(length) => {
            pass(&response[..response.len().min(*length)]);
            shared.change(|_| connection.end(false));
            shared.hit(number);
        }
        Fault::Drip(pause) => {
            shared.hit(number);
            drip(
                shared,
                connection,
                &connection.client,
                response,
                *pause,
                |state| state.injections[number].may_go,
            );
        }
        Fault::Alter(alter) => {
            pass(&alter(response));
            shared.hit(number);
        }
        Fault::RespondAfter(replacement) => {
            pass(replacement);
            shared.hit(number);
        }
        // These faults affect the request, not the response.
        Fault::LoseRequest | Fault::HoldRequest | Fault::Reset | Fault::Respond(_) => {
            pass(response);
        }
    }
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

/// Sends `bytes` in the direction `way`, as the flow in this direction specifies.
fn send(shared: &Shared, connection: &Connection, way: Way, bytes: &[u8]) {
    let mut to = match way {
        Way::ToServer => &connection.server,
        Way::ToClient => &connection.client,
    };
    shared.wait(connection, |state| way.flow(state) != Flow::Hold);
    if connection.course().is_dead {
        return;
    }
    let flow = way.flow(&shared.locked());
    match flow {
        Flow::Lose => {}
        Flow::Drip(pause) => drip(shared, connection, to, bytes, pause, |state| {
            way.flow(state) != flow
        }),
        Flow::Pass | Flow::Hold => {
            let _ = to.write_all(bytes);
        }
    }
}

/// Sends `bytes` one by one, with `pause` after each byte. Sends all remaining bytes in one write as soon as `hurry`
/// returns true.
fn drip(
    shared: &Shared,
    connection: &Connection,
    mut to: &TcpStream,
    bytes: &[u8],
    pause: Duration,
    hurry: impl Fn(&State) -> bool,
) {
    for (at, byte) in bytes.iter().enumerate() {
        if to.write_all(&[*byte]).is_err() || connection.course().is_dead {
            return;
        }
        let next = Instant::now() + pause;
        let mut state = shared.locked();
        while !hurry(&state) && !connection.course().is_dead && Instant::now() < next {
            let left = next.saturating_duration_since(Instant::now());
            let waited = shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if hurry(&state) {
            drop(state);
            let _ = to.write_all(&bytes[at + 1..]);
            return;
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

impl Shared {
    fn is_encrypted(&self, connection: &Connection) -> bool {
        self.locked().sessions[connection.number].is_encrypted
    }

    fn hit(&self, number: usize) {
        self.change(|state| state.injections[number].hits += 1);
    }

    /// Waits until `condition` returns true or the connection is dead.
    fn wait(&self, connection: &Connection, condition: impl Fn(&State) -> bool) {
        let waiting = |state: &mut State| !condition(state) && !connection.course().is_dead;
        drop(self.changed.wait_while(self.locked(), waiting));
    }
}
