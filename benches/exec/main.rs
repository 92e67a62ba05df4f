//! `make bench` runs this benchmark. It measures the cost of one `dlock exec -a x -- true` on MariaDB and MySQL,
//! compared with `etcdctl`.
//!
//! The benchmark starts one MariaDB, one MySQL and one etcd, all in `TMPDIR`, and writes Markdown to stdout and to
//! `bench/exec.md` in the target folder. It fails if a program fails, but not if a target is missed. Each program is timed
//! `ROUNDS` times (100 by default). Arguments select sections: `cargo bench --bench exec -- times server size`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::bench::etcd::Etcd;
use testkit::bench::markdown::{Page, verdict};
use testkit::bench::sample::{mebibytes, percentile};
use testkit::bench::site::Site;
use testkit::bench::timing;
use testkit::bench::traffic::traffic;
use testkit::bench::{bare, dlock, host, program, rounds, sections, succeed};
use testkit::cli_runner::eventually;
use testkit::servers::Flavour;
use testkit::sql::Sql;

/// The measured run of dlock.
const EXEC: [&str; 5] = ["exec", "-a", "x", "--", "true"];

/// Targets: the maximum ratio to the time of etcdctl, for the ends of the names of the rows.
const RATIOS: [(&str, f64); 2] = [("MariaDB, TCP", 0.45), ("MySQL, TCP", 0.50)];
/// Target: the maximum ratio of the time of `dlock --version` to that of a program that does nothing.
const VERSION_RATIO: f64 = 1.4;
/// Targets: the maximum sizes in bytes.
const MEMORY: u64 = 6 << 20;
const BINARY: u64 = 7 << 20;

/// Number of runs whose commits are counted. The median excludes the server's background work.
const SAMPLES: usize = 5;

fn main() {
    let Some(sections) = sections(&["times", "server", "size"], &[]) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let [certificate, key] = certify(folder);
    let options = [
        &*format!("--ssl-cert={certificate}"),
        &format!("--ssl-key={key}"),
    ];
    let sites = Flavour::ALL.map(|flavour| Site::start(flavour, &options));
    let etcd = Etcd::start();
    let mut page = Page::new("What one `dlock exec` costs", "exec");
    let servers = sites.each_ref().map(|site| &site.server);
    host::facts(&mut page, &servers, &etcd, folder);
    for section in sections {
        match section {
            "times" => times(&mut page, &sites, &etcd, folder),
            "server" => server_costs(&mut page, &sites),
            _ => sizes(&mut page, &sites, &etcd, &certificate),
        }
        page.publish();
    }
    host::write_load(&mut page);
    page.publish();
}

/// Returns the routes to the server of `site`, and `dlock ARGUMENTS…` by each of them.
fn routes(site: &Site, certificate: &str, arguments: &[&str]) -> [(String, Command); 3] {
    let route = |name: &str, variables: &[(&str, &str)]| {
        let mut command = dlock(&site.database, arguments);
        command.envs(variables.iter().copied());
        (format!("{}, {name}", site.name()), command)
    };
    let tls = [
        ("DLOCK_SSL_MODE", "verify_identity"),
        ("DLOCK_SSL_CA", certificate),
    ];
    let socket = site.database.socket_url();
    [
        route("TCP", &[]),
        route("TLS", &tls),
        route("Unix socket", &[("DLOCK_URL", &socket)]),
    ]
}

fn times(page: &mut Page, sites: &[Site; 2], etcd: &Etcd, folder: &Path) {
    let rounds = rounds(100);
    page.section(
        "Time of the whole process",
        &format!(
            "Times from the fork of a process to its end. In each of {rounds} rounds, each program runs once. The ratio \
             is relative to the first row and is calculated for each round. etcdctl and the `TCP` rows use TCP without \
             TLS on the loopback interface. All servers use their default durability."
        ),
    );
    let mut flock = bare("flock");
    flock.arg(folder.join("f")).arg("true");
    let mut version = bare(program());
    version.arg("--version");
    let mut programs = vec![
        (
            "`etcdctl lock x true`".to_owned(),
            etcd.lock("x", &["true"]),
        ),
        ("`flock f true`".to_owned(), flock),
        ("`true`".to_owned(), bare("true")),
        ("`dlock --version`".to_owned(), version),
    ];
    let certificate = folder.join("cert.pem").display().to_string();
    for site in sites {
        let routes = routes(site, &certificate, &EXEC);
        programs.extend(
            routes.map(|(route, exec)| (format!("`dlock {}`, {route}", EXEC.join(" ")), exec)),
        );
    }
    let records = timing::run(programs, rounds);
    timing::table(page, &records, |name| {
        let target = RATIOS.iter().find(|(end, _)| name.ends_with(end));
        target.map(|(_, target)| *target)
    });
    let [_, ratio, _] = records[3].ratios(&records[2]);
    page.item(format_args!(
        "`dlock --version` takes {ratio:.2} times as long as `true`, at most {VERSION_RATIO}: {}.",
        verdict(ratio <= VERSION_RATIO)
    ));
}

