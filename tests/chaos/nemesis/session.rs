//! Faults of sessions, which the server kills, and of the reader of a holder's messages or events. The reader stops, as
//! if the disk were full or the terminal were paused.

use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::Duration;

use mysql::prelude::Queryable;

use super::Nemesis;
use crate::fault_kind::FaultKind;
use crate::history::Micros;
use crate::processes::of_run;
use crate::readers::{FILLER, deaf_file, fill};
use crate::schedule::{ContenderKind, Step};
use crate::timeline::Run;

/// Interval at which the nemesis queries the sessions, and maximum number of queries.
const POLL_INTERVAL: Duration = Duration::from_millis(40);
const POLLS: u32 = 300;

const HOLDERS: &str = "SELECT session_id FROM (SELECT action,owner_id,session_id FROM dlock_lock \
     UNION ALL SELECT action,owner_id,session_id FROM dlock_slot) AS l \
     WHERE action=? AND owner_id IS NOT NULL AND session_id>0";

const WAITERS: &str = "SELECT session_id FROM dlock_waiter WHERE action=?";

/// Time for a reader to read the bytes that end its read.
const READ_TIME: Duration = Duration::from_millis(50);

impl Nemesis<'_> {
    /// Kills a session. Returns the start time of the fault; None if no session was killed.
    pub(super) fn inject_session_fault(&self, step: Step) -> Option<Micros> {
        let query = match step.kind {
            FaultKind::KillSession => HOLDERS,
            _ => WAITERS,
        };
        let mut admin = self.site.database.admin_conn();
        let mut polls = 0..POLLS;
        let session = loop {
            let sessions: Vec<u64> = admin.exec(query, (self.action(),)).ok()?;
            if let Some(chosen) = step.choice.checked_rem(sessions.len()) {
                break sessions[chosen];
            }
            polls.next()?;
            self.context.live_runs.pause(POLL_INTERVAL).then_some(())?;
        };
        let fault = self.begin(step.kind, None, None);
        // The session may have ended after the query.
        let killed = admin.query_drop(format!("KILL CONNECTION {session}"));
        self.end(fault, killed.is_ok())
    }
    /// Stops the reader of a holder, and makes the holder write a message. Returns the start time of the fault; None if
    /// no holder was found or its run had ended.
    pub(super) fn inject_reader_fault(&self, step: Step) -> Option<Micros> {
        let left = Duration::from_millis(500);
        let live_runs = &self.context.live_runs;
        let holder = live_runs.holder(self.action(), left, |_| true)?;
        let mut admin = self.site.database.admin_conn();
        let fault = self.begin(step.kind, Some(holder.number), Some(holder.parent));
        let deaf_file = deaf_file(&self.context.folder, holder.number);
        File::create(&deaf_file).expect("a file can be created");
        let is_stopped = self.fill_pipe(&holder).is_some();
        if let Ok(Some(session)) = admin.exec_first::<u64, _, _>(HOLDERS, (self.action(),)) {
            // The session may have ended after the query.
            let _ = admin.query_drop(format!("KILL CONNECTION {session}"));
        }
        self.pause(step, &holder);
        fs::remove_file(deaf_file).expect("the file exists");
        self.end(fault, is_stopped)
    }

    /// Fills the pipe of the stopped reader: the standard input of a program, or the standard error of dlock. Returns
    /// None if the process has ended.
    fn fill_pipe(&self, holder: &Run) -> Option<()> {
        let (pid, descriptor, byte) = match holder.plan.kind {
            ContenderKind::Exec | ContenderKind::HoldPid => (holder.parent, 2, FILLER),
            ContenderKind::HoldJson => {
                let mut processes = of_run(&self.context.mark, holder.number).into_iter();
                let program = processes.find(|process| process.program == self.context.worker)?;
                (program.pid, 0, b'\n')
            }
        };
        let path = format!("/proc/{pid}/fd/{descriptor}");
        // The reader may be in a read, which the first bytes end.
        fill(Path::new(&path), byte).ok()?;
        thread::sleep(READ_TIME);
        fill(Path::new(&path), byte).ok()
    }
}
