//! Test data for the snapshots: holders, waiters, and a record for each state of an action.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::lease::action::Action;
use crate::lease::limit::Limit;
use crate::lease::{OwnerId, Token};
use crate::store::diagnosis::Diagnosis;
use crate::store::session::{
    ListedSession, ServerInstance, ServerSession, SessionNote, SessionPolicy,
};
use crate::store::session_states::{SessionStates, VisibleSession, VisibleSessions};
use crate::store::{
    Expiry, HistoryOutcome, Holder, LastRun, Lease, LockRecord, Operator, Pause, Renewed,
    ServerTime, Slot, Snapshot, Version, Waiter,
};

/// The name of an action that changes the reading direction and separates lines. Control characters are not valid in
/// names.
pub(crate) const HOSTILE_NAME: &str = "a\u{202e}b\u{2028}c";

/// Text from a client that tries to clear the screen, forge a line, and change the reading direction.
pub(crate) const HOSTILE: &str = "x\u{1b}[2J\r\ny\u{7f}\u{9b}2J\u{202e}z\u{2028}\u{feff}\"\\{}";

/// Text that is wide, long, and composed of several scripts.
pub(super) const LONG: &str = "größe 日本語の長い名前 🚀 naïve e\u{301}toile, which is longer than a column of most terminals";

/// Token of the most recent grant in the records.
pub(super) const TOKEN: Token = Token(1_795_166_877_000_017);

pub(super) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn action(name: &str) -> Action {
    name.parse().expect("a valid action name")
}

pub(super) fn holder(label: &str, note: &str) -> Holder {
    Holder {
        label: label.to_owned(),
        host: "web-1".to_owned(),
        pid: 4711,
        user: "deploy".to_owned(),
        note: note.to_owned(),
        command: "migrate.sh".to_owned(),
        ..Holder::default()
    }
}

/// Returns a holder all of whose texts are `text`.
pub(super) fn holder_of(text: &str) -> Holder {
    let text = || text.to_owned();
    Holder {
        label: text(),
        host: text(),
        pid: u32::MAX,
        user: text(),
        note: text(),
        pod: text(),
        namespace: text(),
        command: text(),
    }
}

/// Returns the record of an action whose holders are in slots with `limit`, one for each of `leases`.
pub(super) fn in_slots(name: &str, limit: Limit, leases: Vec<Lease>) -> LockRecord {
    let slots = leases.into_iter().zip(1..).map(|(lease, number)| Slot {
        number,
        limit,
        lease: Lease {
            version: Version {
                token: Token(TOKEN.0 - 10 + u64::from(number)),
                renewals: 3,
            },
            holder: holder(&format!("web-{number}/4711"), ""),
            ..lease
        },
        sessions: None,
    });
    LockRecord {
        slots: slots.collect(),
        ..held(name).with_lease(|lease| lease.owner_id = Some(OwnerId::SHARED))
    }
}

/// Returns an action with two of three slots, one of whose holders is frozen, and one with readers.
pub(crate) fn slots_and_readers() -> [LockRecord; 3] {
    let healthy = || held("a").lease;
    let frozen = Lease {
        renewed: Renewed::Ago(seconds(12)),
        expiry: Expiry::In(seconds(18)),
        ..healthy()
    };
    let three = Limit::new(NonZeroU32::new(3).expect("not 0"));
    [
        in_slots("gpu", three, vec![healthy(), frozen]),
        in_slots("reboot", three, vec![healthy()]),
        in_slots("db", Limit::NONE, (0..5).map(|_| healthy()).collect()),
    ]
}

/// Returns the record of an action that is held and renewed.
pub(super) fn held(name: &str) -> LockRecord {
    LockRecord {
        last: Some(LastRun {
            token: Token(1_795_166_000_000_016),
            outcome: HistoryOutcome::Exited(0),
            dlock_status: None,
            ago: seconds(900),
        }),
        ..LockRecord::never_held(action(name)).with_lease(|lease| {
            lease.owner_id = Some(OwnerId::new([1; 16]));
            lease.version = Version {
                token: TOKEN,
                renewals: 3,
            };
            lease.holder = holder("web-1/4711", "release 42");
            lease.ttl = seconds(30);
            lease.acquired_at = Some("2026-11-20T09:30:00.000000Z".to_owned());
            lease.held_for = seconds(123);
            lease.renewed = Renewed::Ago(seconds(4));
            lease.expiry = Expiry::In(seconds(26));
            lease.session_alive = Some(true);
            lease.had_queue_lock_here = true;
        })
    }
}

