//! The SQL of the protocol: the statements of each packet, and why they are safe.
//!
//! The packets use the text protocol with several statements per packet, so that an attempt takes one round trip. Every
//! string from outside is a hex literal, and every number is formatted from an integer. Therefore nothing is quoted or
//! escaped, and the character set of the session has no effect. Each packet ends with a SELECT that returns the random
//! id of the request and, if the packet changes data, the effect of the change. Only the row that this SELECT returns
//! is evidence.

mod attempt;
mod create_row;
mod database_id;
mod fence;
mod fragments;
mod handoff;
mod history;
mod leader;
mod operator;
mod prune;
mod queue;
mod renew_release;
mod select;
mod selection;
mod session;
mod sessions;
mod slots;
#[cfg(test)]
mod tests;
mod upgrade;

pub(super) use self::create_row::create_row;
pub use self::fence::fence_check;
pub(super) use self::fragments::{SESSIONS, with_read_only, with_request_id, with_server_facts};
pub(super) use self::handoff::hand_off;
pub(super) use self::history::{entries, forget, may_record};
pub(super) use self::leader::{change_note, leader};
pub(super) use self::operator::apply_operator_request;
pub(super) use self::prune::{prunable, prune};
pub(super) use self::queue::{dead_entries, enqueue, remove_entries, wait_turn};
pub(super) use self::renew_release::{reconcile, release, renew};
pub(super) use self::select::{
    glance, has_session_without_queue_lock, select_names, select_record, select_snapshot,
    select_success, synchronized,
};
pub use self::selection::Selection;
pub(super) use self::session::{
    CLUSTER, GROUP_MEMBERS, IS_READ_ONLY, MemberCheck, NOT_USABLE, WriteCheck, check_again,
    check_server, session, without_version_comments,
};
pub(super) use self::sessions::{kill_session, process_list, session_states};
pub(super) use self::slots::{remove_note, select_notes, select_slots, wait_room};
pub(super) use self::upgrade::{
    add_column, begin_upgrade, end_upgrade, has_column, tables_version,
};
use crate::store::{AcquireMode, AcquireRequest, Contender, WaitRequest};

/// Acquires a lease as `request` specifies: an exclusive one of an action whose leases are not in slots, or any other.
pub(super) fn attempt(
    contender: &Contender,
    request: &AcquireRequest,
    after_wait: Option<&WaitRequest>,
) -> String {
    let is_among_slots = matches!(request.mode, AcquireMode::AmongSlots { .. });
    match contender.limit.is_exclusive() && !is_among_slots {
        true => attempt::exclusive(contender, request, after_wait),
        false => slots::admission(contender, request, after_wait),
    }
}
