//! Responses that no real server sends: malformed, cut off, empty or endless responses, and error messages that attack
//! the terminal.

use std::io::{Read, Write, copy, sink};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use testkit::cli_runner::{Dlock, Outcome};
use testkit::holder::wait_renewals;
use testkit::network::local;
use testkit::proxy::wire::packets;
use testkit::proxy::{Fault, Kind, packet};
use testkit::servers::{Flavour, shared};

use super::{Scene, on_each, on_each_case};

/// A name and a function that corrupts a response.
type Corruption = (&'static str, fn(&[u8]) -> Vec<u8>);

/// An error packet with an unknown code and a message that clears the screen, moves the cursor and starts new lines.
const HOSTILE: &[u8] =
    b"\xff\x17\x07#HY000\x1b[2Jdlock: lost init\r\ndlock: \xc2\x9b0m\xe2\x80\xae\x00\xff\xfe";

const CORRUPTIONS: [Corruption; 13] = [
    ("an empty packet", |_| packet(1, &[])),
    ("an empty packet in the middle", |response| {
        let mut all = packets(response);
        all.insert(1, packet(2, &[]));
        all.concat()
    }),
    ("wrong sequence numbers", |response| {
        let mut all = packets(response);
        for packet in &mut all {
            packet[3] ^= 0x40;
        }
        all.concat()
    }),
    ("a packet without its end", |response| {
        response[..response.len() - 3].to_vec()
    }),
    ("a packet larger than allowed", |_| {
        [&[0xff, 0xff, 0xff, 1][..], &[7; 70_000]].concat()
    }),
    ("more columns than fit in memory", |_| {
        packet(1, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f")
    }),
    ("a row that ends too early", |response| {
        let mut all = packets(response);
        let row = all.len() - 2;
        all[row] = packet(all[row][3], &[8, 1, 2]);
        all.concat()
    }),
    ("no rows", |response| {
        let mut all = packets(response);
        let row = all.len() - 2;
        all.remove(row);
        all.concat()
    }),
    ("a request for a file", |_| packet(1, b"\xfb/etc/passwd")),
    ("success without rows", |_| {
        packet(1, &[0, 1, 0, 2, 0, 0, 0])
    }),
    ("success, and a further result that never arrives", |_| {
        packet(1, &[0, 1, 0, 10, 0, 0, 0])
    }),
    ("the response twice", |response| response.repeat(2)),
    ("a hostile error", |_| packet(1, HOSTILE)),
];

/// Asserts that dlock reported no internal error and printed no control characters.
#[track_caller]
fn assert_clean(outcome: &Outcome) {
    let stderr = &outcome.stderr;
    let is_plain = |c: char| c == '\n' || (!c.is_control() && c != '\u{202e}');
    let is_expected = !stderr.contains("internal error") && stderr.chars().all(is_plain);
    let mut lines = stderr.lines();
    assert!(
        is_expected && lines.all(|line| line.starts_with("dlock: ")),
        "{outcome:#?}"
    );
}

#[test]
fn a_request_with_a_malformed_response_is_retried_and_does_not_affect_the_command() {
    on_each_case(&CORRUPTIONS, |scene, name, corrupt| {
        let corrupted = |kind| scene.proxy.next(kind, Fault::Alter(Arc::new(corrupt)));
        let attempt = corrupted(Kind::TryAcquire);
        let holder = scene.holder(&["--verbose"]);
        attempt.wait();
        corrupted(Kind::Renew).wait();
        wait_renewals(&scene.database, 2);
        let release = corrupted(Kind::Release);
        let outcome = holder.end();
        release.wait();
        assert_eq!(outcome.status, Some(4), "{name}: {outcome:#?}");
        assert_clean(&outcome);
        scene.free();
        scene.over(&["holder"]);
    });
}

#[test]
fn a_corrupted_response_never_grants_the_lock() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let holder = scene.holder(&["--ttl", "1m"]);
        let mut seed: u32 = 1;
        let changed = move |response: &[u8]| {
            let mut response = response.to_vec();
            for _ in 0..3 {
                // Uses the linear congruential generator of Numerical Recipes, so that every test run changes the same
                // bits.
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (seed >> 8) as usize % response.len();
                response[at] ^= 1 << (seed >> 29);
            }
            response
        };
        let changed = Mutex::new(changed);
        let alter =
            move |response: &[u8]| (changed.lock().expect("no other thread panics"))(response);
        let alter = Fault::Alter(Arc::new(alter));
        let case = scene.proxy.every(Kind::TryAcquire, alter);
        for round in 0..24 {
            let options = ["--ttl", "2s", "--wait", "0", "--connect-timeout", "0"];
            let outcome = scene.faulty("thief", &options, "").run();
            let is_refused = matches!(outcome.status, Some(69 | 75 | 77 | 78));
            assert!(is_refused, "{flavour}, round {round}: {outcome:#?}");
            assert_clean(&outcome);
        }
        // On a busy machine some runs time out before their attempt to acquire the lock.
        assert!(case.hits() > 12, "{flavour}: {} hits", case.hits());
        holder.unharmed();
        scene.over(&["holder"]);
    });
}

