//! Faults of the reader of a holder's messages, or of its events. The reader stops, as if the disk were full or the
//! terminal were paused.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use mysql::prelude::Queryable;

use super::session::HOLDERS;
use super::{Nemesis, SEARCH};
use crate::client::deaf_file;
use crate::history::Micros;
use crate::live_runs::Run;
use crate::processes::of_run;
use crate::readers::fill;
use crate::schedule::{ContenderKind, Step};

/// Time for a program to read the lines that end its read.
const READ_TIME: Duration = Duration::from_millis(50);

impl Nemesis<'_> {
    /// Stops the reader of a holder, and makes the holder write a message. Returns the start time of the fault; None if
    /// no holder was found or its run had ended.
    pub(super) fn inject_reader_fault(&self, step: Step) -> Option<Micros> {
        let left = Duration::from_millis(500);
        let live_runs = &self.context.live_runs;
        let holder = live_runs.holder(self.action(), left, SEARCH, |_| true)?;
        let mut admin = self.site.database.admin_conn();
        let fault = self.begin(step.kind, Some(holder.number), Some(holder.parent));
        let reads_events = holder.plan.kind == ContenderKind::HoldJson;
        let is_stopped = match reads_events {
            true => self.stop_reading_events(&holder),
            false => self.context.readers.stop(holder.number),
        };
        if let Ok(Some(session)) = admin.exec_first::<u64, _, _>(HOLDERS, (self.action(),)) {
            // The session may have ended after the query.
            let _ = admin.query_drop(format!("KILL CONNECTION {session}"));
        }
        self.pause(step, &holder);
        match reads_events {
            true => fs::remove_file(self.deaf_file(&holder)).expect("the file exists"),
            false => self.context.readers.resume(holder.number),
        }
        self.end(fault, is_stopped)
    }

    /// Makes the program of `holder` stop to read its events, and fills their pipe. Returns false if the program has ended.
    fn stop_reading_events(&self, holder: &Run) -> bool {
        File::create(self.deaf_file(holder)).expect("a file can be created");
        let mut processes = of_run(&self.context.mark, holder.number).into_iter();
        let Some(program) = processes.find(|process| process.program == self.context.worker) else {
            return false;
        };
        let stdin = format!("/proc/{}/fd/0", program.pid);
        // The program may be in a read, which the first lines end.
        let woken = fill(Path::new(&stdin), b'\n');
        thread::sleep(READ_TIME);
        woken.and_then(|()| fill(Path::new(&stdin), b'\n')).is_ok()
    }

    fn deaf_file(&self, holder: &Run) -> PathBuf {
        deaf_file(&self.context.folder, holder.number)
    }
}
