//! Sequences of steps, and a generator of random sequences. Pure.
//!
//! A step refers to the present state, such as "the current version", so that it has a meaning whatever steps precede
//! it: the search for the shortest sequence removes steps.

use std::fmt;

use fastrand::Rng;

/// Maximum number of contenders in a sequence.
pub(crate) const CONTENDERS: usize = 3;

/// Maximum number of steps in a sequence.
const STEPS: usize = 12;

/// Errors that a server may return instead of a response, also after it has executed the request.
const CODES: [u16; 6] = [1205, 1213, 1047, 1317, 1105, 1290];

/// A sequence of requests and events.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    /// True for contenders that use the queue lock.
    pub(crate) has_queue_lock: [bool; CONTENDERS],
    pub(crate) steps: Vec<Step>,
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A contender sends a request, one packet of which may meet a fault.
    Ask(usize, Ask, Option<Fault>),
    /// An operator revokes the lease. With `stale`, the operator uses an older token. With `wakes`, the holder's
    /// session is ended.
    Revoke { stale: bool, wakes: bool },
    /// An operator pauses the action for this number of ticks.
    Close(u8),
    /// An operator resumes the action.
    Resume,
    /// The server ends a contender's session.
    Kill(usize),
    /// A contender drops its connection, and the server does not notice.
    Drop(usize),
    /// The server notices that a contender dropped a connection.
    Notice(usize),
    /// Time passes.
    Ticks(u8),
}

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    First,
    IfFree,
    TakeOver(Seen),
    Inspect,
    Queue,
    Stand,
    Renew(Which),
    HandOff,
    Release {
        which: Option<Which>,
        ending: Option<Ending>,
        queued: bool,
        handed_off: bool,
    },
}

/// A version of the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The current version.
    Now,
    /// The version that the contender last read.
    Before,
}

/// The grant that a contender sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Its own last grant.
    Own,
    /// Its own owner id with the current token of the row.
    OwnClaim,
    /// The current owner id and token of the row.
    Current,
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Exited,
    Killed,
}

/// A fault of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Index of the packet in the request. There is no fault if the request has fewer packets.
    pub(crate) packet: usize,
    pub(crate) kind: FaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The server does not get the packet, and the contender gets this error.
    Refused(u16),
    /// The server executes the packet, and the contender gets this error.
    ErrorAfter(u16),
    /// The server executes the packet, and the contender gets no response.
    ReplyLost,
}

impl Sequence {
    /// Returns the random sequence with this number.
    pub(crate) fn random(seed: u64, number: u64) -> Self {
        let mut rng = Rng::with_seed(seed.rotate_left(32) ^ number);
        let contenders = rng.usize(2..=CONTENDERS);
        let has_queue_lock = match rng.u8(0..8) {
            0 => [false; CONTENDERS],
            1 => [(); CONTENDERS].map(|()| rng.bool()),
            _ => [true; CONTENDERS],
        };
        let steps = (0..rng.usize(3..=STEPS)).map(|_| step(&mut rng, contenders));
        Self {
            has_queue_lock,
            steps: steps.collect(),
        }
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  contenders with a queue lock: {:?}",
            self.has_queue_lock
        )?;
        for step in &self.steps {
            writeln!(f, "  {step:?}")?;
        }
        Ok(())
    }
}

fn step(rng: &mut Rng, contenders: usize) -> Step {
    let who = rng.usize(..contenders);
    match rng.u8(0..40) {
        0..=2 => Step::Revoke {
            stale: rng.u8(..4) == 0,
            wakes: rng.u8(..4) == 0,
        },
        3 => Step::Close(rng.u8(1..=3)),
        4 => Step::Resume,
        5..=6 => Step::Kill(who),
        7 => Step::Drop(who),
        8..=9 => Step::Notice(who),
        10..=11 => Step::Ticks(rng.u8(1..=6)),
        _ => {
            let fault = (rng.u8(..6) == 0).then(|| fault(rng));
            Step::Ask(who, ask(rng), fault)
        }
    }
}

fn ask(rng: &mut Rng) -> Ask {
    match rng.u8(0..20) {
        0..=2 => Ask::First,
        3..=5 => Ask::IfFree,
        6..=8 => Ask::TakeOver(match rng.u8(..3) {
            0 => Seen::Before,
            _ => Seen::Now,
        }),
        9 => Ask::Inspect,
        10 => Ask::Queue,
        11..=12 => Ask::Stand,
        13..=14 => Ask::Renew(which(rng)),
        15..=16 => Ask::HandOff,
        _ => Ask::Release {
            which: (rng.u8(..4) > 0).then(|| which(rng)),
            ending: match rng.u8(..3) {
                0 => None,
                1 => Some(Ending::Exited),
                _ => Some(Ending::Killed),
            },
            queued: rng.bool(),
            handed_off: rng.bool(),
        },
    }
}

fn which(rng: &mut Rng) -> Which {
    match rng.u8(..5) {
        0 => Which::OwnClaim,
        1 => Which::Current,
        _ => Which::Own,
    }
}

fn fault(rng: &mut Rng) -> Fault {
    let code = CODES[rng.usize(..CODES.len())];
    Fault {
        packet: usize::from(rng.u8(..4) == 0),
        kind: match rng.u8(..4) {
            0 => FaultKind::Refused(code),
            1..=2 => FaultKind::ErrorAfter(code),
            _ => FaultKind::ReplyLost,
        },
    }
}
