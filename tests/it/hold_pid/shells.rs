//! `eval "$(dlock hold NAME --pid $$)"` in shells.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{is_alive, only_child, signal};
use testkit::servers::{Database, fetched};
use testkit::terminal::{CTRL_C, Terminal};

use super::{DLOCK, Script, database, is_free, nobody_waits};

fn shells() -> [PathBuf; 3] {
    [PathBuf::from("bash"), PathBuf::from("dash"), fetched("zsh")]
}

/// Starts `script` in `shell`, with the path of dlock in `$dlock`.
fn start(database: &Database, shell: &Path, script: &str) -> Running {
    let words = match shell.ends_with("zsh") {
        // No file of the user is read.
        true => vec!["-f", "-c", script],
        false => vec!["-c", script],
    };
    Dlock::of(shell, words)
        .env("DLOCK_URL", database.url())
        .env("dlock", DLOCK)
        .start()
}

#[test]
fn each_shell_holds_several_locks_until_its_script_ends() {
    let database = database();
    for shell in shells() {
        let script = r#"
            set -eu
            # dlock needs no environment.
            eval "$(env -i "$dlock" hold 'a b'\''$(false)' --url "$DLOCK_URL" --pid $$)"
            "$dlock" check
            printf '%s\n' "$DLOCK_ACTION"
            eval "$("$dlock" hold -a x -a y --slots 2 --pid $$)"
            "$dlock" check
            echo "$DLOCK_SLOT"
            printf '%s\n' "$DLOCK_TOKENS" | sed 's/=[0-9]*$//'
        "#;
        let outcome = start(&database, &shell, script).wait();
        outcome.expect(0, "a b'$(false)\n1\nx\ny\n", "");
    }
}

/// A failure of dlock, of its options or of its connection stops a script.
#[test]
fn no_shell_goes_on_without_the_lock() {
    let database = database();
    let _holder = Script::start(&database, "--ttl=10m");
    let failures = [
        ("init -n", 75, "init is held by"),
        ("init --no-such-option", 64, "--no-such-option"),
        ("init --ttl=1ms", 64, "ttl"),
        (
            "init --url=mysql://u@127.0.0.1:1/d --connect-timeout=0s",
            69,
            "127.0.0.1:1",
        ),
        ("init --url=nonsense", 64, "must begin with mysql://"),
    ];
    // The output does not depend on the shell, so each failure is tested in one shell.
    for ((options, status, why), shell) in failures.into_iter().zip(shells().iter().cycle()) {
        let script = format!(r#"set -e; eval "$("$dlock" hold {options} --pid $$)"; echo goes on"#);
        let outcome = start(&database, shell, &script).wait();
        outcome.expect(status, "", why);
    }
}

/// Returns the process id of a dlock that `shell` has started.
fn front(shell: &Running) -> u32 {
    let mut found = None;
    eventually("dlock runs", || {
        let processes = fs::read_dir("/proc").expect("/proc is mounted");
        let ids = processes.filter_map(|it| it.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let is_front = |pid: &u32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let option = format!("\0--pid\0{}\0", shell.pid());
            name == "dlock\n" && String::from_utf8_lossy(&words).contains(&option)
        };
        found = ids.into_iter().find(is_front);
        found.is_some()
    });
    found.expect("dlock runs")
}

#[test]
fn killed_dlock_or_script_leaves_the_queue_and_the_script_does_not_go_on() {
    let database = database();
    let _holder = Script::start(&database, "--ttl=10m");
    let leaves_the_queue = |shell: &Path, kill: &dyn Fn(&Running)| {
        let script = r#"set -e; eval "$("$dlock" hold init --pid $$)"; echo goes on"#;
        let waiter = start(&database, shell, script);
        waiter.wait_for_output("init is held by");
        kill(&waiter);
        let outcome = waiter.wait();
        assert_eq!(outcome.stdout, "", "{outcome:?}");
        assert_ne!(outcome.status, Some(0), "{outcome:?}");
        // The script may end before the dlock in the background finds that the other one has ended.
        let why = " ended before init was held";
        assert!(outcome.stderr.contains(why), "{outcome:?}");
        nobody_waits(&database);
    };
    for shell in shells() {
        leaves_the_queue(&shell, &|waiter| signal(front(waiter), "KILL"));
    }
    leaves_the_queue(Path::new("sh"), &|waiter| signal(waiter.pid(), "KILL"));
}

/// The dlock in the background is frozen while the lock becomes free and the other dlock is killed. On a busy machine, it may
/// not have the time to release the lock, which then is free when the lease expires.
#[test]
fn lock_is_free_if_the_dlock_in_the_shell_is_killed_at_the_grant() {
    let database = database();
    let holder = Script::start(&database, "--ttl=10m");
    let script = r#"eval "$("$dlock" hold init --ttl=6s --pid $$)"; read line"#;
    let (end, stdin) = io::pipe().expect("a pipe");
    let waiter = Dlock::of(Path::new("bash"), ["-c", script])
        .env("DLOCK_URL", database.url())
        .env("dlock", DLOCK)
        .stdin(end.into())
        .start();
    waiter.wait_for_output("init is held by");
    let front = front(&waiter);
    let background = only_child(front);
    signal(background, "STOP");
    holder.runs("exit");
    holder.running.wait();
    signal(front, "KILL");
    signal(background, "CONT");
    eventually("the lock is free", || is_free(&database));
    assert!(is_alive(&waiter.pid().to_string()));
    drop(stdin);
    waiter.wait().exited(1);
}

#[test]
fn interactive_shell_needs_a_choice_and_ctrl_c_ends_the_wait_of_a_script() {
    let database = database();
    let mut terminal = Terminal::shell(&database);
    terminal.enters(r#"eval "$($dlock hold init --pid $$)"; echo status=$?"#);
    terminal.sees("use dlock exec NAME -- bash");
    terminal.sees("status=64");
    terminal.enters(
        r#"eval "$($dlock hold init --pid $$ --on-lost report)"; $dlock check; echo status=$?"#,
    );
    terminal.sees("status=0");
    assert!(!is_free(&database));

    let mut waiting = Terminal::shell(&database);
    let script = r#"'set -e; eval "$($dlock hold init --pid $$)"; echo goes on'"#;
    waiting.enters(&format!("bash -c {script}"));
    waiting.sees("init is held by");
    waiting.types(CTRL_C);
    waiting.prompts();
    waiting.enters("echo status=$?");
    waiting.sees("status=130");
    assert!(!waiting.screen().contains("\ngoes on"));
    nobody_waits(&database);

    terminal.enters("exit");
    terminal.ends();
    eventually("the lock is free", || is_free(&database));
}
