//! Runs a scenario on one server with dlock or with a mutant, and returns a verdict.
//!
//! The verdict depends on which processes are alive. Every process of a command keeps a [`Witness`] locked, and the
//! next command checks whether the witness is locked. When a [`Scene`] is dropped, all processes that a mutant has left
//! alive end, even if the test fails.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Outcome, Running, eventually};
use testkit::command::{Stage, Witness, read_message};
use testkit::servers::{Database, Flavour, shared};
use testkit::sql::Sql;

use crate::hold_pid::{SCRIPT, Script};

use ScenarioResult::{Clean, Killed, TwoAlive};

/// A command that ignores stop requests and starts a descendant in a separate session. The command ends when it reads a
/// line from `$3`. The command also ends when no process has `$3` open for writing, and the descendant ends when no
/// process has `$4` open for writing.
const COMMAND: &str = r#"
    exec 9>>"$1" 7<"$3" 8<"$4"
    flock -n 9 || { echo not alone; exit 99; }
    trap "" TERM HUP INT
    setsid sh -c 'read word <&8' &
    echo up > "$2"
    read word <&7
    exit 4
"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScenarioResult {
    /// No fault was found.
    Clean,
    /// Two commands of one action were alive at the same time.
    TwoAlive,
    /// A healthy command was killed.
    Killed,
}

/// The environment of a scenario: a database, a witness and fifos that control the command.
pub(crate) struct Scene {
    /// The disabled safeguards, separated by commas. If this string is empty, the scene runs dlock itself.
    without: String,
    pub(crate) database: Database,
    pub(crate) stage: Stage,
    pub(crate) witness: Witness,
    go: File,
    /// Keeps the fifo `life` open for writing, so that the command's descendant stays alive.
    _life: File,
}

/// Maximum number of runs in which a mutant must get a verdict other than `Clean` once.
const ROUNDS: usize = 20;

/// Runs `scenario` concurrently on `flavours`, with dlock and with each of `mutants`, which have the named safeguards
/// disabled. Asserts that dlock is clean, and that each mutant gets its verdict.
#[track_caller]
pub(crate) fn compare<const N: usize>(
    flavours: impl IntoIterator<Item = Flavour>,
    mutants: [(&str, ScenarioResult); N],
    scenario: impl Fn(&Scene) -> ScenarioResult + Sync,
) {
    let scenario = &scenario;
    thread::scope(|scope| {
        for flavour in flavours {
            for (mechanism, verdict) in [("", Clean)].into_iter().chain(mutants) {
                scope.spawn(move || {
                    let rounds = if verdict == Clean { 1 } else { ROUNDS };
                    let mut seen = (0..rounds).map(|_| scenario(&Scene::new(flavour, mechanism)));
                    assert!(
                        seen.any(|seen| seen == verdict),
                        "without {mechanism:?} on {flavour}: never {verdict:?} in {rounds} rounds"
                    );
                });
            }
        }
    });
}

impl Scene {
    pub(crate) fn new(flavour: Flavour, without: &str) -> Self {
        Self::on(shared(flavour).database("mutant"), without)
    }

    pub(crate) fn on(database: Database, without: &str) -> Self {
        let stage = Stage::new();
        // This run creates the tables. A run without tables sends a longer first request than the scenarios expect.
        let first = Dlock::on(&database, ["exec", "-a", "init", "--", "true"]).run();
        assert_eq!(first.status, Some(0), "{first:#?}");
        Self {
            without: without.to_owned(),
            database,
            go: held_open(&stage, "go"),
            _life: held_open(&stage, "life"),
            witness: Witness::on(&stage),
            stage,
        }
    }

    /// Returns a `dlock exec` for `init` that runs dlock or the mutant and connects to `port`.
    pub(crate) fn exec(&self, port: u16) -> Dlock {
        let arguments = ["exec", "-a", "init"];
        let url = self.database.url_through(port);
        match self.without.as_str() {
            "" => Dlock::new(arguments),
            names => Dlock::of(&super::program(), arguments).env(super::VARIABLE, names),
        }
        .env("DLOCK_URL", url)
    }

