//! The command's whole tree is dead before anybody else starts, whatever happens to dlock.
//!
//! Judged by a [`Witness`] that every process of the tree keeps locked; the command of whoever comes
//! next refuses to run while one of them lives.

use std::sync::mpsc;
use std::{fs, ptr, thread};

use crate::command::{Stage, Witness, heard, signal, tell};
use crate::compiler::preload;
use crate::dlock::{Dlock, Running, eventually};
use crate::servers::{Database, Flavour, Server, shared};

/// A command with all kinds of descendants, none of which wants to die: a child, one in a session of
/// its own, an orphan in a third. They end when `$2` says so, or never.
const TREE: &str = r#"
    exec 9>>"$1"
    flock -n 9 || exit 99
    trap "" TERM INT
    stay='trap "" TERM HUP INT; while :; do sleep 0.05; done'
    sh -c "$stay" &
    setsid sh -c "$stay" &
    (setsid sh -c "$stay" &)
    echo $$ $PPID > "$2"
    read word < "$3"
    exit 4
"#;

/// Whoever comes next.
const NEXT: &str = r#"exec 9>>"$1"; flock -n 9 && echo alone"#;

/// A holder of `init` whose command is a [`TREE`].
pub(crate) struct Holder {
    pub(crate) running: Running,
    stage: Stage,
    pub(crate) witness: Witness,
    command: u32,
    monitor: u32,
}

impl Holder {
    pub(crate) fn start(database: &Database, options: &[&str]) -> Self {
        Self::start_with(Dlock::on(database, ["exec", "-a", "init"]), options)
    }

    pub(crate) fn start_with(dlock: Dlock, options: &[&str]) -> Self {
        let stage = Stage::new();
        let witness = Witness::on(&stage);
        let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
        let running = dlock
            .args(options)
            .args(["--", "sh", "-c", TREE, "sh"])
            .arg(witness.path())
            .arg(&ready)
            .arg(&go)
            .start();
        let text = heard(&ready);
        let mut numbers = text.split(' ').map(|pid| pid.parse().expect("a number"));
        let mut number = || numbers.next().expect("two numbers");
        Self {
            running,
            stage,
            witness,
            command: number(),
            monitor: number(),
        }
    }

    pub(crate) fn let_go(&self) {
        tell(&self.stage.path("go"), "on");
    }

    /// A contender that waits, whose command runs only when nothing is left of the tree.
    pub(crate) fn next(&self, database: &Database) -> Running {
        let next = Dlock::on(database, ["exec", "-a", "init", "--ttl", "3s"])
            .args(["--", "sh", "-c", NEXT, "sh"])
            .arg(self.witness.path())
            .start();
        next.heard("init is held by");
        next
    }
}

#[test]
fn what_a_command_leaves_behind_does_not_outlive_it() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("tree");
        let holder = Holder::start(&database, &[]);
        let next = holder.next(&database);
        assert!(!holder.witness.is_alone(), "the witness is blind");
        holder.let_go();
        holder.running.wait().expect(4, "", "");
        next.wait().expect(0, "alone\n", "init is held by");
    }
}

#[test]
fn the_tree_of_a_killed_dlock_dies_with_it() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("tree");
        let holder = Holder::start(&database, &["--ttl", "1m"]);
        holder.running.signal("KILL");
        // Long before the lease is over.
        eventually("the tree is dead", || holder.witness.is_alone());
    }
}

#[test]
fn whoever_comes_after_a_killed_dlock_finds_its_tree_dead() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("tree");
        let holder = Holder::start(&database, &["--ttl", "3s"]);
        let next = holder.next(&database);
        holder.running.signal("KILL");
        next.wait().expect(0, "alone\n", "init is held by");
    }
}

#[test]
fn whoever_comes_after_a_frozen_dlock_finds_its_tree_dead() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("tree");
        let holder = Holder::start(&database, &["--ttl", "3s"]);
        let next = holder.next(&database);
        holder.running.signal("STOP");
        next.wait().expect(0, "alone\n", "init is held by");
        holder.running.signal("CONT");
        holder.running.wait().expect(76, "", "cannot keep init: ");
    }
}

#[test]
fn a_killed_monitor_takes_the_tree_with_it_and_the_lease_is_released() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("tree");
        let holder = Holder::start(&database, &["--ttl", "1m"]);
        let next = holder.next(&database);
        signal(holder.monitor, "KILL");
        let outcome = holder.running.wait();
        outcome.expect(
            76,
            "",
            "the monitor of init was killed; killing the command",
        );
        next.wait().expect(0, "alone\n", "init is held by");
    }
}

#[test]
fn a_stopped_monitor_is_let_go_on() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("tree");
        let holder = Holder::start(&database, &[]);
        signal(holder.monitor, "STOP");
        holder.let_go();
        holder.running.wait().expect(4, "", "");
        assert!(holder.witness.is_alone(), "{flavour}");
    }
}

#[test]
fn no_signal_but_kill_ends_the_monitor_or_reaches_the_command() {
    let database = shared(Flavour::MariaDb).database("tree");
    let holder = Holder::start(&database, &["--ttl", "3s"]);
    let numbers = (1..=31).chain(34..=64);
    for number in numbers.filter(|number| ![libc::SIGKILL, libc::SIGSTOP].contains(number)) {
        signal(holder.monitor, &number.to_string());
    }
    holder.let_go();
    holder.running.wait().expect(4, "", "");
    assert!(holder.witness.is_alone());
}

