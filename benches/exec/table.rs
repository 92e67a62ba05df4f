//! The numbers as Markdown, beside what the contract allows.

use std::fmt::Write;
use std::time::Duration;

use crate::counters::Bill;
use crate::footprint::Footprint;
use crate::race::Record;
use crate::sample::percentile;

/// What is promised: shares of etcdctl's time, bytes.
const RATIO: f64 = 0.40;
const MEMORY: u64 = 8 << 20;
const BINARY: u64 = 6 << 20;

/// The whole page. The first of `records` is what the others are compared with.
pub(crate) fn text(
    facts: &[(String, String)],
    records: &[Record],
    bills: &[Bill],
    footprint: &Footprint,
) -> String {
    let mut text = "# What one `dlock exec` costs\n\n".to_owned();
    for (name, value) in facts {
        line(&mut text, format_args!("- {name}: {value}"));
    }
    race(&mut text, records);
    charged(&mut text, bills);
    size(&mut text, footprint);
    text
}

fn race(text: &mut String, records: &[Record]) {
    let [first, ..] = records else { return };
    let rounds = first.times.len();
    line(text, format_args!("\n## Time of the whole process\n"));
    line(
        text,
        format_args!(
            "From fork to wait, {rounds} rounds in which each runs once; ratio to the first, round by round.\n\
             CPU is user and system time of client and command, mean of {rounds} runs in a row.\n\
             etcdctl and the rows `TCP` use plain TCP on the loopback; all servers keep their default durability.\n"
        ),
    );
    row(
        text,
        &[
            "milliseconds",
            "median",
            "least",
            "p10 to p90",
            "ratio (p10 to p90)",
            "CPU",
        ],
    );
    row(text, &["---", "---:", "---:", "---:", "---:", "---:"]);
    for record in records {
        let times: Vec<f64> = record.times.iter().map(|time| millis(*time)).collect();
        let pairs = record.times.iter().zip(&first.times);
        let ratios: Vec<f64> = pairs
            .map(|(time, other)| time.as_secs_f64() / other.as_secs_f64())
            .collect();
        let [least, low, middle, high] = [0, 10, 50, 90].map(|part| percentile(&times, part));
        let [ratio_low, ratio, ratio_high] = [10, 50, 90].map(|part| percentile(&ratios, part));
        let verdict = match record.name.starts_with("`dlock") {
            true => verdict(ratio <= RATIO),
            false => "",
        };
        row(
            text,
            &[
                &record.name,
                &format!("{middle:.2}"),
                &format!("{least:.2}"),
                &format!("{low:.2} to {high:.2}"),
                &format!("{ratio:.2} ({ratio_low:.2} to {ratio_high:.2}){verdict}"),
                &record
                    .cpu
                    .map_or_else(|| "–".to_owned(), |cpu| format!("{:.1}", millis(cpu))),
            ],
        );
    }
    line(
        text,
        format_args!("\nTarget: a ratio of at most {RATIO:.2}."),
    );
}

fn charged(text: &mut String, bills: &[Bill]) {
    line(
        text,
        format_args!("\n## One `exec`, as the server counts\n"),
    );
    line(
        text,
        format_args!(
            "On an action that exists, over TCP, on an idle server, less the observer's share;\n\
             packets are counted by a proxy.\n"
        ),
    );
    let names: Vec<&str> = bills.iter().map(|bill| bill.server).collect();
    row(
        text,
        &[&["one `exec`"], names.as_slice(), &["allowed"]].concat(),
    );
    row(
        text,
        &[&["---"], vec!["---:"; bills.len()].as_slice(), &["---:"]].concat(),
    );
    let mut count = |name: &str, allowed: Option<i64>, value: fn(&Bill) -> i64| {
        let cells = bills.iter().map(|bill| {
            let value = value(bill);
            format!(
                "{value}{}",
                verdict(allowed.is_none_or(|allowed| value <= allowed))
            )
        });
        let mut cells: Vec<String> = [name.to_owned()].into_iter().chain(cells).collect();
        cells.push(allowed.map_or_else(|| "–".to_owned(), |allowed| allowed.to_string()));
        row(text, &cells);
    };
    count("connections", Some(1), |bill| bill.connections);
    count("packets of the login", None, |bill| {
        signed(bill.traffic.login)
    });
    count("requests before the first attempt", Some(0), |bill| {
        signed(bill.traffic.before_attempt)
    });
    count("requests after the login", Some(2), |bill| {
        signed(bill.traffic.requests)
    });
    count("farewells (no answer)", None, |bill| {
        signed(bill.traffic.quits)
    });
    count(
        "round trips: connect, greeting, login, requests",
        None,
        |bill| {
            let Bill { traffic, .. } = bill;
            signed(2 * traffic.connections + traffic.login + traffic.requests)
        },
    );
    count("statements", None, |bill| bill.statements);
    count("commits that wrote", Some(2), |bill| bill.commits);
    count("transactions in the binary log", None, |bill| bill.logged);
    count("syncs by InnoDB", None, |bill| bill.syncs);
    count("bytes to the server", None, |bill| bill.received);
    count("bytes from the server", None, |bill| bill.sent);
    line(text, format_args!(""));
    for bill in bills {
        line(
            text,
            format_args!("- Statements on {}: {}.", bill.server, bill.kinds),
        );
    }
}

fn size(text: &mut String, footprint: &Footprint) {
    line(text, format_args!("\n## Memory and size\n"));
    line(
        text,
        format_args!(
            "Memory is the peak resident size while the command runs, after two renewals.\n"
        ),
    );
    row(text, &["MiB", "measured", "target"]);
    row(text, &["---", "---:", "---:"]);
    let mut bytes = |name: &str, value: u64, target: Option<u64>| {
        row(
            text,
            &[
                name.to_owned(),
                format!(
                    "{}{}",
                    mebibytes(value),
                    verdict(target.is_none_or(|target| value <= target))
                ),
                target.map_or_else(
                    || "–".to_owned(),
                    |target| format!("≤ {}", mebibytes(target)),
                ),
            ],
        );
    };
    for (way, peak) in &footprint.memory {
        bytes(&format!("`dlock exec`, {way}"), *peak, Some(MEMORY));
    }
    bytes("`etcdctl lock`", footprint.peer, None);
    bytes(
        "the program `dlock`, stripped",
        footprint.binary,
        Some(BINARY),
    );
}

fn verdict(kept: bool) -> &'static str {
    match kept {
        true => "",
        false => " **over**",
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).expect("a small number")
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn mebibytes(bytes: u64) -> String {
    let hundredths = (bytes * 100).div_ceil(1 << 20);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

fn row(text: &mut String, cells: &[impl AsRef<str>]) {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    line(text, format_args!("| {} |", cells.join(" | ")));
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a String takes all");
}
