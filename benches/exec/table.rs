//! Formats the results and their targets as Markdown.

use std::fmt::Write;
use std::time::Duration;

use testkit::bench::sample::percentile;
use testkit::bench::timing::Record;

use crate::counters::ServerCost;
use crate::footprint::Footprint;

/// Targets: the maximum ratio to the time of etcdctl, for the ends of the names of the rows.
const RATIOS: [(&str, f64); 2] = [("MariaDB, TCP", 0.45), ("MySQL, TCP", 0.50)];
/// The program that starts and does nothing, its row, and the maximum ratio to this row.
const NOTHING: &str = "`true`";
const VERSION: &str = "`dlock --version`";
const VERSION_RATIO: f64 = 1.4;
/// Targets: the maximum sizes in bytes.
const MEMORY: u64 = 6 << 20;
const BINARY: u64 = 7 << 20;

/// Returns the complete page. The ratios are relative to the first of `records`.
pub(crate) fn text(
    facts: &[(String, String)],
    records: &[Record],
    costs: &[ServerCost],
    footprint: &Footprint,
) -> String {
    let mut text = "# What one `dlock exec` costs\n\n".to_owned();
    for (name, value) in facts {
        line(&mut text, format_args!("- {name}: {value}"));
    }
    times(&mut text, records);
    server_costs(&mut text, costs);
    size(&mut text, footprint);
    text
}

fn times(text: &mut String, records: &[Record]) {
    let [first, ..] = records else { return };
    let rounds = first.times.len();
    line(text, format_args!("\n## Time of the whole process\n"));
    line(
        text,
        format_args!(
            "Times from the fork of a process to its end. In each of {rounds} rounds, each program runs once. The \
             ratio is relative to the\n\
             first row and is calculated for each round. CPU is the user and system time of client and command, as \
             the\n\
             mean of {rounds} successive runs. etcdctl and the `TCP` rows use TCP without TLS on the loopback \
             interface. All\n\
             servers use their default durability.\n"
        ),
    );
    row(
        text,
        &[
            "milliseconds",
            "median",
            "minimum",
            "p10 to p90",
            "ratio (p10 to p90)",
            "CPU",
        ],
    );
    row(text, &["---", "---:", "---:", "---:", "---:", "---:"]);
    for record in records {
        let times: Vec<f64> = record.times.iter().map(|time| millis(*time)).collect();
        let ratios = ratios(record, first);
        let [minimum, low, median, high] = [0, 10, 50, 90].map(|part| percentile(&times, part));
        let [ratio_low, ratio, ratio_high] = [10, 50, 90].map(|part| percentile(&ratios, part));
        let target = RATIOS.iter().find(|(end, _)| record.name.ends_with(end));
        let verdict = verdict(target.is_none_or(|(_, target)| ratio <= *target));
        row(
            text,
            &[
                &record.name,
                &format!("{median:.2}"),
                &format!("{minimum:.2}"),
                &format!("{low:.2} to {high:.2}"),
                &format!("{ratio:.2} ({ratio_low:.2} to {ratio_high:.2}){verdict}"),
                &record
                    .cpu
                    .map_or_else(|| "–".to_owned(), |cpu| format!("{:.1}", millis(cpu))),
            ],
        );
    }
    let [(maria, maria_ratio), (my, my_ratio)] = RATIOS;
    line(
        text,
        format_args!(
            "\nTargets: a ratio of at most {maria_ratio:.2} ({maria}) and {my_ratio:.2} ({my})."
        ),
    );
    let named = |name| records.iter().find(|record| record.name == name);
    if let (Some(version), Some(nothing)) = (named(VERSION), named(NOTHING)) {
        let ratio = percentile(&ratios(version, nothing), 50);
        let verdict = verdict(ratio <= VERSION_RATIO);
        line(
            text,
            format_args!(
                "{VERSION} takes {ratio:.2} times as long as {NOTHING}, at most {VERSION_RATIO}{verdict}."
            ),
        );
    }
}

/// Returns the ratio of the times of `record` and `other` in each round.
fn ratios(record: &Record, other: &Record) -> Vec<f64> {
    let pairs = record.times.iter().zip(&other.times);
    pairs
        .map(|(time, other)| time.as_secs_f64() / other.as_secs_f64())
        .collect()
}

fn server_costs(text: &mut String, costs: &[ServerCost]) {
    line(
        text,
        format_args!("\n## One `exec`, measured with the server's counters\n"),
    );
    line(
        text,
        format_args!(
            "Measured on an existing action, over TCP, on an idle server. The benchmark's own queries are \
             subtracted.\n\
             A proxy counts the packets.\n"
        ),
    );
    let names: Vec<&str> = costs.iter().map(|cost| cost.server).collect();
    row(
        text,
        &[&["one `exec`"], names.as_slice(), &["allowed"]].concat(),
    );
    row(
        text,
        &[&["---"], vec!["---:"; costs.len()].as_slice(), &["---:"]].concat(),
    );
    let mut count = |name: &str, allowed: Option<i64>, value: fn(&ServerCost) -> i64| {
        let cells = costs.iter().map(|cost| {
            let value = value(cost);
            format!(
                "{value}{}",
                verdict(allowed.is_none_or(|allowed| value <= allowed))
            )
        });
        let mut cells: Vec<String> = [name.to_owned()].into_iter().chain(cells).collect();
        cells.push(allowed.map_or_else(|| "–".to_owned(), |allowed| allowed.to_string()));
        row(text, &cells);
    };
    count("connections", Some(1), |cost| cost.connections);
    count("packets of the login", None, |cost| {
        signed(cost.traffic.login)
    });
    count("requests before the first attempt", Some(0), |cost| {
        signed(cost.traffic.before_attempt)
    });
    count("requests after the login", Some(2), |cost| {
        signed(cost.traffic.requests)
    });
    count("COM_QUIT packets (no response)", None, |cost| {
        signed(cost.traffic.quits)
    });
    count(
        "round trips: connect, greeting, login, requests",
        None,
        |cost| {
            let ServerCost { traffic, .. } = cost;
            signed(2 * traffic.connections + traffic.login + traffic.requests)
        },
    );
    count("statements", None, |cost| cost.statements);
    count("commits that wrote", Some(2), |cost| cost.commits);
    count("transactions in the binary log", None, |cost| cost.logged);
    count("syncs by InnoDB", None, |cost| cost.syncs);
    count("bytes to the server", None, |cost| cost.received);
    count("bytes from the server", None, |cost| cost.sent);
    line(text, format_args!(""));
    for cost in costs {
        line(
            text,
            format_args!("- Statements on {}: {}.", cost.server, cost.kinds),
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
    for (route, peak) in &footprint.memory {
        bytes(&format!("`dlock exec`, {route}"), *peak, Some(MEMORY));
    }
    bytes("`etcdctl lock`", footprint.peer, None);
    bytes(
        "the program `dlock`, stripped",
        footprint.binary,
        Some(BINARY),
    );
}

fn verdict(is_met: bool) -> &'static str {
    match is_met {
        true => "",
        false => " **target missed**",
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
    writeln!(text, "{line}").expect("writing to a String cannot fail");
}
