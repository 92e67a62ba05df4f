//! Snapshots of the messages of `dlock release`.

use std::time::Duration;

use insta::assert_snapshot;

use super::{done_with_time, nothing_to_do, prompt};
use crate::lease::action::Action;
use crate::lease::{OwnerId, Token};
use crate::store::operator::OperatorAction;
use crate::store::{Expiry, Holder, LockRecord, Operator, Pause, Renewed, Version};

const KINDS: [OperatorAction; 3] = [
    OperatorAction::Release,
    OperatorAction::Pause(Duration::from_mins(30)),
    OperatorAction::Resume,
];

fn init() -> Action {
    "init".parse().expect("a valid action name")
}

/// Returns the states that an operator can find: the name and the record of each state.
fn states() -> Vec<(&'static str, LockRecord)> {
    let free = LockRecord {
        operator: Some(Box::new(Operator {
            label: "alice@admin-1".to_owned(),
            reason: "it hangs".to_owned(),
        })),
        ..LockRecord::never_held(init()).with_lease(|lease| {
            lease.version = Version {
                token: Token(17),
                renewals: 3,
            };
            lease.holder = Holder {
                label: "web-1/4711".to_owned(),
                ..Holder::default()
            };
            lease.ttl = Duration::from_secs(30);
            lease.renewed = Renewed::Ago(Duration::from_secs(4));
        })
    };
    let held = free.clone().with_lease(|lease| {
        lease.owner_id = Some(OwnerId::new([1; 16]));
        lease.expiry = Expiry::In(Duration::from_secs(26));
    });
    let pause = Some(Box::new(Pause {
        until: "2026-11-20T10:30:00.000000Z".to_owned(),
        left: Duration::from_mins(30),
    }));
    let revoked_ago = Some(Duration::from_secs(2));
    vec![
        ("never held", LockRecord::never_held(init())),
        ("free", free.clone()),
        (
            "paused",
            LockRecord {
                pause: pause.clone(),
                ..free
            },
        ),
        ("held", held.clone()),
        (
            "not renewed",
            held.clone().with_lease(|lease| {
                lease.expiry = Expiry::In(Duration::from_secs(10));
                lease.renewed = Renewed::Ago(Duration::from_secs(20));
            }),
        ),
        (
            "held for --min-hold",
            held.clone().with_lease(|lease| {
                lease.min_hold_until = Some("2026-11-20T10:30:00.000000Z".to_owned());
            }),
        ),
        (
            "expired",
            held.clone().with_lease(|lease| {
                lease.expiry = Expiry::Ago(Duration::from_secs(1));
                lease.renewed = Renewed::Ago(Duration::from_secs(31));
            }),
        ),
        (
            "revoked",
            held.clone()
                .with_lease(|lease| lease.revoked_ago = revoked_ago),
        ),
        (
            "revoked and paused",
            LockRecord {
                pause,
                ..held.with_lease(|lease| lease.revoked_ago = revoked_ago)
            },
        ),
    ]
}

#[test]
fn questions_before_each_operator_action() {
    let texts = KINDS.map(|kind| prompt(&LockRecord::never_held(init()), kind));
    assert_snapshot!(texts.join("\n"));
}

#[test]
fn reasons_why_there_is_nothing_to_do() {
    let mut lines = Vec::new();
    for (state, record) in states() {
        for kind in KINDS {
            let text = match nothing_to_do(&init(), &record, kind) {
                Some((status, why)) => format!("{why} (exit status {status})"),
                None => "applied".to_owned(),
            };
            lines.push(format!("{state}, {kind:?}: {text}"));
        }
    }
    assert_snapshot!(lines.join("\n"));
}

#[test]
fn results_of_each_operator_action() {
    let mut lines = Vec::new();
    for (state, record) in states() {
        for kind in KINDS {
            if nothing_to_do(&init(), &record, kind).is_some() {
                continue;
            }
            for is_woken in [true, false] {
                let text = done_with_time(&init(), &record, kind, is_woken);
                lines.push(format!("{state}, {kind:?}, woken {is_woken}: {text}"));
            }
        }
    }
    assert_snapshot!(lines.join("\n"));
}
