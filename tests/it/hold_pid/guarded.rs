//! Which processes dlock signals for `--pid`, and which it never signals.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use testkit::cli_runner::{Dlock, eventually};
use testkit::command::{Stage, Witness, is_alive, only_child, signal, write_message};

use super::{Bystander, DLOCK, SCRIPT, Script, database, is_free, operator_releases, runs, shell};
use crate::pid_one::unshare;

/// The user ids of root, who runs the tests of other users' processes, and of nobody.
const ROOT: u32 = 0;
const NOBODY: u32 = 65_534;

#[test]
fn only_processes_of_the_user_with_the_token_and_the_action_are_killed() {
    let database = database();
    let script = Script::start(&database, "--ttl=10m");
    let next_token = format!("{}1", script.token);
    let stray = Bystander::of(ROOT, "init", &script.token);
    // More environments are in the unit tests of `src/sys/ward_tree.rs`.
    let others = [
        Bystander::of(ROOT, "init", &next_token),
        Bystander::of(ROOT, "other", &script.token),
        Bystander::of(NOBODY, "init", &script.token),
    ];
    script.runs("exit");
    let outcome = script.running.wait();
    outcome.expect(0, "", "left running");
    assert!(!stray.is_alive(), "{outcome:?}");
    assert!(others.iter().all(Bystander::is_alive), "{outcome:?}");
    assert!(is_free(&database));
}

