//! The contenders. Each contender runs dlock repeatedly on its action, one run at a time.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, set_parent_process_death_signal, setsid};

use crate::bystander::Session;
use crate::history::{End, Event, now};
use crate::readers::{deaf_file, read_stderr};
use crate::run_context::RunContext;
use crate::schedule::{ContenderKind, Plan, plans};
use crate::testbed::Site;
use crate::worker::{self, MARK, RUN, SERVER};

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of bytes of a run's standard error that are written to the history.
const STDERR_LIMIT: usize = 2_000;

/// A contender for `action`, which is number `slot` of them.
pub(crate) struct Contender<'a> {
    pub(crate) context: &'a RunContext,
    pub(crate) site: &'a Site,
    pub(crate) action: &'a str,
    pub(crate) slot: usize,
}

impl Contender<'_> {
    /// Runs dlock until the fault phase ends, and once more in the quiet phase.
    pub(crate) fn work(&self) {
        let (site, live_runs) = (self.site, &self.context.live_runs);
        let mut caller = (site.purpose.has_bystanders()).then(|| Session::open(&site.database));
        for plan in plans(self.context.seed, self.action, self.slot) {
            if !live_runs.pause(Duration::from_millis(plan.pause)) {
                break;
            }
            self.run(plan, caller.as_mut());
        }
        // A contender that starts after all faults must be served.
        live_runs.wait_for_quiet();
        let kind = ContenderKind::ALL[self.slot % ContenderKind::ALL.len()];
        let last = Plan {
            hold: 10,
            ..Plan::plain(kind, 2_000)
        };
        self.run(last, caller.as_mut());
    }

    /// Runs dlock once, and records its start and its end. dlock inherits the session of its caller, as it does if the
    /// caller's client library does not close sockets on exec.
    fn run(&self, mut plan: Plan, mut caller: Option<&mut Session>) {
        self.site.purpose.adapt(&mut plan);
        let (context, action) = (self.context, self.action);
        while self.site.is_closed.load(Ordering::Relaxed) {
            thread::sleep(POLL_INTERVAL);
        }
        let run = context.runs.fetch_add(1, Ordering::Relaxed);
        let life = worker::make_fifo(&context.folder, run);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fifo = open(&life, flags, Mode::empty()).expect("the fifo can be opened");
        let (reader, stderr) = io::pipe().expect("a pipe can be created");
        let mut dlock = self.dlock(run, &plan);
        // A program that dlock does not start.
        let mut builder = match plan.kind {
            ContenderKind::Exec => {
                let command = worker::command_line(&context.worker, &context.folder, &plan);
                dlock.arg("--").args(command).stdout(Stdio::null());
                None
            }
            ContenderKind::HoldJson => Some(client(context, run, &plan, dlock.arg("--json"))),
            ContenderKind::HoldPid => {
                dlock = script(context, &plan, &dlock);
                None
            }
        };
        dlock.stderr(stderr);
        let inherited = caller.as_mut().map(|session| session.socket());
        // SAFETY: `prepare` makes only system calls that are allowed between fork and exec.
        unsafe {
            dlock.pre_exec(move || prepare(inherited));
        }
        // On a busy machine, the start of a process may take seconds, and the program must be ready when dlock has the
        // lock.
        let program =
            (builder.as_mut()).map(|program| program.spawn().expect("the program starts"));
        let mut child = dlock.spawn().expect("dlock starts");
        // The builders hold ends of the pipes. Without this drop, no reader would reach the end of its pipe.
        drop((dlock, builder));
        let parent = child.id();
        let launched = Event::Launched { parent, plan };
        context.journal.record_of(Some(run), action, launched);
        let (deaf_file, has_ended) = (deaf_file(&context.folder, run), AtomicBool::new(false));
        thread::scope(|scope| {
            // The kernel reports a hangup only if a process has had the fifo open for writing.
            scope.spawn(|| {
                let mut hangup = [PollFd::new(&fifo, PollFlags::empty())];
                while poll(&mut hangup, None).is_err() {}
                context.journal.record_of(Some(run), action, Event::Dead);
            });
            let stderr = scope.spawn(|| read_stderr(reader, &deaf_file, &has_ended));
            let status = child.wait().expect("dlock can be waited for");
            // A remaining process could keep the pipe open, so the time is read before the wait for the end of the
            // pipe.
            let at = now();
            has_ended.store(true, Ordering::Relaxed);
            let stderr = stderr.join().expect("a reader does not panic");
            let stderr = stderr.expect("standard error can be read");
            let start = stderr.len().saturating_sub(STDERR_LIMIT);
            let event = Event::Ended(End {
                at,
                status: status.code(),
                signal: status.signal(),
                stderr: String::from_utf8_lossy(&stderr[start..]).into_owned(),
            });
            context.journal.write(at, Some(run), Some(action), event);
            if let Some(mut program) = program {
                program.wait().expect("the program can be waited for");
            }
            // A command that has not started by now will never start. This writer makes the fifo hang up.
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            drop(open(&life, flags, Mode::empty()));
        });
        if let Some(session) = caller {
            session.check(context, &self.site.database, action, Some(run));
        }
        fs::remove_file(life).expect("the fifo exists");
    }

    fn dlock(&self, run: u64, plan: &Plan) -> Command {
        let (site, action) = (self.site, self.action);
        let wait = match plan.wait {
            Some(millis) => format!("{millis}ms"),
            None => "forever".to_owned(),
        };
        let mut dlock = self.context.dlock();
        dlock
            .env("DLOCK_URL", site.url(action, self.slot, plan.route))
            .env(RUN, run.to_string())
            .arg(match plan.kind {
                ContenderKind::Exec => "exec",
                ContenderKind::HoldJson | ContenderKind::HoldPid => "hold",
            })
            .args(["--action", action, "--wait", &wait])
            .args(["--ttl", &format!("{}ms", plan.ttl)])
            .args(["--holder", &format!("run {run}")])
            .args(plan.option.map(|option| option.argument(run, action)))
            .args(plan.limit());
        if plan.has_session && site.purpose.has_bystanders() {
            dlock.env(SERVER, site.database.url());
        }
        dlock
    }
}

