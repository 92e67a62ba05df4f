//! What all threads of one run on one flavour share.

use std::env::current_exe;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicU64;

use crate::board::Board;
use crate::command::MARK;
use crate::history::Journal;
use crate::readers::Readers;
use crate::undertaker::Undertaker;
use crate::weather::Weather;

pub(crate) struct Course {
    pub(crate) seed: u64,
    /// Holds the history, and what the commands need.
    pub(crate) folder: PathBuf,
    /// What the environment of all processes of this run has in it.
    pub(crate) mark: String,
    /// The program under test, and this one: names of their own in the folder, so that a run goes on with what it
    /// began with when somebody builds them anew.
    pub(crate) dlock: PathBuf,
    pub(crate) worker: PathBuf,
    pub(crate) journal: Journal,
    pub(crate) board: Board,
    pub(crate) undertaker: Undertaker,
    pub(crate) weather: Weather,
    pub(crate) readers: Readers,
    /// The number of the next run, and of the next fault.
    pub(crate) runs: AtomicU64,
    pub(crate) faults: AtomicU64,
}

impl Course {
    pub(crate) fn new(seed: u64, folder: &Path, dlock: &Path) -> io::Result<Self> {
        for name in ["life", "witness", "store", "said", "programs"] {
            fs::create_dir_all(folder.join(name))?;
        }
        // As the kernel names them.
        let folder = folder.canonicalize()?;
        let keep = |program: &Path, name| {
            let kept = folder.join("programs").join(name);
            fs::hard_link(program, &kept).or_else(|_| fs::copy(program, &kept).map(drop))?;
            io::Result::Ok(kept)
        };
        let (dlock, worker) = (keep(dlock, "dlock")?, keep(&current_exe()?, "worker")?);
        Ok(Self {
            seed,
            mark: folder.display().to_string(),
            journal: Journal::open(&folder)?,
            folder,
            dlock,
            worker,
            board: Board::default(),
            undertaker: Undertaker::new(),
            weather: Weather::default(),
            readers: Readers::default(),
            runs: AtomicU64::new(1),
            faults: AtomicU64::new(1),
        })
    }

    /// The program under test, about to be run with nothing of dlock's in its environment but this run's mark.
    pub(crate) fn dlock(&self) -> Command {
        let mut dlock = Command::new(&self.dlock);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("DLOCK_") {
                dlock.env_remove(name);
            }
        }
        dlock.env(MARK, &self.mark).stdin(Stdio::null());
        dlock
    }

    /// Removes all but the history and what the commands left.
    pub(crate) fn tidy(&self) -> io::Result<()> {
        fs::remove_dir_all(self.folder.join("programs"))
    }
}