#[test]
fn a_monitor_that_lets_the_deadline_pass_is_killed_with_the_tree() {
    for flavour in Flavour::ALL {
        let server = Server::start(flavour, &[]);
        let database = server.database("tree");
        let holder = Holder::start(&database, &["--ttl", "3s"]);
        // No signal makes it go on, as if its container were frozen and ours were not.
        hold_still(holder.monitor);
        signal(server.pid(), "STOP");
        let outcome = holder.running.wait();
        signal(server.pid(), "CONT");
        outcome.expect(
            76,
            "",
            "the monitor of init was killed; killing the command",
        );
        assert!(holder.witness.is_alone(), "{flavour}");
    }
}

/// Holds the process `pid` still until it is killed, as a debugger does.
fn hold_still(pid: u32) {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let pid = libc::pid_t::try_from(pid).expect("a process id");
        // SAFETY: these calls take numbers and null pointers. They must all come from one thread.
        unsafe {
            let none = ptr::null_mut::<libc::c_void>();
            let seized = libc::ptrace(libc::PTRACE_SEIZE, pid, none, none);
            let stopped = libc::ptrace(libc::PTRACE_INTERRUPT, pid, none, none);
            sender.send((seized, stopped)).expect("the test waits");
            // Its parent does not hear of its end before we have.
            let mut status = 0;
            while libc::waitpid(pid, &raw mut status, libc::__WALL) == pid
                && !libc::WIFSIGNALED(status)
            {}
        }
    });
    let outcome = receiver.recv().expect("the thread answers");
    assert_eq!(
        outcome,
        (0, 0),
        "this process may not trace its descendants"
    );
}

#[test]
fn a_monitor_that_is_killed_while_its_dlock_waits_ends_the_waiting() {
    let database = shared(Flavour::MariaDb).database("tree");
    let holder = Holder::start(&database, &[]);
    let next = holder.next(&database);
    let monitor = child_of(next.pid());
    signal(monitor, "KILL");
    next.wait().expect(70, "", "the monitor was killed");
    holder.let_go();
    holder.running.wait().expect(4, "", "");
}

#[test]
fn a_command_that_is_killed_takes_its_tree_with_it() {
    let database = shared(Flavour::MariaDb).database("tree");
    let holder = Holder::start(&database, &[]);
    signal(holder.command, "KILL");
    holder.running.wait().expect(137, "", "");
    assert!(holder.witness.is_alone());
}

#[test]
fn a_stopped_command_is_killed_when_its_lease_ends() {
    let database = shared(Flavour::MariaDb).database("tree");
    let holder = Holder::start(&database, &["--ttl", "3s"]);
    signal(holder.command, "STOP");
    holder.running.signal("STOP");
    eventually("the tree is dead", || holder.witness.is_alone());
    holder.running.signal("CONT");
    holder.running.wait().expect(76, "", "cannot keep init: ");
}

/// What the kernel does to a process that waits for a dead disk, done by the C library: SIGKILL has
/// no effect while the file `$IMMORTAL` is there.
const IMMORTALITY: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int kill(pid_t pid, int number) {
    if (number == SIGKILL && access(getenv("IMMORTAL"), F_OK) == 0) return 0;
    return syscall(SYS_kill, pid, number);
}
"#;

/// A holder of `init` whose command does not die while the file `immortal` is on the stage.
fn immortal_holder(database: &Database) -> (Holder, Stage) {
    let stage = Stage::new();
    let immortal = stage.path("immortal");
    fs::write(&immortal, "").expect("writes");
    let dlock = Dlock::on(database, ["exec", "-a", "init"])
        .env("LD_PRELOAD", preload(&stage, IMMORTALITY))
        .env("IMMORTAL", &immortal);
    (Holder::start_with(dlock, &[]), stage)
}

/// Asks twice, by different signals: the same one again at once would be taken for an echo of the first.
fn stop_in_vain(holder: &Holder) {
    holder.running.signal("TERM");
    holder.running.signal("INT");
    holder.running.heard("of the command does not die");
}

#[test]
fn a_process_that_does_not_die_is_told_of_and_the_lease_is_kept_until_it_does() {
    let database = shared(Flavour::MariaDb).database("tree");
    let (holder, stage) = immortal_holder(&database);
    let next = holder.next(&database);
    stop_in_vain(&holder);
    holder.running.heard("init is not released before it does");
    assert!(!holder.witness.is_alone(), "the library has no effect");
    fs::remove_file(stage.path("immortal")).expect("removes");
    holder.running.wait().expect(137, "", "does not die");
    next.wait().expect(0, "alone\n", "init is held by");
}

#[test]
fn who_is_told_of_a_process_that_does_not_die_can_leave_it_behind() {
    let database = shared(Flavour::MariaDb).database("tree");
    let (holder, stage) = immortal_holder(&database);
    stop_in_vain(&holder);
    holder.running.signal("TERM");
    eventually("dlock has ended", || {
        !crate::command::is_alive(&holder.running.pid().to_string())
    });
    Dlock::on(&database, ["exec", "-n", "-a", "init", "--", "echo", "ran"])
        .run()
        .expect(75, "", "init is held by");
    fs::remove_file(stage.path("immortal")).expect("removes");
    holder.running.wait().expect(
        76,
        "",
        "is still alive and was left behind; init is free when its lease ends",
    );
    eventually("the tree is dead", || holder.witness.is_alone());
}

fn child_of(pid: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.expect("the process is there");
    let first = children.split(' ').next().expect("it has a child");
    first.parse().expect("a number")
}
