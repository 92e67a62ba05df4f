//! The hook: a command of the user's that is told what becomes of a run.
//!
//! ```text
//! front ──occasions──▶ runner ──▶ sh -c COMMAND, one after another
//!       ◀────words────
//! ```
//! The runner is a process of its own, forked before there is any thread and before the monitor: it
//! may wait for a hook, a frozen disk or anything else and nobody waits for it but the front, at its
//! very end and not for long. It is no part of the command's tree, its hooks have no descriptor of
//! ours, and when the front ends it kills what it has running and ends too.
//!
//! Why not a thread that starts a process: that process would be the front's child like those which
//! a dead monitor leaves it, and the front must know when all of these are dead.

mod message;
mod runner;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::lease::Token;
use crate::sys::alarm::wait_for;
use crate::sys::link::{Incoming, Link};
use crate::sys::process::{self, Forked, Helper};
use crate::sys::signal::Mask;
use crate::sys::tree::End;

/// How long a hook may take: a request over the network with a retry, not a job.
pub const LIMIT: Duration = Duration::from_secs(10);

/// From SIGKILL to giving up on what does not die of it.
const STUCK: Duration = Duration::from_secs(1);

/// How long the front waits at its end for `hooks` of them.
#[must_use]
pub fn patience(hooks: usize) -> Duration {
    let hooks = u32::try_from(hooks).unwrap_or(u32::MAX);
    (LIMIT + STUCK).saturating_mul(hooks) + STUCK
}

/// When the hook is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// The lease is ours; the command is being started.
    Granted,
    /// The lease was lost or cannot be kept; the command is being stopped.
    Lost,
    /// The run is over and the lease given up.
    Released,
    /// Nothing was run: it is done already, or held by another and time ran out.
    Skipped,
}

impl Occasion {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Granted, Self::Lost, Self::Released, Self::Skipped];

    /// The word for it, which is also that of the log.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Lost => "lost",
            Self::Released => "released",
            Self::Skipped => "skipped",
        }
    }
}

/// What a hook is told. What is not known is empty.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// When.
    pub occasion: Occasion,
    /// The lock.
    pub action: &'a str,
    /// The token of our grant.
    pub token: Option<Token>,
    /// Who we are.
    pub holder: &'a str,
    /// The other who has it, has done it or has taken it.
    pub other: &'a str,
    /// How the run ended, in one word.
    pub result: &'a str,
    /// What dlock ends with.
    pub status: Option<u8>,
    /// One line for people.
    pub reason: &'a str,
    /// From the start of dlock to the grant.
    pub waited: Duration,
    /// Since the grant.
    pub held: Duration,
}

/// The variables of a hook, in the order in which the manual has them.
pub const VARIABLES: [&str; 10] = [
    "DLOCK_EVENT",
    "DLOCK_ACTION",
    "DLOCK_TOKEN",
    "DLOCK_HOLDER",
    "DLOCK_OTHER",
    "DLOCK_RESULT",
    "DLOCK_EXIT_STATUS",
    "DLOCK_REASON",
    "DLOCK_WAITED_SECONDS",
    "DLOCK_HELD_SECONDS",
];

/// What the runner says of a hook, one word for each that it was told to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// It ended by itself.
    Ended(End),
    /// It was killed when its time was over.
    Late,
    /// So it was, and did not die.
    Stuck,
    /// It could not be started, for this reason.
    Unstartable(i32),
    /// The runner itself is dead; it says nothing more.
    Gone,
}

/// The front's hold on the runner, which ends when this is gone.
#[derive(Debug)]
pub struct Hook {
    link: Arc<Link>,
    process: Helper,
}

impl Hook {
    /// Forks the runner of `command`, whose processes get the signal mask `mask`. Only before there
    /// is any thread, and before anything else is forked.
    ///
    /// # Errors
    /// When the kernel gives no process or no descriptor.
    pub fn start(command: &str, mask: Mask) -> io::Result<Self> {
        let (link, far) = Link::pair()?;
        match process::fork_uncounted()? {
            Forked::Parent(process) => Ok(Self {
                link: Arc::new(link),
                process,
            }),
            Forked::Child(child) => {
                // Or it would not notice the front's end.
                drop(link);
                child.run(|| {
                    // What goes wrong is seen by the front as its end.
                    let _ = runner::serve(&far, command, mask);
                })
            }
        }
    }

    /// All descriptors that this needs.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.link.as_fd()]
            .into_iter()
            .chain(self.process.descriptor())
    }

    /// The runner, which is no part of any command's tree.
    #[must_use]
    pub const fn process(&self) -> &Helper {
        &self.process
    }

    /// Starts the thread that tells by `tell` what the runner says. It ends with the process.
    ///
    /// # Errors
    /// When the kernel gives no thread.
    pub fn listen(&self, tell: impl Fn(Word) + Send + 'static) -> io::Result<()> {
        let link = Arc::clone(&self.link);
        let thread = thread::Builder::new().name("hook".to_owned());
        thread
            .spawn(move || {
                while wait_for([link.as_fd()]).is_ok() {
                    match link.receive() {
                        Incoming::Message(message) => tell(message::word(message)),
                        Incoming::Nothing => {}
                        Incoming::Closed => return tell(Word::Gone),
                    }
                }
            })
            .map(drop)
    }

    /// Has the hook run; never waits for it.
    ///
    /// # Errors
    /// When the runner is dead, or has been stopped for so long that there is no room.
    pub fn run(&self, facts: &Facts) -> io::Result<()> {
        self.link.send(&message::of_facts(facts))
    }
}
