//! Tests of clients that are slow or too many.

use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use testkit::cli_runner::eventually;
use testkit::holder::Holder;
use testkit::http::{HttpResponse, Stream};
use testkit::servers::{Database, Flavour, shared};

use super::Page;

/// Number of slow clients. Each one uses two descriptors of this process or of dlock.
const SLOW: usize = 200;

/// Maximum number of connections of dlock.
const MAX_CONNECTIONS: usize = 600;

/// Bytes that the kernel keeps for a client that does not read: 4 MiB for the server, and 128 KiB for the client.
const KERNEL_BUFFERS: usize = 5 << 20;

/// Number of clients that do not read.
const SLOW_READERS: usize = 4;

/// Returns true if the server has ended the connection.
fn has_ended(stream: &mut Box<dyn Stream>) -> bool {
    match stream.read(&mut [0; 4096]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

fn database_with_rows(count: u32) -> Database {
    let database = shared(Flavour::MariaDb).database("serve");
    Holder::on(&database, &[]).end();
    let names: Vec<_> = (0..count)
        .map(|number| (format!("job-{number}"),))
        .collect();
    let mut conn = database.admin_conn();
    conn.exec_batch("INSERT INTO dlock_lock (action) VALUES (?)", names)
        .expect("the rows are inserted");
    database
}

#[test]
fn clients_that_send_slowly_are_ended_and_delay_nobody() {
    let database = database_with_rows(10);
    let page = Page::on(&database, &[]);
    let mut slow: Vec<_> = (0..SLOW).map(|_| page.address.connect()).collect();
    let start = b"GET / HTTP/1.1\r\nHost: local";
    for stream in &mut slow {
        stream.write_all(&start[..5]).expect("the bytes are sent");
    }
    // One byte in 0.6 s does not postpone the limit for the headers.
    for byte in &start[5..] {
        assert_eq!(
            page.json("/status.json")["locks"].as_array().map(Vec::len),
            Some(11)
        );
        for stream in &mut slow {
            // The server ends the connections during this loop.
            let _ = stream.write_all(&[*byte]);
        }
        thread::sleep(Duration::from_millis(600));
    }
    for stream in &mut slow {
        assert!(has_ended(stream), "the connection is open");
    }
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn viewer_beside_slow_viewers_sees_changes() {
    let (database, page, _) = page_with_a_large_document("1s");
    let slow: Vec<_> = (0..SLOW).map(|_| slow_reader(&page)).collect();
    let mut conn = database.admin_conn();
    conn.query_drop("INSERT INTO dlock_lock (action) VALUES ('later')")
        .expect("the row is inserted");
    eventually("the change is shown", || {
        page.get("/overview.json").body.contains("\"later\"")
    });
    drop(slow);
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn connections_above_the_limit_are_ended() {
    let database = database_with_rows(0);
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
    assert_eq!(page.end().status, Some(0));
}

/// Returns a page whose document `/status.json` is larger than the buffers of the kernel, and the number of its sockets
/// without a client.
fn page_with_a_large_document(interval: &str) -> (Database, Page, usize) {
    let database = database_with_rows(5000);
    let mut conn = database.admin_conn();
    conn.query_drop(
        "UPDATE dlock_lock SET owner_id=REPEAT('x',16),note=REPEAT('x',1000),ttl_us=30000000,\
         acquired_at=UTC_TIMESTAMP(6),renewed_at=UTC_TIMESTAMP(6),expires_at=UTC_TIMESTAMP(6)",
    )
    .expect("the rows are changed");
    let page = Page::on(&database, &["--interval", interval]);
    // The server is connected to the database when it listens.
    let sockets = page.sockets();
    // On a busy machine, the records may not be read in time, and the response is then 503.
    eventually("the document is complete", || {
        page.get("/status.json").body.len() > KERNEL_BUFFERS
    });
    eventually("the connection is closed", || page.sockets() == sockets);
    (database, page, sockets)
}

/// Starts to read the document.
fn slow_reader(page: &Page) -> Box<dyn Stream> {
    let mut stream = page.address.connect();
    stream
        .write_all(b"GET /status.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("the request is sent");
    stream
}

#[test]
fn client_that_reads_20_kib_per_second_gets_the_whole_document() {
    // One query is enough for this test. Another document would replace this one.
    let (_database, page, _) = page_with_a_large_document("1m");
    let mut stream = slow_reader(&page);
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
    assert_eq!(
        response.headers["content-length"],
        response.body.len().to_string()
    );
    assert!(response.body.len() > KERNEL_BUFFERS);
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn clients_that_do_not_read_are_ended() {
    // One query is enough for this test, so the connection to the database stays.
    let (_database, page, before) = page_with_a_large_document("1m");
    let _slow: Vec<_> = (0..SLOW_READERS).map(|_| slow_reader(&page)).collect();
    eventually("the connections are accepted", || {
        page.sockets() == before + SLOW_READERS
    });
    eventually("the connections are ended", || page.sockets() == before);
    assert_eq!(page.get("/healthz").status, 200);
    assert_eq!(page.end().status, Some(0));
}
