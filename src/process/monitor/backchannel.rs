//! The messages between the parent and the monitor, and their JSON encoding. Each packet of a [`Channel`] contains one
//! message.
//!
//! Pure. Both sides are the same program, so the encoding is not an interface and may change.
//!
//! [`Channel`]: crate::sys::channel::Channel

use std::fmt;
use std::io;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::lease::Token;
use crate::lease::instant::{BootInstant, Deadline};
use crate::process::supervisor::{Effect, StopReason, SupervisorInput};
use crate::sys::tree::{ExitReason, Leftovers};

/// The parameters with which the command starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The earliest deadline of the leases when the message is sent.
    pub deadline: Deadline,
    /// Instant at which the command reaches `--max-runtime`. None if the run is not limited.
    pub limit: Option<BootInstant>,
    /// The tokens of the grants, in the order of the names.
    pub tokens: Vec<Token>,
    /// Number of the slot of the first lease.
    pub slot: u32,
    /// Time that dlock waited before the start.
    pub waited: Duration,
}

/// The leases of a dlock that has died, when the command's whole tree is dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftLeases {
    /// The tokens of the grants, in the order of the names.
    pub tokens: Vec<Token>,
    /// The deadline of the latest renewal that the monitor knows.
    pub deadline: Deadline,
    /// Time that dlock waited before the start.
    pub waited: Duration,
    /// Time from the start of the command to the death of the tree.
    pub took: Duration,
}

/// A message from the parent to the monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MonitorMessage {
    /// The parent holds the leases, so the monitor must start the command.
    Start(Start),
    /// An input for the supervisor.
    Input(SupervisorInput),
    /// The parent ends, because its user does not wait until the tree is dead.
    Leaving,
    /// The work is over although its process goes on: the monitor ends without a signal to it, unless it is already stopping
    /// the tree. Sent only for a ward.
    LetGo,
}

/// A message from the monitor to the parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParentMessage {
    /// The monitor forwarded this signal, or begins to send it to the whole tree.
    Sent(Effect),
    /// The kernel refused to forward this signal, because the command has become another user.
    Refused(i32),
    /// The monitor stops the command for this reason.
    Stopping(StopReason),
    /// The command could not be executed. Contains the error number of `execve(2)`.
    Unstartable(i32),
    /// The process with this id did not die after SIGKILL. The id is 0 if `/proc` does not show the process.
    Stuck(u32),
    /// The whole tree is dead. Contains how the command ended, why it was stopped, and which processes it left.
    Ended(ExitReason, StopReason, Leftovers),
    /// The monitor ends because of an error. Contains the error number, or 0 if there is none. The parent gets
    /// [`ParentMessage::Gone`] instead, when the monitor is dead.
    Failed(i32),
    /// The monitor is dead. Never sent as a message.
    #[serde(skip)]
    Gone(MonitorEnd),
}

/// The reason why the monitor is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MonitorEnd {
    /// A signal killed the monitor.
    #[default]
    Killed,
    /// The monitor ended because of the error with this number, or 0 if there is none.
    Failed(i32),
}

impl fmt::Display for MonitorEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed => f.write_str("was killed"),
            Self::Failed(0) => f.write_str("failed"),
            Self::Failed(errno) => write!(f, "failed: {}", io::Error::from_raw_os_error(*errno)),
        }
    }
}

/// Encodes `message`. The result is much shorter than [`LONGEST`](crate::sys::channel::LONGEST).
pub(super) fn encode(message: &impl Serialize) -> Vec<u8> {
    // Serializing a plain value without maps cannot fail, so the default value is never used.
    serde_json::to_vec(message).unwrap_or_default()
}

/// Returns the message in `bytes`. None if `bytes` is not a valid message, which the receiver ignores.
pub(super) fn decode<M: DeserializeOwned>(bytes: &[u8]) -> Option<M> {
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{MonitorMessage, ParentMessage, Start, decode, encode};
    use crate::lease::Token;
    use crate::lease::instant::{BootInstant, Deadline};
    use crate::process::supervisor::{Effect, StopReason, SupervisorInput};
    use crate::sys::channel::LONGEST;
    use crate::sys::signal::{Origin, Signal};
    use crate::sys::tree::{ExitReason, Leftovers};

    #[test]
    fn monitor_messages_round_trip_and_fit_into_a_packet() {
        let deadline = Deadline {
            term: BootInstant::new(Duration::new(u64::MAX, 1)),
            kill: BootInstant::new(Duration::new(u64::MAX, 999_999_999)),
        };
        let origin = Origin::Process(u32::MAX);
        for message in [
            MonitorMessage::Start(Start {
                deadline,
                limit: Some(deadline.kill),
                tokens: vec![Token(u64::MAX); 16],
                slot: u32::MAX,
                waited: Duration::new(u64::MAX, 999_999_999),
            }),
            MonitorMessage::Leaving,
            MonitorMessage::LetGo,
            MonitorMessage::Input(SupervisorInput::Renewed(deadline)),
            MonitorMessage::Input(SupervisorInput::Signal(Signal { number: 64, origin })),
            MonitorMessage::Input(SupervisorInput::Lost),
        ] {
            let bytes = encode(&message);
            assert!(bytes.len() < LONGEST, "{message:?}");
            assert_eq!(decode(&bytes), Some(message));
        }
        for message in [
            ParentMessage::Sent(Effect::Forward(15)),
            ParentMessage::Refused(i32::MAX),
            ParentMessage::Stopping(StopReason::Expired),
            ParentMessage::Unstartable(8),
            ParentMessage::Stuck(u32::MAX),
            ParentMessage::Failed(24),
            ParentMessage::Ended(
                ExitReason::Exited(255),
                StopReason::None,
                Leftovers::default(),
            ),
            ParentMessage::Ended(
                ExitReason::Killed(64),
                StopReason::MonitorDied,
                Leftovers {
                    number: u32::MAX,
                    shown: vec![(u32::MAX, "\u{1}".repeat(15)); 3],
                },
            ),
        ] {
            let bytes = encode(&message);
            assert!(bytes.len() < LONGEST, "{message:?}");
            assert_eq!(decode(&bytes), Some(message));
        }
    }

    #[test]
    fn invalid_bytes_are_ignored() {
        for bytes in [&b""[..], b"{}", b"\"Gone\"", b"\"Lost\"}", &[0; 25]] {
            assert_eq!(decode::<MonitorMessage>(bytes), None, "{bytes:?}");
            assert_eq!(decode::<ParentMessage>(bytes), None, "{bytes:?}");
        }
    }
}
