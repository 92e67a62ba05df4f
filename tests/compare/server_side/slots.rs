//! The rows of `dlock_slot` on a real server.

use std::num::NonZeroU32;

use dlock::lease::limit::Limit;
use dlock::store::session::SessionNote;
use mysql::Row;
use mysql::prelude::Queryable;

use super::{ServerSide, column};
use crate::observed::{SlotRow, UNKNOWN, ticks_left};

/// A row with the owner id, the tokens and the session of the server.
pub(super) struct RawSlot {
    number: u32,
    limit: Option<u32>,
    owner_id: Option<String>,
    token: u64,
    renewals: u64,
    has_queue_lock: bool,
    session: u64,
    revoked: bool,
    /// Microseconds until the lease expires.
    left: Option<i64>,
    note: Option<Vec<u8>>,
}

impl ServerSide {
    /// Reads the slots of the action.
    pub(super) fn slot_rows(&mut self) -> Vec<RawSlot> {
        let query = format!(
            "SELECT slot,slots,HEX(owner_id),token,renewals,has_queue_lock,session_id,revoked_at IS NOT NULL,\
             TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),expires_at),sessions \
             FROM dlock_slot WHERE action='{}' ORDER BY slot",
            self.contender.action
        );
        let rows: Vec<Row> = self.admin.query(query).expect("the administrator can read");
        let slot = |mut row: Row| RawSlot {
            number: column(&mut row, 0),
            limit: column(&mut row, 1),
            owner_id: column(&mut row, 2),
            token: column(&mut row, 3),
            renewals: column(&mut row, 4),
            has_queue_lock: column::<u8>(&mut row, 5) == 1,
            session: column(&mut row, 6),
            revoked: column::<u8>(&mut row, 7) == 1,
            left: column(&mut row, 8),
            note: column(&mut row, 9),
        };
        rows.into_iter().map(slot).collect()
    }

    /// Adds the tokens of `slots` and `token`, the one of the record, if they are higher than all known tokens.
    pub(super) fn add_tokens(&mut self, slots: &[RawSlot], token: u64) {
        let mut tokens: Vec<u64> = slots.iter().map(|slot| slot.token).collect();
        tokens.push(token);
        tokens.sort_unstable();
        for token in tokens {
            if token > self.tokens.last().copied().unwrap_or(0) {
                self.tokens.push(token);
            }
        }
    }

    /// Converts a slot to the model's numbers.
    pub(super) fn slot_row(&self, slot: RawSlot) -> SlotRow {
        let owner_id = slot.owner_id.as_deref().map(parse_hex);
        let limit = slot.limit.and_then(NonZeroU32::new);
        let note = slot.note.and_then(|text| SessionNote::from_text(&text));
        SlotRow {
            number: slot.number,
            limit: owner_id.map(|_| limit.map_or(Limit::NONE, Limit::new)),
            owner_id,
            token: self.rank(slot.token),
            renewals: slot.renewals,
            has_queue_lock: slot.has_queue_lock,
            session: self.session(Some(slot.session)),
            revoked: slot.revoked,
            expires_in: owner_id.and(slot.left).map(ticks_left),
            note: note.map(|note| self.rank(note.token.0)),
        }
    }
}

/// Returns the model's number for an owner id in hexadecimal.
pub(super) fn parse_hex(text: &str) -> u8 {
    u8::from_str_radix(&text[text.len() - 2..], 16).unwrap_or(UNKNOWN)
}
