//! The hook: a command of the user's that is told what becomes of a run.
//!
//! Each event has a thread, which waits for the hook of the event before, runs `sh -c COMMAND` and
//! waits for its end; what came of it is an event of the loop. So nothing that a hook does, or a disk
//! on which its program lies, holds up the loop. At its end dlock [stops](Hook::stop) what still runs.
//!
//! A hook is no part of the command's tree: it is the child of its thread, and the thread that reaps the
//! tree looks only at its own children.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::lease::Token;
use crate::sys::group_child;
use crate::sys::link::{Incoming, Link};
use crate::sys::tree::End;

/// How long a hook may take: a request over the network with a retry, not a job.
pub const LIMIT: Duration = Duration::from_secs(10);

/// How long a hook waits for the one before it, so that they run in order; then they run side by side.
/// Half of what dlock waits at its end, so that its last hook runs even if the first one hangs.
const TURN: Duration = Duration::from_millis(500);

/// How long dlock waits at its end for hooks. With [`TO_DIE`], it is later by a second at most.
pub const AT_END: Duration = Duration::from_millis(900);

/// From the [stop](Hook::stop) of hooks to giving up on those that do not die of it.
pub const TO_DIE: Duration = Duration::from_millis(100);

/// Most bytes of a reason: a message of a server may be of any length.
const REASON: usize = 4096;

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

impl Facts<'_> {
    fn variables(&self) -> Vec<(&'static str, String)> {
        let number =
            |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let seconds = |time: Duration| format!("{:.3}", time.as_secs_f64());
        let values = [
            self.occasion.word().to_owned(),
            self.action.to_owned(),
            number(self.token.map(|token| token.0)),
            self.holder.to_owned(),
            self.other.to_owned(),
            self.result.to_owned(),
            number(self.status.map(u64::from)),
            self.reason[..self.reason.floor_char_boundary(REASON)].to_owned(),
            seconds(self.waited),
            seconds(self.held),
        ];
        // Nothing in an environment can hold a NUL.
        let values = values.map(|value| value.replace('\0', ""));
        VARIABLES.into_iter().zip(values).collect()
    }
}

/// What came of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookResult {
    /// It ended without our doing.
    Ended(End),
    /// It was killed when its time was over.
    TimedOut,
    /// It was killed, or not run any more, because dlock ends.
    Stopped,
    /// It could not be started, for this reason of the kernel.
    Unstartable(i32),
}

/// The hook, and the threads that run it.
pub struct Hook {
    command: Arc<str>,
    tell: Arc<dyn Fn(Occasion, HookResult) + Send + Sync>,
    /// Nothing is sent. When this end is closed, threads kill what they run.
    near: Option<Link>,
    far: Arc<Link>,
    /// Disconnected when the hook before is over.
    before: Option<Receiver<()>>,
}

impl Hook {
    /// The hook `command`. Threads tell `tell` what came of each run.
    ///
    /// # Errors
    /// When the kernel gives no descriptor.
    pub fn new(
        command: &str,
        tell: impl Fn(Occasion, HookResult) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (near, far) = Link::pair()?;
        Ok(Self {
            command: command.into(),
            tell: Arc::new(tell),
            near: Some(near),
            far: Arc::new(far),
            before: None,
        })
    }

    /// Has the hook run; never waits for it.
    pub fn run(&mut self, facts: &Facts) {
        let occasion = facts.occasion;
        let variables = facts.variables();
        let command = Arc::clone(&self.command);
        let (tell, stop) = (Arc::clone(&self.tell), Arc::clone(&self.far));
        let before = self.before.take();
        let (is_over, over) = mpsc::channel::<()>();
        let thread = thread::Builder::new().name("hook".to_owned());
        let started = thread.spawn(move || {
            if let Some(before) = before {
                // Nothing is sent: this ends when the one before does, or when the time is over.
                let _ = before.recv_timeout(TURN);
            }
            let result = match stop.receive() {
                Incoming::Closed => Ok(HookResult::Stopped),
                _ => group_child::run(&command, &variables, LIMIT, &stop).map(|end| match end {
                    Some(end) => HookResult::Ended(end),
                    None if stop.receive() == Incoming::Closed => HookResult::Stopped,
                    None => HookResult::TimedOut,
                }),
            };
            tell(occasion, result.unwrap_or_else(|error| unstartable(&error)));
            drop(is_over);
        });
        self.before = Some(over);
        if let Err(error) = started {
            (self.tell)(occasion, unstartable(&error));
        }
    }

    /// Has the threads kill what they run. They tell when it is dead.
    pub fn stop(&mut self) {
        self.near = None;
    }
}

fn unstartable(error: &io::Error) -> HookResult {
    HookResult::Unstartable(error.raw_os_error().unwrap_or(0))
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{Facts, Occasion, REASON};
    use crate::lease::Token;

    proptest! {
        #[test]
        fn a_variable_holds_any_text_but_nul_bytes_and_the_end_of_a_long_reason(
            action in any::<String>(),
            reason in "\\PC{0,5000}",
        ) {
            let facts = Facts {
                occasion: Occasion::Lost,
                action: &action,
                token: Some(Token(u64::MAX)),
                holder: "web-1",
                other: "",
                result: "lost",
                status: Some(76),
                reason: &reason,
                waited: Duration::from_millis(1),
                held: Duration::from_secs(90),
            };
            let told = facts.variables();
            let value = |name: &str| &told.iter().find(|told| told.0 == name).expect("it is there").1;
            prop_assert_eq!(value("DLOCK_ACTION"), &action.replace('\0', ""));
            prop_assert!(reason.starts_with(value("DLOCK_REASON")));
            prop_assert!(value("DLOCK_REASON").len() <= REASON);
            prop_assert_eq!(value("DLOCK_TOKEN"), &u64::MAX.to_string());
            prop_assert_eq!(value("DLOCK_HELD_SECONDS"), "90.000");
        }
    }
}
