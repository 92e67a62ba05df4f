//! The worker, which is the command that `dlock exec` runs. The worker is this program in another mode, and records its
//! own events.
//!
//! The worker holds the witnesses of its run (see `work`) until its end. All its descendants inherit the descriptors, so
//! the kernel releases the locks only when the last process of the tree is dead. If a worker cannot get a lock, a
//! process of an earlier command is therefore still alive. The failed lock proves an overlap without any log. The
//! processes also share the write end of a fifo. The reader of the fifo gets a hangup when the last process dies.

use std::ffi::OsString;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::Duration;

use mysql::prelude::Queryable;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use testkit::sql::connect;

use crate::history::{Event, now};
use crate::schedule::{Plan, Shape};
use crate::work::{Holder, Leases, number, read_arguments};

/// Environment variables that identify the chaos run and the dlock run to which a process belongs.
pub(crate) const MARK: &str = "CHAOS_MARK";
pub(crate) const RUN: &str = "CHAOS_RUN";

/// Environment variable with the URL of the server on which the command has a session. Not set if it has none.
pub(crate) const SERVER: &str = "CHAOS_SERVER";

/// Environment variable with the id of the process that holds the lock for a script.
const HOLD_PID: &str = "DLOCK_HOLD_PID";

/// Exit statuses of a worker that cannot lock the witness file, and of a worker whose token the store refused.
const NOT_ALONE: i32 = 99;
const REFUSED: i32 = 98;

/// Lifetime of a descendant that is not killed. It is longer than any lease, so such a descendant would overlap with
/// the next command.
const LINGER: Duration = Duration::from_secs(20);

/// Returns the command of a shell that gets the lock with the command `dlock` and its arguments, and then becomes its own
/// arguments.
pub(crate) fn script(dlock: &Command) -> String {
    let words = std::iter::once(dlock.get_program()).chain(dlock.get_args());
    let words: Vec<String> = words
        .map(|word| format!("'{}'", word.to_str().expect("UTF-8").replace('\'', r"'\''")))
        .collect();
    format!(
        "set -e\neval \"$({} --pid $$)\"\nexec \"$@\"",
        words.join(" ")
    )
}

/// Returns the command line that runs the program `worker` with `plan` in `folder`.
pub(crate) fn command_line(worker: &Path, folder: &Path, plan: &Plan) -> Vec<OsString> {
    // The shell runs another command after the worker. Otherwise, the shell would replace itself with the worker.
    let shell = ["sh", "-c", r#""$@"; exit $?"#, "sh"].map(OsString::from);
    let shell = shell.into_iter().filter(|_| plan.shape == Shape::Shell);
    let words = [
        worker.into(),
        "--worker".into(),
        folder.into(),
        plan.to_json().into(),
    ];
    shell.chain(words).collect()
}

pub(crate) fn run_worker(arguments: &[String]) -> ! {
    let (folder, run, plan) = read_arguments(arguments);
    let (shape, exit) = (plan.shape, plan.exit);
    if shape == Shape::Stubborn {
        // SAFETY: this call installs no handler, and no other thread exists yet.
        unsafe {
            libc::signal(libc::SIGTERM, libc::SIG_IGN);
        }
    }
    let leases = Leases::read(|name| std::env::var(name).ok());
    let holder = Holder::new(folder, run, plan, leases);
    let witnesses = holder.take_witnesses();
    let parent = match std::env::var(HOLD_PID) {
        Ok(pid) => number(Some(pid)),
        Err(_) => parent_id(),
    };
    let started = now();
    holder.write_start(started, parent, &witnesses);
    if !witnesses.is_alone {
        process::exit(NOT_ALONE);
    }
    match shape {
        Shape::Plain | Shape::Stubborn | Shape::Shell => {}
        Shape::Family => spawn("parent"),
        Shape::Apart => spawn("apart"),
        Shape::Daemon => spawn("middle"),
    }
    if let Ok(url) = std::env::var(SERVER) {
        thread::spawn(move || run_statement(&url));
    }
    if holder.work(started, |_| Ok((now(), ()))).is_err() {
        process::exit(REFUSED);
    }
    holder.write(now(), Event::Finished);
    drop((holder, witnesses));
    process::exit(exit);
}

fn run_statement(url: &str) {
    // The command may end, and the session may be killed, at any time.
    let _ = connect(url).and_then(|mut session| session.query_drop("DO SLEEP(5)"));
}

/// Runs a descendant of the kind in `arguments`. The descendant has inherited the witness file and the fifo of the
/// worker.
pub(crate) fn run_descendant(arguments: &[String]) -> ! {
    match arguments.first().map(String::as_str) {
        Some("parent") => {
            spawn("leaf");
        }
        Some("middle") => {
            spawn("apart");
            process::exit(0);
        }
        Some("apart") => {
            rustix::process::setsid().expect("a process that leads no group can create a session");
        }
        Some("leaf") => {}
        other => panic!("unknown descendant: {other:?}"),
    }
    thread::sleep(LINGER);
    process::exit(0);
}

fn spawn(kind: &str) {
    let program = std::env::current_exe().expect("the path of this program is known");
    let child = Command::new(program)
        .args(["--descendant", kind])
        .stdin(Stdio::null())
        .spawn();
    // The worker does not wait for the child, so the monitor must kill the child.
    drop(child.expect("a child can be started"));
}

/// Creates the fifo whose hangup reports the death of the process tree of `run`.
pub(crate) fn make_fifo(folder: &Path, run: u64) -> PathBuf {
    let path = folder.join("life").join(run.to_string());
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, &path, FileType::Fifo, mode, 0).expect("a fifo can be created");
    path
}
