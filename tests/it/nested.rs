//! Tests of `dlock exec` inside the command of another `dlock exec`. For the same action, the inner dlock runs its
//! command under the outer lease. For a different action, the inner dlock acquires its own lease.

use testkit::cli_runner::{Dlock, eventually};
use testkit::command::Stage;
use testkit::holder::{Holder, is_free, renewals, steal, token};
use testkit::on_each_flavour;
use testkit::proxy::{AcceptMode, Proxy};
use testkit::servers::{Database, Flavour, database, shared};

use crate::faults::on_each;
use crate::pid_one::{namespaces, unshare};

/// The wait limit of an inner dlock. If there were no limit, an inner dlock that waits for the outer lease would never
/// end.
const WAIT_LIMIT: &str = "--wait=2s";

/// Returns a `dlock exec` without a command. In its command, `$dlock` is the path of dlock.
fn exec(database: &Database, options: &[&str]) -> Dlock {
    let exec = Dlock::on(database, ["exec"]).args(options);
    exec.env("dlock", env!("CARGO_BIN_EXE_dlock"))
}

fn outer(database: &Database, script: &str) -> Dlock {
    let exec = exec(database, &["-a", "init", "--holder=web-1"]);
    exec.args(["--", "sh", "-c", script])
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
    let database = database();
    let inner = format!(r#""$dlock" exec -v -a init {WAIT_LIMIT} -- "#);
    let script = format!(r#"{inner} sh -c 'echo "$DLOCK_TOKEN"; {inner} sh -c "exit 5"'"#);
    let outcome = outer(&database, &script).run();
    let token = token(&database);
    let printed = format!(
        "dlock: init is held by the outer dlock (token {token}): running under its lease\n"
    );
    outcome.expect(5, &format!("{token}\n"), &printed.repeat(2));
    // The history contains only the outer run.
    let history = Dlock::on(&database, ["history", "init"]).run().stdout;
    assert_eq!(history.lines().count(), 2, "{history}");
    assert!(history.contains("exit 5"), "{history}");
    assert!(is_free(&database));
}

#[test]
fn nested_command_replaces_its_dlock_and_inherits_signals_and_streams() {
    let database = database();
    let stage = Stage::new();
    let script = format!(
        r#"exec "$dlock" exec -a init {WAIT_LIMIT} -- sh -c '
            trap "exit 9" TERM
            tr "\0" " " < /proc/$PPID/comm > "$0"
            while :; do sleep 0.1; done' "$1""#
    );
    let (running, parent) = stage.start_told(exec(&database, &["-a", "init"]), &script);
    assert_eq!(parent, "lease-monitor");
    running.wait_after("TERM").exited(9);

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
    let outcome = outer(&database, &script).run().exited(0);
    let commands = outcome.stdout.split_once("then\n");
    let (direct, nested) = commands.expect("both commands have run");
    assert_eq!(direct, nested);
    assert!(direct.ends_with("none\n"), "{direct}");

    // A command that cannot be executed.
    let script = stage.write("script", 0o755, "#!/no/such/interpreter\n");
    let script = script.display();
    let inner = format!(r#""$dlock" exec -a init {WAIT_LIMIT} -- {script}"#);
    let why = "its interpreter /no/such/interpreter does not exist";
    outer(&database, &inner).run().expect(127, "", why);
}

/// Asserts that an inner dlock that starts after `lose` prints `why`, does not wait, and exits with 76.
#[track_caller]
fn assert_nested_exec_exits_76(database: &Database, why: &str, lose: impl FnOnce()) {
    let stage = Stage::new();
    let script = r#"
        trap '' TERM; echo up > "$1"; read word < "$2"
        "$dlock" exec -a init -- echo never; echo status=$?
    "#;
    let running = stage.start(exec(database, &["-a", "init"]), script);
    lose();
    stage.let_go("on");
    running.wait_for_output(why);
    let outcome = running.wait();
    assert_eq!(outcome.stdout, "status=76\n", "{outcome:#?}");
}

#[test]
fn nested_exec_with_a_stale_token_exits_76() {
    let database = database();
    assert_nested_exec_exits_76(&database, "is not current: ", || {
        let release = "release -a init --yes --operator=eve";
        Dlock::typed(&database, release).expect(0, "", "released");
    });
    let mut before = 0;
    assert_nested_exec_exits_76(&database, "is not current: init is held by a thief", || {
        before = token(&database);
        steal(&database);
    });

    // The token of a finished run is not current. A process that has outlived its run may still have this token in
    // its environment.
    database.run("UPDATE dlock_lock SET owner_id=NULL");
    for token in [before, token(&database)] {
        let why = format!("the outer dlock's token {token} is not current: init is free");
        inner(&database, token, &address(&database)).expect(76, "", &why);
    }
    // dlock ignores the variables, because they contain the address of a different database.
    inner(&database, before, "127.0.0.1:1/other").expect(0, "", "acquired init in");
}

#[test]
fn process_must_wait_unless_it_descends_from_the_holder_in_its_own_pid_namespace() {
    let database = database();
    let holder = Holder::on(&database, &[]);
    inner(&database, token(&database), &address(&database)).expect(75, "", "init is held by ");
    assert_eq!(holder.end().status, Some(3));

    // Prints the command as words that a shell quotes.
    let unshare = format!("{:?}", unshare(namespaces()));
    let script = format!(r#"{unshare} "$dlock" exec -n -a init -- echo never"#);
    outer(&database, &script).expect(75, "", "init is held by web-1");
}

#[test]
fn nested_exec_of_another_action_has_its_own_lock_and_defaults() {
    let database = database();
    let script = format!(
        r#"before=$DLOCK_TOKEN
           "$dlock" exec -a other {WAIT_LIMIT} -- sh -c '
                echo "$DLOCK_ACTION $DLOCK_HOLDER $DLOCK_TTL $DLOCK_DATABASE_ADDRESS"
                [ "$DLOCK_TOKEN" != "$1" ] || echo "the same token"' sh "$before"
           echo "$DLOCK_ACTION $DLOCK_HOLDER $DLOCK_TTL""#
    );
    let outcome = outer(&database, &script).env("DLOCK_OPT_TTL", "1m").run();
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    // Neither the option variables of the outer dlock nor those that it sets for its command are options of the inner
    // dlock.
    assert!(lines[0].starts_with("other "), "{lines:?}");
    assert!(!lines[0].contains("web-1"), "{lines:?}");
    let end = format!(" 30s {}", address(&database));
    assert!(lines[0].ends_with(&end), "{lines:?}");
    assert_eq!(lines[1], "init web-1 1m");

    // The inner dlock does not inherit the action of the outer dlock.
    let missing = "required arguments were not provided:\n  <NAME";
    outer(&database, r#""$dlock" exec -- true"#).expect(64, "", missing);
}

#[test]
fn two_locks_in_opposite_order_are_reported_as_a_deadlock() {
    on_each(|flavour| {
        let database = shared(flavour).database("nested");
        let stages = [Stage::new(), Stage::new()];
        let [a, b] =
            [("a", "b", &stages[0]), ("b", "a", &stages[1])].map(|(first, second, stage)| {
                let exec = exec(&database, &["-a", first, "--holder", first]);
                let script =
                    format!(r#"echo > "$1"; read word < "$2"; "$dlock" exec {second} -- true"#);
                stage.start(exec, &script)
            });
        let diagnosis = |name: &str| {
            let document = Dlock::on(&database, ["status", "--json", name])
                .run()
                .json();
            document["locks"][0]["diagnosis"].clone()
        };
        stages[0].let_go("go");
        a.wait_for_output("b is held by b (token ");
        // One waiter is no deadlock: the other command does not wait.
        assert_eq!([diagnosis("a"), diagnosis("b")], ["renewing", "renewing"]);
        stages[1].let_go("go");
        eventually("the deadlock is reported for both locks", || {
            [diagnosis("a"), diagnosis("b")] == ["deadlocked", "deadlocked"]
        });
        let text = Dlock::on(&database, ["status", "a"]).run().stdout;
        let [of_a, of_b] = ["b", "a"].map(|it| {
            format!(
                "deadlock: the holder waits for {it}, and the holder of {it} waits for this lock"
            )
        });
        for part in ["a: deadlock\n", &of_a, "dlock release a --token "] {
            assert!(text.contains(part), "{text}");
        }
        // Both waiters say it in their first reminder.
        a.wait_for_output(&of_b);
        b.wait_for_output(&of_a);
        Dlock::typed(&database, "release a --yes").run().exited(0);
        assert_eq!(a.wait().status, Some(76));
        assert_eq!(b.wait().status, Some(0));
    });
}

on_each_flavour!(check_and_once_in_a_nested_command_read_the_server);
fn check_and_once_in_a_nested_command_read_the_server(flavour: Flavour) {
    let database = shared(flavour).database("nested");
    Dlock::typed(&database, "exec -a init --once=v1 -- true").expect(0, "", "");
    let script =
        format!(r#""$dlock" check && "$dlock" exec -a init --once=v1 {WAIT_LIMIT} -- echo run"#);
    outer(&database, &script).expect(0, "", "init (v1) was done by ");
}

#[test]
fn options_that_the_outer_lease_cannot_keep_are_refused_on_the_command_line() {
    let database = database();
    let script = format!(
        r#"for option in --once --once=v1 --once-per=1h --min-hold=1h --max-runtime=1h --fence; do
               "$dlock" exec -a init $option {WAIT_LIMIT} -- echo run || echo $?
           done
           DLOCK_OPT_ONCE=v1 "$dlock" exec -a init {WAIT_LIMIT} -- echo run || echo $?"#
    );
    let outcome = outer(&database, &script).run();
    assert_eq!(outcome.stdout, "64\n".repeat(7), "{outcome:#?}");
    let text = "has no effect under the lease of an outer dlock exec";
    let names = ["once", "once-per", "min-hold", "max-runtime", "fence"];
    for (name, count) in names.into_iter().zip([3, 1, 1, 1, 1]) {
        let text = format!("--{name} {text}");
        assert_eq!(outcome.stderr.matches(&text).count(), count, "{outcome:#?}");
    }
}

#[test]
fn option_variables_apply_to_one_run_and_not_to_what_it_starts() {
    let database = database();
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
        .expect(0, "ran\n", "hook\n");
    assert!(!outcome.stderr.contains("DLOCK_OPT_"), "{outcome:#?}");
    // The same holds for an inner dlock under the outer lease.
    let script = format!(r#"export DLOCK_OPT_TTL=1m; "$dlock" exec init {WAIT_LIMIT} -- env"#);
    let outcome = outer(&database, &script).run();
    assert!(outcome.stdout.contains("DLOCK_TOKEN="), "{outcome:#?}");
    assert!(!outcome.stdout.contains("DLOCK_OPT_"), "{outcome:#?}");
}

#[test]
fn nested_exec_retries_an_unreachable_server_for_connect_timeout() {
    let database = database();
    let proxy = Proxy::to(database.port);
    proxy.door(AcceptMode::Refused);
    let proxied = database.through(proxy.port());
    let run = |timeout: &str| {
        let inner = inner(&proxied, 1, "127.0.0.1:1/other");
        inner.env("DLOCK_OPT_CONNECT_TIMEOUT", timeout)
    };
    run("0").expect(69, "", "cannot reach");
    let running = run("1m").start();
    // The number of failed attempts to connect before this line is arbitrary.
    proxy.door(AcceptMode::Open);
    assert_eq!(running.wait().status, Some(0));
    assert_eq!(renewals(&database), 0);
}