/// Returns a session that executes a statement.
pub(super) fn listed_session() -> ListedSession {
    ListedSession {
        session: ServerSession {
            id: 4711,
            account: "app".to_owned(),
            client: "10.0.0.3:50123".to_owned(),
        },
        command: "Query".to_owned(),
        state: "copy to tmp table".to_owned(),
        seconds: 75,
        pid: None,
    }
}

/// Returns a note of the command under [`TOKEN`] with the sessions 1 to `count`. All texts contain `text`.
pub(super) fn note(text: &str, count: u64) -> SessionNote {
    let session = |id| ServerSession {
        id,
        account: format!("app{text}"),
        client: format!("10.0.0.3{text}:50123"),
    };
    SessionNote {
        instance: ServerInstance {
            server: format!("db-1{text}:3306/1"),
            started: 1_795_000_000,
        },
        token: TOKEN,
        policy: SessionPolicy::Kill,
        sessions: (1..=count).map(session).collect(),
    }
}

/// Returns states in which the server lists the first two sessions in `note`. All texts contain `text`.
pub(super) fn visible(note: &SessionNote, text: &str) -> VisibleSessions {
    let visible = |session: &ServerSession| VisibleSession {
        listed: ListedSession {
            session: session.clone(),
            command: format!("Query{text}"),
            state: format!("copy to tmp table{text}"),
            seconds: 75,
            pid: None,
        },
        statement: Some(format!("ALTER TABLE t{text}")),
    };
    let mut sessions: Vec<_> = note.sessions.iter().take(2).map(visible).collect();
    if let [_, second, ..] = &mut sessions[..] {
        second.listed.command = format!("Sleep{text}");
        second.listed.state = String::new();
        second.statement = None;
    }
    VisibleSessions {
        instance: note.instance.clone(),
        own_account: Some(format!("app{text}")),
        sees_all: false,
        sessions,
    }
}

/// Returns the record of a free action whose most recent run was killed.
pub(super) fn free(name: &str) -> LockRecord {
    LockRecord {
        last: Some(LastRun {
            token: TOKEN,
            outcome: HistoryOutcome::Killed(9),
            dlock_status: None,
            ago: Duration::from_millis(250),
        }),
        ..held(name).with_lease(|lease| {
            lease.owner_id = None;
            lease.expiry = Expiry::Ago(Duration::ZERO);
            lease.session_alive = None;
        })
    }
}

/// Returns the record of an action whose lease was last renewed `renewed_ago` before the snapshot.
fn silent(name: &str, renewed_ago: Duration, session_alive: Option<bool>) -> LockRecord {
    held(name).with_lease(|lease| {
        lease.renewed = Renewed::Ago(renewed_ago);
        lease.expiry = match seconds(30).checked_sub(renewed_ago) {
            Some(left) => Expiry::In(left),
            None => Expiry::Ago(renewed_ago.saturating_sub(seconds(30))),
        };
        lease.session_alive = session_alive;
    })
}

fn operator(reason: &str) -> Operator {
    Operator {
        label: "alice@admin-1".to_owned(),
        reason: reason.to_owned(),
    }
}

fn pause() -> Pause {
    Pause {
        until: "2026-11-20T10:30:00.000000Z".to_owned(),
        left: seconds(1_800),
    }
}

/// Returns a record with `diagnosis`. The match ensures that each diagnosis has a record.
fn diagnosed(diagnosis: Diagnosis) -> LockRecord {
    let record = match diagnosis {
        Diagnosis::Free => free("free"),
        Diagnosis::Paused => LockRecord {
            pause: Some(Box::new(pause())),
            operator: Some(Box::new(operator("the disk is full"))),
            ..free("paused")
        },
        Diagnosis::Renewing => held("held"),
        Diagnosis::Deadlocked => LockRecord {
            deadlock_with: Some(action("other")),
            ..held("deadlocked")
        },
        Diagnosis::MinHold => held("min-hold").with_lease(|lease| {
            lease.min_hold_until = Some("2026-11-20T09:33:00.000000Z".to_owned());
        }),
        Diagnosis::Revoked => LockRecord {
            operator: Some(Box::new(operator(""))),
            ..held("revoked").with_lease(|lease| lease.revoked_ago = Some(seconds(2)))
        },
        Diagnosis::ClockSetBack => held("clock set back").with_lease(|lease| {
            lease.renewed = Renewed::Ahead(seconds(3_600));
            lease.expiry = Expiry::In(seconds(3_626));
        }),
        Diagnosis::NotRenewing => silent("not renewing", seconds(12), Some(true)),
        Diagnosis::Gone => silent("gone", seconds(20), Some(false)),
        Diagnosis::Expired => silent("expired", seconds(95), None),
        Diagnosis::Odd => LockRecord {
            odd: Some("an owner id is not 16 bytes long".to_owned()),
            ..LockRecord::never_held(action("odd"))
        },
    };
    assert_eq!(Diagnosis::of(&record), diagnosis);
    record
}

