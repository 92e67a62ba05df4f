//! The section `screen`: how long a user waits for the output of `dlock status --all` with 10 000 actions, beyond the
//! query.
//!
//! The baseline is the query alone: this program connects to the server, sends the statement of `dlock status --all`
//! with the same driver, and reads all rows, but uses none of them. The statement is taken from the server's log. The
//! difference therefore contains everything else that dlock does: the start of the process, the conversion of the rows,
//! and sorting, formatting and writing the table. `dlock status --all --check`, which prints nothing, is measured too. It
//! shows how much of the difference is the table.

use std::fs::File;
use std::io::Read;
use std::process::Child;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};
use testkit::bench::machine;
use testkit::bench::markdown::{Page, verdict};
use testkit::bench::population::Population;
use testkit::bench::pty::open_pty;
use testkit::bench::sample::{millis, percentile};
use testkit::servers::{Flavour, Server};

use crate::WARM_UP;

/// Number of actions. A quarter of them is held, and a tenth of the held actions has two waiters. All actions have a
/// run in the history.
const ACTIONS: u32 = 10_000;
const HELD: u32 = ACTIONS / 4;
const AWAITED: u32 = HELD / 10;

/// Number of lines on the first screen, including the heading.
const LINES: usize = 24;
const COLUMNS: u16 = 80;

/// Target: the maximum time until the first screen, beyond the query.
const LIMIT: Duration = Duration::from_millis(100);

/// Where `dlock status --all` writes the table.
#[derive(Clone, Copy)]
enum Output {
    Pipe,
    WidePipe,
    Terminal,
}

impl Output {
    const ALL: [Self; 3] = [Self::Pipe, Self::WidePipe, Self::Terminal];

    fn name(self) -> &'static str {
        match self {
            Self::Pipe => "`dlock status --all`, pipe",
            Self::WidePipe => "`dlock status --all --wide`, pipe",
            Self::Terminal => "`dlock status --all`, terminal with 80 columns",
        }
    }

    /// Starts the program. Returns the process, and the output to read.
    fn start(self, population: &Population) -> (Child, File) {
        let arguments: &[&str] = match self {
            Self::WidePipe => &["status", "--all", "--wide"],
            Self::Pipe | Self::Terminal => &["status", "--all"],
        };
        let mut command = population.dlock(arguments);
        let (output, input) = match self {
            Self::Terminal => open_pty(COLUMNS, u16::try_from(LINES).expect("a small number")),
            Self::Pipe | Self::WidePipe => {
                let (output, input) = std::io::pipe().expect("a descriptor is available");
                let [output, input] =
                    [output.into(), input.into()].map(|end: std::os::fd::OwnedFd| File::from(end));
                (output, input)
            }
        };
        let child = command.stdout(input).spawn().expect("dlock starts");
        (child, output)
    }

    /// Runs the program once. Returns the time until the first screen was read, and the time until the end.
    fn run(self, population: &Population) -> [Duration; 2] {
        let start = Instant::now();
        let (mut child, mut output) = self.start(population);
        let mut first = None;
        let mut lines = 0;
        let mut bytes = vec![0; 1 << 16];
        // When the program has ended, a read of a pipe returns 0, and a read of a terminal fails.
        while let Ok(count @ 1..) = output.read(&mut bytes) {
            lines += bytes[..count].split(|byte| *byte == b'\n').count() - 1;
            if lines >= LINES && first.is_none() {
                first = Some(start.elapsed());
            }
        }
        let end = start.elapsed();
        let status = child.wait().expect("dlock is a child");
        assert!(status.success(), "{}: {status}", self.name());
        assert!(lines >= ACTIONS as usize, "{}: {lines} lines", self.name());
        [first.expect("the first lines were read"), end]
    }
}

/// Returns the statement that `dlock status --all` sends, from the server's general log.
fn statement(server: &Server, population: &Population) -> String {
    let mut admin = server.admin();
    let mut run = |statement: &str| admin.query_drop(statement).expect("root may log");
    run("SET GLOBAL log_output='TABLE'");
    run("SET GLOBAL general_log=1");
    let status = population.dlock(&["status", "--all"]).status();
    assert!(status.expect("dlock starts").success(), "dlock status");
    run("SET GLOBAL general_log=0");
    let logged = "SELECT CAST(argument AS CHAR) FROM mysql.general_log \
                  WHERE argument LIKE '%LEFT JOIN dlock_lock%' ORDER BY LENGTH(argument) DESC LIMIT 1";
    let logged = admin.query_first(logged).expect("root can read the log");
    logged.expect("the server logged the statement")
}

