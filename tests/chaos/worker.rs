//! The worker, which is the command that dlock runs. The worker is this program in another mode, and records its own
//! events.
//!
//! The worker takes a `flock` on the witness file of each lock of its run. All its descendants inherit the descriptor, so the
//! kernel releases the lock only when the last process of the tree is dead. If a worker cannot get the lock, a process
//! of an earlier command is therefore still alive. The failed lock proves an overlap without any log. The processes
//! also share the write end of a fifo. The reader of the fifo gets a hangup when the last process dies.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::Duration;

use mysql::prelude::Queryable;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::history::{Event, Journal, micros, now};
use crate::own_socket::connect;
use crate::schedule::{Plan, Shape};
use crate::store::{Response, Store};

/// Environment variables that identify the chaos run and the dlock run to which a process belongs.
pub(crate) const MARK: &str = "CHAOS_MARK";
pub(crate) const RUN: &str = "CHAOS_RUN";

/// Environment variable with the URL of the server on which the command has a session. Not set if it has none.
pub(crate) const SERVER: &str = "CHAOS_SERVER";

/// Exit statuses of a worker that cannot lock the witness file, and of a worker whose token the store refused.
const NOT_ALONE: i32 = 99;
const REFUSED: i32 = 98;

/// Lifetime of a descendant that is not killed. It is longer than any lease, so such a descendant would overlap with
/// the next command.
const LINGER: Duration = Duration::from_secs(20);

/// Maximum pause between reading the count and writing the new count.
const PAUSE: Duration = Duration::from_millis(100);