    /// Starts a script that holds `init` with `dlock hold --pid` of dlock or the mutant.
    pub(crate) fn script(&self) -> Script {
        let shell = Dlock::of(Path::new("sh"), ["-c", SCRIPT]).env("options", "--ttl=6s");
        let shell = match self.without.as_str() {
            "" => shell.env("dlock", env!("CARGO_BIN_EXE_dlock")),
            names => (shell.env("dlock", super::program())).env(super::VARIABLE, names),
        };
        let shell = shell.env("DLOCK_URL", self.database.url());
        Script::start_with(shell, Stage::new(), self.witness.clone())
    }

    /// Starts `dlock` with [`COMMAND`] and returns once the command runs.
    pub(crate) fn holder(&self, dlock: Dlock) -> Running {
        let ready = self.stage.fifo("ready");
        let running = self.start_command(dlock, &ready);
        assert_eq!(read_message(&ready), "up");
        assert!(
            !self.witness.is_alone(),
            "the command does not keep the witness locked"
        );
        running
    }

    /// Starts `dlock` with [`COMMAND`], which writes `up` to `ready`. Does not wait for the command.
    pub(crate) fn start_command(&self, dlock: Dlock, ready: &Path) -> Running {
        let command = dlock.args(["--", "sh", "-c", COMMAND, "sh"]);
        command
            .arg(self.witness.path())
            .arg(ready)
            .arg(self.stage.path("go"))
            .arg(self.stage.path("life"))
            .start()
    }

    pub(crate) fn let_go(&self) {
        writeln!(&self.go, "on").expect("the fifo accepts a line");
    }

    pub(crate) fn next(&self, dlock: Dlock) -> Running {
        self.witness.checked_by(dlock).start()
    }

    /// Kills the holder's sessions until the holder renews on a session without the queue lock. After that, the waiter
    /// has the queue lock and watches the record.
    pub(crate) fn take_queue_lock_away(&self) {
        let mut admin = self.database.admin_conn();
        let mut killed = None;
        eventually("the holder renews without the queue lock", || {
            let (session, has_queue_lock): (u64, u64) =
                admin.value("SELECT session_id, has_queue_lock FROM dlock_lock");
            if has_queue_lock == 1 && killed != Some(session) {
                killed = Some(session);
                // KILL fails if the session has already ended.
                let _ = admin.query_drop(format!("KILL {session}"));
            }
            has_queue_lock == 0
        });
    }

    /// Starts a contender that runs dlock itself, and returns once the contender waits.
    pub(crate) fn waiter(&self) -> Running {
        let waiter = self.next(Dlock::typed(&self.database, "exec -a init"));
        waiter.wait_for_output("init is held by");
        waiter
    }
}

/// Creates a fifo and opens it for reading and writing, so that no process blocks when it opens the fifo.
fn held_open(stage: &Stage, name: &str) -> File {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(stage.fifo(name));
    file.expect("a fifo can be opened")
}

impl ScenarioResult {
    /// Derives the verdict from the outcome of the next holder.
    #[track_caller]
    pub(crate) fn of_next(outcome: &Outcome) -> Self {
        match (outcome.status, outcome.stdout.as_str()) {
            (Some(0), "alone\n") | (Some(75), "") => Clean,
            // A holder that has lost its lease to another contender detects the loss when it releases the lease.
            (Some(0 | 76), "not alone\n") => TwoAlive,
            _ => panic!("unexpected outcome of the next holder: {outcome:?}"),
        }
    }

    /// Derives the verdict from the outcome of a healthy command after [`Scene::let_go`].
    #[track_caller]
    pub(crate) fn of_healthy(outcome: &Outcome) -> Self {
        match outcome.status {
            Some(4) => Clean,
            Some(76) => Killed,
            _ => panic!("unexpected outcome of a healthy command: {outcome:?}"),
        }
    }
}

pub(crate) fn heard_or_exited(running: &mut Running, text: &str) {
    eventually(text, || {
        running.stderr_so_far().contains(text) || running.is_over()
    });
}
