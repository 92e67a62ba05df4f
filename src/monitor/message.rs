//! Messages between the front and the monitor, as JSON: one message in one packet of their [`Link`].
//!
//! Pure. Both sides are the same program, so the form of a message is nobody else's business.
//!
//! [`Link`]: crate::sys::link::Link

use serde::Serialize;
use serde::de::DeserializeOwned;

/// `message` as bytes; far fewer than [`Link`](crate::sys::link::Link) takes.
pub(super) fn encode(message: &impl Serialize) -> Vec<u8> {
    // A plain value without maps cannot fail. An empty packet would be ignored.
    serde_json::to_vec(message).unwrap_or_default()
}

/// The message in `bytes`. None if they are no message, which the receiver ignores.
pub(super) fn decode<M: DeserializeOwned>(bytes: &[u8]) -> Option<M> {
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{decode, encode};
    use crate::lease::Token;
    use crate::lease::instant::{BootInstant, Deadline};
    use crate::monitor::{Order, Start, Word};
    use crate::supervise::{Act, Blame, Input};
    use crate::sys::link::LONGEST;
    use crate::sys::signal::{Origin, Signal};
    use crate::sys::tree::End;

    #[test]
    fn messages_round_trip_and_fit_into_a_packet() {
        let deadline = Deadline {
            term: BootInstant::new(Duration::new(u64::MAX, 1)),
            kill: BootInstant::new(Duration::new(u64::MAX, 999_999_999)),
        };
        let origin = Origin::Process(u32::MAX);
        for order in [
            Order::Start(Start {
                deadline,
                limit: Some(deadline.kill),
                token: Token(u64::MAX),
            }),
            Order::Input(Input::Renewed(deadline)),
            Order::Input(Input::Signal(Signal { number: 64, origin })),
            Order::Input(Input::Lost),
        ] {
            let bytes = encode(&order);
            assert!(bytes.len() < LONGEST, "{order:?}");
            assert_eq!(decode(&bytes), Some(order));
        }
        for word in [
            Word::Sent(Act::Forward(15)),
            Word::Stopping(Blame::Expired),
            Word::Unstartable(8),
            Word::Stuck(u32::MAX),
            Word::Ended(End::Exited(255), Blame::Nobody),
            Word::Ended(End::Killed(64), Blame::Unguarded),
        ] {
            let bytes = encode(&word);
            assert!(bytes.len() < LONGEST, "{word:?}");
            assert_eq!(decode(&bytes), Some(word));
        }
    }

    #[test]
    fn bytes_that_are_no_message_are_ignored() {
        for bytes in [&b""[..], b"{}", b"\"Gone\"", b"\"Lost\"}", &[0; 25]] {
            assert_eq!(decode::<Order>(bytes), None, "{bytes:?}");
            assert_eq!(decode::<Word>(bytes), None, "{bytes:?}");
        }
    }
}