/// Returns the command line that runs the program `worker` with `plan` in `folder`.
pub(crate) fn command_line(worker: &Path, folder: &Path, plan: &Plan) -> Vec<OsString> {
    let mut line: Vec<OsString> = Vec::new();
    if plan.shape == Shape::Shell {
        // The shell runs another command after the worker. Otherwise, the shell would replace itself with the worker.
        line.extend(["sh", "-c", r#""$@"; exit $?"#, "sh"].map(OsString::from));
    }
    let plan = serde_json::to_string(plan).expect("a plan is plain data");
    line.extend([worker.into(), "--worker".into()]);
    line.extend([folder.into(), plan.into()]);
    line
}

/// Runs the worker. `arguments` are the folder and the plan.
pub(crate) fn run_worker(arguments: &[String]) -> ! {
    let [folder, plan] = arguments else {
        panic!("--worker takes a folder and a plan");
    };
    let folder = PathBuf::from(folder);
    let plan: Plan = serde_json::from_str(plan).expect("the plan is JSON");
    let run: u64 = number(RUN);
    let (locks, token) = locks();
    let action = locks.last().expect("dlock sets DLOCK_TOKENS").clone();
    if plan.shape == Shape::Stubborn {
        ignore_term();
    }
    let journal = Journal::open(&folder).expect("the history can be opened");
    let life = open_inherited(&folder.join("life").join(run.to_string()));
    let witnesses = Witnesses::take(&folder.join("witness"), &locks, plan.limit);
    let alone = witnesses.is_alone;
    let started = journal.record(Event::Started {
        run,
        action: action.clone(),
        token,
        pid: process::id(),
        parent: std::os::unix::process::parent_id(),
        alone,
    });
    if !alone {
        process::exit(NOT_ALONE);
    }
    start_descendants(plan.shape);
    if let Ok(url) = std::env::var(SERVER) {
        thread::spawn(move || run_statement(&url));
    }
    let store = folder.join("store").join(&action);
    let mut store = Store::open(&store).expect("the store can be opened");
    let end = started + micros(Duration::from_millis(plan.hold));
    // The store accepts no token that is lower than one of a holder that runs beside this one.
    while now() < end && !plan.is_exclusive() {
        thread::sleep(PAUSE.min(Duration::from_micros(end.saturating_sub(now()))));
    }
    while now() < end {
        let left = Duration::from_micros(end.saturating_sub(now()));
        let counted = count(&mut store, token, left.min(PAUSE), |count, is_done| {
            let action = action.clone();
            journal.record(match is_done {
                false => Event::Counting { run, action, count },
                true => Event::Counted { run, action, count },
            });
        });
        if let Response::Refused(highest) = counted {
            journal.record(Event::Refused {
                run,
                action,
                token,
                highest,
            });
            process::exit(REFUSED);
        }
    }
    journal.record(Event::Finished { run, action });
    drop((life, witnesses));
    process::exit(plan.exit);
}

/// Largest number of a slot that the witnesses know.
const MAX_SLOT: u32 = 32;

/// The descriptors of the witness files, which all descendants inherit.
struct Witnesses {
    /// True if no process of another command is alive that this one, or the other one, does not accept.
    is_alone: bool,
    _files: Vec<OwnedFd>,
}

impl Witnesses {
    /// Locks the witness files of `locks`. A command that accepts others shares that of its lock, and has the file of its
    /// slot alone. The locked files of slots and of limits show which other commands are alive.
    fn take(folder: &Path, locks: &[String], limit: u32) -> Self {
        let operation = match limit {
            1 => FlockOperation::NonBlockingLockExclusive,
            _ => FlockOperation::NonBlockingLockShared,
        };
        let mut files: Vec<OwnedFd> = locks
            .iter()
            .map(|lock| open_inherited(&folder.join(lock)))
            .collect();
        let mut is_alone = files.iter().all(|file| flock(file, operation).is_ok());
        if limit == 1 {
            return Self {
                is_alone,
                _files: files,
            };
        }
        let path = |kind: &str, number: u32| folder.join(format!("{}.{kind}-{number}", locks[0]));
        // One command at a time looks at the files, because a look locks them for a moment.
        let mutex = open_or_create(&path("mutex", 0));
        flock(&mutex, FlockOperation::LockExclusive).expect("the mutex can be locked");
        let is_locked = |path: &Path| {
            let file = open_or_create(path);
            flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
        };
        let slot: u32 = number("DLOCK_SLOT");
        let others =
            (1..=MAX_SLOT).filter(|other| *other != slot && is_locked(&path("slot", *other)));
        let count = others.count() + 1;
        let limits = (2..=3).filter(|other| *other == limit || is_locked(&path("limit", *other)));
        is_alone &= limits
            .min()
            .is_none_or(|smallest| count <= smallest as usize);
        for (path, operation) in [
            (path("slot", slot), FlockOperation::NonBlockingLockExclusive),
            (path("limit", limit), FlockOperation::NonBlockingLockShared),
        ] {
            drop(open_or_create(&path));
            let file = open_inherited(&path);
            is_alone &= flock(&file, operation).is_ok();
            files.push(file);
        }
        Self {
            is_alone,
            _files: files,
        }
    }
}

fn open_or_create(path: &Path) -> File {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(path);
    file.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the locks of this run, the last of which is its action, and the token of that one.
fn locks() -> (Vec<String>, u64) {
    let lines = std::env::var("DLOCK_TOKENS").unwrap_or_default();
    let leases = lines.lines().filter_map(|line| line.rsplit_once('='));
    let (locks, tokens): (Vec<_>, Vec<_>) = leases.unzip();
    let token = tokens.last().and_then(|token| token.parse().ok());
    let locks = locks.into_iter().map(str::to_owned).collect();
    (locks, token.expect("dlock sets DLOCK_TOKENS"))
}

/// Opens a session on the server, and runs a statement that outlives the command.
fn run_statement(url: &str) {
    // The command may end, and the session may be killed, at any time.
    let _ = connect(url).and_then(|mut session| session.query_drop("DO SLEEP(5)"));
}

/// Increments the count, with a pause between the read and the write. Calls `note` before the write, and after a write
/// that the store accepts.
fn count(store: &mut Store, token: u64, pause: Duration, note: impl Fn(u64, bool)) -> Response {
    let before = match store.read(token).expect("the store can be read") {
        Response::Count(count) => count,
        refused @ Response::Refused(_) => return refused,
    };
    thread::sleep(pause);
    note(before + 1, false);
    let response = store
        .write(token, before + 1)
        .expect("the store can be written");
    if let Response::Count(count) = response {
        note(count, true);
    }
    response
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

/// Starts the descendants that `shape` defines.
fn start_descendants(shape: Shape) {
    match shape {
        Shape::Plain | Shape::Stubborn | Shape::Shell => {}
        Shape::Family => spawn("parent"),
        Shape::Apart => spawn("apart"),
        Shape::Daemon => spawn("middle"),
    }
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

/// Opens a file for writing. Descendants inherit the descriptor.
fn open_inherited(path: &Path) -> OwnedFd {
    let mut options = OpenOptions::new();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = options.write(true).custom_flags(flags).open(path);
    let file = OwnedFd::from(file.unwrap_or_else(|error| panic!("{}: {error}", path.display())));
    fcntl_setfd(&file, FdFlags::empty()).expect("the close-on-exec flag can be cleared");
    file
}

/// Creates the fifo whose hangup reports the death of the process tree of `run`.
pub(crate) fn make_fifo(folder: &Path, run: u64) -> PathBuf {
    let path = folder.join("life").join(run.to_string());
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a fifo can be created");
    path
}

fn number<T: std::str::FromStr>(name: &str) -> T {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("{name} is not a number"))
}

fn ignore_term() {
    // SAFETY: this call installs no handler, and no other thread exists yet.
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
    }
}
