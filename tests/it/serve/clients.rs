//! Tests of clients that are slow or too many.

use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::Duration;

use super::Page;
use super::http::Stream;
use crate::cli_runner::eventually;
use crate::holder::Holder;
use crate::servers::{Database, Flavour, shared};

/// Number of slow clients. Each one uses two descriptors of this process or of dlock.
const SLOW: usize = 200;

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
    use mysql::prelude::Queryable;
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
fn clients_that_do_not_read_are_ended() {
    // The document is larger than the buffers of the kernel.
    let database = database_with_rows(20_000);
    let page = Page::on(&database, &[]);
    let sockets = || {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", page.running.pid()));
        let is_socket = |entry: &std::io::Result<std::fs::DirEntry>| {
            let link = entry
                .as_ref()
                .ok()
                .and_then(|entry| std::fs::read_link(entry.path()).ok());
            link.is_some_and(|link| link.to_string_lossy().starts_with("socket:"))
        };
        folder.expect("dlock runs").filter(is_socket).count()
    };
    // The server is connected to the database when it listens.
    let before = sockets();
    let mut slow: Vec<_> = (0..SLOW_READERS).map(|_| page.address.connect()).collect();
    for stream in &mut slow {
        stream
            .write_all(b"GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .expect("the request is sent");
    }
    eventually("the connections are accepted", || {
        sockets() == before + SLOW_READERS
    });
    eventually("the connections are ended", || sockets() == before);
    assert_eq!(page.get("/healthz").status, 200);
    assert_eq!(page.end().status, Some(0));
}
