//! Tests of network and server faults, on MariaDB and MySQL. Each test in the modules below belongs to a row of a table
//! in dlock-topologies(7), and so does each test in `clusters`.
//!
//! A [`Scene`] has the lock `init` in a separate database, a proxy that causes the faults, and a witness. The witness
//! is a file to which every command writes its name. Every command also locks a second file until all processes of the
//! command have ended. If another command has already locked the second file, the command also writes `overlap` to the
//! witness. At the end of a test, [`Scene::over`] checks the witness.

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

use testkit::cli_runner::{Dlock, Outcome, Running};
use testkit::command::{Stage, read_message, write_message};
use testkit::holder::{acquire_once, wait_renewals};
use testkit::proxy::Proxy;
use testkit::servers::{Database, Flavour, Server, shared};

/// Script that writes the name `$2` to the witness `$1`. If another command runs, the script first writes `overlap`.
const WITNESS: &str =
    r#"exec 9>>"$1.lock"; flock -n 9 || echo overlap >> "$1"; echo "$2" >> "$1"; "#;

/// Runs `test` on all flavours in parallel, since a test mostly waits.
pub(crate) fn on_each(test: impl Fn(Flavour) + Sync) {
    thread::scope(|scope| {
        let threads = Flavour::ALL.map(|flavour| {
            let test = &test;
            (flavour, scope.spawn(move || test(flavour)))
        });
        for (flavour, thread) in threads {
            if let Err(panic) = thread.join() {
                println!("on {flavour}");
                resume_unwind(panic);
            }
        }
    });
}

