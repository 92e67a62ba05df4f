//! `dlock hold --pid`: the lock of a script, which dlock has not started. Each process of the script keeps a [`Witness`]
//! locked, and the next holder's command fails if the witness is locked.

mod guarded;
mod refused;
mod shells;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use testkit::cli_runner::{Dlock, Outcome, Running, eventually};
use testkit::command::{Stage, Witness, is_alive, only_child, read_message, signal, write_message};
use testkit::holder::operator_releases;
use testkit::proxy::{AcceptMode, Flow, Proxy};
use testkit::servers::{Database, SESSIONS, database};

use crate::history::runs;

const DLOCK: &str = env!("CARGO_BIN_EXE_dlock");

/// A script that locks the witness, holds `init`, and has three processes that ignore stop requests: a child, a child in its
/// own session, and a process in its own session that is no descendant. They end at the latest with the folder of the fifos.
/// The script writes the id of the holder, the token and its own id to `$ready`, and runs each line that it reads from `$go`.
pub(crate) const SCRIPT: &str = r#"
    exec 9>>"$witness"
    flock -n 9 || exit 99
    eval "$("$dlock" hold init --pid $$ $options)"
    stay='trap "" TERM HUP INT; while [ -e "$go" ]; do sleep 1; done'
    sh -c "$stay" &
    setsid sh -c "$stay" &
    (setsid sh -c "$stay" &)
    echo $DLOCK_HOLD_PID $DLOCK_TOKEN $$ > "$ready"
    while :; do
        # A read of the previous line's fifo finds no line.
        if read line < "$go"; then eval "$line"; fi
    done
"#;

/// The next holder's command.
const NEXT: &str = r#"exec 9>>"$1"; flock -n 9 && echo alone"#;

/// A running [`SCRIPT`] that holds the lock.
pub(crate) struct Script {
    running: Running,
    stage: Stage,
    witness: Witness,
    /// The process id of the dlock in the background.
    pub(crate) holder: u32,
    token: String,
    pub(crate) pid: u32,
}

impl Script {
    fn start(database: &Database, options: &str) -> Self {
        Self::start_in(shell(&database.url(), SCRIPT).env("options", options))
    }

    /// Starts `shell`, which runs [`SCRIPT`], with a witness of its own.
    fn start_in(shell: Dlock) -> Self {
        let stage = Stage::new();
        let witness = Witness::on(&stage);
        Self::start_with(shell, stage, witness)
    }

    /// Starts `shell`, which runs [`SCRIPT`] with the fifos of `stage` and the file of `witness`.
    pub(crate) fn start_with(shell: Dlock, stage: Stage, witness: Witness) -> Self {
        let ready = stage.fifo("ready");
        let running = shell
            .env("witness", witness.path())
            .env("ready", &ready)
            .env("go", stage.fifo("go"))
            .start();
        let text = read_message(&ready);
        let words: Vec<&str> = text.split(' ').collect();
        let [holder, token, pid] = words[..] else {
            panic!("three words: {text}");
        };
        let id = |word: &str| word.parse().expect("a process id");
        assert!(!witness.is_alone(), "the script keeps the witness locked");
        Self {
            running,
            stage,
            witness,
            holder: id(holder),
            token: token.to_owned(),
            pid: id(pid),
        }
    }

    /// Waits until the script has printed `text`, and nothing else.
    #[track_caller]
    fn printed(&self, text: &str) {
        eventually(&format!("the script prints {text:?}"), || {
            self.running.stdout_so_far() == text
        });
    }

    fn runs(&self, line: &str) {
        write_message(&self.stage.path("go"), line);
    }

    /// Starts a contender whose command prints `alone` if no process of the script is alive. Returns when it waits.
    fn next(&self, database: &Database) -> Running {
        let next = Dlock::on(database, ["exec", "init", "--ttl=6s"])
            .args(["--", "sh", "-c", NEXT, "sh"])
            .arg(self.witness.path())
            .start();
        next.wait_for_output("init is held by");
        next
    }
}

/// Returns a shell that runs `script`, with the path of dlock in `$dlock`.
fn shell(url: &str, script: &str) -> Dlock {
    Dlock::of(Path::new("sh"), ["-c", script])
        .env("DLOCK_URL", url)
        .env("dlock", DLOCK)
}

/// A process with variables in its environment, which is no descendant of a script.
struct Bystander(Child);

impl Bystander {
    fn start(command: &mut Command) -> Self {
        Self(command.arg("1d").spawn().expect("sleep can be started"))
    }

    fn of(user: u32, action: &str, token: &str) -> Self {
        let mut sleep = Command::new("sleep");
        sleep.env("DLOCK_ACTION", action).env("DLOCK_TOKEN", token);
        Self::start(sleep.uid(user))
    }

