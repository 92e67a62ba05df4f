//! Tests of `dlock exec` inside the command of another `dlock exec`. For the same action, the inner dlock runs its
//! command under the outer lease. For a different action, the inner dlock acquires its own lease.

use std::process::Command;

use serde_json::Value;
use testkit::cli_runner::{Dlock, Outcome, eventually};
use testkit::command::{Stage, read_message, write_message};
use testkit::holder::{Holder, is_free, renewals, steal, token};
use testkit::proxy::{AcceptMode, Proxy};
use testkit::servers::{Database, Flavour, shared};

use crate::faults::on_each;
use crate::logs::messages;
use crate::pid_one::{namespaces, unshare};

/// The wait limit of an inner dlock. If there were no limit, an inner dlock that waits for the outer lease would never
/// end.
const WAIT_LIMIT: &str = "--wait=2s";

/// Returns a `dlock exec` for `init` with the shell script `script` as its command. In the script, `$dlock` is the path
/// of dlock.
fn outer(database: &Database, script: &str) -> Dlock {
    Dlock::on(database, ["exec", "-a", "init", "--holder=web-1"])
        .env("dlock", env!("CARGO_BIN_EXE_dlock"))
        .args(["--", "sh", "-c", script])
}

/// Returns the address of `database` in the format of `DLOCK_DATABASE_ADDRESS`.
fn address(database: &Database) -> String {
    format!("127.0.0.1:{}/{}", database.port, database.name)
}

/// Returns a `dlock exec` for `init` in the environment of a command whose holder was granted `token` by the database
/// at `address`.
fn inner(database: &Database, token: u64, address: &str) -> Dlock {
    Dlock::on(database, ["exec", "-a", "init", "-v", WAIT_LIMIT])
        .env("DLOCK_ACTION", "init")
        .env("DLOCK_TOKEN", token.to_string())
        .env("DLOCK_DATABASE_ADDRESS", address)
        .args(["--", "true"])
}

#[test]
fn nested_exec_of_the_same_action_runs_under_the_outer_lease() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("nested");
    let script =
        format!(r#""$dlock" exec -v -a init {WAIT_LIMIT} -- sh -c 'echo "$DLOCK_TOKEN"; exit 5'"#);
    let outcome = outer(&database, &script).run();
    let token = token(&database);
    let printed = format!(
        "dlock: init is held by the outer dlock (token {token}): running under its lease\n"
    );
    outcome.expect(5, &format!("{token}\n"), &printed);
    // The history contains only the outer run.
    let history = Dlock::on(&database, ["history", "init"]).run().stdout;
    assert_eq!(history.lines().count(), 2, "{flavour}: {history}");
    assert!(history.contains("exit 5"), "{flavour}: {history}");
    assert!(is_free(&database), "{flavour}");
}

#[test]
fn three_nested_levels_share_one_lease() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("nested");
    let script = format!(
        r#""$dlock" exec -a init {WAIT_LIMIT} -- sh -c '
            "$dlock" exec -a init {WAIT_LIMIT} -- sh -c "
                \"\$dlock\" exec --log-format=json -v -a init {WAIT_LIMIT} -- echo innermost
                exit 7"'"#
    );
    let outcome = outer(&database, &script).run();
    assert_eq!(outcome.status, Some(7), "{flavour}: {outcome:#?}");
    assert_eq!(outcome.stdout, "innermost\n", "{flavour}");
    let printed = messages(&outcome.stderr);
    assert_eq!(printed.len(), 1, "{flavour}: {printed:?}");
    assert_eq!(printed[0]["event"], "nested", "{flavour}");
    assert_eq!(printed[0]["token"], token(&database), "{flavour}");
}

#[test]
fn nested_command_replaces_its_dlock_and_receives_signals() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("nested");
    let stage = Stage::new();
    let ready = stage.fifo("ready");
    let script = format!(
        r#"exec "$dlock" exec -a init {WAIT_LIMIT} -- sh -c '
            trap "exit 9" TERM
            tr "\0" " " < /proc/$PPID/comm > {}
            while :; do sleep 0.1; done'"#,
        ready.display()
    );
    let running = outer(&database, &script).start();
    assert_eq!(read_message(&ready), "lease-monitor", "{flavour}");
    running.signal("TERM");
    let outcome = running.wait();
    assert_eq!(outcome.status, Some(9), "{flavour}: {outcome:#?}");
}

