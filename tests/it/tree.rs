//! Tests that the whole process tree of a command is dead before the next command starts, even if dlock or its monitor
//! fails (but not both).
//!
//! Every process of the tree keeps a [`Witness`] locked. The next holder's command fails if the witness is locked.

use std::sync::mpsc;
use std::{fs, ptr, thread};

use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{Stage, Witness, is_alive, only_child, signal};
use testkit::compiler::preload;
use testkit::proxy::{AcceptMode, Flow, Proxy};
use testkit::servers::{Database, database};

/// A command with three descendants that ignore stop requests: a child, a child in a separate session, and an orphan in
/// a third session. The command locks the file `$witness`, writes its process id and the process id of its parent to `$1`,
/// and exits when it reads a line from `$2`. The descendants run until dlock or its monitor kills them.
const TREE: &str = r#"
    exec 9>>"$witness"
    flock -n 9 || exit 99
    trap "" TERM INT
    stay='trap "" TERM HUP INT; while :; do sleep 1; done'
    sh -c "$stay" &
    setsid sh -c "$stay" &
    (setsid sh -c "$stay" &)
    echo $$ $PPID > "$1"
    read word < "$2"
    exit 4
"#;

/// The end of the message about the descendants, before their names.
pub(crate) const LEFT: &str = " that the command of init left running";

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
        let dlock = dlock.args(options).env("witness", witness.path());
        let (running, pids) = stage.start_told(dlock, TREE);
        let (command, monitor) = pids.split_once(' ').expect("two numbers");
        let [command, monitor] = [command, monitor].map(|pid| pid.parse().expect("a process id"));
        Self {
            running,
            stage,
            witness,
            command,
            monitor,
        }
    }

    pub(crate) fn let_go(&self) {
        self.stage.let_go("on");
    }

    /// Starts a contender and returns once the contender waits. The contender's command succeeds only if no process of
    /// the tree is alive.
    pub(crate) fn next(&self, database: &Database) -> Running {
        let next = Dlock::typed(database, "exec -a init --ttl 3s");
        self.witness.checked_by(next).start_until("init is held by")
    }
}

const MONITOR_KILLED: &str = "the monitor of init was killed; killing the command";

#[test]
fn leftover_processes_do_not_outlive_the_command() {
    let database = database();
    let end_of = |holder: Holder, end: &dyn Fn(&Holder), status: i32, in_history: &str| {
        let next = holder.next(&database);
        assert!(!holder.witness.is_alone(), "the command locks the witness");
        end(&holder);
        // Each of the three descendants is a shell, and may have a child.
        let outcome = holder.running.wait();
        outcome.expect(status, "", LEFT);
        let names = outcome.stderr.split(LEFT).nth(1).unwrap_or_default();
        assert!(names.contains("sh ("), "{outcome:?}");
        next.wait().expect(0, "alone\n", "init is held by");
        Dlock::on(&database, ["history", "init"]).shows(in_history);
    };
    let holder = Holder::start(&database, &[]);
    end_of(holder, &Holder::let_go, 4, "exit 4, killed ");
    let holder = Holder::start(&database, &[]);
    let kill = |holder: &Holder| signal(holder.command, "KILL");
    end_of(holder, &kill, 137, "SIGKILL, killed ");
}

#[test]
fn dead_children_of_a_command_are_not_reported() {
    // The command ends when its child is dead, and does not reap it.
    let script = r#"exit if !($p = fork); 1 until open(F, "/proc/$p/stat") && <F> =~ /\) Z/"#;
    let exec = ["exec", "-a", "init", "--", "perl", "-e", script];
    Dlock::on(&database(), exec).expect(0, "", "");
}

#[test]
fn process_tree_dies_with_dlock_or_its_monitor_and_the_lease_is_released() {
    let database = database();
    // The ttl is so long that the lease does not expire during the test.
    let holder = Holder::start(&database, &["--ttl", "10m"]);
    let next = holder.next(&database);
    holder.running.signal("KILL");
    next.wait().expect(0, "alone\n", "init is held by");

    let holder = Holder::start(&database, &["--ttl", "10m"]);
    let next = holder.next(&database);
    signal(holder.monitor, "KILL");
    holder.running.wait().expect(76, "", MONITOR_KILLED);
    next.wait().expect(0, "alone\n", "init is held by");
}

/// Both the command and dlock are stopped. `mutants::killing` stops dlock only.
#[test]
fn stopped_command_of_a_frozen_dlock_is_dead_when_its_lease_ends() {
    let database = database();
    let holder = Holder::start(&database, &["--ttl", "6s"]);
    let next = holder.next(&database);
    signal(holder.command, "STOP");
    holder.running.signal("STOP");
    next.wait().expect(0, "alone\n", "init is held by");
    (holder.running.wait_after("CONT")).expect(76, "", "cannot keep init: ");
}

