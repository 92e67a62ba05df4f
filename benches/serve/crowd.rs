//! The time of a viewer's requests beside 200 slow clients, and the memory of `dlock serve`.
//!
//! A third of the slow clients send a request with one byte per second. The others read one byte per second: half of them
//! `/status.json`, and half of them the overview of the page. A client whose connection is ended connects again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::bench::markdown::{Page, verdict};
use testkit::bench::population::Population;
use testkit::bench::sample::{mebibytes, millis, percentile};
use testkit::http::{Address, Stream};

use crate::running::Served;

const CLIENTS: usize = 200;
const TIME: Duration = Duration::from_mins(1);

/// Target for the memory in bytes.
const MEMORY: u64 = 32 << 20;

/// Measures and writes the section. `populations` contains names and databases.
pub(crate) fn section(page: &mut Page, populations: &[(&str, &Population)]) {
    page.section(
        "A viewer beside slow clients",
        &format!("{CLIENTS} slow clients for {} s. The viewer requests the page and its data again and again.", TIME.as_secs()),
    );
    let (mut rows, mut verdicts) = (Vec::new(), Vec::new());
    for (name, population) in populations {
        let served = Served::start(population, "2s");
        let alone = requests(&served.address, Duration::from_secs(10));
        let is_over = AtomicBool::new(false);
        let mut memory = 0;
        let crowded = thread::scope(|scope| {
            for number in 0..CLIENTS {
                let (address, is_over) = (&served.address, &is_over);
                let kind = SlowClient::ALL[number % SlowClient::ALL.len()];
                scope.spawn(move || kind.run(address, is_over));
            }
            let watcher = scope.spawn(|| {
                let mut largest = 0;
                while !is_over.load(Ordering::Relaxed) {
                    largest = largest.max(served.memory("VmRSS"));
                    thread::sleep(Duration::from_millis(200));
                }
                largest
            });
            let crowded = requests(&served.address, TIME);
            is_over.store(true, Ordering::Relaxed);
            memory = watcher.join().expect("the memory is read");
            crowded
        });
        let [before, during] = [&alone, &crowded].map(|times| percentile(times, 50));
        verdicts.push(format!(
            "{name} actions: answers within twice their usual time: {}; memory below 32 MiB: {}",
            verdict(during <= 2 * before),
            verdict(memory < MEMORY)
        ));
        let cell = |times: &[Duration], part| format!("{} ms", millis(percentile(times, part)));
        rows.push(vec![
            format!("{name} actions"),
            cell(&alone, 50),
            cell(&alone, 90),
            cell(&crowded, 50),
            cell(&crowded, 90),
            format!("{} MiB", mebibytes(memory)),
        ]);
        served.end();
    }
    page.table(
        &[
            "database",
            "alone, median",
            "alone, p90",
            "crowded, median",
            "crowded, p90",
            "largest memory",
        ],
        &rows,
    );
    for verdict in verdicts {
        page.item(verdict);
    }
}

/// Requests the page and its data for `time`. Returns the time of each round of requests.
fn requests(address: &Address, time: Duration) -> Vec<Duration> {
    let start = Instant::now();
    let mut times = Vec::new();
    while start.elapsed() < time {
        let request = Instant::now();
        for path in ["/", "/overview.json", "/action.json?name=job-0000004"] {
            address.request("GET", path, &["Host: localhost"]);
        }
        times.push(request.elapsed());
        thread::sleep(Duration::from_millis(50));
    }
    times
}

/// A client that sends or reads one byte per second.
#[derive(Clone, Copy)]
enum SlowClient {
    Sends,
    ReadsDocument,
    ReadsOverview,
}

impl SlowClient {
    const ALL: [Self; 3] = [Self::Sends, Self::ReadsDocument, Self::ReadsOverview];

    /// Connects again after the end of each connection, until `is_over` is true.
    fn run(self, address: &Address, is_over: &AtomicBool) {
        let path = match self {
            Self::Sends | Self::ReadsDocument => "/status.json",
            Self::ReadsOverview => "/overview.json",
        };
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Long: {}",
            "a".repeat(80)
        );
        while !is_over.load(Ordering::Relaxed) {
            let mut stream = address.connect();
            let mut bytes = request.bytes();
            let is_sent = matches!(self, Self::Sends)
                || (stream.write_all(request.as_bytes()))
                    .and_then(|()| stream.write_all(b"\r\n\r\n"))
                    .is_ok();
            while is_sent && !is_over.load(Ordering::Relaxed) && self.step(&mut stream, &mut bytes)
            {
                thread::sleep(Duration::from_secs(1));
            }
        }
    }

    /// Sends or reads the next byte. Returns false if the connection has ended.
    fn step(self, stream: &mut Box<dyn Stream>, bytes: &mut impl Iterator<Item = u8>) -> bool {
        match self {
            Self::Sends => bytes
                .next()
                .is_some_and(|byte| stream.write_all(&[byte]).is_ok()),
            Self::ReadsDocument | Self::ReadsOverview => {
                stream.read(&mut [0; 1]).is_ok_and(|count| count > 0)
            }
        }
    }
}