#[test]
fn nested_command_inherits_signals_and_streams_like_the_outer_one() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("nested");
    // stdin is closed in the outer command, so stdin must also be closed in the inner command. The test compares
    // only the last 8 digits of the masks, which contain the standard signals. The C library uses some of the other
    // signals itself.
    let inspect = concat!(
        r#"'grep -E "^Sig(Blk|Ign)" /proc/self/status | grep -oE ".{8}$""#,
        r#"; readlink /proc/$$/fd/0 || echo none'"#
    );
    let script = format!(
        r#"trap '' USR1 PIPE; exec <&-; sh -c {inspect}; echo then
           "$dlock" exec -a init {WAIT_LIMIT} -- sh -c {inspect}"#
    );
    let outcome = outer(&database, &script).run();
    assert_eq!(outcome.status, Some(0), "{flavour}: {outcome:#?}");
    let (direct, nested) = outcome
        .stdout
        .split_once("then\n")
        .expect("both commands have run");
    assert_eq!(direct, nested, "{flavour}");
    assert!(direct.ends_with("none\n"), "{flavour}: {direct}");
}

/// Asserts that an inner dlock that starts after `lose` prints `why`, does not wait, and exits with 76.
#[track_caller]
fn assert_nested_exec_exits_76(database: &Database, why: &str, lose: impl FnOnce()) {
    let stage = Stage::new();
    let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
    let script = format!(
        r#"trap '' TERM; echo up > {}; read word < {}
           "$dlock" exec -a init -- echo never; echo status=$?"#,
        ready.display(),
        go.display()
    );
    let running = outer(database, &script).start();
    assert_eq!(read_message(&ready), "up");
    lose();
    write_message(&go, "on");
    running.wait_for_output(why);
    let outcome = running.wait();
    assert_eq!(outcome.stdout, "status=76\n", "{outcome:#?}");
}

#[test]
fn nested_exec_with_a_stale_token_exits_76() {
    let database = shared(Flavour::of_this_test()).database("nested");
    let mut before = 0;
    assert_nested_exec_exits_76(&database, "is not current: init is held by a thief", || {
        before = token(&database);
        steal(&database);
    });

    // The token of a finished run is not current. A process that has outlived its run may still have this token in
    // its environment.
    let free = "UPDATE dlock_lock SET owner_id=NULL";
    mysql::prelude::Queryable::query_drop(&mut database.admin_conn(), free)
        .expect("the row can be changed");
    let why = format!("the outer dlock's token {before} is not current: init is free");
    let late = inner(&database, before, &address(&database)).run();
    late.expect(76, "", &why);
    // dlock ignores the variables, because they contain the address of a different database.
    let other = inner(&database, before, "127.0.0.1:1/other").run();
    other.expect(0, "", "acquired init in");
}

#[test]
fn nested_exec_under_a_revoked_lease_exits_76() {
    let database = shared(Flavour::of_this_test()).database("nested");
    assert_nested_exec_exits_76(&database, "is not current: ", || {
        let release = ["release", "-a", "init", "--yes", "--operator=eve"];
        Dlock::on(&database, release)
            .run()
            .expect(0, "", "released");
    });
}

#[test]
fn process_not_descended_from_the_holder_must_wait_for_the_lock() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("nested");
    let holder = Holder::on(&database, &[]);
    let outcome = inner(&database, token(&database), &address(&database)).run();
    outcome.expect(75, "", "init is held by ");
    assert_eq!(holder.end().status, Some(3), "{flavour}");
}

