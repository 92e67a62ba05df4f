//! Orders and words as bytes: a kind and three numbers, the same length for all.

use std::time::Duration;

use super::{Order, Word};
use crate::lease::Token;
use crate::lease::instant::{BootInstant, Deadline};
use crate::supervise::{Act, Blame};
use crate::sys::signal::{Origin, Signal};
use crate::sys::tree::End;

const NUMBERS: usize = 3;

/// Bytes of a message.
const LENGTH: usize = 1 + 8 * NUMBERS;

/// A message as it goes over the link.
pub(super) type Message = [u8; LENGTH];

/// `order` as a message.
pub(super) fn of_order(order: Order) -> Message {
    match order {
        Order::Start(deadline, token) => {
            let [term, kill] = nanos(deadline);
            message(b's', [term, kill, token.0])
        }
        Order::Limit(limit) => message(b'm', [in_nanos(limit), 0, 0]),
        Order::Renewed(deadline) => {
            let [term, kill] = nanos(deadline);
            message(b'r', [term, kill, 0])
        }
        Order::Signal(signal) => {
            let (origin, sender) = match signal.origin {
                Origin::Terminal => (0, 0),
                Origin::Child => (1, 0),
                Origin::Below => (2, 0),
                Origin::Process(pid) => (3, pid.into()),
            };
            message(b'n', [of_i32(signal.number), origin, sender])
        }
        Order::Lost => message(b'l', [0; NUMBERS]),
        Order::Leave => message(b'q', [0; NUMBERS]),
    }
}

/// The order in a message, none if it makes no sense.
pub(super) fn order(message: Message) -> Option<Order> {
    let (kind, [first, second, third]) = parts(message);
    Some(match kind {
        b's' => Order::Start(deadline(first, second), Token(third)),
        b'm' => Order::Limit(instant(first)),
        b'r' => Order::Renewed(deadline(first, second)),
        b'n' => Order::Signal(Signal {
            number: i32_of(first)?,
            origin: match second {
                0 => Origin::Terminal,
                1 => Origin::Child,
                2 => Origin::Below,
                _ => Origin::Process(u32::try_from(third).ok()?),
            },
        }),
        b'l' => Order::Lost,
        b'q' => Order::Leave,
        _ => return None,
    })
}

/// `word` as a message; [`Word::Gone`] is never sent.
pub(super) fn of_word(word: Word) -> Message {
    match word {
        Word::Sent(Act::Forward(signal)) => message(b'f', [of_i32(signal), 0, 0]),
        Word::Sent(Act::Stop(signal)) => message(b't', [of_i32(signal), 0, 0]),
        Word::Stopping(blame) => message(b'b', [of_blame(blame), 0, 0]),
        Word::Unstartable(errno) => message(b'u', [of_i32(errno), 0, 0]),
        Word::Stuck(pid) => message(b'd', [pid.into(), 0, 0]),
        Word::Ended(End::Exited(code), blame) => message(b'e', [code.into(), of_blame(blame), 0]),
        Word::Ended(End::Killed(signal), blame) => {
            message(b'k', [of_i32(signal), of_blame(blame), 0])
        }
        Word::Gone => message(0, [0; NUMBERS]),
    }
}

/// The word in a message, none if it makes no sense.
pub(super) fn word(message: Message) -> Option<Word> {
    let (kind, [first, second, _]) = parts(message);
    Some(match kind {
        b'f' => Word::Sent(Act::Forward(i32_of(first)?)),
        b't' => Word::Sent(Act::Stop(i32_of(first)?)),
        b'b' => Word::Stopping(blame(first)?),
        b'u' => Word::Unstartable(i32_of(first)?),
        b'd' => Word::Stuck(u32::try_from(first).ok()?),
        b'e' => Word::Ended(End::Exited(u8::try_from(first).ok()?), blame(second)?),
        b'k' => Word::Ended(End::Killed(i32_of(first)?), blame(second)?),
        _ => return None,
    })
}

fn message(kind: u8, numbers: [u64; NUMBERS]) -> Message {
    let mut message = [0; LENGTH];
    message[0] = kind;
    for (bytes, number) in message[1..].chunks_exact_mut(8).zip(numbers) {
        bytes.copy_from_slice(&number.to_ne_bytes());
    }
    message
}

fn parts(message: Message) -> (u8, [u64; NUMBERS]) {
    let mut numbers = [0; NUMBERS];
    for (number, bytes) in numbers.iter_mut().zip(message[1..].chunks_exact(8)) {
        let mut own = [0; 8];
        own.copy_from_slice(bytes);
        *number = u64::from_ne_bytes(own);
    }
    (message[0], numbers)
}

fn nanos(deadline: Deadline) -> [u64; 2] {
    [deadline.term, deadline.kill].map(in_nanos)
}

fn in_nanos(instant: BootInstant) -> u64 {
    u64::try_from(instant.since_boot().as_nanos()).unwrap_or(u64::MAX)
}

const fn deadline(term: u64, kill: u64) -> Deadline {
    Deadline {
        term: instant(term),
        kill: instant(kill),
    }
}

const fn instant(nanos: u64) -> BootInstant {
    BootInstant::new(Duration::from_nanos(nanos))
}

/// Signals and errors of the system are small positive numbers.
fn of_i32(number: i32) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn i32_of(number: u64) -> Option<i32> {
    i32::try_from(number).ok()
}

const BLAMES: [Blame; 5] = [
    Blame::Nobody,
    Blame::Expired,
    Blame::Lost,
    Blame::Overran,
    Blame::Unguarded,
];

fn of_blame(blame: Blame) -> u64 {
    BLAMES
        .iter()
        .position(|other| *other == blame)
        .map_or(0, |index| index as u64)
}

fn blame(number: u64) -> Option<Blame> {
    BLAMES.get(usize::try_from(number).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{of_order, of_word, order, word};
    use crate::lease::Token;
    use crate::lease::instant::{BootInstant, Deadline};
    use crate::monitor::{Order, Word};
    use crate::supervise::{Act, Blame};
    use crate::sys::signal::{Origin, Signal};
    use crate::sys::tree::End;

    #[test]
    fn what_is_said_is_what_is_heard() {
        let deadline = Deadline {
            term: BootInstant::new(Duration::new(1_000, 1)),
            kill: BootInstant::new(Duration::new(2_000, 999_999_999)),
        };
        let signal = |origin| Order::Signal(Signal { number: 64, origin });
        for said in [
            Order::Start(deadline, Token(u64::MAX)),
            Order::Limit(deadline.kill),
            Order::Renewed(deadline),
            signal(Origin::Terminal),
            signal(Origin::Below),
            signal(Origin::Process(u32::MAX)),
            Order::Lost,
        ] {
            assert_eq!(order(of_order(said)), Some(said));
        }
        for said in [
            Word::Sent(Act::Forward(15)),
            Word::Sent(Act::Stop(9)),
            Word::Stopping(Blame::Expired),
            Word::Unstartable(8),
            Word::Stuck(4_194_304),
            Word::Ended(End::Exited(255), Blame::Nobody),
            Word::Ended(End::Killed(64), Blame::Lost),
            Word::Ended(End::Killed(9), Blame::Overran),
            Word::Ended(End::Killed(9), Blame::Unguarded),
        ] {
            assert_eq!(word(of_word(said)), Some(said));
        }
        assert_eq!(word([0; 25]), None);
    }
}
