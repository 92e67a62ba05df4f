//! The values of the protocol: action, key, owner id, token, timing, instants and deadlines.
//!
//! Pure: this module reads no clock, sends nothing and prints nothing. All other modules use these types, so each rule
//! about a name, a number or a duration is implemented only here.

pub mod action;
pub mod instant;
pub mod once;
pub mod timing;

use std::fmt;

use serde::{Deserialize, Serialize};

/// A random 128-bit id of one contender for one action. A record that contains this id belongs to this contender.
///
/// Every statement contains the owner id and every response returns it, so an attempt can safely be repeated after a
/// lost response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerId([u8; 16]);

impl OwnerId {
    /// Creates an owner id from 16 random bytes.
    #[must_use]
    pub const fn new(random: [u8; 16]) -> Self {
        Self(random)
    }

    /// Returns the bytes as stored in the record.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Returns a number from 0 to 255 that depends on the owner id and on `turn`. It spreads the polls of waiters that
    /// started at the same time.
    #[must_use]
    pub const fn jitter(&self, turn: u32) -> u8 {
        self.0[(turn % 16) as usize]
    }
}

/// The fencing token of one grant. It grows with every grant of an action and is never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token(pub u64);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The proof of ownership that a holder sends to renew or release its lease: the owner id and the token of the grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The owner id of the holder.
    pub owner_id: OwnerId,
    /// The token of the grant.
    pub token: Token,
}
