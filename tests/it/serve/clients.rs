//! Tests of clients that are slow or too many.

use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use testkit::cli_runner::eventually;
use testkit::http::{HttpResponse, Stream};
use testkit::servers::{Database, Flavour};

use super::{Page, create_actions, database};

/// Number of clients that send slowly. Each one uses two descriptors of this process or of dlock.
const SLOW_SENDERS: usize = 200;

/// Maximum number of connections of dlock.
const MAX_CONNECTIONS: usize = 600;

/// Bytes that the kernel keeps for a client that does not read: 4 MiB for the server, and 128 KiB for the client.
const KERNEL_BUFFERS: usize = 5 << 20;

/// Number of clients that do not read the document that they request.
const SLOW_READERS: usize = 5;

fn has_ended(stream: &mut Box<dyn Stream>) -> bool {
    match stream.read(&mut [0; 4096]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[test]
fn clients_that_send_slowly_are_ended_and_delay_nobody() {
    let database = database(Flavour::of_this_test());
    let page = Page::on(&database, &[]);
    let mut slow: Vec<_> = (0..SLOW_SENDERS).map(|_| page.address.connect()).collect();
    let start = b"GET / HTTP/1.1\r\nHost: local";
    for stream in &mut slow {
        stream.write_all(&start[..5]).expect("the bytes are sent");
    }
    // One byte in 0.6 s does not postpone the limit for the headers.
    for byte in &start[5..] {
        assert_eq!(page.json("/status.json")["locks"][0]["action"], "init");
        for stream in &mut slow {
            // The server ends the connections during this loop.
            let _ = stream.write_all(&[*byte]);
        }
        thread::sleep(Duration::from_millis(600));
    }
    for stream in &mut slow {
        assert!(has_ended(stream), "the connection is open");
    }
}

#[test]
fn connections_above_the_limit_are_ended() {
    let database = database(Flavour::of_this_test());
    let page = Page::on(&database, &[]);
    let start = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answers = |stream: &mut Box<dyn Stream>| {
        stream.write_all(start).is_ok() && matches!(stream.read(&mut [0; 512]), Ok(1..))
    };
    let mut open: Vec<_> = (0..MAX_CONNECTIONS)
        .map(|_| page.address.connect())
        .collect();
    assert!(open.iter_mut().all(answers));
    assert!(!answers(&mut page.address.connect()));
    open.pop();
    eventually("another connection is accepted", || {
        answers(&mut page.address.connect())
    });
}

/// Returns a page whose document `/status.json` is larger than the buffers of the kernel, the clients that have requested
/// the document, and the number of the page's sockets without clients.
fn slow_readers(database: &Database, interval: &str) -> (Page, Vec<Box<dyn Stream>>, usize) {
    create_actions(database, "job-", 3000);
    database.run("UPDATE dlock_lock SET owner_id=REPEAT('x',16),note=REPEAT('x',1000),command=REPEAT('x',255),ttl_us=30000000,\
         acquired_at=UTC_TIMESTAMP(6),renewed_at=UTC_TIMESTAMP(6),expires_at=UTC_TIMESTAMP(6)");
    let page = Page::on(database, &["--interval", interval]);
    // The server is connected to the database when it listens.
    let sockets = page.sockets();
    // On a busy machine, the records may not be read in time, and the response is then 503.
    eventually("the document is complete", || {
        page.get("/status.json").body.len() > KERNEL_BUFFERS
    });
    eventually("the connection is closed", || page.sockets() == sockets);
    let request = b"GET /status.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let start = |_| {
        let mut stream = page.address.connect();
        stream.write_all(request).expect("the request is sent");
        stream
    };
    let readers = (0..SLOW_READERS).map(start).collect();
    (page, readers, sockets)
}

#[test]
fn viewer_beside_slow_viewers_sees_changes() {
    let database = database(Flavour::of_this_test());
    let (page, _readers, _) = slow_readers(&database, "1s");
    database.run("INSERT INTO dlock_lock (action) VALUES ('later')");
    eventually("the change is shown", || {
        page.get("/overview.json").body.contains("\"later\"")
    });
}

#[test]
fn clients_that_do_not_read_are_ended_but_not_one_that_reads_20_kib_per_second() {
    let database = database(Flavour::of_this_test());
    // One query is enough for this test. Another document would replace this one.
    let (page, mut readers, sockets) = slow_readers(&database, "1m");
    eventually("the connections are accepted", || {
        page.sockets() == sockets + SLOW_READERS
    });
    let mut stream = readers.pop().expect("a client");
    let start = Instant::now();
    let mut bytes = Vec::new();
    // Longer than twice the limit of 10 s. The clock sets the pace, so that a busy machine reads more in one step.
    while start.elapsed() < Duration::from_secs(22) {
        thread::sleep(Duration::from_millis(100));
        let due = u64::try_from(start.elapsed().as_millis()).expect("a short time") * 20_480 / 1000;
        let mut step = vec![0; usize::try_from(due).expect("a part of the document") - bytes.len()];
        (stream.read_exact(&mut step))
            .unwrap_or_else(|error| panic!("after {} bytes: {error}", bytes.len()));
        bytes.append(&mut step);
    }
    // The kernel does not keep the whole document. An ended connection would have lost the rest.
    stream
        .read_to_end(&mut bytes)
        .expect("the connection is open");
    let response = HttpResponse::parse(&String::from_utf8(bytes).expect("the response is UTF-8"));
    let length = response.body.len();
    assert_eq!(response.headers["content-length"], length.to_string());
    assert!(length > KERNEL_BUFFERS);
    eventually("the other connections are ended", || {
        page.sockets() == sockets
    });
    assert_eq!(page.get("/healthz").status, 200);
}
