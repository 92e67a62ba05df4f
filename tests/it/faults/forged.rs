//! What comes back is not what a server says: malformed, cut, empty, endless, or made to be shown.

use std::io::{Read, Write, copy, sink};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use super::{Scene, on_each, on_each_case};
use crate::dlock::{Dlock, Outcome};
use crate::network::local;
use crate::proxy::wire::packets;
use crate::proxy::{Fault, Kind, packet};
use crate::servers::{Flavour, shared};

/// Makes something else of a reply.
type Mangle = (&'static str, fn(&[u8]) -> Vec<u8>);

/// An error of no known kind, with a text that clears the screen, moves the cursor and begins lines of its own.
const HOSTILE: &[u8] =
    b"\xff\x17\x07#HY000\x1b[2Jdlock: lost init\r\ndlock: \xc2\x9b0m\xe2\x80\xae\x00\xff\xfe";

const MANGLES: [Mangle; 13] = [
    ("an empty packet", |_| packet(1, &[])),
    ("an empty packet in the middle", |reply| {
        let mut all = packets(reply);
        all.insert(1, packet(2, &[]));
        all.concat()
    }),
    ("wrong sequence numbers", |reply| {
        let mut all = packets(reply);
        for packet in &mut all {
            packet[3] ^= 0x40;
        }
        all.concat()
    }),
    ("a packet without its end", |reply| {
        reply[..reply.len() - 3].to_vec()
    }),
    ("a packet larger than all that is allowed", |_| {
        [&[0xff, 0xff, 0xff, 1][..], &[7; 70_000]].concat()
    }),
    ("a table of more columns than memory", |_| {
        packet(1, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f")
    }),
    ("a row that ends too early", |reply| {
        let mut all = packets(reply);
        let row = all.len() - 2;
        all[row] = packet(all[row][3], &[8, 1, 2]);
        all.concat()
    }),
    ("no rows", |reply| {
        let mut all = packets(reply);
        let row = all.len() - 2;
        all.remove(row);
        all.concat()
    }),
    ("a file is asked for", |_| packet(1, b"\xfb/etc/passwd")),
    ("nothing but success", |_| packet(1, &[0, 1, 0, 2, 0, 0, 0])),
    ("success, and more that never comes", |_| {
        packet(1, &[0, 1, 0, 10, 0, 0, 0])
    }),
    ("everything twice", |reply| reply.repeat(2)),
    ("a hostile error", |_| packet(1, HOSTILE)),
];

fn mangled(mangle: fn(&[u8]) -> Vec<u8>) -> Fault {
    Fault::Alter(Arc::new(mangle))
}

/// Asserts that dlock neither fell over nor passed on what drives a terminal.
#[track_caller]
fn dignified(outcome: &Outcome) {
    let said = &outcome.stderr;
    let is_plain = |c: char| c == '\n' || (!c.is_control() && c != '\u{202e}');
    assert!(
        !said.contains("internal error")
            && said.chars().all(is_plain)
            && said.lines().all(|line| line.starts_with("dlock: ")),
        "{outcome:#?}"
    );
}

#[test]
fn an_attempt_whose_reply_makes_no_sense_is_made_again() {
    on_each_case(&MANGLES, |scene, name, mangle| {
        scene.proxy.next(Kind::Attempt, mangled(mangle));
        let outcome = scene.faulty("holder", &[], "exit 4").run();
        assert_eq!(outcome.status, Some(4), "{name}: {outcome:#?}");
        dignified(&outcome);
        scene.free();
        scene.over(&["holder"]);
    });
}

#[test]
fn a_renewal_whose_reply_makes_no_sense_never_touches_the_command() {
    on_each_case(&MANGLES, |scene, name, mangle| {
        let holder = scene.holder(&["--verbose"]);
        scene.proxy.next(Kind::Renew, mangled(mangle)).wait();
        scene.renewed();
        scene.renewed();
        let outcome = holder.end();
        assert_eq!(outcome.status, Some(4), "{name}: {outcome:#?}");
        dignified(&outcome);
        scene.free();
    });
}

#[test]
fn a_release_whose_reply_makes_no_sense_changes_neither_the_status_nor_the_row() {
    on_each_case(&MANGLES, |scene, name, mangle| {
        scene.proxy.next(Kind::Release, mangled(mangle));
        let outcome = scene.faulty("holder", &[], "exit 4").run();
        assert_eq!(outcome.status, Some(4), "{name}: {outcome:#?}");
        dignified(&outcome);
        scene.free();
    });
}

#[test]
fn a_reply_with_any_byte_changed_never_makes_a_contender_believe_that_it_holds_the_lock() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let holder = scene.holder(&["--ttl", "1m"]);
        let mut seed: u32 = 1;
        let changed = move |reply: &[u8]| {
            let mut reply = reply.to_vec();
            for _ in 0..3 {
                // Numerical Recipes' generator: the same bytes in every run.
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (seed >> 8) as usize % reply.len();
                reply[at] ^= 1 << (seed >> 29);
            }
            reply
        };
        let changed = std::sync::Mutex::new(changed);
        let alter = move |reply: &[u8]| (changed.lock().expect("no other panics"))(reply);
        let case = scene
            .proxy
            .every(Kind::Attempt, Fault::Alter(Arc::new(alter)));
        for round in 0..40 {
            let options = ["--ttl", "2s", "--wait", "0", "--db-wait", "0"];
            let outcome = scene.faulty("thief", &options, "").run();
            assert!(
                matches!(outcome.status, Some(69 | 75 | 77 | 78)),
                "{flavour}, round {round}: {outcome:#?}"
            );
            dignified(&outcome);
        }
        // On a busy machine some do not get as far as that.
        assert!(case.hits() > 20, "{flavour}: {} hits", case.hits());
        holder.unharmed();
        scene.over(&["holder"]);
    });
}