/// Runs `test` for all cases on all flavours in parallel, each with a separate lock. Each thread has the name of its
/// case, so that the message of a failed test shows the case.
pub(crate) fn on_each_case<T: Clone + Sync>(
    cases: &[(&'static str, T)],
    test: impl Fn(&Scene, &'static str, T) + Sync,
) {
    on_each(|flavour| {
        thread::scope(|scope| {
            for (name, case) in cases {
                let test = &test;
                // The scenes are created one after another. If they were created in parallel, the server would take
                // seconds for each database.
                let scene = Scene::new(flavour);
                thread::Builder::new()
                    .name(format!("{flavour}, {name}"))
                    .spawn_scoped(scope, move || {
                        test(&scene, name, case.clone());
                    })
                    .expect("a thread can be started");
            }
        });
    });
}

/// A lock, a proxy in front of its server, and the witness of the commands that run.
pub(crate) struct Scene {
    pub(crate) database: Database,
    pub(crate) proxy: Proxy,
    pub(crate) stage: Stage,
}

/// A `dlock exec` that is connected through the proxy. Its command runs until [`Holder::end`] and then exits with 4.
pub(crate) struct Holder {
    pub(crate) running: Running,
    pub(crate) stage: Stage,
}

impl Scene {
    #[track_caller]
    pub(crate) fn new(flavour: Flavour) -> Self {
        Self::on(shared(flavour))
    }

    /// Creates a scene on `server`, with the tables and the row of `init`, so that each request is one packet.
    #[track_caller]
    pub(crate) fn on(server: &Server) -> Self {
        let database = server.database("faults");
        acquire_once(&database);
        Self {
            proxy: Proxy::to(database.port),
            database,
            stage: Stage::new(),
        }
    }

    /// Returns a `dlock exec` with `options` that connects to the server directly. The ttl is 6 s, so that a busy
    /// machine can renew the lease in time. The command writes `name` to the witness and then runs `script`.
    pub(crate) fn exec(&self, name: &str, options: &[&str], script: &str) -> Dlock {
        self.exec_of("init", name, options, script)
    }

    fn exec_of(&self, action: &str, name: &str, options: &[&str], script: &str) -> Dlock {
        Dlock::on(&self.database, ["exec", "-a", action, "--ttl", "6s"])
            .args(options)
            .args(["--", "sh", "-c"])
            .arg(format!("{WITNESS}{script}"))
            .arg("sh")
            .arg(self.stage.path("witness"))
            .arg(name)
    }

    /// Returns the `dlock exec` of [`Scene::exec`], connected through the proxy.
    pub(crate) fn faulty(&self, name: &str, options: &[&str], script: &str) -> Dlock {
        self.exec(name, options, script)
            .env("DLOCK_URL", self.database.url_through(self.proxy.port()))
    }

    /// Starts a holder with the name `holder`, connected through the proxy, and returns once its command runs.
    #[track_caller]
    pub(crate) fn holder(&self, options: &[&str]) -> Holder {
        self.start("holder", options, "").up()
    }

    /// Starts a holder with the ttl `ttl` and with a command that prints `term` on SIGTERM and continues.
    #[track_caller]
    fn stubborn_holder(&self, ttl: &str) -> Holder {
        let trap = "trap 'echo term' TERM; ";
        self.start("holder", &["--ttl", ttl], trap).up()
    }

    /// Starts a holder and a contender, and calls `fail`. Asserts that the holder then stops its command. Returns the
    /// contender, and the result of `fail`.
    #[track_caller]
    fn stops_if<T>(&self, fail: impl FnOnce() -> T) -> (Running, T) {
        let holder = self.stubborn_holder("3s");
        let contender = self.contender();
        self.queued();
        let failed = fail();
        let outcome = holder.running.wait();
        outcome.expect(76, "term\n", "cannot keep init: ");
        (contender, failed)
    }

    /// Starts a holder, connected through the proxy. Its command first runs `trap`. Does not wait for the command.
    #[track_caller]
    fn start(&self, name: &str, options: &[&str], trap: &str) -> Holder {
        let stage = Stage::new();
        let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
        // The script opens the fifo for reading and writing, so that opening never blocks and SIGTERM interrupts only
        // `read`.
        let script = format!(
            r#"{trap}exec 8<>"$4"; echo up > "$3"; until read -r word <&8; do :; done; exit 4"#
        );
        let dlock = self.faulty(name, options, &script);
        let running = dlock.arg(&ready).arg(&go).start();
        Holder { running, stage }
    }

    /// Starts a contender that connects to the server directly.
    pub(crate) fn contender(&self) -> Running {
        self.exec("contender", &["--ttl", "3s"], "").start()
    }

    pub(crate) fn witness(&self) -> String {
        fs::read_to_string(self.stage.path("witness")).unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn queued(&self) {
        self.database.wait_until("COUNT(*)>0 FROM dlock_waiter");
    }

    /// Returns the column `column` of the row in hexadecimal. None means that the column is NULL.
    #[track_caller]
    pub(crate) fn row(&self, column: &str) -> Option<String> {
        self.database
            .value(format!("SELECT HEX({column}) FROM dlock_lock"))
    }

    #[track_caller]
    pub(crate) fn free(&self) {
        assert_eq!(self.row("owner_id"), None, "the lock is held");
    }

    /// Waits for the next renewal to change the row.
    #[track_caller]
    pub(crate) fn renewed(&self) {
        wait_renewals(&self.database, 1);
    }

    /// Asserts that exactly the commands `names` ran, in this order, and never two at the same time.
    #[track_caller]
    pub(crate) fn over(&self, names: &[&str]) {
        let ran = self.witness();
        let ran: Vec<&str> = ran.lines().collect();
        assert_eq!(ran, names, "the commands that ran");
    }
}

impl Holder {
    #[track_caller]
    fn up(self) -> Self {
        read_message(&self.stage.path("ready"));
        self
    }

    #[track_caller]
    pub(crate) fn end(self) -> Outcome {
        write_message(&self.stage.path("go"), "on");
        self.running.wait()
    }

    /// Lets the command end and asserts that dlock did not signal the command.
    #[track_caller]
    pub(crate) fn unharmed(self) {
        let outcome = self.end();
        let end = (outcome.status, &*outcome.stdout);
        assert_eq!(end, (Some(4), ""), "{outcome:#?}");
    }
}

#[test]
fn the_witness_detects_two_commands_at_the_same_time() {
    let scene = Scene::new(Flavour::MariaDb);
    let holder = scene.holder(&[]);
    scene.exec_of("another", "other", &[], "").expect(0, "", "");
    holder.unharmed();
    assert_eq!(scene.witness(), "holder\noverlap\nother\n");
}

#[test]
fn tests_and_rows_of_the_tables_of_the_documents_match() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &Path| fs::read_to_string(path).expect("a text file");
    let page = read(&here.join("man/dlock-topologies.7"));
    let rows = page.lines().filter_map(|line| line.strip_prefix(".\\\" "));
    let rows: BTreeSet<&str> = rows.filter(|name| name.contains("::")).collect();
    let names_in = |file: &Path| -> Vec<String> {
        let subject = file.file_stem().expect("a name").to_string_lossy();
        let text = read(file);
        let tests = text.split("#[test]\nfn ").skip(1);
        let found = tests.filter_map(|test| test.split('(').next());
        let on_each = text.split("\non_each_").skip(1);
        let found = found.chain(on_each.filter_map(|line| line.split(['(', ')']).nth(1)));
        found.map(|name| format!("{subject}::{name}")).collect()
    };
    let names_below = |folder: &str| -> Vec<String> {
        let files = fs::read_dir(here.join(folder)).expect("the folder exists");
        let paths = files.map(|file| file.expect("the folder can be read").path());
        let files = paths.filter(|path| path.is_file());
        files.flat_map(|path| names_in(&path)).collect()
    };
    let described = ["tests/it/faults", "tests/it/clusters"].map(names_below);
    for name in described.iter().flatten() {
        assert!(rows.contains(&**name), "no row for {name}");
    }
    let others = ["tests/it", "tests/it/mutants"].map(names_below);
    let known: Vec<&String> = described.iter().chain(&others).flatten().collect();
    // The table of the defects of topologies.
    let page = read(&here.join("CONTRIBUTING.md"));
    let defects = page.lines().filter(|line| line.starts_with("| T"));
    let defects = defects.flat_map(|line| line.split('`'));
    let defects: Vec<&str> = defects.filter(|name| name.contains("::")).collect();
    assert_eq!(defects.len(), 10, "{defects:?}");
    for row in rows.into_iter().chain(defects) {
        assert!(known.iter().any(|name| *name == row), "no test {row}");
    }
}
