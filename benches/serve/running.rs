//! Starts `dlock serve`, and reads its memory.

use std::fs;

use testkit::bench::population::Population;
use testkit::cli_runner::{Dlock, Running};
use testkit::http::Address;

/// A running `dlock serve`.
pub(crate) struct Served {
    pub(crate) running: Running,
    pub(crate) address: Address,
}

impl Served {
    /// Serves the locks of `population`. Two queries are at least `interval` apart.
    pub(crate) fn start(population: &Population, interval: &str) -> Self {
        let options = ["serve", "--listen=127.0.0.1:0", "--interval", interval];
        let running = Dlock::on(&population.database, options).start();
        running.wait_for_output("listening on http://");
        let printed = running.stderr_so_far();
        let (_, rest) = printed.split_once("http://").expect("an address");
        let (address, _) = rest.split_once('/').expect("the end of the address");
        Self {
            running,
            address: Address::Tcp(address.parse().expect("an address")),
        }
    }

    /// Returns the memory of the process in bytes: the present one (`VmRSS`) or the largest one so far (`VmHWM`).
    pub(crate) fn memory(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.running.pid()));
        let status = status.expect("dlock runs");
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let value = line.and_then(|line| line.trim_start_matches(':').trim().strip_suffix(" kB"));
        let kilobytes: u64 = value
            .and_then(|value| value.trim().parse().ok())
            .expect("a size");
        kilobytes << 10
    }

    /// Ends `dlock serve`.
    pub(crate) fn end(self) {
        self.running.signal("TERM");
        assert_eq!(self.running.wait().status, Some(0));
    }
}
