//! `eval "$(dlock hold NAME --pid $$)"` in shells.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{is_alive, signal};
use testkit::servers::{Database, fetched};
use testkit::terminal::{CTRL_C, Terminal};

use super::{DLOCK, Script, database, is_free, nobody_waits};

/// Returns the shells in which scripts are written.
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
fn each_shell_holds_the_lock_until_its_script_ends() {
    let database = database();
    for shell in shells() {
        let script = r#"
            set -eu
            eval "$("$dlock" hold 'a b'\''$(false)' --pid $$)"
            "$dlock" check
            printf '%s\n' "$DLOCK_ACTION"
        "#;
        let outcome = start(&database, &shell, script).wait();
        outcome.expect(0, "a b'$(false)\n", "");
    }
}

#[test]
fn script_holds_several_locks_in_slots_at_once() {
    let database = database();
    for shell in shells() {
        let script = r#"
            set -eu
            eval "$("$dlock" hold -a x -a y --slots 2 --pid $$)"
            "$dlock" check
            echo "$DLOCK_SLOT"
            printf '%s\n' "$DLOCK_TOKENS" | sed 's/=[0-9]*$//'
        "#;
        let outcome = start(&database, &shell, script).wait();
        outcome.expect(0, "1\nx\ny\n", "");
    }
}

/// A failure of dlock, of its options or of its connection stops a script.
#[test]
fn no_shell_goes_on_without_the_lock() {
    let database = database();
    let holder = Script::start(&database, "--ttl=10m");
    for shell in shells() {
        for (options, status, why) in [
            ("init -n", 75, "init is held by"),
            ("init --no-such-option", 64, "--no-such-option"),
            ("init --ttl=1ms", 64, "ttl"),
            (
                "init --url=mysql://u@127.0.0.1:1/d --connect-timeout=0s",
                69,
                "127.0.0.1:1",
            ),
            ("init --url=nonsense", 64, "must begin with mysql://"),
        ] {
            let script =
                format!(r#"set -e; eval "$("$dlock" hold {options} --pid $$)"; echo goes on"#);
            let outcome = start(&database, &shell, &script).wait();
            outcome.expect(status, "", why);
        }
    }
    drop(holder);
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
fn killed_dlock_leaves_the_queue_and_stops_the_script() {
    let database = database();
    let holder = Script::start(&database, "--ttl=10m");
    for shell in shells() {
        let script = r#"set -e; eval "$("$dlock" hold init --pid $$)"; echo goes on"#;
        let waiter = start(&database, &shell, script);
        waiter.wait_for_output("init is held by");
        signal(front(&waiter), "KILL");
        let outcome = waiter.wait();
        assert_eq!(outcome.stdout, "", "{outcome:?}");
        assert_ne!(outcome.status, Some(0), "{outcome:?}");
        // The script may end before the dlock in the background finds that the other one has ended.
        let why = " ended before init was held";
        assert!(outcome.stderr.contains(why), "{outcome:?}");
        nobody_waits(&database);
    }
    drop(holder);
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
    let background = fs::read_to_string(format!("/proc/{front}/task/{front}/children"));
    let background = background.expect("dlock runs").trim().parse();
    let background = background.expect("one child");
    signal(background, "STOP");
    holder.runs("exit");
    holder.running.wait();
    signal(front, "KILL");
    signal(background, "CONT");
    eventually("the lock is free", || is_free(&database));
    assert!(is_alive(&waiter.pid().to_string()));
    drop(stdin);
    let outcome = waiter.wait();
    assert_eq!(outcome.status, Some(1), "{outcome:?}");
}

#[test]
fn killed_script_leaves_the_queue() {
    let database = database();
    let holder = Script::start(&database, "--ttl=10m");
    let script = r#"eval "$("$dlock" hold init --pid $$)""#;
    let waiter = start(&database, Path::new("sh"), script);
    waiter.wait_for_output("init is held by");
    signal(waiter.pid(), "KILL");
    let outcome = waiter.wait();
    let why = "ended before init was held";
    assert!(outcome.stderr.contains(why), "{outcome:?}");
    nobody_waits(&database);
    drop(holder);
}

#[test]
fn ctrl_c_ends_the_wait_of_a_script() {
    let database = database();
    let holder = Script::start(&database, "--ttl=10m");
    let mut terminal = Terminal::shell(&database);
    let script = r#"'set -e; eval "$($dlock hold init --pid $$)"; echo goes on'"#;
    terminal.enters(&format!("bash -c {script}"));
    terminal.sees("init is held by");
    terminal.types(CTRL_C);
    terminal.prompts();
    terminal.enters("echo status=$?");
    terminal.sees("status=130");
    assert!(!terminal.screen().contains("\ngoes on"));
    nobody_waits(&database);
    drop(holder);
}

#[test]
fn interactive_shell_needs_a_choice() {
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
    terminal.enters("exit");
    terminal.ends();
    eventually("the lock is free", || is_free(&database));
}

#[test]
fn hold_needs_no_environment() {
    let database = database();
    let script = r#"
        set -e
        eval "$(env -i "$dlock" hold init --url "$DLOCK_URL" --pid $$)"
        "$dlock" check && echo held
    "#;
    let outcome = start(&database, Path::new("sh"), script).wait();
    outcome.expect(0, "held\n", "");
}
