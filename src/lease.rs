//! The words of the protocol as values: action, key, claim, token, timing, instants and deadlines.
//!
//! Pure: no clock is read, nothing is sent, nothing is printed. Everything above builds on these,
//! so a rule about a name, a number or a duration is written here once.

pub mod action;
pub mod instant;
pub mod once;
pub mod timing;

use std::fmt;

use serde::{Deserialize, Serialize};

/// A random 128-bit id of one process's wish to hold one action: the proof that a row is ours.
///
/// It is sent in every statement and read back from every reply, which makes an attempt that is
/// repeated after a lost reply harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Claim([u8; 16]);

impl Claim {
    /// A claim of 16 random bytes.
    #[must_use]
    pub const fn new(random: [u8; 16]) -> Self {
        Self(random)
    }

    /// The bytes as they stand in the row.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// A number from 0 to 255 that differs between claims and between `turn`s: enough to keep
    /// waiters that started together from polling together.
    #[must_use]
    pub const fn jitter(&self, turn: u32) -> u8 {
        self.0[(turn % 16) as usize]
    }
}

/// The fencing token of one grant: grows with every grant of an action and is never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token(pub u64);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a holder must show to renew or release: its claim and the token it was granted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The claim that the attempt was made with.
    pub claim: Claim,
    /// The token of this grant.
    pub token: Token,
}
