//! The time of a viewer's requests beside 200 slow clients, and the memory of `dlock serve`.
//!
//! A third of the slow clients send a request with one byte per second. The others read one byte per second: half of them
//! `/status.json`, and half of them the overview of the page. A client whose connection is ended connects again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::bench::host;
use testkit::bench::markdown::{Page, verdict};
use testkit::bench::population::Population;
use testkit::bench::sample::{mebibytes, millis, percentile};
use testkit::http::{Address, Stream};

use crate::serve;

const CLIENTS: usize = 200;
const TIME: Duration = Duration::from_mins(1);

/// Target for the memory in bytes.
const MEMORY: u64 = 32 << 20;

pub(crate) fn section(page: &mut Page, population: &Population) {
    page.section(
        "A viewer beside slow clients",
        &format!("{CLIENTS} slow clients for {TIME:?}. The viewer requests the page and its data again and again."),
    );
    let (dlock, address) = serve(population, "2s");
    let mut rows = Vec::new();
    let mut add = |viewers: &str, times: &[Duration]| {
        let [median, high] = [50, 90].map(|part| percentile(times, part));
        let memory = host::memory(dlock.pid(), "VmHWM");
        let cells = [
            viewers.to_owned(),
            millis(median),
            millis(high),
            mebibytes(memory),
        ];
        rows.push(cells.to_vec());
        (median, memory)
    };
    let (alone, _) = add("one", &requests(&address, Duration::from_secs(10)));
    let is_over = AtomicBool::new(false);
    let crowded = thread::scope(|scope| {
        for number in 0..CLIENTS {
            let kind = SlowClient::ALL[number % SlowClient::ALL.len()];
            let (address, is_over) = (&address, &is_over);
            scope.spawn(move || kind.run(address, is_over));
        }
        let crowded = requests(&address, TIME);
        is_over.store(true, Ordering::Relaxed);
        crowded
    });
    let (crowded, memory) = add(&format!("one beside {CLIENTS} slow ones"), &crowded);
    let head = "viewers | median, ms | p90 | largest memory in MiB";
    page.table(head, &rows);
    page.item(format_args!(
        "answers within twice their usual time: {}; memory below 32 MiB: {}",
        verdict(crowded <= 2 * alone),
        verdict(memory < MEMORY)
    ));
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