/// The process is a fork of the shell, so its environment is that of the shell, which has been started before the grant.
#[test]
fn forked_process_of_a_killed_script_is_killed() {
    let database = database();
    let script = Script::start(&database, "--ttl=10m");
    script.runs(r#"mkfifo "$go.never"; (read line < "$go.never") & echo $!"#);
    let mut pid = String::new();
    eventually("the process runs", || {
        pid = script.running.stdout_so_far().trim().to_owned();
        !pid.is_empty()
    });
    let status = format!("/proc/{}/status", only_child(script.holder));
    let sleeps = || {
        let status = fs::read_to_string(&status).expect("the monitor runs");
        let mut lines = status.lines();
        let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let count = count.expect("a counter").trim().parse::<u64>();
        count.expect("a number")
    };
    let before = sleeps();
    // The monitor looks at the processes between two sleeps.
    eventually("the monitor looks at the processes", || {
        sleeps() >= before + 3
    });
    signal(script.pid, "KILL");
    eventually("the lock is free", || is_free(&database));
    assert!(!is_alive(&pid));
}

/// A shell starts the script, and then becomes a program with the variables of the lease.
#[test]
fn ancestors_of_a_script_are_never_signalled() {
    const ABOVE: &str = r#"
        sh -c "$script" &
        read holder token pid < "$first"
        echo $holder $token $pid > "$ready"
        exec env DLOCK_ACTION=init DLOCK_TOKEN=$token sleep 1d
    "#;
    let database = database();
    let stage = Stage::new();
    let first = stage.fifo("first");
    let script = SCRIPT.replace("$ready", "$first");
    let above = shell(&database.url(), ABOVE)
        .env("script", script)
        .env("first", first)
        .env("options", "--ttl=10m");
    let script = Script::start_in(above);
    let above = script.running.pid();
    eventually("the shell is another program", || {
        let name = fs::read_to_string(format!("/proc/{above}/comm"));
        name.is_ok_and(|name| name == "sleep\n")
    });
    signal(script.pid, "KILL");
    eventually("the lock is free", || is_free(&database));
    assert!(is_alive(&above.to_string()));
}

#[test]
fn script_goes_on_without_the_lock_when_it_ends_the_hold() {
    let database = database();
    let script = Script::start(&database, "--ttl=10m");
    // The test is an ancestor of the script, as a service manager is, which signals all processes of a service.
    let holder = Pid::from_raw(script.holder.cast_signed()).expect("an id");
    kill_process(holder, Signal::TERM).expect("the holder runs");
    let text = format!("the lock is held until process {} has ended", script.pid);
    script.running.wait_for_output(&text);
    assert!(!is_free(&database));

    script.runs(r#"kill "$DLOCK_HOLD_PID""#);
    eventually("the lock is free", || is_free(&database));
    script.runs(r#""$dlock" check; echo $?"#);
    script.printed("76\n");
    assert!(!script.witness.is_alone());
    assert_eq!(runs(&database, &[]).last().expect("a run")["code"], 0);
}

/// The hook has the variables of the lease, and runs while the processes of the script are killed.
#[test]
fn hook_is_not_signalled() {
    const HOOK: &str =
        r#"[ $DLOCK_EVENT != lost ] || { read word < "$hook"; echo $word > "$told"; }"#;
    let database = database();
    let stage = Stage::new();
    let (hook, told) = (stage.fifo("hook"), stage.path("told"));
    let shell = shell(&database.url(), SCRIPT)
        .env("hook", &hook)
        .env("told", &told)
        .env("DLOCK_OPT_ON_EVENT", HOOK)
        .env("options", "--ttl=60s --grace=1s");
    let script = Script::start_in(shell);
    operator_releases(&database);
    eventually("the processes of the script are dead", || {
        script.witness.is_alone()
    });
    write_message(&hook, "survived");
    script.running.wait();
    assert_eq!(fs::read_to_string(told).ok().as_deref(), Some("survived\n"));
}

/// Each hold ends the processes of its own lease only, and no hold ends another one.
#[test]
fn script_runs_dlock_under_its_lease_and_holds_a_second_lock() {
    let database = database();
    let script = Script::start(&database, "--ttl=10m");
    script.runs(
        r#""$dlock" exec init -- echo inner; "$dlock" check; echo $?; "$dlock" hold init --pid $$ -n; echo"#,
    );
    script.printed("inner\n0\nfalse || (exit 64)\n\n");
    let refused = "an outer dlock holds init already";
    script.running.wait_for_output(refused);

    let other = |arguments: &[&str]| Dlock::on(&database, arguments).run().status;
    script
        .runs(r#"eval "$("$dlock" hold other --ttl=10m --pid $$)"; echo $DLOCK_OUTER_TOKENS >&2"#);
    let outer = format!("init={}\n", script.token);
    script.running.wait_for_output(&outer);
    assert_eq!(other(&["exec", "other", "-n", "--", "true"]), Some(75));
    script.runs("exit");
    script.running.wait();
    assert!(is_free(&database));
    assert_eq!(other(&["exec", "other", "-n", "--", "true"]), Some(0));
}

/// In a new process namespace, process 2 holds the lock for process 3, both are stopped while process 3 ends, and another
/// process gets the id 3.
#[test]
fn later_process_with_the_id_of_the_script_is_not_signalled() {
    const REUSE: &str = r#"
        sleep 1d &
        ward=$!
        eval "$("$dlock" hold init --ttl=10m --pid $ward)"
        monitor=$(cat /proc/$DLOCK_HOLD_PID/task/$DLOCK_HOLD_PID/children)
        # A holder that runs resumes its monitor.
        for pid in $DLOCK_HOLD_PID $monitor; do
            kill -STOP $pid
            until grep -q '^State:.T' /proc/$pid/status; do :; done
        done
        kill -KILL $ward
        wait $ward
        echo $((ward - 1)) > /proc/sys/kernel/ns_last_pid
        unset DLOCK_TOKEN DLOCK_TOKENS
        sleep 1d &
        [ $! = $ward ] || echo no reuse
        kill -CONT $monitor $DLOCK_HOLD_PID
        env -u DLOCK_ACTION "$dlock" exec init -- kill -0 $ward && echo alive
    "#;
    let database = database();
    let unshare = unshare(&[]);
    // stderr depends on when the shell notices the death of the first process.
    let outcome = Dlock::of(Path::new("unshare"), unshare.get_args())
        .args(["sh", "-c", REUSE])
        .env("DLOCK_URL", database.url())
        .env("dlock", DLOCK)
        .run();
    let wanted = (Some(0), "alive\n");
    assert_eq!((outcome.status, &*outcome.stdout), wanted, "{outcome:#?}");
}

/// Such a process has neither the variables in its environment nor a parent in the tree when the script ends. Many scripts
/// end at once, so that some of their processes start a program later.
#[test]
fn process_that_the_script_forks_before_its_end_is_killed_when_it_starts_a_program() {
    const FORKING: &str = r#"
        set -e
        exec 9>>"$witness"
        flock -s -n 9
        eval "$("$dlock" hold init --shared --pid $$)"
        (setsid sh -c 'exec sh -c "exec sh -c \"exec sleep 1d\""' &)
    "#;
    let database = database();
    let stage = Stage::new();
    let witness = Witness::on(&stage);
    let script = || shell(&database.url(), FORKING).env("witness", witness.path());
    for script in [(); 8].map(|()| script().start()) {
        script.wait().exited(0);
    }
    assert!(witness.is_alone());
}