    fn is_alive(&self) -> bool {
        is_alive(&self.0.id().to_string())
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until no waiter is alive. On a busy machine, a waiter may not have the time to delete its entry.
pub(crate) fn nobody_waits(database: &Database) {
    database.wait_until(format!(
        "COUNT(*)=0 FROM dlock_waiter w JOIN {SESSIONS} p ON p.id=w.session_id"
    ));
}

fn is_free(database: &Database) -> bool {
    let contend = Dlock::on(database, ["exec", "init", "-n", "--", "true"]);
    contend.run().status == Some(0)
}

#[test]
fn processes_of_a_script_do_not_outlive_it() {
    let database = database();
    for is_killed in [false, true] {
        let script = Script::start(&database, "--ttl=10m");
        let next = script.next(&database);
        match is_killed {
            true => signal(script.pid, "KILL"),
            false => script.runs("exit 4"),
        }
        next.wait().expect(0, "alone\n", "init is held by");
        let left = format!("that process {} of init left running", script.pid);
        let outcome = script.running.wait();
        assert!(outcome.stderr.contains(&left), "{outcome:?}");
        let status = (!is_killed).then_some(4);
        assert_eq!(outcome.status, status, "{outcome:?}");
    }
}

#[test]
fn processes_of_a_script_are_dead_before_the_next_command_starts() {
    let database = database();
    let stopped_by = |options: &str, happen: &dyn Fn(&Script)| -> Outcome {
        let script = Script::start(&database, options);
        let next = script.next(&database);
        happen(&script);
        next.wait().expect(0, "alone\n", "init is held by");
        if is_alive(&script.holder.to_string()) {
            signal(script.holder, "CONT");
        }
        script.running.wait()
    };
    // The ttl is so long that the lease does not end during the test.
    let outcome = stopped_by("--ttl=10m", &|script| signal(script.holder, "KILL"));
    assert_eq!(outcome.status, None, "{outcome:?}");

    let outcome = stopped_by("--ttl=10m", &|script| {
        signal(only_child(script.holder), "KILL");
    });
    assert_eq!(outcome.status, None, "{outcome:?}");
    let text = "the monitor of init was killed; killing process ";
    assert!(outcome.stderr.contains(text), "{outcome:?}");

    // The dlock in the background is frozen.
    let outcome = stopped_by("--ttl=6s --grace=1s", &|script| {
        signal(script.holder, "STOP");
    });
    assert!(outcome.stderr.contains("stopping process "), "{outcome:?}");

    let outcome = stopped_by("--ttl=60s --grace=1s", &|script| {
        script.runs(r"trap 'echo stopped' TERM; echo ready");
        script.printed("ready\n");
        operator_releases(&database);
    });
    let text = "lost init: released by ops; stopping process ";
    assert!(outcome.stderr.contains(text), "{outcome:?}");
    assert_eq!(outcome.stdout, "ready\nstopped\n", "{outcome:?}");
    let run = &runs(&database, &[])[1];
    assert_eq!(run["outcome"], "revoked", "{run}");
    let command = run["command"].as_str().expect("a text");
    assert!(command.starts_with("hold "), "{command}");
    assert!(command.ends_with(" (sh)"), "{command}");
}

#[test]
fn script_is_dead_before_a_lease_ends_that_a_frozen_server_does_not_renew() {
    let database = database();
    let proxy = Proxy::to(database.port);
    let shell = shell(&database.url_through(proxy.port()), SCRIPT);
    let script = Script::start_in(shell.env("options", "--ttl=6s --grace=1s"));
    let next = script.next(&database);
    proxy.both(Flow::Hold);
    proxy.door(AcceptMode::Silent);
    next.wait().expect(0, "alone\n", "init is held by");
    let outcome = script.running.wait();
    assert!(outcome.stderr.contains("cannot keep init: "), "{outcome:?}");
}

#[test]
fn script_that_is_only_told_about_the_loss_goes_on() {
    let database = database();
    let script = Script::start(&database, "--ttl=6s --on-lost=report");
    operator_releases(&database);
    (script.running).wait_for_output("lost init: released by ops; the hold ends");
    script.runs(r#""$dlock" check; echo $?"#);
    script.printed("76\n");
    assert!(is_alive(&script.pid.to_string()));

    let script = Script::start(&database, "--ttl=10m --on-lost=report");
    assert!(!is_free(&database));
    signal(script.pid, "KILL");
    eventually("the lock is free", || is_free(&database));
    assert!(!script.witness.is_alone(), "no process was signalled");
}
