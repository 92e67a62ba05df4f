//! Tests that dlock never reports a success or a release for a run whose lease was revoked or taken over.

use std::fs;
use std::path::PathBuf;

use testkit::cli_runner::{Dlock, Outcome, eventually};
use testkit::command::{is_alive, read_message, write_message};
use testkit::holder::{Holder, is_free, status, steal};
use testkit::proxy::{Fault, Kind};
use testkit::servers::Database;

use crate::faults::{Scene, on_each_case};
use crate::history::{endings, runs};

/// Revokes the lease like `dlock release`, but does not kill the holder's session, because the end of the session would
/// inform the holder.
pub(crate) fn revoke(database: &Database) {
    database.run(
        "INSERT INTO dlock_history (action,token,holder,host,pid,user,note,started_at,ended_at,outcome) \
         SELECT action,token,holder,host,pid,user,note,acquired_at,UTC_TIMESTAMP(6),'revoked' FROM dlock_lock;\
         UPDATE dlock_lock SET token=token+1,revoked_at=UTC_TIMESTAMP(6),operator='alice'",
    );
}

/// The stopped main thread of a process. Dropping this value resumes the thread. The other threads of the process keep
/// running.
struct Stopped {
    thread: libc::pid_t,
}

impl Stopped {
    /// Stops the main thread of a child of this process.
    #[track_caller]
    fn main_thread_of(pid: u32) -> Self {
        let thread = libc::pid_t::try_from(pid).expect("the process id fits");
        let mut status = 0;
        // SAFETY: these requests read and write no memory of this process except `status`, which outlives the call.
        let is_stopped = unsafe {
            libc::ptrace(libc::PTRACE_SEIZE, thread, 0, 0) == 0
                && libc::ptrace(libc::PTRACE_INTERRUPT, thread, 0, 0) == 0
                && libc::waitpid(thread, &raw mut status, libc::__WALL) == thread
        };
        assert!(is_stopped, "ptrace: {}", std::io::Error::last_os_error());
        Self { thread }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: the request reads and writes no memory of this process. It fails if the process was killed.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.thread, 0, 0) };
    }
}

/// The path of a thread's folder in /proc.
struct Thread(PathBuf);

impl Thread {
    /// Finds the thread `name` of the process `pid`.
    #[track_caller]
    fn of(pid: u32, name: &str) -> Self {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the process exists");
        let found = threads
            .map(|thread| thread.expect("/proc can be listed").path())
            .find(|path| {
                fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name)
            });
        Self(found.unwrap_or_else(|| panic!("no thread {name}")))
    }

    /// Returns the value of the line `name` in the thread's status file. Returns an empty string if the line does not
    /// exist.
    fn line(&self, name: &str) -> String {
        let status = fs::read_to_string(self.0.join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    }

    fn sleeps(&self) -> bool {
        self.line("State:").starts_with('S')
    }

    /// Returns the number of voluntary context switches, which increases each time that the thread starts to wait.
    fn waits(&self) -> String {
        self.line("voluntary_ctxt_switches:")
    }
}

/// Runs a command that exits with 0 while a renewal reports that `end` has ended the lease. The main thread of dlock is
/// stopped until both events are available, so dlock has not signalled the command.
fn command_ends_as_the_loss_arrives(
    scene: &Scene,
    options: &[&str],
    end: fn(&Database),
) -> Outcome {
    let (ready, go) = (scene.stage.fifo("ready"), scene.stage.fifo("go"));
    let renewal = scene.proxy.next(Kind::Renew, Fault::HoldRequest);
    let script = r#"echo $$ $PPID > "$3"; read -r word < "$4"; exit 0"#;
    let dlock = scene.faulty("holder", &[&["--ttl", "12s"], options].concat(), script);
    let holder = dlock.arg(&ready).arg(&go).start();
    let pids = read_message(&ready);
    let (command, monitor) = pids.split_once(' ').expect("the line contains two numbers");
    renewal.wait();
    end(&scene.database);

    let database = Thread::of(holder.pid(), "database");
    let before = database.waits();
    let stopped = Stopped::main_thread_of(holder.pid());
    renewal.let_go();
    eventually("the response to the renewal has arrived", || {
        database.waits() != before && database.sleeps()
    });
    write_message(&go, "on");
    let monitor = Thread(PathBuf::from(format!("/proc/{monitor}")));
    // The monitor stays a zombie because its stopped parent cannot reap it.
    eventually("the monitor has reported the end and exited", || {
        !is_alive(command) && monitor.line("State:").starts_with('Z')
    });
    drop(stopped);
    holder.wait()
}

#[test]
fn run_with_a_detected_loss_of_its_lease_never_exits_0() {
    type Case = (&'static [&'static str], fn(&Database));
    let cases: [(&str, Case); 4] = [
        ("revoked", (&[], revoke)),
        ("revoked, --once", (&["--once"], revoke)),
        ("taken", (&[], steal)),
        ("taken, --once", (&["--once"], steal)),
    ];
    on_each_case(&cases, |scene, name, (options, end)| {
        let outcome = command_ends_as_the_loss_arrives(scene, options, end);
        let done: u64 = scene.database.value("SELECT COUNT(*) FROM dlock_success");
        assert_eq!(done, 0, "{name}: {outcome:#?}");
        assert_ne!(outcome.status, Some(0), "{name}: {outcome:#?}");
    });
}

/// The release also deletes old history entries in the same packet. These deletions must not count as proof that the
/// lease was released.
#[test]
fn revoked_lease_never_counts_as_released() {
    let cases = [
        ("--once", ["--once"].as_slice()),
        ("--min-hold", &["--min-hold", "1h"]),
    ];
    on_each_case(&cases, |scene, name, options| {
        let database = &scene.database;
        for _ in 0..3 {
            Dlock::typed(database, "exec -a init -- true").expect(0, "", "");
        }
        // A grant whose token is a multiple of 16 prunes the history. This update makes the next token a multiple of
        // 16.
        let token = "UPDATE dlock_lock SET token=\
             (TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6)) DIV 16+100000000)*16-1";
        database.run(token);
        let fixed = ["--history", "1", "--ttl", "10m"].as_slice();
        let holder = Holder::on(database, &[fixed, options].concat());
        revoke(database);
        let message = "init was released by an operator before the command had ended";
        holder.end().expect(76, "", message);
        assert!(is_free(database), "{name}");
        let runs = runs(database, &["--number", "1"]);
        assert_eq!(endings(&runs), [("revoked", None)], "{name}");
        assert_eq!(status(database)["last_outcome"], "revoked", "{name}");
    });
}