/// Returns the script that gets the lock with `dlock` and then works.
fn script(context: &RunContext, plan: &Plan, dlock: &Command) -> Command {
    let mut script = Command::new("sh");
    let variables = dlock.get_envs();
    script
        .args(["-c", &worker::script(dlock), "sh"])
        .args(worker::command_line(&context.worker, &context.folder, plan))
        .envs(variables.filter_map(|(name, value)| Some((name, value?))))
        .stdout(Stdio::null());
    script
}

/// Returns the program that uses the hold `dlock`. Each of the two reads what the other writes.
fn client(context: &RunContext, run: u64, plan: &Plan, dlock: &mut Command) -> Command {
    let (events, stdout) = io::pipe().expect("a pipe can be created");
    let (stdin, release) = io::pipe().expect("a pipe can be created");
    dlock.stdin(stdin).stdout(stdout);
    let mut client = Command::new(&context.worker);
    client
        .env(MARK, &context.mark)
        .env(RUN, run.to_string())
        .arg("--client")
        .args([context.folder.as_os_str(), plan.to_json().as_ref()])
        .stdin(events)
        .stdout(release);
    // SAFETY: `prepare` makes only system calls that are allowed between fork and exec.
    unsafe {
        client.pre_exec(|| prepare(None));
    }
    client
}

/// Detaches a program from the terminal, makes the kernel kill it when the thread that started it ends, and lets it
/// inherit `socket`.
fn prepare(socket: Option<RawFd>) -> io::Result<()> {
    setsid()?;
    if let Some(socket) = socket {
        // SAFETY: the descriptor is a copy of the caller's, which stays open until dlock has ended.
        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
        fcntl_setfd(socket, FdFlags::empty())?;
    }
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}
