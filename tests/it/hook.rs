//! Tests of `--on-event`: the variables that a hook receives. A hook never affects a run, even if the hook fails or
//! hangs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use dlock::process::hook::{LIMIT, VARIABLES};
use testkit::cli_runner::{Dlock, eventually};
use testkit::command::{Stage, Witness, only_child, read_message, signal};
use testkit::holder::{Holder, is_free, renewals, steal, token};
use testkit::servers::{Database, database};

use crate::pid_one::{namespaces, unshare};

/// A file to which a hook writes its variables, in one block of lines for each event.
struct EventLog(Stage);

impl EventLog {
    fn new() -> Self {
        Self(Stage::new())
    }

    /// Returns the `--on-event` option. Its hook writes to the file and also runs the shell code `more`.
    fn hook(&self, more: &str) -> String {
        let path = self.0.path("notes");
        let path = path.display();
        format!("--on-event={{ env | grep ^DLOCK_; {more}\n echo end; }} >> {path}")
    }

    /// Returns the variables of all events so far, with one map for each event. If a variable is set twice, its value
    /// is the concatenation of both values.
    fn all(&self) -> Vec<BTreeMap<String, String>> {
        let text = fs::read_to_string(self.0.path("notes")).unwrap_or_default();
        let events = text.split("end\n").filter(|event| !event.is_empty());
        let variables = |event: &str| {
            let mut variables = BTreeMap::<String, String>::new();
            for (name, value) in event.lines().filter_map(|line| line.split_once('=')) {
                *variables.entry(name.to_owned()).or_default() += value;
            }
            variables
        };
        events.map(variables).collect()
    }

    /// Returns the variables of `event`, which must have occurred exactly once.
    #[track_caller]
    fn of(&self, event: &str) -> BTreeMap<String, String> {
        let all = self.all();
        let mut found = all.iter().filter(|facts| facts["DLOCK_EVENT"] == event);
        let [Some(first), None] = [found.next(), found.next()] else {
            panic!("not one {event} in {all:#?}");
        };
        first.clone()
    }

    fn names(&self) -> Vec<String> {
        let names = |facts: &BTreeMap<String, String>| facts["DLOCK_EVENT"].clone();
        self.all().iter().map(names).collect()
    }
}

/// Asserts that the variables of an event include `wanted`, as `NAME=VALUE` without the prefix of the names.
#[track_caller]
fn has(facts: &BTreeMap<String, String>, wanted: &str) {
    for (name, value) in wanted.split(' ').filter_map(|it| it.split_once('=')) {
        let found = &facts[&format!("DLOCK_{name}")];
        assert_eq!(found, value, "{name} in {facts:#?}");
    }
}

fn exec(database: &Database, hook: &str, options: &[&str]) -> Dlock {
    Dlock::on(database, ["exec", "-a", "init", "--holder=web-1"])
        .args(options)
        .arg(hook)
        .env("dlock", env!("CARGO_BIN_EXE_dlock"))
}