fn server_costs(page: &mut Page, sites: &[Site; 2]) {
    page.section(
        "One `exec` at the server",
        "Measured on an existing action, over TCP, on an idle server. A proxy counts the packets.",
    );
    let rows = sites.each_ref().map(|site| {
        succeed(&mut dlock(&site.database, &EXEC));
        let traffic = traffic(site.server.port(), |port| {
            let mut exec = dlock(&site.database, &EXEC);
            exec.env("DLOCK_URL", site.database.url_through(port));
            exec.env("DLOCK_SSL_MODE", "disabled");
            exec
        });
        let commits = commits(site);
        let is_met = traffic.connections == 1
            && traffic.before_attempt == 0
            && traffic.requests <= 2
            && commits <= 2;
        let counts = [
            traffic.connections,
            traffic.login,
            traffic.before_attempt,
            traffic.requests,
            traffic.quits,
            commits,
        ];
        let mut row = vec![site.name().to_owned()];
        row.extend(counts.map(|count| count.to_string()));
        row.push(verdict(is_met).to_owned());
        row
    });
    let head = "one `exec` | connections, at most 1 | packets of the login | \
        requests before the first attempt, at most 0 | requests after the login, at most 2 | \
        COM_QUIT packets (no response) | commits that wrote, at most 2 | targets";
    page.table(head, &rows);
}

/// Returns the number of transactions of one `exec` that wrote. `Handler_commit` would also count each SELECT and, on MySQL,
/// would count each transaction two more times for the binary log.
fn commits(site: &Site) -> usize {
    let mut root = site.server.admin();
    root.run("SET GLOBAL innodb_monitor_enable='trx_rw_commits'");
    let mut count = || -> usize {
        let query = "SELECT CAST(count AS UNSIGNED) FROM information_schema.innodb_metrics WHERE name='trx_rw_commits'";
        root.value(query)
    };
    let sample = |_| {
        let before = count();
        succeed(&mut dlock(&site.database, &EXEC));
        count() - before
    };
    percentile(&(0..SAMPLES).map(sample).collect::<Vec<_>>(), 50)
}

fn sizes(page: &mut Page, sites: &[Site; 2], etcd: &Etcd, certificate: &str) {
    page.section(
        "Memory and size",
        "Memory is the peak resident size while the command runs, after two renewals.",
    );
    let mut rows = Vec::new();
    let mut add = |name: &str, bytes: u64, target: Option<u64>| {
        let target = target.map_or("–".to_owned(), |target| {
            format!("≤ {}: {}", mebibytes(target), verdict(bytes <= target))
        });
        rows.push(vec![name.to_owned(), mebibytes(bytes), target]);
    };
    for site in sites {
        let holding = ["exec", "-a", "memory", "-t", "6s", "--", "cat"];
        for (route, command) in routes(site, certificate, &holding) {
            let renewals =
                "SELECT renewals FROM dlock_lock WHERE action='memory' AND owner_id IS NOT NULL";
            let is_ready = || {
                site.database
                    .first(renewals)
                    .is_some_and(|count: u64| count >= 2)
            };
            add(
                &format!("`dlock exec`, {route}"),
                peak(command, is_ready),
                Some(MEMORY),
            );
        }
    }
    // Unlike dlock, etcdctl does not pass its standard input to the command, so the command sleeps.
    let holder = etcd.lock("memory", &["sleep", "5"]);
    add(
        "`etcdctl lock`",
        peak(holder, || etcd.queue("memory") > 0),
        None,
    );
    let binary = fs::metadata(testkit::dlock())
        .expect("dlock is built")
        .len();
    add("the program `dlock`, stripped", binary, Some(BINARY));
    page.table("MiB | measured | target", &rows);
}

/// Returns the peak resident size of `holder` in bytes, measured when `ready` first returns true. The command under the
/// lock must run until its standard input is closed or, at least, until the size has been measured.
///
/// The value is the kernel's maximum since the `execve` of the program. The maximum that `wait4` returns would also
/// cover the time between the fork and the `execve`, and would therefore include the size of this process.
fn peak(mut holder: Command, ready: impl FnMut() -> bool) -> u64 {
    let child = holder.stdin(Stdio::piped()).spawn();
    let mut child = child.expect("the program starts");
    eventually("the holder is ready", ready);
    let peak = host::memory(child.id(), "VmHWM");
    drop(child.stdin.take());
    let status = child.wait().expect("a child can be waited for");
    assert!(status.success(), "the holder: {status}");
    peak
}

/// Writes a self-signed certificate for 127.0.0.1 and its key, and returns their paths.
fn certify(folder: &Path) -> [String; 2] {
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
    let pair = pair.expect("a certificate");
    [
        ("cert.pem", pair.cert.pem()),
        ("key.pem", pair.signing_key.serialize_pem()),
    ]
    .map(|(name, text)| {
        let path = folder.join(name);
        fs::write(&path, text).expect("a file can be created");
        path.display().to_string()
    })
}
