//! Sequences of steps, and a generator of random sequences. Pure.
//!
//! A step is relative to the current state: for example, it refers to "the current version".

use std::fmt;
use std::num::NonZeroU32;

use dlock::lease::limit::Limit;
use fastrand::Rng;

pub(crate) const CONTENDERS: usize = 3;

const STEPS: usize = 12;

/// Errors that a server may return instead of a response, before or after the execution of the request.
const CODES: [u16; 6] = [1205, 1213, 1047, 1317, 1105, 1290];

#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    /// For each contender, true if it uses the queue lock.
    pub(crate) has_queue_lock: [bool; CONTENDERS],
    pub(crate) limits: [Limit; CONTENDERS],
    pub(crate) steps: Vec<Step>,
}

/// One step of a sequence. Contenders are identified by their index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A contender sends a request. A fault may affect one packet of the request.
    Send(usize, RequestKind, Option<Fault>),
    /// An operator revokes the lease. If `stale` is true, the request contains an older token. If `wakes` is true, the
    /// operator also ends the holder's session.
    Revoke {
        stale: bool,
        wakes: bool,
    },
    /// An operator pauses the action for this number of ticks.
    Pause(u8),
    Resume,
    KillSession(usize),
    /// A contender drops its connection. The server does not detect this.
    DropConnection(usize),
    /// The server detects that a contender has dropped a connection.
    NoticeDrop(usize),
    AdvanceTime(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    AcquireFirst,
    AcquireIfFree(LastReadChoice),
    TakeOver(VersionChoice),
    /// An attempt of a contender that has read leases in slots.
    AcquireAmongSlots(LastReadChoice, Option<DeadChoice>),
    GetWithQueue,
    Enqueue,
    /// The first flag is true if an attempt follows the wait, and the second if the contender lets another one pass.
    WaitTurn(LastReadChoice, bool, bool),
    Renew(GrantChoice, NoteChoice),
    /// The contender writes a lost grant again. If the flag is true, the token is larger than the token of the row.
    Reassert(bool),
    HandOff,
    Release {
        grant_choice: Option<GrantChoice>,
        run_end: Option<RunEnd>,
        has_entry: bool,
        handed_off: bool,
        clears_sessions: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionChoice {
    Current,
    /// The version that the contender has most recently read.
    LastRead,
}

/// The slot that an attempt frees. Ignored if the slot does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeadChoice {
    pub(crate) index: usize,
    /// True if the attempt expects an older version than the current one.
    pub(crate) is_old: bool,
}

/// What the contender has read, according to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastReadChoice {
    Nothing,
    /// The version that the contender has most recently read.
    LastRead,
    /// The same version in another database.
    OtherDatabase,
    /// A newer version than the row has.
    Newer,
}

/// The grant that a request contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GrantChoice {
    Own,
    /// The contender's owner id with the current token of its slot or, if it has none, of the row.
    OwnIdWithCurrentToken,
    /// The owner id and the token of the first lease in a slot or, if there is none, of the row.
    Current,
}

/// The look for sessions in a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoteChoice {
    /// The renewal does not look.
    Unchanged,
    /// The renewal finds the session of a command.
    Found,
    /// The renewal looks for no session, and removes the note.
    Removed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunEnd {
    Exited,
    Killed,
}

/// A fault that affects one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Index of the packet in the request. If the request has fewer packets, the fault has no effect.
    pub(crate) packet: usize,
    pub(crate) kind: FaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The packet does not reach the server, and the contender receives this error.
    Refused(u16),
    /// The server executes the packet, and the contender receives this error.
    ErrorAfter(u16),
    /// The server executes the packet, and the contender receives no response.
    ResponseLost,
}

impl Sequence {
    pub(crate) fn random(seed: u64, number: u64) -> Self {
        let mut rng = Rng::with_seed(seed.rotate_left(32) ^ number);
        let contenders = rng.usize(2..=CONTENDERS);
        let has_queue_lock = match rng.u8(0..8) {
            0..=1 => [false; CONTENDERS],
            2 => [(); CONTENDERS].map(|()| rng.bool()),
            _ => [true; CONTENDERS],
        };
        let limits = match rng.bool() {
            true => [Limit::ONE; CONTENDERS],
            false => [(); CONTENDERS].map(|()| limit(&mut rng)),
        };
        let has_slots = limits.iter().any(|limit| !limit.is_exclusive());
        let mut index = 0;
        let steps = (0..rng.usize(3..=STEPS)).map(|_| {
            // A slot is interesting only after several requests of the same contender.
            if !has_slots || rng.bool() {
                index = rng.usize(..contenders);
            }
            step(&mut rng, index, has_slots)
        });
        Self {
            has_queue_lock,
            limits,
            steps: steps.collect(),
        }
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  contenders that use the queue lock: {:?}",
            self.has_queue_lock
        )?;
        let limits = self.limits.map(Limit::count);
        writeln!(f, "  limits of the contenders: {limits:?}")?;
        for step in &self.steps {
            writeln!(f, "  {step:?}")?;
        }
        Ok(())
    }
}

