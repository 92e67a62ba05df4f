//! The section `screen`: how long a user waits for the output of `dlock status --all` with 10 000 actions, beyond the
//! query.
//!
//! The baseline is the query alone: this program connects to the server, sends the statement of `dlock status --all`
//! with the same driver, and reads all rows, but uses none of them. The statement is taken from the server's log. The
//! difference therefore contains everything else that dlock does: the start of the process, the conversion of the rows,
//! and sorting, formatting and writing the table.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};
use testkit::bench::markdown::{Page, verdict};
use testkit::bench::population::Population;
use testkit::bench::sample::{millis, percentile};
use testkit::bench::succeed;
use testkit::bench::timing::{WARM_UP, in_turn};
use testkit::servers::{Flavour, Server};
use testkit::sql::Sql;
use testkit::terminal::open_pty;

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

/// The compared runs: the name, the arguments, and true for a terminal instead of a pipe.
const OUTPUTS: [(&str, &[&str], bool); 3] = [
    ("pipe", &["status", "--all"], false),
    ("pipe, `--wide`", &["status", "--all", "--wide"], false),
    ("terminal with 80 columns", &["status", "--all"], true),
];

/// Runs dlock once. Returns the time until the first screen was read.
fn first_screen(population: &Population, arguments: &[&str], is_terminal: bool) -> Duration {
    let start = Instant::now();
    let (mut output, input): (File, File) = if is_terminal {
        open_pty(COLUMNS, u16::try_from(LINES).expect("a small number"))
    } else {
        let (output, input) = std::io::pipe().expect("a descriptor is available");
        (OwnedFd::from(output).into(), OwnedFd::from(input).into())
    };
    let mut child = (population.dlock(arguments).stdout(input))
        .spawn()
        .expect("dlock starts");
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
    let status = child.wait().expect("dlock is a child");
    assert!(status.success(), "dlock status: {status}");
    assert!(lines >= ACTIONS as usize, "{lines} lines");
    first.expect("the first lines were read")
}

/// Returns the statement that `dlock status --all` sends, from the server's general log.
fn statement(server: &Server, population: &Population) -> String {
    let mut admin = server.admin();
    let mut run = |statement: &str| admin.run(statement);
    run("SET GLOBAL log_output='TABLE'");
    run("SET GLOBAL general_log=1");
    succeed(&mut population.dlock(&["status", "--all"]));
    run("SET GLOBAL general_log=0");
    let logged = "SELECT CAST(argument AS CHAR) FROM mysql.general_log \
                  WHERE argument LIKE '%LEFT JOIN dlock_lock%' ORDER BY LENGTH(argument) DESC LIMIT 1";
    admin.value(logged)
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

/// Measures both servers, one after the other, and writes the section.
pub(crate) fn section(page: &mut Page, rounds: usize) {
    let mut rows = Vec::new();
    for flavour in Flavour::ALL {
        let server = Server::start(flavour, &[]);
        let population = Population::new(&server, ACTIONS, HELD, AWAITED);
        let statement = statement(&server, &population);
        for (name, arguments, is_terminal) in OUTPUTS {
            let times = in_turn(2, WARM_UP + rounds, |program, _| {
                vec![match program {
                    0 => query(&population, &statement),
                    _ => first_screen(&population, arguments, is_terminal),
                }]
            });
            let [query, first] = [&times[0][WARM_UP..], &times[1][WARM_UP..]];
            rows.push(row(format!("{}, {name}", flavour.product()), query, first));
        }
    }
    page.section(
        "The first screen",
        &format!(
            "{ACTIONS} actions, {HELD} of them held, {AWAITED} of these with two waiters, and a run of each action in \
             the history. The query is the time in which this program connects, sends the same statement with the same driver \
             and reads all rows. The first screen is the time from the fork until {LINES} lines were read. The difference is \
             calculated for each of {rounds} rounds. All values are medians in milliseconds, except the p90."
        ),
    );
    let limit = LIMIT.as_millis();
    let head =
        format!("output | query | first screen | first screen beyond the query | p90 | ≤ {limit}");
    page.table(&head, &rows);
}

fn row(name: String, query: &[Duration], first: &[Duration]) -> Vec<String> {
    let pairs = first.iter().zip(query);
    let beyond: Vec<Duration> = pairs
        .map(|(first, query)| first.saturating_sub(*query))
        .collect();
    let [middle, high] = [50, 90].map(|part| percentile(&beyond, part));
    vec![
        name,
        millis(percentile(query, 50)),
        millis(percentile(first, 50)),
        millis(middle),
        millis(high),
        verdict(middle <= LIMIT).to_owned(),
    ]
}
