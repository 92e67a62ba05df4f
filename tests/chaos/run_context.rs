//! The state that all threads of one chaos run on one flavour share.

use std::env::current_exe;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicU64;

use testkit::cli_runner::remove_settings;

use crate::history::Journal;
use crate::live_runs::LiveRuns;
use crate::worker::MARK;

pub(crate) struct RunContext {
    pub(crate) seed: u64,
    /// Folder of the history and of the files that the commands need.
    pub(crate) folder: PathBuf,
    /// Value of the environment variable that marks all processes of this chaos run.
    pub(crate) mark: String,
    /// Path, in the folder, of a link to the program under test or of a copy of that program. A rebuild therefore does
    /// not affect the current run.
    pub(crate) dlock: PathBuf,
    /// Path, in the folder, of a link to the chaos program or of a copy of that program.
    pub(crate) worker: PathBuf,
    pub(crate) journal: Journal,
    pub(crate) live_runs: LiveRuns,
    /// Numbers of the next run and of the next fault.
    pub(crate) runs: AtomicU64,
    pub(crate) faults: AtomicU64,
}

impl RunContext {
    pub(crate) fn new(seed: u64, folder: &Path, dlock: &Path) -> io::Result<Self> {
        for name in ["life", "witness", "store", "deaf", "programs"] {
            fs::create_dir_all(folder.join(name))?;
        }
        // `/proc` contains canonical paths.
        let folder = folder.canonicalize()?;
        let link_or_copy = |program: &Path, name| {
            let path = folder.join("programs").join(name);
            fs::hard_link(program, &path).or_else(|_| fs::copy(program, &path).map(drop))?;
            io::Result::Ok(path)
        };
        let (dlock, worker) = (
            link_or_copy(dlock, "dlock")?,
            link_or_copy(&current_exe()?, "worker")?,
        );
        Ok(Self {
            seed,
            mark: folder.display().to_string(),
            journal: Journal::open(&folder),
            folder,
            dlock,
            worker,
            live_runs: LiveRuns::default(),
            runs: AtomicU64::new(1),
            faults: AtomicU64::new(1),
        })
    }

    /// Returns a command for the program under test. The environment contains the mark of the chaos run, and no
    /// `DLOCK_` variables.
    pub(crate) fn dlock(&self) -> Command {
        let mut dlock = Command::new(&self.dlock);
        remove_settings(&mut dlock);
        dlock.env(MARK, &self.mark).stdin(Stdio::null());
        dlock
    }
}
