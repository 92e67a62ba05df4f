//! The hook: the command in `--on-event`, which dlock runs for each event of a run.
//!
//! dlock starts a thread for each event. The thread waits for a limited time for the previous hook to end, runs the
//! command in a shell, waits for that shell to exit, and sends the result to the event loop as an event. Therefore
//! neither a hook nor the disk that contains its program can block the event loop. Before dlock exits, it
//! [stops](Hook::stop) the hooks that still run.
//!
//! A hook does not belong to the command's tree. The thread that reaps the tree waits only for its own children, but a
//! hook is a child of the thread that started the hook.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use strum::{IntoStaticStr, VariantArray};

use crate::exit::Status;
use crate::lease::Token;
use crate::lease::action::Action;
use crate::metrics::{MetricsResult, RunMetrics};
use crate::report::log::rfc3339;
use crate::report::messages;
use crate::sys::channel::{Channel, Received};
use crate::sys::group_child;
use crate::sys::pending_child::{SLOT, TOKENS};
use crate::sys::process::ExecError;
use crate::sys::signal_name;
use crate::sys::tree::ExitReason;

/// Maximum runtime of a hook. This time is long enough for a network request with a retry. Hooks are not designed for
/// longer work.
pub const LIMIT: Duration = Duration::from_secs(10);

/// Maximum time that a hook waits for the previous hook to end. Because of this wait, hooks normally run in order.
/// After this time, the two hooks run concurrently. This time is about half of [`AT_END`], so that the final hook runs
/// even if the previous hook hangs.
const PREVIOUS_HOOK_LIMIT: Duration = Duration::from_millis(500);

/// Maximum time that dlock waits, before it exits, for hooks to end and for the metrics file to be written. This time
/// is long enough for a write to a working disk. Together with [`TO_DIE`], this time delays the exit of dlock by at
/// most one second.
pub const AT_END: Duration = Duration::from_millis(900);

/// Maximum time that dlock waits for hooks to die after it has [stopped](Hook::stop) them.
pub const TO_DIE: Duration = Duration::from_millis(100);

/// Maximum length of `DLOCK_REASON` in bytes. The reason is truncated, because a message from a server can have any
/// length.
const MAX_REASON_BYTES: usize = 4096;

/// The event for which a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum HookTrigger {
    /// The lease is granted; the command is being started.
    Granted,
    /// The run has the result [`MetricsResult::Lost`], for example because the lease was lost. Normally, the command is
    /// still running and is being stopped.
    Lost,
    /// The run has ended. Normally, the lease is released, or held only for `--min-hold`.
    Released,
    /// No command was run, because the action has already succeeded, or because the action was held or paused until the
    /// wait limit expired.
    Skipped,
}

impl HookTrigger {
    /// All triggers.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Returns the name of the trigger. The log uses the same name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The environment variables of a hook, in the order of the man page. dlock sets a variable that has no value to an
/// empty string.
pub const VARIABLES: [&str; 13] = [
    "DLOCK_EVENT",
    "DLOCK_ACTION",
    "DLOCK_TOKEN",
    SLOT,
    TOKENS,
    "DLOCK_HOLDER",
    "DLOCK_OTHER_HOLDER",
    "DLOCK_RESULT",
    "DLOCK_EXIT_STATUS",
    "DLOCK_REASON",
    "DLOCK_WAITED_SECONDS",
    "DLOCK_HELD_SECONDS",
    "DLOCK_MIN_HOLD_UNTIL",
];

fn variables(trigger: HookTrigger, facts: &RunMetrics) -> Vec<(&'static str, String)> {
    let seconds = |time: Duration| format!("{:.3}", time.as_secs_f64());
    let leases = facts.actions.iter().zip(&facts.tokens);
    let lines: Vec<_> = leases
        .map(|(action, token)| format!("{action}={token}"))
        .collect();
    let values = [
        trigger.as_str().to_owned(),
        facts
            .actions
            .first()
            .map(Action::to_string)
            .unwrap_or_default(),
        facts
            .tokens
            .first()
            .map(Token::to_string)
            .unwrap_or_default(),
        (facts.slot.as_ref())
            .map(u32::to_string)
            .unwrap_or_default(),
        lines.join("\n"),
        facts.holder.clone(),
        facts.other.clone(),
        facts
            .outcome
            .map(MetricsResult::as_str)
            .unwrap_or_default()
            .to_owned(),
        facts
            .status
            .as_ref()
            .map(Status::to_string)
            .unwrap_or_default(),
        facts.reason[..facts.reason.floor_char_boundary(MAX_REASON_BYTES)].to_owned(),
        seconds(facts.wait),
        seconds(facts.hold),
        facts.min_hold_until.map(rfc3339).unwrap_or_default(),
    ];
    // An environment variable cannot contain a NUL.
    let values = values.map(|value| value.replace('\0', ""));
    VARIABLES.into_iter().zip(values).collect()
}

/// The result of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookResult {
    /// The hook ended without being killed by dlock.
    Ended(ExitReason),
    /// The hook took longer than [`LIMIT`] and was killed.
    TimedOut,
    /// The hook was killed or not started, because dlock is ending.
    Stopped,
    /// The hook could not be started. Contains the error number from the kernel, or 0 if there is none.
    Unstartable(i32),
}

