//! One scenario on one server, with dlock or with a twin, and what the checker makes of it.
//!
//! Judged by real lives: all that a command starts keeps a [`Witness`] locked, and whoever comes next
//! looks whether it is alone. What a twin leaves alive ends with the scene's folder, also when the
//! test fails.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;

use mysql::prelude::Queryable;

use crate::command::{Stage, Witness, heard};
use crate::dlock::{Dlock, Outcome, Running, eventually};
use crate::servers::{Database, Flavour, shared};

/// A command that wants to live, with a descendant in a session of its own. It ends when it is told
/// to on `$3`, and all of it when nobody can write to `$3` and `$4` any more.
const COMMAND: &str = r#"
    exec 9>>"$1" 7<"$3" 8<"$4"
    flock -n 9 || { echo not alone; exit 99; }
    trap "" TERM HUP INT
    setsid sh -c 'read word <&8' &
    echo up > "$2"
    read word <&7
    exit 4
"#;

/// Whoever comes next.
const NEXT: &str = r#"exec 9>>"$1"; if flock -n 9; then echo alone; else echo not alone; fi"#;

/// What became of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing wrong.
    Clean,
    /// Two commands of one action lived at the same time.
    TwoAlive,
    /// A healthy command was killed.
    Killed,
}

/// Where a scenario plays.
pub(crate) struct Scene {
    /// What the program leaves out; nothing if it is empty.
    without: String,
    pub(crate) database: Database,
    pub(crate) stage: Stage,
    pub(crate) witness: Witness,
    go: File,
    /// Open as long as what a command leaves behind may live.
    _life: File,
}

/// Plays `scenario` on every kind of server at once: with dlock, which must be clean, and with the
/// twin that does without `mechanism`, which must come to `verdict` in one of `rounds`.
#[track_caller]
pub(crate) fn compare(
    mechanism: &str,
    verdict: Verdict,
    rounds: usize,
    scenario: impl Fn(&Scene) -> Verdict + Sync,
) {
    thread::scope(|scope| {
        for flavour in Flavour::ALL {
            let scenario = &scenario;
            scope.spawn(move || {
                let clean = scenario(&Scene::new(flavour, ""));
                assert_eq!(clean, Verdict::Clean, "dlock on {flavour}");
            });
            scope.spawn(move || {
                let mut seen = (0..rounds).map(|_| scenario(&Scene::new(flavour, mechanism)));
                assert!(
                    seen.any(|seen| seen == verdict),
                    "without {mechanism} on {flavour}: not {verdict:?}, not in {rounds} rounds"
                );
            });
        }
    });
}

impl Scene {
    pub(crate) fn new(flavour: Flavour, without: &str) -> Self {
        Self::on(shared(flavour).database("twin"), without)
    }

    pub(crate) fn on(database: Database, without: &str) -> Self {
        let stage = Stage::new();
        // Who makes the tables has a long first question; none of this is about that.
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

    /// `dlock exec` for the scene's action, or the twin's, by way of `port`.
    pub(crate) fn exec(&self, port: u16) -> Dlock {
        let arguments = ["exec", "-a", "init"];
        let url = self.database.url_through(port);
        match self.without.as_str() {
            "" => Dlock::new(arguments),
            names => Dlock::of(&super::program(), arguments).env(super::VARIABLE, names),
        }
        .env("DLOCK_URL", url)
    }

    /// The holder: `dlock` with the [`COMMAND`], which runs.
    pub(crate) fn holder(&self, dlock: Dlock) -> Running {
        let ready = self.stage.fifo("ready");
        let running = self.unsettled(dlock, &ready);
        assert_eq!(heard(&ready), "up");
        assert!(!self.witness.is_alone(), "the witness is blind");
        running
    }

    /// The same, of which nobody knows yet whether it runs.
    pub(crate) fn unsettled(&self, dlock: Dlock, ready: &Path) -> Running {
        let command = dlock.args(["--", "sh", "-c", COMMAND, "sh"]);
        command
            .arg(self.witness.path())
            .arg(ready)
            .arg(self.stage.path("go"))
            .arg(self.stage.path("life"))
            .start()
    }

    /// Lets the [`COMMAND`] end by itself.
    pub(crate) fn let_go(&self) {
        writeln!(&self.go, "on").expect("the fifo takes a word");
    }

    /// `dlock` with a command that tells whether it is alone.
    pub(crate) fn next(&self, dlock: Dlock) -> Running {
        let next = dlock.args(["--", "sh", "-c", NEXT, "sh"]);
        next.arg(self.witness.path()).start()
    }

    /// Ends the holder's session until it has renewed on one without the gate: then the waiter has
    /// that and watches the row.
    pub(crate) fn take_the_gate_away(&self) {
        let mut admin = self.database.admin_conn();
        let mut killed = None;
        eventually("the holder renews without the gate", || {
            let row: Option<(u64, u64)> = admin
                .query_first("SELECT session_id, gated FROM dlock_lock")
                .expect("the table is there");
            let (session, gated) = row.expect("the row is there");
            if gated == 1 && killed != Some(session) {
                killed = Some(session);
                // It may be over by itself.
                let _ = admin.query_drop(format!("KILL {session}"));
            }
            gated == 0
        });
    }

    /// An honest contender that waits.
    pub(crate) fn waiter(&self) -> Running {
        let dlock = Dlock::on(&self.database, ["exec", "-a", "init"]);
        let waiter = self.next(dlock);
        waiter.heard("init is held by");
        waiter
    }
}

/// A new fifo that is open for writing, so that nobody waits for that.
fn held_open(stage: &Stage, name: &str) -> File {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(stage.fifo(name));
    file.expect("a fifo can be opened")
}

impl Verdict {
    /// Of whoever came next.
    #[track_caller]
    pub(crate) fn of_next(outcome: &Outcome) -> Self {
        match (outcome.status, outcome.stdout.as_str()) {
            (Some(0), "alone\n") | (Some(75), "") => Self::Clean,
            // A lease that another took with it is found lost at the release.
            (Some(0 | 76), "not alone\n") => Self::TwoAlive,
            _ => panic!("neither alone nor not: {outcome:?}"),
        }
    }

    /// Of a healthy command once it was let go.
    #[track_caller]
    pub(crate) fn of_healthy(outcome: &Outcome) -> Self {
        match outcome.status {
            Some(4) => Self::Clean,
            Some(76) => Self::Killed,
            _ => panic!("neither ended nor stopped: {outcome:?}"),
        }
    }
}

/// Waits until dlock has said `text` or has ended.
pub(crate) fn heard_or_over(running: &mut Running, text: &str) {
    eventually(text, || running.said().contains(text) || running.is_over());
}
