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

use testkit::on_each_flavour;
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

on_each_flavour!(model_and_server_have_the_same_results);
/// The seed is `DLOCK_SEED`. If this variable is not set, the seed is 1, or random if `DLOCK_SEQUENCES` is set.
fn model_and_server_have_the_same_results(flavour: Flavour) {
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
    if let Some(difference) = compare(server(flavour), Subject::SOUND, seed, 0..count) {
        panic!(
            "{flavour} and the model have different results with DLOCK_SEED={seed}: {difference}"
        );
    }
}

#[test]
fn model_with_a_broken_rule_is_detected() {
    type Break = fn(&mut Rules);
    let broken: [(u64, Break); 11] = [
        (35, |rules| rules.revoked_is_held = true),
        (0, |rules| rules.session_is_not_updated = true),
        (0, |rules| rules.lost_queue_lock_is_hand_off = true),
        (45, |rules| rules.server_clock_suffices = true),
        (705, |rules| rules.grant_removes_note = true),
        (0, |rules| rules.last_read_is_ignored = true),
        (0, |rules| rules.reassertion_overwrites = true),
        (701, |rules| rules.only_own_limit_counts = true),
        (0, |rules| rules.slot_keeps_token = true),
        (0, |rules| rules.shared_record_is_free = true),
        (195, |rules| rules.dead_slot_may_be_renewed = true),
    ];
    for (first, break_rule) in broken {
        let mut subject = Subject::SOUND;
        break_rule(&mut subject.rules);
        let what = format!("{:?}", subject.rules);
        assert_found(Flavour::MariaDb, &what, subject, first);
    }
}

/// The broken contenders accept an old grant, a revoked lease or any response. As below, each number is that of a sequence
/// that detects what is broken.
#[test]
fn contender_with_a_broken_rule_is_detected() {
    for (first, variant) in [
        (0, Variant::OldGrantTrusted),
        (0, Variant::RevokedIsHeld),
        (154, Variant::ChangedRowsTrusted),
        (0, Variant::OwnerIdNotReadBack),
    ] {
        let subject = Subject {
            variant,
            ..Subject::SOUND
        };
        assert_found(Flavour::MariaDb, &format!("{variant:?}"), subject, first);
    }
}

/// A replacement that removes a condition or an assignment from a statement: the effect, the original SQL and its
/// replacement. The number is that of a sequence that detects it. The search starts there to save time. After a change of
/// the sequences, it takes longer, and prints another number.
type Broken = (&'static str, &'static str, &'static str, u64);

const BROKEN: [Broken; 21] = [
    (
        "a grant from an unknown time counts as a new grant",
        "ROW_COUNT()>0",
        "TRUE         ",
        0,
    ),
    (
        "a revoked lease is renewed and released",
        " AND revoked_at IS NULL",
        " AND TRUE              ",
        35,
    ),
    (
        "a renewal does not update the session in the row",
        "session_id=CONNECTION_ID(),has_queue_lock=COALESCE(",
        "session_id=session_id+0,   has_queue_lock=COALESCE(",
        0,
    ),
    (
        "a renewal does not record that the session has the queue lock",
        "has_queue_lock=COALESCE(",
        "has_queue_lock=0*IFNULL(",
        0,
    ),
    (
        "a renewal does not increment the counter",
        "renewals=renewals+1",
        "renewals=renewals+0",
        0,
    ),
    (
        "a hand-off has no effect",
        "session_id=IS_USED_LOCK(CONCAT('dlock-handoff",
        "session_id>IS_USED_LOCK(CONCAT('dlock-handoff",
        439,
    ),
    (
        "a take-over ignores renewals",
        " AND renewals=",
        " AND 1>    -1-",
        469,
    ),
    (
        "an attempt ignores the database",
        "AND @dlock_database=",
        "AND @dlock_database<",
        0,
    ),
    (
        "an attempt ignores that the row is older",
        " AND renewals>=",
        " AND -1 <      ",
        0,
    ),
    (
        "a release does not remove the note",
        "released_at=UTC_TIMESTAMP(6),sessions=NULL",
        "released_at=UTC_TIMESTAMP(6)/*ssions=NUL*/",
        218,
    ),
    (
        "a grant does not tell that the row contains sessions",
        "sessions IS NOT NULL AS has_sessions",
        "sessions IS     NULL AS has_sessions",
        0,
    ),
    (
        "a holder writes its grant to a row of another holder",
        " AND (owner_id IS NULL OR min_hold=1)",
        " AND (owner_id IS NULL OR min_hold=0)",
        44,
    ),
    (
        "a holder writes its grant to a row with the same token",
        " AND token<",
        " AND -1   <",
        0,
    ),
    (
        "a paused action is granted",
        "paused_until<=",
        "paused_until>=",
        0,
    ),
    (
        "the limits of the holders are ignored",
        "MIN(s.slots)",
        "MAX(NULL   )",
        701,
    ),
    (
        "a slot gets no token",
        "SET token=(SELECT token FROM",
        "SET token=(SELECT     0 FROM",
        0,
    ),
    (
        "the slot of a dead holder is freed although it was granted again",
        " AND slot=1 AND owner_id IS NOT NULL AND token=",
        " AND slot=1 AND owner_id IS NOT NULL AND 0<    ",
        2701,
    ),
    (
        "the slot of a live holder is freed",
        " AND NOT (has_queue_lock=1 AND",
        " AND NOT (has_queue_lock=2 AND",
        90,
    ),
    (
        "a holder writes its grant to a slot with the same token",
        " AND owner_id IS NULL AND token<",
        " AND owner_id IS NULL AND -1   <",
        1866,
    ),
    (
        "the release of a slot frees the record although another slot is held",
        "(s.owner_id IS NOT NULL OR s.sessions",
        "(FALSE                  OR s.sessions",
        0,
    ),
    (
        "a refused attempt deletes the queue entry",
        " AND EXISTS(SELECT 1 FROM dlock_slot AS s",
        " OR  EXISTS(SELECT 1 FROM dlock_slot AS s",
        0,
    ),
];

on_each_flavour!(broken_statement_is_detected);
fn broken_statement_is_detected(flavour: Flavour) {
    for (effect, original, replacement, first) in BROKEN {
        let subject = Subject {
            rewrite: Some((original, replacement)),
            ..Subject::SOUND
        };
        assert_found(flavour, effect, subject, first);
    }
}

/// Asserts that the model and the server have different results for a sequence, and equal results if nothing is broken. The
/// first sequence has the number `first`.
#[track_caller]
fn assert_found(flavour: Flavour, what: &str, subject: Subject, first: u64) {
    let numbers = first..first + SEQUENCES_TO_FIND;
    let difference = compare(server(flavour), subject, 1, numbers);
    let number = difference.map_or_else(|| panic!("not detected: {what}"), |it| it.number);
    println!("{what}: sequence {number}");
    // The other test runs the sequences with smaller numbers.
    if number >= SEQUENCES {
        let without = compare(server(flavour), Subject::SOUND, 1, number..number + 1);
        assert!(without.is_none(), "different without {what}");
    }
}