#[test]
fn no_signal_but_kill_ends_or_stops_the_monitor_or_reaches_the_command() {
    let holder = Holder::start(&database(), &[]);
    let numbers = (1..=31).chain(34..=64);
    for number in numbers.filter(|number| ![libc::SIGKILL, libc::SIGSTOP].contains(number)) {
        signal(holder.monitor, &number.to_string());
    }
    signal(holder.monitor, "STOP");
    holder.let_go();
    holder.running.wait().expect(4, "", LEFT);
    assert!(holder.witness.is_alone());
}

#[test]
fn monitor_that_misses_the_deadline_is_killed_with_the_tree() {
    let database = database();
    let proxy = Proxy::to(database.port);
    let holder = Holder::start(&database.through(proxy.port()), &["--ttl", "3s"]);
    // No signal resumes the monitor, as if only the monitor's container were frozen.
    stop_with_ptrace(holder.monitor);
    proxy.both(Flow::Hold);
    proxy.door(AcceptMode::Silent);
    holder.running.wait().expect(76, "", MONITOR_KILLED);
    assert!(holder.witness.is_alone());
}

/// Stops the process `pid` with ptrace until the process is killed.
fn stop_with_ptrace(pid: u32) {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let pid = libc::pid_t::try_from(pid).expect("the process id fits");
        // SAFETY: these calls take numbers and null pointers, except `status`, which outlives them. All calls for a
        // traced process must come from one thread.
        unsafe {
            let none = ptr::null_mut::<libc::c_void>();
            let seized = libc::ptrace(libc::PTRACE_SEIZE, pid, none, none);
            let stopped = libc::ptrace(libc::PTRACE_INTERRUPT, pid, none, none);
            sender
                .send((seized, stopped))
                .expect("the test receives the outcome");
            // The kernel reports the end of a traced process to the parent only after the tracer has waited for the
            // process.
            let mut status = 0;
            while libc::waitpid(pid, &raw mut status, libc::__WALL) == pid
                && !libc::WIFSIGNALED(status)
            {}
        }
    });
    let outcome = receiver.recv().expect("the thread sends the outcome");
    assert_eq!(
        outcome,
        (0, 0),
        "this process may not trace its descendants"
    );
}

#[test]
fn killed_monitor_of_a_waiter_ends_the_waiter() {
    let database = database();
    let holder = Holder::start(&database, &[]);
    let next = holder.next(&database);
    signal(only_child(next.pid()), "KILL");
    next.wait().expect(70, "", "the monitor was killed");
    holder.let_go();
    holder.running.wait().expect(4, "", LEFT);
}

/// The source of a library whose `kill` ignores SIGKILL while the file `$IMMORTAL` exists, as if the killed process
/// waited in the kernel for a dead disk.
const IGNORE_KILL: &str = r#"
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

#[test]
fn lease_is_kept_until_an_unkillable_process_dies_unless_a_third_stop_request_arrives() {
    let database = database();
    let stage = Stage::new();
    let (immortal, library) = (stage.path("immortal"), preload(&stage, IGNORE_KILL));
    let stopped_twice = |holder: &Holder| {
        // dlock treats an immediate second copy of a signal as the same request.
        for signal in ["TERM", "INT"] {
            holder.running.signal(signal);
        }
        let text = "of the command does not die";
        holder.running.wait_for_output(text);
    };
    let immortal_holder = || {
        fs::write(&immortal, "").expect("the file can be written");
        let dlock = Dlock::on(&database, ["exec", "-a", "init"])
            .env("LD_PRELOAD", &library)
            .env("IMMORTAL", &immortal);
        Holder::start_with(dlock, &[])
    };
    let holder = immortal_holder();
    let next = holder.next(&database);
    stopped_twice(&holder);
    let text = "init is not released until the process is dead";
    holder.running.wait_for_output(text);
    assert!(!holder.witness.is_alone(), "the library has no effect");
    fs::remove_file(&immortal).expect("the file can be removed");
    holder.running.wait().expect(137, "", "does not die");
    next.wait().expect(0, "alone\n", "init is held by");

    let holder = immortal_holder();
    stopped_twice(&holder);
    holder.running.signal("TERM");
    eventually("dlock has exited", || {
        !is_alive(&holder.running.pid().to_string())
    });
    Dlock::typed(&database, "exec -n -a init -- echo ran").expect(75, "", "init is held by");
    fs::remove_file(&immortal).expect("the file can be removed");
    let text = "is still alive and was left behind; init is free when its lease expires";
    holder.running.wait().expect(76, "", text);
    eventually("the tree is dead", || holder.witness.is_alone());
}
