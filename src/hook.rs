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

use crate::exit::Status;
use crate::lease::Token;
use crate::metrics::{Facts, Outcome};
use crate::report::words;
use crate::sys::group_child;
use crate::sys::link::{Incoming, Link};
use crate::sys::process::Unstartable;
use crate::sys::tree::End;

/// How long a hook may take: a request over the network with a retry, not a job.
pub const LIMIT: Duration = Duration::from_secs(10);

/// How long a hook waits for the one before it, so that they run in order; then they run side by side.
/// Half of what dlock waits at its end, so that its last hook runs even if the first one hangs.
const TURN: Duration = Duration::from_millis(500);

/// How long dlock waits at its end for hooks and for the file of metrics: enough for a disk that works. With
/// [`TO_DIE`], it is later by a second at most.
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

/// The variables of a hook, in the order in which the manual has them. What is not known is empty.
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

fn variables(occasion: Occasion, facts: &Facts) -> Vec<(&'static str, String)> {
    let seconds = |time: Duration| format!("{:.3}", time.as_secs_f64());
    let values = [
        occasion.word().to_owned(),
        facts.action.to_string(),
        facts
            .token
            .as_ref()
            .map(Token::to_string)
            .unwrap_or_default(),
        facts.holder.clone(),
        facts.other.clone(),
        facts
            .outcome
            .map(Outcome::word)
            .unwrap_or_default()
            .to_owned(),
        facts
            .status
            .as_ref()
            .map(Status::to_string)
            .unwrap_or_default(),
        facts.reason[..facts.reason.floor_char_boundary(REASON)].to_owned(),
        seconds(facts.wait),
        seconds(facts.hold),
    ];
    // Nothing in an environment can hold a NUL.
    let values = values.map(|value| value.replace('\0', ""));
    VARIABLES.into_iter().zip(values).collect()
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

impl HookResult {
    /// What went wrong, if anything did.
    #[must_use]
    pub fn failure(self) -> Option<String> {
        Some(match self {
            Self::Ended(End::Exited(0)) => return None,
            Self::Ended(End::Exited(status)) => format!("exited with {status}"),
            Self::Ended(End::Killed(signal)) => format!("was killed by signal {signal}"),
            Self::TimedOut => {
                let limit = words::duration(LIMIT);
                format!("took more than {limit} and was killed")
            }
            Self::Stopped => "had not ended when dlock did and was killed".to_owned(),
            Self::Unstartable(errno) => match Unstartable::from_errno(errno) {
                Unstartable::NotFound => "cannot be run: no such command".to_owned(),
                Unstartable::NotExecutable(error) => format!("cannot be run: {error}"),
            },
        })
    }
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
    pub fn run(&mut self, occasion: Occasion, facts: &Facts) {
        let variables = variables(occasion, facts);
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

    use super::{Occasion, REASON, variables};
    use crate::exit::Status;
    use crate::lease::Token;
    use crate::lease::action::Action;
    use crate::metrics::{Facts, Outcome};

    proptest! {
        #[test]
        fn a_variable_holds_any_text_but_nul_bytes_and_the_end_of_a_long_reason(
            action in any::<String>(),
            holder in any::<String>(),
            reason in "\\PC{0,5000}",
        ) {
            let Ok(action) = action.parse::<Action>() else {
                return Ok(());
            };
            let mut facts = Facts::new(action.clone(), holder.clone());
            facts.token = Some(Token(u64::MAX));
            facts.outcome = Some(Outcome::Lost);
            facts.status = Some(Status::LOST);
            facts.reason.clone_from(&reason);
            facts.hold = Duration::from_secs(90);
            let told = variables(Occasion::Lost, &facts);
            let value = |name: &str| &told.iter().find(|told| told.0 == name).expect("it is there").1;
            prop_assert_eq!(value("DLOCK_ACTION"), action.as_str());
            prop_assert_eq!(value("DLOCK_HOLDER"), &holder.replace('\0', ""));
            prop_assert_eq!(value("DLOCK_RESULT"), "lost");
            prop_assert_eq!(value("DLOCK_EXIT_STATUS"), "76");
            prop_assert!(reason.starts_with(value("DLOCK_REASON")));
            prop_assert!(value("DLOCK_REASON").len() <= REASON);
            prop_assert_eq!(value("DLOCK_TOKEN"), &u64::MAX.to_string());
            prop_assert_eq!(value("DLOCK_HELD_SECONDS"), "90.000");
        }
    }
}
