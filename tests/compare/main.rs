//! Compares the model's server with real servers. Each test runs random sequences on both. In about half of the
//! sequences, all leases are exclusive. In the others, contenders have leases in slots. A sequence contains requests,
//! errors before and after a commit, lost responses, operator requests and ended sessions. Both servers must return the
//! same responses and contain the same rows.
//!
//! `tests/model` checks the protocol on the model's server, so that server must behave like a real server. After each
//! step of a sequence, the test compares the responses and the complete stored state of the action. If they differ, the
//! test prints the shortest sequence that it found. To run more sequences: `make chaos SEQUENCES=20000 SEED=7`.
//!
//! Not compared:
//! - Columns that dlock only prints.
//! - `--once`, fences and `--min-hold`, which the model does not contain.
//! - Servers without named locks.
//! - The removal of the queue entries of dead waiters.
//! - Kills of sessions, and renewals whose look for sessions fails.
//! - Requests that are executed concurrently, except a wait for the queue lock.
//! - Operator requests while leases are in slots. The model's operator knows only the record.
//! - Waits for room among the leases in slots (`WaitRequest::room`).
//! - Requests that read or remove the notes of earlier holders.
//! - Waits that are not followed by an attempt or that follow a read of another database, if a contender has a limit above 1.
//!   Such a waiter may read the record before the release of a slot is committed.
//! - Take-overs of a record while leases are in slots, and releases of slots after a hand-off. dlock does not send them.

mod command_session;
mod comparison;
mod model_rows;
mod model_side;
#[path = "../model/mutation.rs"]
#[allow(dead_code, reason = "the model uses the other items")]
mod mutation;
mod observed;
mod operator;
#[path = "../model/responses.rs"]
#[allow(dead_code, reason = "the model uses the other items")]
mod responses;
#[path = "../model/server.rs"]
#[allow(dead_code, reason = "the model uses the other items")]
mod server;
mod server_contender;
mod server_side;
mod step;
#[path = "../model/time.rs"]
#[allow(dead_code, reason = "the model uses the other items")]
mod time;
mod translation;

use std::sync::OnceLock;

use testkit::servers::{Flavour, Server};

use crate::comparison::{Subject, compare};
use crate::mutation::Variant;
use crate::server::Rules;

/// Default number of sequences on each server. `DLOCK_SEQUENCES` sets another number.
const SEQUENCES: u64 = 700;

/// Maximum number of sequences until a difference must be found.
const SEQUENCES_TO_FIND: u64 = 8000;

/// Returns the server of this flavour. All tests in this file share it. Its data need not survive a crash.
fn server(flavour: Flavour) -> &'static Server {
    static MARIADB: OnceLock<Server> = OnceLock::new();
    static MYSQL: OnceLock<Server> = OnceLock::new();
    let (server, options): (_, &[&str]) = match flavour {
        Flavour::MariaDb => (&MARIADB, &["--innodb-flush-log-at-trx-commit=0"]),
        Flavour::MySql => (
            &MYSQL,
            &["--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"],
        ),
    };
    server.get_or_init(|| Server::start(flavour, options))
}

/// Returns the number in the environment variable `name`. None if the variable is empty or not set.
fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}

/// Asserts that the model and the server have the same results for all sequences. The seed is `DLOCK_SEED`. If this
/// variable is not set, the seed is 1, or random if `DLOCK_SEQUENCES` is set.
fn assert_same_results(flavour: Flavour) {
    let (count, seed) = (
        number_from_env("DLOCK_SEQUENCES"),
        number_from_env("DLOCK_SEED"),
    );
    let random = || match count {
        Some(_) => getrandom::u64().expect("random numbers") >> 32,
        None => 1,
    };
    let seed = seed.unwrap_or_else(random);
    let count = count.unwrap_or(SEQUENCES);
    println!("{count} sequences on {flavour}, DLOCK_SEED={seed}");
    if let Some(difference) = compare(server(flavour), Subject::SOUND, seed, count) {
        panic!(
            "{flavour} and the model have different results with DLOCK_SEED={seed}: {difference}"
        );
    }
}

#[test]
fn model_and_mariadb_have_the_same_results() {
    assert_same_results(Flavour::MariaDb);
}

#[test]
fn model_and_mysql_have_the_same_results() {
    assert_same_results(Flavour::MySql);
}

#[test]
fn model_with_a_broken_rule_is_detected() {
    let sound = Subject::SOUND.rules;
    let rules = [
        Rules {
            revoked_is_held: true,
            ..sound
        },
        Rules {
            session_is_not_updated: true,
            ..sound
        },
        Rules {
            lost_queue_lock_is_hand_off: true,
            ..sound
        },
        Rules {
            server_clock_suffices: true,
            ..sound
        },
        Rules {
            grant_removes_note: true,
            ..sound
        },
        Rules {
            last_read_is_ignored: true,
            ..sound
        },
        Rules {
            reassertion_overwrites: true,
            ..sound
        },
        Rules {
            only_own_limit_counts: true,
            ..sound
        },
        Rules {
            slot_keeps_token: true,
            ..sound
        },
        Rules {
            shared_record_is_free: true,
            ..sound
        },
        Rules {
            dead_slot_may_be_renewed: true,
            ..sound
        },
    ];
    for rules in rules {
        let subject = Subject {
            rules,
            ..Subject::SOUND
        };
        assert_found(Flavour::MariaDb, &format!("{rules:?}"), subject);
    }
}