/// Returns the records of actions in all states, in the natural order of their names. Each name describes the state of the
/// action.
pub(crate) fn states() -> Vec<LockRecord> {
    let diagnoses = [
        Diagnosis::Free,
        Diagnosis::Paused,
        Diagnosis::Renewing,
        Diagnosis::Deadlocked,
        Diagnosis::MinHold,
        Diagnosis::Revoked,
        Diagnosis::ClockSetBack,
        Diagnosis::NotRenewing,
        Diagnosis::Gone,
        Diagnosis::Expired,
        Diagnosis::Odd,
    ];
    let mut records = Vec::from(diagnoses.map(diagnosed));
    records.extend([
        LockRecord::never_held(action("never held")),
        LockRecord::unknown(action("unknown")),
        LockRecord {
            fenced: true,
            ..free("free, fenced")
        },
        LockRecord {
            last: None,
            ..held("held, new, in a pod").with_lease(|lease| {
                lease.version = Version {
                    renewals: 0,
                    token: TOKEN,
                };
                lease.held_for = Duration::from_millis(40);
                lease.renewed = Renewed::Ago(Duration::from_millis(40));
                lease.holder = Holder {
                    pod: "web-7d9c".to_owned(),
                    namespace: "shop".to_owned(),
                    ..holder("web-1/4711", "")
                };
            })
        },
        LockRecord {
            pause: Some(Box::new(pause())),
            operator: Some(Box::new(operator("it hangs"))),
            ..held("revoked and paused").with_lease(|lease| {
                lease.revoked_ago = Some(seconds(2));
                lease.version = Version {
                    renewals: 1,
                    token: TOKEN,
                };
            })
        },
        silent("expired, connection open", seconds(31), Some(true)),
        silent("expired, connection gone", seconds(31), Some(false))
            .with_lease(|lease| lease.had_queue_lock_here = false),
    ]);
    records.sort_by(|one, other| one.action.natural_cmp(&other.action));
    records
}

/// Returns a waiter for the action `name`.
pub(super) fn waiter(name: &str, label: &str, alive: Option<bool>) -> Waiter {
    Waiter {
        action: action(name),
        holder: Holder {
            host: "web-2".to_owned(),
            pid: 12,
            ..holder(label, "release 43")
        },
        waiting_for: seconds(70),
        alive,
    }
}

/// Returns waiters for some of the actions in [`states`].
pub(crate) fn waiters() -> Vec<Waiter> {
    vec![
        waiter("expired", "web-2/12", Some(true)),
        waiter("held", "web-2/12", Some(true)),
        waiter("held", "web-2/13", Some(false)),
        waiter("held", "web-2/14", None),
        waiter("paused", "web-2/12", Some(true)),
    ]
}

/// Returns a record and a waiter all of whose texts are `text`. The action is `name`.
pub(crate) fn texts(name: &str, text: &str) -> (LockRecord, Waiter) {
    let record = LockRecord {
        operator: Some(Box::new(Operator {
            label: text.to_owned(),
            reason: text.to_owned(),
        })),
        ..held(name).with_lease(|lease| {
            lease.holder = holder_of(text);
            lease.revoked_ago = Some(seconds(2));
        })
    };
    let waiter = Waiter {
        holder: holder_of(text),
        ..waiter(name, "", None)
    };
    (record, waiter)
}

pub(crate) fn snapshot(locks: &[LockRecord], waiters: &[Waiter]) -> Snapshot {
    Snapshot {
        server_time: ServerTime(1_795_167_000_000_000),
        locks: locks.to_vec(),
        waiters: waiters.to_vec(),
        sessions: SessionStates::NotQueried,
        is_read_only: false,
        server: "db:3306".to_owned(),
        skipped: Vec::new(),
    }
}