#[test]
fn hooks_for_grant_and_release_receive_all_variables() {
    let database = database();
    let event_log = EventLog::new();
    let hooked = event_log.0.fifo("hooked");
    let check = format!(
        r#""$dlock" status --check init; echo "held=$?"
        [ $DLOCK_EVENT = granted ] && echo up > {}"#,
        hooked.display()
    );
    let outcome = exec(&database, &event_log.hook(&check), &["--ttl=20s"])
        // The hook must not receive the values of an outer dlock.
        .env("DLOCK_TOKEN", "1")
        .env("DLOCK_REASON", "outer")
        .args(["--", "sh", "-c"])
        // The command exits after the hook for the grant has run.
        .arg(r#"read word < "$0"; exit 4"#)
        .arg(&hooked)
        .run();
    outcome.expect(4, "", "");
    assert_eq!(event_log.names(), ["granted", "released"]);
    let (granted, released) = (event_log.of("granted"), event_log.of("released"));
    for facts in [&granted, &released] {
        for name in VARIABLES {
            assert!(facts.contains_key(name), "no {name} in {facts:#?}");
        }
        let token = token(&database).to_string();
        let wanted = format!("ACTION=init HOLDER=web-1 TOKEN={token} OTHER_HOLDER=");
        has(facts, &wanted);
    }
    assert_eq!((&*granted["held"], &*released["held"]), ("75", "0"));
    has(&granted, "RESULT= EXIT_STATUS= REASON=");
    has(&released, "RESULT=failed EXIT_STATUS=4");
    assert_eq!(released["DLOCK_REASON"], "the command exited with 4");
    let held: f64 = released["DLOCK_HELD_SECONDS"].parse().expect("a number");
    assert!(held > 0.0 && held < 600.0, "{held}");
}

#[test]
fn the_hook_for_a_skip_receives_the_reason_and_the_other_holder() {
    let database = database();
    let event_log = EventLog::new();
    let holder = Holder::on(&database, &["--holder=web-2\u{1b}[2J", "--once"]);
    let run = |event_log: &EventLog, options: &[&str]| {
        let exec = exec(&database, &event_log.hook(""), options);
        exec.args(["--", "true"]).run()
    };
    run(&event_log, &["-n"]).expect(75, "", "init is held by");
    let facts = event_log.of("skipped");
    let wanted = r"RESULT=held EXIT_STATUS=75 TOKEN= OTHER_HOLDER=web-2\u{1b}[2J";
    has(&facts, wanted);
    let reason = &facts["DLOCK_REASON"];
    assert!(reason.starts_with("init is held by web-2"), "{reason}");
    holder.end();

    run(&event_log, &["--once", "-q"]).expect(0, "", "");
    let event_log = EventLog::new();
    run(&event_log, &["--once"]).expect(0, "", "init was done by web-1");
    assert_eq!(event_log.names(), ["skipped"]);
    let facts = event_log.of("skipped");
    has(&facts, "RESULT=done EXIT_STATUS=0 OTHER_HOLDER=web-1");
    // A failure before the run is not a skip, and causes no event.
    let event_log = EventLog::new();
    let denied = run(&event_log, &["--user=nobody"]);
    assert_eq!(denied.status, Some(77));
    assert!(event_log.names().is_empty());
}

#[test]
fn a_slow_hook_is_killed_with_its_group_while_the_lease_is_renewed() {
    let database = database();
    let (event_log, stage) = (EventLog::new(), Stage::new());
    let witness = Witness::on(&stage);
    let hook = hanging(&event_log, &stage, &witness, ":");
    // The command runs although the hook for its grant does not end.
    let holder = Holder::on(&database, &["--ttl=6s", &hook]);
    eventually("the hook runs", || !witness.is_alone());
    let before = renewals(&database);
    eventually("renewals continue", || renewals(&database) > before + 2);
    let late = "--on-event for granted took more than 10s and was killed";
    holder.running.wait_for_output(late);
    eventually("all processes of the hook are dead", || witness.is_alone());
    holder.end().expect(3, "", late);
}

/// Returns the `--on-event` option with a hook that records its event and runs `more`. For a grant, the hook and a child in
/// its process group hang instead, until a process writes to `never`.
fn hanging(event_log: &EventLog, stage: &Stage, witness: &Witness, more: &str) -> String {
    let never = stage.fifo("never");
    let (path, never) = (witness.path().display(), never.display());
    let record = event_log.hook(more);
    let record = record.strip_prefix("--on-event=").expect("an option");
    format!(
        "--on-event=[ $DLOCK_EVENT = granted ] && {{ exec 9>>{path}; flock 9; trap '' TERM; \
         sh -c 'read _ < {never}' & read _ < {never}; }}; {record}"
    )
}

/// The message about a hook that hangs. On a busy machine, the hook may take longer to die than dlock waits, and the
/// message ends with this fact.
const STILL_RUNNING: &str =
    "dlock: --on-event for granted was still running when dlock ended and was killed";

#[test]
fn a_hanging_hook_delays_neither_the_release_nor_the_exit() {
    let database = database();
    for signal in [None, Some("TERM")] {
        let (event_log, stage) = (EventLog::new(), Stage::new());
        let witness = Witness::on(&stage);
        let free = stage.path("free");
        let more = format!("[ $DLOCK_EVENT = released ] && : > {}", free.display());
        let hook = hanging(&event_log, &stage, &witness, &more);
        let exec = exec(&database, &hook, &[]);
        let run = stage.start(exec, r#"echo up > "$1"; read word < "$2"; exit 3"#);
        eventually("the hook runs", || !witness.is_alone());
        let ended = Instant::now();
        stage.let_go("on");
        if let Some(signal) = signal {
            eventually("the lock is free", || is_free(&database));
            run.signal(signal);
        }
        // dlock waits 1 s for the hook. The test allows half the time limit of a hook, for a busy machine.
        let outcome = run.wait();
        let took = ended.elapsed();
        assert!(took < LIMIT / 2, "{took:?}");
        outcome.expect(3, "", STILL_RUNNING);
        assert!(is_free(&database));
        // The hook for the release ran while the hook for the grant was hanging.
        assert!(free.exists() || signal.is_some());
        eventually("all processes of the hook are dead", || witness.is_alone());
    }
}

#[test]
fn a_hanging_hook_does_not_delay_the_hook_for_a_lost_lease() {
    let database = database();
    let (event_log, stage) = (EventLog::new(), Stage::new());
    let witness = Witness::on(&stage);
    let go = stage.path("go");
    let more = format!("[ $DLOCK_EVENT = lost ] && echo up > {}", go.display());
    let hook = hanging(&event_log, &stage, &witness, &more);
    // The command ignores SIGTERM until the hook has run.
    let script = r#"trap "" TERM; echo up > "$1"; read word < "$2"; exit 0"#;
    let exec = exec(&database, &hook, &["--ttl=40s", "--grace=25s"]);
    let run = stage.start(exec, script);
    eventually("the hook runs", || !witness.is_alone());
    let lost_token = token(&database).to_string();
    let stolen = Instant::now();
    steal(&database);
    run.wait_for_output("lost init: init is held by a thief");
    let reported = Instant::now();
    // The command exits because the hook for the loss has run. If that hook did not run, dlock would kill the
    // command.
    let outcome = run.wait();
    let took = reported.elapsed();
    assert!(took < LIMIT / 2, "{took:?}");
    assert!(stolen.elapsed() < LIMIT * 2);
    outcome.expect(76, "", STILL_RUNNING);
    eventually("all processes of the hook are dead", || witness.is_alone());

    let facts = event_log.of("lost");
    let wanted = format!("RESULT=lost EXIT_STATUS=76 TOKEN={lost_token}");
    has(&facts, &wanted);
    assert_eq!(facts["DLOCK_OTHER_HOLDER"], "a thief");
    let reason = &facts["DLOCK_REASON"];
    let why = "lost init: init is held by a thief";
    assert!(reason.starts_with(why), "{reason}");
}

#[test]
fn a_failed_hook_is_reported_and_does_not_affect_the_run() {
    let database = database();
    for (hook, how) in [
        ("exit 5", "exited with 5"),
        // If the hook inherited dlock's signal mask, the hook would not receive SIGTERM.
        ("kill -TERM $$; exit 6", "was killed by SIGTERM (15)"),
        ("no-such-command 2> /dev/null", "exited with 127"),
    ] {
        let outcome = exec(&database, &format!("--on-event={hook}"), &[])
            .args(["--", "sh", "-c", "exit 4"])
            .run();
        let message =
            ["granted", "released"].map(|event| format!("dlock: --on-event for {event} {how}\n"));
        outcome.expect(4, "", &message.concat());
        assert_eq!(outcome.stderr, message.concat());
    }
}

#[test]
fn a_hook_inherits_no_stdin_or_descriptors_and_writes_to_stderr() {
    let database = database();
    // ls needs one descriptor for the folder that it lists. Descriptor 9 is open in dlock.
    let hook = "--on-event=[ $DLOCK_EVENT = granted ] || exit 0; readlink /proc/self/fd/0; \
                ls /proc/self/fd | tr '\\n' ' '; echo; [ -e /proc/self/fd/9 ] && echo nine";
    let script = r#"exec 9>/dev/null; exec "$0" exec -a init "$1" -- cat"#;
    let stage = Stage::new();
    let input = stage.write("input", 0o600, "input\n");
    let outcome = Dlock::of(Path::new("/bin/sh"), ["-c", script])
        .arg(env!("CARGO_BIN_EXE_dlock"))
        .arg(hook)
        .env("DLOCK_URL", database.url())
        .stdin(fs::File::open(input).expect("the file exists").into())
        .run();
    // The command reads the whole input.
    let read = (outcome.status, &*outcome.stdout);
    assert_eq!(read, (Some(0), "input\n"));
    let lines: Vec<&str> = outcome.stderr.lines().map(str::trim).collect();
    let failed = "dlock: --on-event for granted exited with 1";
    assert_eq!(lines, ["/dev/null", "0 1 2 3", failed]);
}

#[test]
fn killing_dlock_kills_the_shell_of_its_hook() {
    let database = database();
    let stage = Stage::new();
    let witness = Witness::on(&stage);
    let never = stage.fifo("never");
    let (path, never) = (witness.path().display(), never.display());
    let hook = format!("--on-event=exec 9>>{path}; flock 9; read _ < {never}");
    let started = Instant::now();
    let holder = Holder::on(&database, &[&hook]);
    eventually("the hook runs", || !witness.is_alone());
    holder.running.signal("KILL");
    eventually("the hook is dead", || witness.is_alone());
    // The hook was killed before its time limit.
    assert!(started.elapsed() < LIMIT);
}

#[test]
fn monitor_death_neither_kills_a_hook_nor_waits_for_it_nor_skips_the_next_hook() {
    let database = database();
    // The hook for the grant continues when the hook for the loss writes to the fifo `go`, or hangs.
    for (answer, message) in [
        ("echo on > $go", "the monitor of init was killed"),
        (":", "--on-event for granted "),
    ] {
        let [stage, hooked] = [Stage::new(), Stage::new()];
        let [witness, hooked] = [&stage, &hooked].map(Witness::on);
        let [ready, go, never] = ["ready", "go", "never"].map(|name| stage.fifo(name));
        let [granted, lost] = ["granted", "lost"].map(|name| stage.path(name));
        let hook = format!(
            "--on-event=go={}; exec 9>>{}; flock -s 9; case $DLOCK_EVENT in \
             granted) echo up > {}; read word < $go; echo $word > {};; \
             lost) echo $DLOCK_EXIT_STATUS $DLOCK_REASON > {}; {answer};; esac",
            go.display(),
            hooked.path().display(),
            ready.display(),
            granted.display(),
            lost.display(),
        );
        let run = exec(&database, &hook, &["--ttl=40s"])
            .args(["--", "sh", "-c"])
            // The command leaves a process that dlock must kill. When the monitor dies, that process becomes a child of
            // dlock.
            .arg(r#"exec 9>>"$0"; flock 9; setsid sh -c 'read _ < "$0"' "$1" & read _ < "$1""#)
            .arg(witness.path())
            .arg(&never)
            .start();
        read_message(&ready);
        eventually("the command runs", || !witness.is_alone());
        signal(only_child(run.pid()), "KILL");
        run.wait_for_output("the monitor of init was killed");
        let killed = Instant::now();
        let outcome = run.wait();
        let took = killed.elapsed();
        assert!(took < LIMIT / 2, "{took:?}");
        outcome.expect(76, "", message);
        assert!(witness.is_alone(), "a process of the command is alive");
        assert!(is_free(&database));
        eventually("all hooks have ended", || hooked.is_alone());
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        assert_eq!(text(&lost), "76 the monitor of init was killed\n");
        let continued = if answer == ":" { "" } else { "on\n" };
        assert_eq!(text(&granted), continued);
    }
}

#[test]
fn hooks_run_in_a_container() {
    let database = database();
    let event_log = EventLog::new();
    let status = unshare(namespaces())
        .args([env!("CARGO_BIN_EXE_dlock"), "exec", "-a", "init"])
        .arg(event_log.hook("(exit 3) & (setsid true &)"))
        .args(["--", "sh", "-c", "exit 4"])
        .env("DLOCK_URL", database.url())
        .status()
        .expect("unshare is installed");
    assert_eq!(status.code(), Some(4));
    assert_eq!(event_log.names(), ["granted", "released"]);
}