/// Runs the baseline once. Returns the time from before the connection to the last row.
fn query(population: &Population, statement: &str) -> Duration {
    let start = Instant::now();
    let options = Opts::from_url(&population.database.url()).expect("the URL is valid");
    let mut session = Conn::new(options).expect("the server accepts the account");
    let mut sets = session.query_iter(statement).expect("the server responds");
    let mut rows = 0;
    while let Some(set) = sets.iter() {
        for row in set {
            row.expect("the server sends a row");
            rows += 1;
        }
    }
    let time = start.elapsed();
    assert!(rows >= ACTIONS as usize - 1, "{rows} rows");
    time
}

/// Runs `dlock status --all --check` once. Returns the time of the whole process.
fn check(population: &Population) -> Duration {
    let start = Instant::now();
    let status = population.dlock(&["status", "--all", "--check"]).status();
    let time = start.elapsed();
    let held = dlock::exit::Status::HELD.code();
    let status = status.expect("dlock starts").code();
    assert_eq!(status, Some(held.into()), "dlock status --all --check");
    time
}

/// The times of one kind of output on one server, one of each kind for each round.
struct Times {
    name: String,
    query: Vec<Duration>,
    check: Vec<Duration>,
    first: Vec<Duration>,
    end: Vec<Duration>,
}

/// Measures both servers, one after the other, and writes the section.
pub(crate) fn section(page: &mut Page, rounds: usize) {
    let mut rows = Vec::new();
    let mut versions = Vec::new();
    for flavour in Flavour::ALL {
        let server = Server::start(flavour, &[]);
        versions.push(server.version().to_owned());
        let population = Population::with_waiters(&server, ACTIONS, HELD, AWAITED);
        let statement = statement(&server, &population);
        for output in Output::ALL {
            let times = measure(output, &population, &statement, rounds);
            rows.push(row(&times, flavour));
        }
    }
    page.section(
        "The first screen",
        &format!(
            "{ACTIONS} actions, {HELD} of them held, {AWAITED} of these with two waiters, and a run of each action in \
             the history, on {}. In each of {rounds} rounds, each program runs once. The query is the time in which \
             this program connects, sends the same statement with the same driver and reads all rows. `--check` is \
             the whole process `dlock status --all --check`. The first screen is the time from the fork until {LINES} \
             lines were read. The differences are calculated for each round. All values are medians in milliseconds, \
             except the p90.",
            versions.join(" and "),
        ),
    );
    let target = format!("first screen ≤ query + {}", LIMIT.as_millis());
    let head = [
        "",
        "query",
        "`--check`",
        "first screen",
        "end",
        "first screen beyond the query",
        "p90",
        "first screen beyond `--check`",
        "end beyond the query",
        &target,
    ];
    page.table(&head, &rows);
    page.section("Load", &machine::load());
}

fn measure(output: Output, population: &Population, statement: &str, rounds: usize) -> Times {
    let mut times = Times {
        name: output.name().to_owned(),
        query: Vec::new(),
        check: Vec::new(),
        first: Vec::new(),
        end: Vec::new(),
    };
    for round in 0..WARM_UP + rounds {
        // The query comes first in every second round, and last in the others.
        let is_first = round % 2 == 0;
        let before = is_first.then(|| query(population, statement));
        let checked = check(population);
        let [first, end] = output.run(population);
        let query = before.unwrap_or_else(|| query(population, statement));
        if round >= WARM_UP {
            times.query.push(query);
            times.check.push(checked);
            times.first.push(first);
            times.end.push(end);
        }
    }
    times
}

fn row(times: &Times, flavour: Flavour) -> Vec<String> {
    let beyond = |of: &[Duration], base: &[Duration], part| {
        let pairs = of.iter().zip(base);
        let differences: Vec<f64> = pairs
            .map(|(time, base)| (time.as_secs_f64() - base.as_secs_f64()) * 1000.0)
            .collect();
        percentile(&differences, part)
    };
    let middle = |of: &[Duration]| millis(percentile(of, 50));
    let first = beyond(&times.first, &times.query, 50);
    vec![
        format!("{}, {flavour:?}", times.name),
        middle(&times.query),
        middle(&times.check),
        middle(&times.first),
        middle(&times.end),
        format!("{first:.2}"),
        format!("{:.2}", beyond(&times.first, &times.query, 90)),
        format!("{:.2}", beyond(&times.first, &times.check, 50)),
        format!("{:.2}", beyond(&times.end, &times.query, 50)),
        verdict(first <= LIMIT.as_secs_f64() * 1000.0).to_owned(),
    ]
}
