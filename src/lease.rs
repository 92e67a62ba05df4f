//! The values of the protocol: action, key, owner id, token, timing, instants and deadlines.
//!
//! Pure: this module reads no clock, sends nothing and prints nothing. All other modules use these types, so each rule
//! about a name, a number or a duration is implemented only here.

pub mod action;
pub mod instant;
pub mod limit;
pub mod once;
pub mod timing;

use std::fmt;

use serde::{Deserialize, Serialize};

/// A random 128-bit id of one contender for one action. If a record contains this id, the lease was granted to this
/// contender.
///
/// A successful attempt writes the owner id into the record, and every attempt reads the record afterwards. Therefore
/// an attempt can safely be repeated if its response is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerId([u8; 16]);

impl OwnerId {
    /// The owner id in the record while leases are in slots. No contender has it.
    pub const SHARED: Self = Self([0; 16]);

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

    /// Returns a number from 0 to 255 that depends on the owner id and on `turn`. This number spreads the polls of
    /// waiters that started at the same time.
    #[must_use]
    pub const fn jitter(&self, turn: u32) -> u8 {
        self.0[(turn % 16) as usize]
    }
}

/// The fencing token of one grant. The token increases with every grant of an action and is never used twice for that
/// action.
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
    /// The holder's owner id.
    pub owner_id: OwnerId,
    /// The token of the grant.
    pub token: Token,
    /// Number of the slot. 1 if the lease is exclusive. The owner id determines the slot. The number is needed only if the
    /// database has lost the grant.
    pub slot: u32,
}

impl Grant {
    /// Creates the grant of an exclusive lease, or one that is never written again.
    #[must_use]
    pub const fn new(owner_id: OwnerId, token: Token) -> Self {
        Self {
            owner_id,
            token,
            slot: 1,
        }
    }
}