/// The broken contenders accept an old grant, a revoked lease or any response.
#[test]
fn contender_with_a_broken_rule_is_detected() {
    for variant in [
        Variant::OldGrantTrusted,
        Variant::RevokedIsHeld,
        Variant::ChangedRowsTrusted,
        Variant::OwnerIdNotReadBack,
    ] {
        let subject = Subject {
            variant,
            ..Subject::SOUND
        };
        assert_found(Flavour::MariaDb, &format!("{variant:?}"), subject);
    }
}

/// A replacement that removes a condition or an assignment from a statement: the effect, the original SQL and its
/// replacement.
type Broken = (&'static str, &'static str, &'static str);

/// Half of them run on each server.
const BROKEN: [Broken; 21] = [
    (
        "a grant from an unknown time counts as a new grant",
        "ROW_COUNT()>0",
        "TRUE         ",
    ),
    (
        "a revoked lease is renewed and released",
        " AND revoked_at IS NULL",
        " AND TRUE              ",
    ),
    (
        "a renewal does not update the session in the row",
        "session_id=CONNECTION_ID(),has_queue_lock=COALESCE(",
        "session_id=session_id+0,   has_queue_lock=COALESCE(",
    ),
    (
        "a renewal does not record that the session has the queue lock",
        "has_queue_lock=COALESCE(",
        "has_queue_lock=0*IFNULL(",
    ),
    (
        "a renewal does not increment the counter",
        "renewals=renewals+1",
        "renewals=renewals+0",
    ),
    (
        "a hand-off has no effect",
        "session_id=IS_USED_LOCK(CONCAT('dlock-handoff",
        "session_id>IS_USED_LOCK(CONCAT('dlock-handoff",
    ),
    (
        "a take-over ignores renewals",
        " AND renewals=",
        " AND 1>    -1-",
    ),
    (
        "an attempt ignores the database",
        "AND @dlock_database=",
        "AND @dlock_database<",
    ),
    (
        "an attempt ignores that the row is older",
        " AND renewals>=",
        " AND -1 <      ",
    ),
    (
        "a release does not remove the note",
        "released_at=UTC_TIMESTAMP(6),sessions=NULL",
        "released_at=UTC_TIMESTAMP(6)/*ssions=NUL*/",
    ),
    (
        "a grant does not tell that the row contains sessions",
        "sessions IS NOT NULL AS has_sessions",
        "sessions IS     NULL AS has_sessions",
    ),
    (
        "a holder writes its grant to a row of another holder",
        " AND (owner_id IS NULL OR min_hold=1)",
        " AND (owner_id IS NULL OR min_hold=0)",
    ),
    (
        "a holder writes its grant to a row with the same token",
        " AND token<",
        " AND -1   <",
    ),
    (
        "a paused action is granted",
        "paused_until<=",
        "paused_until>=",
    ),
    (
        "the limits of the holders are ignored",
        "MIN(s.slots)",
        "MAX(NULL   )",
    ),
    (
        "a slot gets no token",
        "SET token=(SELECT token FROM",
        "SET token=(SELECT     0 FROM",
    ),
    (
        "the slot of a dead holder is freed although it was granted again",
        " AND slot=1 AND owner_id IS NOT NULL AND token=",
        " AND slot=1 AND owner_id IS NOT NULL AND 0<    ",
    ),
    (
        "the slot of a live holder is freed",
        " AND NOT (has_queue_lock=1 AND",
        " AND NOT (has_queue_lock=2 AND",
    ),
    (
        "a holder writes its grant to a slot with the same token",
        " AND owner_id IS NULL AND token<",
        " AND owner_id IS NULL AND -1   <",
    ),
    (
        "the release of a slot frees the record although another slot is held",
        "(s.owner_id IS NOT NULL OR s.sessions",
        "(FALSE                  OR s.sessions",
    ),
    (
        "a refused attempt deletes the queue entry",
        " AND EXISTS(SELECT 1 FROM dlock_slot AS s",
        " OR  EXISTS(SELECT 1 FROM dlock_slot AS s",
    ),
];

#[test]
fn broken_statement_is_detected_on_mariadb() {
    assert_found_on(Flavour::MariaDb, BROKEN.iter().step_by(2));
}

#[test]
fn broken_statement_is_detected_on_mysql() {
    assert_found_on(Flavour::MySql, BROKEN.iter().skip(1).step_by(2));
}

#[track_caller]
fn assert_found_on<'a>(flavour: Flavour, broken: impl Iterator<Item = &'a Broken>) {
    for (effect, original, replacement) in broken {
        let rewrite = Some((*original, *replacement));
        let subject = Subject {
            rewrite,
            ..Subject::SOUND
        };
        assert_found(flavour, effect, subject);
    }
}

/// Asserts that the model and the server have different results for a sequence.
#[track_caller]
fn assert_found(flavour: Flavour, what: &str, subject: Subject) {
    let difference = compare(server(flavour), subject, 1, SEQUENCES_TO_FIND);
    assert!(difference.is_some(), "not detected: {what}");
}