/// The port of somebody who says `first` to every client, `second` when that has answered, and then nothing, or hangs up.
#[track_caller]
fn impostor(first: Vec<u8>, second: Vec<u8>, hangs_up: bool) -> u16 {
    let listener = TcpListener::bind(local(0)).expect("127.0.0.1 has a port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.expect("a connection can be accepted");
            let (first, second) = (first.clone(), second.clone());
            thread::spawn(move || talk(client, &first, &second, hangs_up));
        }
    });
    port
}

fn talk(mut client: TcpStream, first: &[u8], second: &[u8], hangs_up: bool) {
    // The client may hang up whenever it likes.
    let _ = client.write_all(first);
    if !second.is_empty() && matches!(client.read(&mut [0; 4096]), Ok(1..)) {
        let _ = client.write_all(second);
    }
    if hangs_up {
        let _ = client.shutdown(Shutdown::Write);
    }
    let _ = copy(&mut client, &mut sink());
}

/// What the server on `port` says first.
#[track_caller]
fn greeting(port: u16) -> Vec<u8> {
    let mut server = TcpStream::connect(local(port)).expect("the server listens");
    let mut greeting = vec![0; 4];
    server.read_exact(&mut greeting).expect("it greets");
    let mut rest = vec![0; usize::from(greeting[0])];
    server.read_exact(&mut rest).expect("it greets");
    greeting.extend(rest);
    greeting
}

#[test]
fn whoever_is_no_server_is_left_in_time_with_69_and_runs_nothing() {
    for flavour in Flavour::ALL {
        let good = greeting(shared(flavour).port());
        let none = Vec::new;
        let firsts = [
            ("nothing", none()),
            ("an empty packet", packet(0, &[])),
            ("half a greeting", good[..good.len() / 2].to_vec()),
            ("another protocol", packet(0, &[9, b'3', 0])),
            ("a web server", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
            ("a login shell", b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()),
            ("a packet without end", vec![0xff; 70_000]),
            ("a hostile error", packet(0, HOSTILE)),
        ];
        let seconds = [
            ("an empty packet", packet(2, &[])),
            ("half a packet", vec![7, 0, 0, 2, 0]),
            ("a switch to nothing", packet(2, &[0xfe])),
            (
                "a switch without a challenge",
                packet(2, b"\xfemysql_native_password\0"),
            ),
            ("more to come", packet(2, &[1])),
            (
                "a key that is none",
                packet(2, b"\x01-----BEGIN PUBLIC KEY-----"),
            ),
            ("a hostile error", packet(2, HOSTILE)),
            ("a wrong number", packet(77, &[0, 0, 0, 2, 0, 0, 0])),
            ("a table", packet(2, &[3])),
        ];
        let firsts = firsts.map(|(name, first)| (name, first, none()));
        let seconds = seconds.map(|(name, second)| (name, good.clone(), second));
        let cases = firsts.into_iter().chain(seconds);
        thread::scope(|scope| {
            for (name, first, second) in cases {
                for hangs_up in [false, true] {
                    let port = impostor(first.clone(), second.clone(), hangs_up);
                    scope.spawn(move || left(port, name, hangs_up));
                }
            }
        });
    }
}

#[track_caller]
fn left(port: u16, name: &str, hangs_up: bool) {
    let options = ["exec", "-a", "init", "--ttl", "3s", "--db-wait", "1s"];
    let outcome = Dlock::new(options)
        .args(["--", "echo", "ran"])
        .env("DLOCK_URL", format!("mysql://u:p@127.0.0.1:{port}/d"))
        .run();
    assert!(
        outcome.status == Some(69) && outcome.stdout.is_empty(),
        "{name}, hangs up: {hangs_up}: {outcome:#?}"
    );
    dignified(&outcome);
}