fn limit(rng: &mut Rng) -> Limit {
    match rng.u8(..5) {
        0 => Limit::ONE,
        1..=2 => NonZeroU32::new(2).map_or(Limit::ONE, Limit::new),
        _ => Limit::NONE,
    }
}

fn step(rng: &mut Rng, index: usize, has_slots: bool) -> Step {
    match rng.u8(0..40) {
        0..=2 => Step::Revoke {
            stale: rng.u8(..4) == 0,
            wakes: rng.u8(..4) == 0,
        },
        3 => Step::Pause(rng.u8(1..=3)),
        4 => Step::Resume,
        5..=6 => Step::KillSession(index),
        7 => Step::DropConnection(index),
        8..=9 => Step::NoticeDrop(index),
        10..=11 => Step::AdvanceTime(rng.u8(1..=6)),
        _ => {
            let fault = (rng.u8(..6) == 0).then(|| fault(rng));
            Step::Send(index, send(rng, has_slots), fault)
        }
    }
}

fn send(rng: &mut Rng, has_slots: bool) -> RequestKind {
    match rng.u8(0..if has_slots { 30 } else { 23 }) {
        0..=2 => RequestKind::AcquireFirst,
        3..=5 => RequestKind::AcquireIfFree(last_read_choice(rng)),
        6..=8 => RequestKind::TakeOver(match rng.u8(..2) {
            0 => VersionChoice::LastRead,
            _ => VersionChoice::Current,
        }),
        9 => RequestKind::GetWithQueue,
        10 => RequestKind::Enqueue,
        11..=12 => RequestKind::WaitTurn(last_read_choice(rng), rng.u8(..4) > 0, rng.u8(..2) > 0),
        13..=16 => {
            let note = match rng.u8(..4) {
                0 => NoteChoice::Unchanged,
                1 => NoteChoice::Removed,
                _ => NoteChoice::Found,
            };
            RequestKind::Renew(grant_choice(rng), note)
        }
        17..=18 => RequestKind::HandOff,
        19 | 26..=29 => RequestKind::Reassert(rng.u8(..4) > 0),
        23..=25 => {
            let dead = (rng.u8(..4) > 0).then(|| DeadChoice {
                index: rng.usize(..CONTENDERS),
                is_old: rng.u8(..3) == 0,
            });
            RequestKind::AcquireAmongSlots(last_read_choice(rng), dead)
        }
        _ => RequestKind::Release {
            grant_choice: (rng.u8(..4) > 0).then(|| grant_choice(rng)),
            run_end: match rng.u8(..3) {
                0 => None,
                1 => Some(RunEnd::Exited),
                _ => Some(RunEnd::Killed),
            },
            has_entry: rng.bool(),
            handed_off: rng.bool(),
            clears_sessions: rng.bool(),
        },
    }
}

fn last_read_choice(rng: &mut Rng) -> LastReadChoice {
    match rng.u8(..6) {
        0 => LastReadChoice::OtherDatabase,
        1 => LastReadChoice::Newer,
        2..=3 => LastReadChoice::LastRead,
        _ => LastReadChoice::Nothing,
    }
}

fn grant_choice(rng: &mut Rng) -> GrantChoice {
    match rng.u8(..5) {
        0 => GrantChoice::OwnIdWithCurrentToken,
        1 => GrantChoice::Current,
        _ => GrantChoice::Own,
    }
}

fn fault(rng: &mut Rng) -> Fault {
    let code = CODES[rng.usize(..CODES.len())];
    Fault {
        packet: usize::from(rng.u8(..4) == 0),
        kind: match rng.u8(..4) {
            0 => FaultKind::Refused(code),
            1..=2 => FaultKind::ErrorAfter(code),
            _ => FaultKind::ResponseLost,
        },
    }
}
