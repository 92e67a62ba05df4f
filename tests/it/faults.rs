//! What faults of the network and the server do to dlock: the rows of the table in dlock(7), on both servers.
//!
//! A [`Scene`] has the lock `init` in a database of its own, a proxy to meet the faults on, and a witness: a file that
//! every command locks for as long as one process of it lives. A command that finds it locked leaves a note, so who ran
//! beside whom is told by the kernel and not by a clock. [`Scene::over`] ends a test with that question.
//!
//! - `replies`: one question or its reply is lost, late, cut or another's
//! - `disk`: the server has no room left
//! - `forged`: what comes back is not what a server says
//! - `network`: everything between dlock and the server
//! - `server`: the server itself

mod disk;
mod forged;
mod network;
mod replies;
mod server;

use std::collections::BTreeSet;
use std::fs;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use mysql::prelude::Queryable;

use crate::command::{Stage, heard, tell};
use crate::dlock::{Dlock, Outcome, Running, eventually};
use crate::proxy::Proxy;
use crate::servers::{Database, Flavour, Server, shared};

/// Writes to the witness who runs, and whether somebody else did; `$1` is the witness, `$2` the name.
const WITNESS: &str =
    r#"exec 9>>"$1.lock"; flock -n 9 || echo overlap >> "$1"; echo "$2" >> "$1"; "#;

/// Runs `claim` on every flavour at the same time: most of it is waiting.
pub(crate) fn on_each(claim: impl Fn(Flavour) + Sync) {
    thread::scope(|scope| {
        let threads = Flavour::ALL.map(|flavour| {
            let claim = &claim;
            (flavour, scope.spawn(move || claim(flavour)))
        });
        for (flavour, thread) in threads {
            if let Err(panic) = thread.join() {
                println!("on {flavour}");
                resume_unwind(panic);
            }
        }
    });
}