/// Starts a fake server that sends `first` to every client, and `second` after the client has sent something. If
/// `hangs_up` is true, the server then closes its side of the connection. Returns the port of the server.
#[track_caller]
fn fake_server(first: Vec<u8>, second: Vec<u8>, hangs_up: bool) -> u16 {
    let listener = TcpListener::bind(local(0)).expect("127.0.0.1 has a free port");
    let port = listener.local_addr().expect("the socket is bound").port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.expect("a connection can be accepted");
            let (first, second) = (first.clone(), second.clone());
            thread::spawn(move || serve(client, &first, &second, hangs_up));
        }
    });
    port
}

fn serve(mut client: TcpStream, first: &[u8], second: &[u8], hangs_up: bool) {
    // All errors are ignored, since the client may close the connection at any time.
    let _ = client.write_all(first);
    if !second.is_empty() && matches!(client.read(&mut [0; 4096]), Ok(1..)) {
        let _ = client.write_all(second);
    }
    if hangs_up {
        let _ = client.shutdown(Shutdown::Write);
    }
    let _ = copy(&mut client, &mut sink());
}

/// Returns the greeting of the server on `port`.
#[track_caller]
fn greeting(port: u16) -> Vec<u8> {
    let mut server = TcpStream::connect(local(port)).expect("the server listens");
    let mut greeting = vec![0; 4];
    let header = server.read_exact(&mut greeting);
    header.expect("the server sends a greeting");
    let length = 4 + usize::from(greeting[0]);
    greeting.resize(length, 0);
    let payload = server.read_exact(&mut greeting[4..]);
    payload.expect("the server sends a greeting");
    greeting
}

#[test]
fn a_peer_that_is_not_a_server_times_out_with_69() {
    const NO_CHALLENGE: &[u8] = b"\xfemysql_native_password\0";
    const INVALID_KEY: &[u8] = b"\x01-----BEGIN PUBLIC KEY-----";
    let good = greeting(shared(Flavour::of_this_test()).port());
    let firsts = [
        ("nothing", Vec::new()),
        ("an empty packet", packet(0, &[])),
        ("half a greeting", good[..good.len() / 2].to_vec()),
        ("another protocol", packet(0, &[9, b'3', 0])),
        ("a web server", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ("an SSH server", b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()),
        ("a packet without end", vec![0xff; 70_000]),
        ("a hostile error", packet(0, HOSTILE)),
    ];
    let seconds = [
        ("an empty packet", packet(2, &[])),
        ("half a packet", vec![7, 0, 0, 2, 0]),
        ("a switch without a plugin", packet(2, b"\xfe")),
        ("a switch without a challenge", packet(2, NO_CHALLENGE)),
        ("empty authentication data", packet(2, &[1])),
        ("an invalid key", packet(2, INVALID_KEY)),
        ("a hostile error", packet(2, HOSTILE)),
        ("a wrong number", packet(77, &[0, 0, 0, 2, 0, 0, 0])),
        ("a table", packet(2, &[3])),
    ];
    thread::scope(|scope| {
        let gives_up = |name: &'static str, first: &Vec<u8>, second: &Vec<u8>| {
            for hangs_up in [false, true] {
                let port = fake_server(first.clone(), second.clone(), hangs_up);
                scope.spawn(move || assert_gives_up(port, name, hangs_up));
            }
        };
        for (name, first) in &firsts {
            gives_up(name, first, &Vec::new());
        }
        for flavour in Flavour::ALL {
            let greeting = greeting(shared(flavour).port());
            for (name, second) in &seconds {
                gives_up(name, &greeting, second);
            }
        }
    });
}

#[track_caller]
fn assert_gives_up(port: u16, name: &str, hangs_up: bool) {
    let options = ["exec", "-a", "init", "--ttl=3s", "--connect-timeout=1s"];
    println!("{name}, server hangs up: {hangs_up}");
    let outcome = Dlock::new(options)
        .args(["--", "echo", "ran"])
        .env("DLOCK_URL", format!("mysql://u:p@127.0.0.1:{port}/d"))
        .run();
    outcome.expect(69, "", "dlock: ");
    assert_clean(&outcome);
}