#[test]
fn holder_in_another_pid_namespace_is_never_an_ancestor() {
    let unshare = unshare(namespaces());
    let words: Vec<&str> = std::iter::once(unshare.get_program())
        .chain(unshare.get_args())
        .filter_map(std::ffi::OsStr::to_str)
        .collect();
    let unshare = words.join(" ");
    let database = shared(Flavour::of_this_test()).database("nested");
    let script = format!(r#"{unshare} "$dlock" exec -n -a init -- echo never"#);
    let outcome = outer(&database, &script).run();
    outcome.expect(75, "", "init is held by web-1");
}

#[test]
fn nested_exec_of_another_action_has_its_own_lock_and_defaults() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("nested");
    let script = format!(
        r#"before=$DLOCK_TOKEN
           "$dlock" exec -a other {WAIT_LIMIT} -- sh -c '
                echo "$DLOCK_ACTION $DLOCK_HOLDER $DLOCK_TTL $DLOCK_DATABASE_ADDRESS"
                [ "$DLOCK_TOKEN" != "$1" ] || echo "the same token"' sh "$before"
           echo "$DLOCK_ACTION $DLOCK_HOLDER $DLOCK_TTL""#
    );
    let outcome = outer(&database, &script).env("DLOCK_OPT_TTL", "1m").run();
    assert_eq!(outcome.status, Some(0), "{flavour}: {outcome:#?}");
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{flavour}: {lines:?}");
    // Neither the option variables of the outer dlock nor those that it sets for its command are options of the inner
    // dlock.
    assert!(lines[0].starts_with("other "), "{lines:?}");
    assert!(!lines[0].contains("web-1"), "{flavour}: {lines:?}");
    let end = format!(" 30s {}", address(&database));
    assert!(lines[0].ends_with(&end), "{lines:?}");
    assert_eq!(lines[1], "init web-1 1m", "{flavour}");

    let script =
        format!(r#""$dlock" exec -a other {WAIT_LIMIT} -- sh -c 'echo "$DLOCK_TTL"; exit 4'"#);
    let outcome = Dlock::on(&database, ["exec", "-a", "init", "--ttl=1m"])
        .env("dlock", env!("CARGO_BIN_EXE_dlock"))
        .args(["--", "sh", "-c", &script])
        .run();
    outcome.expect(4, "30s\n", "");
    // The inner dlock does not inherit the action of the outer dlock.
    let outcome = outer(&database, r#""$dlock" exec -- true"#).run();
    outcome.expect(64, "", "required arguments were not provided:\n  <NAME");
}

/// Returns a `dlock exec` for `first` whose command reports that it runs, waits, and then runs a `dlock exec` for `second`.
fn crossing(database: &Database, stage: &Stage, first: &str, second: &str) -> Dlock {
    Dlock::on(database, ["exec", "-a", first, "--holder", first])
        .env("dlock", env!("CARGO_BIN_EXE_dlock"))
        .args(["--", "sh", "-c"])
        .arg(r#"echo up > "$1"; read word < "$2"; "$dlock" exec -a "$3" -- true"#)
        .arg("sh")
        .args([stage.fifo("ready"), stage.fifo("go")])
        .arg(second)
}

#[test]
fn two_locks_in_opposite_order_are_reported_as_a_deadlock() {
    on_each(|flavour| {
        let database = shared(flavour).database("nested");
        let stages = [Stage::new(), Stage::new()];
        let [a, b] = [("a", "b", &stages[0]), ("b", "a", &stages[1])]
            .map(|(first, second, stage)| crossing(&database, stage, first, second).start());
        for stage in &stages {
            assert_eq!(read_message(&stage.path("ready")), "up");
        }
        let diagnosis = |name: &str| {
            let outcome = Dlock::on(&database, ["status", "--json", name]).run();
            let document: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
            document["locks"][0]["diagnosis"].clone()
        };
        write_message(&stages[0].path("go"), "go");
        a.wait_for_output("b is held by b (token ");
        // One waiter is no deadlock: the other command does not wait.
        assert_eq!([diagnosis("a"), diagnosis("b")], ["renewing", "renewing"]);
        write_message(&stages[1].path("go"), "go");
        eventually("the deadlock is reported for both locks", || {
            [diagnosis("a"), diagnosis("b")] == ["deadlocked", "deadlocked"]
        });
        let text = Dlock::on(&database, ["status", "a"]).run().stdout;
        for part in [
            "a: deadlock\n",
            "deadlock: the holder waits for b, and the holder of b waits for this lock",
            "dlock release a --token ",
        ] {
            assert!(text.contains(part), "{text}");
        }
        // Both waiters say it in their first reminder.
        a.wait_for_output(
            "deadlock: the holder waits for a, and the holder of a waits for this lock",
        );
        b.wait_for_output(
            "deadlock: the holder waits for b, and the holder of b waits for this lock",
        );
        let release = Dlock::on(&database, ["release", "a", "--yes"]).run();
        assert_eq!(release.status, Some(0), "{release:?}");
        assert_eq!(a.wait().status, Some(76));
        assert_eq!(b.wait().status, Some(0));
    });
}

#[test]
fn check_verifies_the_lease_that_it_runs_under() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("nested");
        outer(&database, r#""$dlock" check"#)
            .run()
            .expect(0, "", "");
    }
}

#[test]
fn options_that_the_outer_lease_cannot_keep_are_refused_on_the_command_line() {
    let database = shared(Flavour::of_this_test()).database("nested");
    for option in [
        "--once",
        "--once=v1",
        "--once-per=1h",
        "--min-hold=1h",
        "--max-runtime=1h",
        "--fence",
    ] {
        let script = format!(r#""$dlock" exec -a init {option} {WAIT_LIMIT} -- echo run"#);
        let name = option.split('=').next().expect("a name");
        let text = format!("{name} has no effect under the lease of an outer dlock exec");
        outer(&database, &script).run().expect(64, "", &text);
    }
    let script = format!(r#"DLOCK_OPT_ONCE=v1 "$dlock" exec -a init {WAIT_LIMIT} -- echo run"#);
    let text = "--once has no effect under the lease of an outer dlock exec";
    outer(&database, &script).run().expect(64, "", text);
}

#[test]
fn option_variables_apply_to_one_run_and_not_to_what_it_starts() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("nested");
    // A run with the same key has succeeded. Without a removal of the variables, the inner dlock would skip its
    // command.
    let script = format!(
        r#"env | grep ^DLOCK_OPT_
           "$dlock" exec other {WAIT_LIMIT} --once=k1 -- true
           "$dlock" exec other {WAIT_LIMIT} -- echo ran"#
    );
    let hook = "env | grep ^DLOCK_OPT_ || echo hook >&2";
    let outcome = outer(&database, &script)
        .env("DLOCK_OPT_ONCE", "k1")
        .env("DLOCK_OPT_ON_EVENT", hook)
        .run();
    outcome.expect(0, "ran\n", "hook\n");
    assert!(
        !outcome.stderr.contains("DLOCK_OPT_"),
        "{flavour}: {outcome:#?}"
    );
    // The same holds for an inner dlock under the outer lease.
    let script = format!(r#"export DLOCK_OPT_TTL=1m; "$dlock" exec init {WAIT_LIMIT} -- env"#);
    let outcome = outer(&database, &script).run();
    assert!(
        outcome.stdout.contains("DLOCK_TOKEN="),
        "{flavour}: {outcome:#?}"
    );
    assert!(
        !outcome.stdout.contains("DLOCK_OPT_"),
        "{flavour}: {outcome:#?}"
    );
}

#[test]
fn nested_once_skips_a_recorded_success() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("nested");
        let script = format!(r#""$dlock" exec -a init --once=v1 {WAIT_LIMIT} -- echo run"#);
        let record = ["exec", "-a", "init", "--once=v1", "--", "true"];
        Dlock::on(&database, record).run().expect(0, "", "");
        let outcome: Outcome = outer(&database, &script).run();
        outcome.expect(0, "", "init (v1) was done by ");
    }
}

#[test]
fn nested_exec_retries_an_unreachable_server_for_connect_timeout() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("nested");
    let proxy = Proxy::to(database.port);
    proxy.door(AcceptMode::Refused);
    let url = database.url_through(proxy.port());
    let run = |reach: &str| {
        Dlock::new(["exec", "-a", "init", "--connect-timeout", reach])
            .env("DLOCK_URL", &url)
            .env("DLOCK_ACTION", "init")
            .env("DLOCK_TOKEN", "1")
            .env("DLOCK_DATABASE_ADDRESS", "127.0.0.1:1/other")
            .args(["--", "true"])
    };
    run("0").run().expect(69, "", "cannot reach");
    let running = run("1m").start();
    // The number of failed attempts to connect before this line is arbitrary.
    proxy.door(AcceptMode::Open);
    assert_eq!(running.wait().status, Some(0), "{flavour}");
    assert_eq!(renewals(&database), 0, "{flavour}");
}

#[test]
fn nested_command_that_cannot_be_executed_exits_127() {
    let database = shared(Flavour::of_this_test()).database("nested");
    let stage = Stage::new();
    let script = stage.path("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").expect("the script can be written");
    let made = Command::new("chmod").arg("+x").arg(&script).status();
    assert!(made.expect("chmod runs").success());
    let inner = format!(
        r#""$dlock" exec -a init {WAIT_LIMIT} -- {}"#,
        script.display()
    );
    let outcome = outer(&database, &inner).run();
    outcome.expect(
        127,
        "",
        "its interpreter /no/such/interpreter does not exist",
    );
}