/// Runs `claim` for every case on every flavour at the same time, each on a lock of its own. A thread is named after its
/// case, so that a failure tells which it was.
pub(crate) fn on_each_case<T: Clone + Sync>(
    cases: &[(&'static str, T)],
    claim: impl Fn(&Scene, &'static str, T) + Sync,
) {
    on_each(|flavour| {
        thread::scope(|scope| {
            for (name, case) in cases {
                let claim = &claim;
                // Not in the thread: a server that has to create them all at once takes seconds for each.
                let scene = Scene::new(flavour);
                thread::Builder::new()
                    .name(format!("{flavour}, {name}"))
                    .spawn_scoped(scope, move || {
                        claim(&scene, name, case.clone());
                    })
                    .expect("the kernel has a thread");
            }
        });
    });
}

/// One lock, a proxy in front of its server and the witness of who runs.
pub(crate) struct Scene {
    pub(crate) database: Database,
    pub(crate) proxy: Proxy,
    pub(crate) stage: Stage,
}

/// A dlock behind the proxy whose command runs until it is let go; then it exits with 4.
pub(crate) struct Holder {
    pub(crate) running: Running,
    pub(crate) stage: Stage,
}

impl Scene {
    /// On the server that all tests share.
    #[track_caller]
    pub(crate) fn new(flavour: Flavour) -> Self {
        Self::on(shared(flavour))
    }

    /// The tables and the row are there from the start, so that a question is one packet.
    #[track_caller]
    pub(crate) fn on(server: &Server) -> Self {
        let database = server.database("faults");
        let outcome = Dlock::on(&database, ["exec", "-a", "init", "--", "true"]).run();
        assert_eq!(outcome.status, Some(0), "{outcome:#?}");
        Self {
            proxy: Proxy::to(database.port),
            database,
            stage: Stage::new(),
        }
    }

    /// `dlock exec` on the lock with a lease of 6 s, which a busy machine can keep, and more `options`, straight to the server, whose command tells
    /// the witness that `name` runs and then does `script`.
    pub(crate) fn exec(&self, name: &str, options: &[&str], script: &str) -> Dlock {
        Dlock::on(&self.database, ["exec", "-a", "init", "--ttl", "6s"])
            .args(options)
            .args(["--", "sh", "-c"])
            .arg(format!("{WITNESS}{script}"))
            .arg("sh")
            .arg(self.stage.path("witness"))
            .arg(name)
    }

    /// The same through the proxy.
    pub(crate) fn faulty(&self, name: &str, options: &[&str], script: &str) -> Dlock {
        self.exec(name, options, script)
            .env("DLOCK_URL", self.database.url_through(self.proxy.port()))
    }

    /// Starts the command `holder` through the proxy and returns when it runs.
    #[track_caller]
    pub(crate) fn holder(&self, options: &[&str]) -> Holder {
        self.holding(options, "")
    }

    /// The same under a lease of `ttl`, with a command that says on its output when it is told to stop, and does not.
    #[track_caller]
    fn stubborn_holder(&self, ttl: &str) -> Holder {
        self.holding(&["--ttl", ttl], "trap 'echo term' TERM; ")
    }

    #[track_caller]
    fn holding(&self, options: &[&str], trap: &str) -> Holder {
        let stage = Stage::new();
        let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
        // Opened for both ways, so that neither side waits for the other; a TERM interrupts the read only.
        let script = format!(
            r#"{trap}exec 8<>"$4"; echo up > "$3"; until read -r word <&8; do :; done; exit 4"#
        );
        let dlock = self.faulty("holder", options, &script);
        let running = dlock.arg(&ready).arg(&go).start();
        heard(&ready);
        Holder { running, stage }
    }

    /// Starts somebody else who wants the lock, straight to the server.
    pub(crate) fn contender(&self) -> Running {
        self.exec("contender", &["--ttl", "3s"], "").start()
    }

    pub(crate) fn witness(&self) -> String {
        fs::read_to_string(self.stage.path("witness")).unwrap_or_default()
    }

    /// Waits until somebody waits for the lock.
    #[track_caller]
    pub(crate) fn queued(&self) {
        let mut admin = self.database.admin_conn();
        eventually("somebody waits", || {
            let count: Option<u64> = admin
                .query_first("SELECT COUNT(*) FROM dlock_waiter")
                .expect("the tables are there");
            count > Some(0)
        });
    }

    /// One column of the lock's row as text.
    #[track_caller]
    pub(crate) fn row(&self, column: &str) -> Option<String> {
        let mut admin = self.database.admin_conn();
        let row: Option<Option<String>> = admin
            .query_first(format!("SELECT HEX({column}) FROM dlock_lock"))
            .expect("the table is there");
        row.expect("the row is there")
    }

    /// Asserts that nobody has a place in the line.
    #[track_caller]
    fn nobody_waits(&self) {
        let mut admin = self.database.admin_conn();
        let places: Option<u64> = admin
            .query_first("SELECT COUNT(*) FROM dlock_waiter")
            .expect("the tables are there");
        assert_eq!(places, Some(0), "places are left");
    }

    /// Asserts that nobody holds the lock.
    #[track_caller]
    pub(crate) fn free(&self) {
        assert_eq!(self.row("claim"), None, "the lock is held");
    }

    /// Waits for the next renewal to reach the row.
    #[track_caller]
    pub(crate) fn renewed(&self) {
        let before = self.row("renewals");
        eventually("the lease is renewed", || self.row("renewals") != before);
    }

    /// Asserts that `names` ran, in this order and never two at once.
    #[track_caller]
    pub(crate) fn over(&self, names: &[&str]) {
        let ran = self.witness();
        let ran: Vec<&str> = ran.lines().collect();
        assert_eq!(ran, names, "who ran");
    }
}

impl Holder {
    /// Lets the command end, and dlock with it.
    #[track_caller]
    pub(crate) fn end(self) -> Outcome {
        tell(&self.stage.path("go"), "on");
        self.running.wait()
    }

    /// Asserts that the command ran to its end as if nothing had happened.
    #[track_caller]
    pub(crate) fn unharmed(self) {
        let outcome = self.end();
        assert_eq!(
            (outcome.status, &*outcome.stdout),
            (Some(4), ""),
            "the command was touched: {outcome:#?}"
        );
    }
}

#[test]
fn the_witness_tells_when_two_run_at_once() {
    let scene = Scene::new(Flavour::MariaDb);
    let holder = scene.holder(&[]);
    let other = scene.exec("other", &["-a", "another"], "");
    other.run().expect(0, "", "");
    holder.unharmed();
    assert_eq!(scene.witness(), "holder\noverlap\nother\n");
}

#[test]
fn every_claim_about_a_fault_is_named_by_a_row_of_the_manual_and_the_other_way_round() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &Path| fs::read_to_string(path).expect("a text file");
    let page = read(&here.join("man/dlock.7"));
    let rows = page.lines().filter_map(|line| line.strip_prefix(".\\\" "));
    let rows: BTreeSet<&str> = rows.filter(|name| name.contains("::")).collect();
    let claims_in = |file: &Path| -> Vec<String> {
        let subject = file.file_stem().expect("a name").to_string_lossy();
        let text = read(file);
        let tests = text.split("#[test]\nfn ").skip(1);
        let found = tests.filter_map(|test| test.split('(').next());
        found.map(|name| format!("{subject}::{name}")).collect()
    };
    for file in fs::read_dir(here.join("tests/it/faults")).expect("the folder is there") {
        for claim in claims_in(&file.expect("it can be read").path()) {
            assert!(rows.contains(&*claim), "no row for {claim}");
        }
    }
    let known: Vec<String> = ["tests/it/faults", "tests/it"]
        .into_iter()
        .flat_map(|folder| fs::read_dir(here.join(folder)).expect("the folder is there"))
        .map(|file| file.expect("it can be read").path())
        .filter(|path| path.is_file())
        .flat_map(|path| claims_in(&path))
        .collect();
    for row in rows {
        assert!(known.iter().any(|claim| claim == row), "no test {row}");
    }
}