impl HookResult {
    /// Returns a description of the failure. None if the hook exited with 0.
    #[must_use]
    pub fn failure(self) -> Option<String> {
        Some(match self {
            Self::Ended(ExitReason::Exited(0)) => return None,
            Self::Ended(ExitReason::Exited(status)) => format!("exited with {status}"),
            Self::Ended(ExitReason::Killed(signal)) => {
                format!("was killed by {}", signal_name::describe(signal))
            }
            Self::TimedOut => {
                let limit = messages::duration(LIMIT);
                format!("took more than {limit} and was killed")
            }
            Self::Stopped => "was still running when dlock ended and was killed".to_owned(),
            Self::Unstartable(errno) => match ExecError::from_errno(errno) {
                // Only the shell can be missing, because the kernel runs no other program for a hook.
                ExecError::NotFound => "cannot be run: PATH contains no sh".to_owned(),
                ExecError::NotExecutable(error) => format!("cannot be run: {error}"),
            },
        })
    }
}

/// A hook, and the channels to the threads that run it.
pub struct Hook {
    command: Arc<str>,
    /// The environment variables that hooks do not get.
    hidden: Arc<[OsString]>,
    on_result: Arc<dyn Fn(HookTrigger, HookResult) + Send + Sync>,
    /// Sends no messages. When this end is dropped, the threads kill their hooks.
    stop_sender: Option<Channel>,
    stop_receiver: Arc<Channel>,
    /// A channel that is disconnected when the previous hook has ended. None before the first hook.
    previous: Option<Receiver<()>>,
}

impl Hook {
    /// Creates a hook that runs `command` without the environment variables in `hidden`. The threads call `on_result`
    /// with the result of each run.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a descriptor.
    pub fn new(
        command: &str,
        hidden: Vec<OsString>,
        on_result: impl Fn(HookTrigger, HookResult) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (stop_sender, stop_receiver) = Channel::pair()?;
        Ok(Self {
            command: command.into(),
            hidden: hidden.into(),
            on_result: Arc::new(on_result),
            stop_sender: Some(stop_sender),
            stop_receiver: Arc::new(stop_receiver),
            previous: None,
        })
    }

    /// Runs the hook for `trigger` without waiting for the end of the hook.
    pub fn run(&mut self, trigger: HookTrigger, facts: &RunMetrics) {
        let variables = variables(trigger, facts);
        let (command, hidden) = (Arc::clone(&self.command), Arc::clone(&self.hidden));
        let (on_result, stop) = (Arc::clone(&self.on_result), Arc::clone(&self.stop_receiver));
        let previous = self.previous.take();
        let (has_ended, ended) = mpsc::channel::<()>();
        let thread = thread::Builder::new().name("hook".to_owned());
        let started = thread.spawn(move || {
            if let Some(previous) = previous {
                // No messages are sent on this channel. The call returns when the previous hook has ended, or after the
                // limit.
                let _ = previous.recv_timeout(PREVIOUS_HOOK_LIMIT);
            }
            let result = match stop.receive() {
                Received::Closed => Ok(HookResult::Stopped),
                _ => group_child::run(&command, &variables, &hidden, LIMIT, &stop).map(|end| {
                    match end {
                        Some(end) => HookResult::Ended(end),
                        None if stop.receive() == Received::Closed => HookResult::Stopped,
                        None => HookResult::TimedOut,
                    }
                }),
            };
            on_result(trigger, result.unwrap_or_else(|error| unstartable(&error)));
            drop(has_ended);
        });
        self.previous = Some(ended);
        if let Err(error) = started {
            (self.on_result)(trigger, unstartable(&error));
        }
    }

    /// Makes the threads kill the hooks that still run. Each thread reports the result when its hook is dead.
    pub fn stop(&mut self) {
        self.stop_sender = None;
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

    use super::{HookTrigger, MAX_REASON_BYTES, variables};
    use crate::exit::Status;
    use crate::lease::Token;
    use crate::lease::action::Action;
    use crate::metrics::{MetricsResult, RunMetrics};

    proptest! {
        #[test]
        fn variables_keep_any_text_except_nul_bytes_and_the_end_of_a_long_reason(
            action in any::<String>(),
            holder in any::<String>(),
            reason in "\\PC{0,5000}",
        ) {
            let Ok(action) = action.parse::<Action>() else {
                return Ok(());
            };
            let mut facts = RunMetrics::new(vec![action.clone()], holder.clone());
            facts.tokens = vec![Token(u64::MAX)];
            facts.outcome = Some(MetricsResult::Lost);
            facts.status = Some(Status::LOST);
            facts.reason.clone_from(&reason);
            facts.hold = Duration::from_secs(90);
            let pairs = variables(HookTrigger::Lost, &facts);
            let value = |name: &str| &pairs.iter().find(|pair| pair.0 == name).expect("the variable is set").1;
            prop_assert_eq!(value("DLOCK_ACTION"), action.as_str());
            prop_assert_eq!(value("DLOCK_HOLDER"), &holder.replace('\0', ""));
            prop_assert_eq!(value("DLOCK_RESULT"), "lost");
            prop_assert_eq!(value("DLOCK_EXIT_STATUS"), "76");
            prop_assert!(reason.starts_with(value("DLOCK_REASON")));
            prop_assert!(value("DLOCK_REASON").len() <= MAX_REASON_BYTES);
            prop_assert_eq!(value("DLOCK_TOKEN"), &u64::MAX.to_string());
            prop_assert_eq!(value("DLOCK_TOKENS"), &format!("{action}={}", u64::MAX));
            prop_assert_eq!(value("DLOCK_HELD_SECONDS"), "90.000");
        }
    }
}
