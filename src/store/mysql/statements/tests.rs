//! Unit tests of the statements.

mod packets;
mod readable;

use std::time::Duration;

use super::fragments::hex;
use super::{
    MemberCheck, Selection, WriteCheck, attempt, dead_entries, enqueue, fence_check, hand_off,
    release, select_names, select_record, select_snapshot, session, wait_turn,
};
use crate::lease::limit::Limit;
use crate::lease::once::Once;
use crate::lease::{OwnerId, Token};
use crate::store::{
    AcquireMode, AcquireRequest, Contender, FenceMode, HistoryOutcome, Holder, QueueEntry,
    QueueLock, ReleaseRequest, RunHistory, RunRecord, Version, WaitRequest,
};

#[test]
fn packets_contain_user_strings_only_as_hex_literals() {
    let hostile = "x'; DROP TABLE dlock_lock; -- \\";
    let contender = Contender {
        action: hostile.parse().expect("a valid name"),
        holder: Holder {
            label: hostile.to_owned(),
            host: hostile.to_owned(),
            pid: 1,
            user: hostile.to_owned(),
            note: hostile.to_owned(),
            pod: hostile.to_owned(),
            namespace: hostile.to_owned(),
            command: hostile.to_owned(),
        },
        ttl: Duration::from_secs(30),
        limit: Limit::ONE,
        once: Some(Once::Ever(hostile.parse().expect("a valid key"))),
        history: 100,
        fence: FenceMode::Advance,
        inside: None,
    };
    let owner_id = OwnerId::new([7; 16]);
    let queue_lock = QueueLock::Available;
    let version = Version {
        token: Token(5),
        renewals: 6,
    };
    let fenced = true;
    let take_over = AcquireMode::TakeOver { version, fenced };
    let acquire = |mode| AcquireRequest {
        owner_id,
        mode,
        queue_lock,
        last_read: None,
        in_order: mode != take_over,
        prune_dead: true,
    };
    let release_request = ReleaseRequest {
        owner_id,
        token: Some(Token(5)),
        queue_lock,
        has_entry: true,
        keep: Some(Duration::from_secs(9)),
        run: Some(RunRecord {
            outcome: HistoryOutcome::Exited(0),
            waited: Duration::from_secs(2),
            duration: Duration::from_secs(1),
            sessions_ended: 2,
            processes_killed: 3,
            dlock_status: Some(124),
        }),
        history: RunHistory::Written,
        clears_sessions: true,
        handed_off: true,
    };
    let only = [contender.action.clone()];
    let turn = WaitRequest {
        owner_id,
        limit: None,
        room: None,
        prune_dead: true,
        lets_pass: true,
        let_pass: 0,
        may_acquire: true,
        last_read: None,
    };
    for packet in [
        attempt(&contender, &acquire(AcquireMode::First), None),
        attempt(&contender, &acquire(AcquireMode::IfFree), Some(&turn)),
        attempt(&contender, &acquire(take_over), None),
        enqueue(
            &contender,
            QueueEntry {
                owner_id,
                queue_lock,
            },
        ),
        dead_entries(&contender.action),
        wait_turn(&contender, &turn, &[]),
        hand_off(&contender, owner_id),
        release(&contender, &release_request, Some(hostile)),
        select_record(
            &contender,
            Some(QueueEntry {
                owner_id,
                queue_lock,
            }),
        ),
        select_names(hostile, 9),
        select_snapshot(Selection::Named(&only), queue_lock),
        fence_check("db", &contender.action, Token(5)),
    ] {
        assert!(!packet.contains("DROP"), "{packet}");
    }
}

#[test]
fn hex_of_empty_bytes_is_an_empty_literal() {
    assert_eq!(hex(""), "x''");
    assert_eq!(hex("init"), "x'696e6974'");
}

#[test]
fn wait_timeout_is_the_ttl_rounded_up() {
    assert!(
        session(
            "app",
            Duration::from_millis(2_001),
            MemberCheck::Skip,
            WriteCheck::Skip
        )
        .contains("wait_timeout=3;")
    );
    assert!(
        session(
            "app",
            Duration::from_secs(30),
            MemberCheck::Suspect,
            WriteCheck::Require
        )
        .contains("wait_timeout=30;")
    );
}
