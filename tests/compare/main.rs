//! Compares the model's server with real servers. Each test runs random sequences on both. In about half of the
//! sequences, all leases are exclusive. In the others, contenders have leases in slots. A sequence contains requests,
//! errors before and after a commit, lost responses, operator requests and ended sessions. Both servers must return the
//! same responses and contain the same rows.
//!
//! `tests/model` checks the protocol on the model's server, so that server must behave like a real server. After each
//! step of a sequence, the test compares the responses and the complete stored state of the action. To run more sequences:
//! `make chaos SEQUENCES=20000 SEED=7`.
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

use std::sync::OnceLock;

use testkit::on_each_flavour;
use testkit::servers::{Flavour, Server};

use crate::comparison::{Subject, Worker, compare};
use crate::mutation::Variant;
use crate::server::{Rule, Rules};

/// Default number of sequences on each server. `DLOCK_SEQUENCES` sets another number.
const SEQUENCES: u64 = 700;

/// Maximum number of sequences until a difference must be found.
const SEQUENCES_TO_FIND: u64 = 8000;

/// Returns the server of this flavour. All tests in this file share it. Its data need not survive a crash.
fn server(flavour: Flavour) -> &'static Server {
    static SERVERS: [OnceLock<Server>; 2] = [const { OnceLock::new() }; 2];
    let options = ["--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"];
    SERVERS[flavour as usize].get_or_init(|| Server::start(flavour, &options))
}

/// Returns the number in the environment variable `name`. None if the variable is empty or not set.
fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is not a number")))
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
    if let Some(difference) = compare(server(flavour), seed, count) {
        panic!(
            "{flavour} and the model have different results with DLOCK_SEED={seed}: {difference}"
        );
    }
}

/// A rule of the model, or of its contenders, that is broken. As below, each number is that of a sequence that detects it.
#[test]
fn broken_rule_is_detected() {
    let mut worker = Worker::new(server(Flavour::MariaDb));
    for (first, rule) in [
        (35, Rule::RevokedIsHeld),
        (0, Rule::SessionIsNotUpdated),
        (0, Rule::LostQueueLockIsHandOff),
        (45, Rule::ServerClockSuffices),
        (705, Rule::GrantRemovesNote),
        (0, Rule::LastReadIsIgnored),
        (0, Rule::ReassertionOverwrites),
        (701, Rule::OnlyOwnLimitCounts),
        (0, Rule::SlotKeepsToken),
        (0, Rule::SharedRecordIsFree),
        (195, Rule::DeadSlotMayBeRenewed),
    ] {
        let rules = Rules::NONE.and(rule);
        let subject = Subject {
            rules,
            ..Subject::SOUND
        };
        assert_found(&mut worker, &format!("{rule:?}"), subject, first);
    }
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
        assert_found(&mut worker, &format!("{variant:?}"), subject, first);
    }
}

/// Replacements that remove a condition or an assignment from a statement: the number of a sequence that detects it, the
/// original SQL and its replacement. The search starts at that number to save time. After a change of the sequences, it takes
/// longer, and prints another number.
const BROKEN: [(u64, &str, &str); 21] = [
    // A grant from an unknown time counts as a new grant.
    (0, "ROW_COUNT()>0", "TRUE         "),
    // A revoked lease is renewed and released.
    (35, " AND revoked_at IS NULL", " AND TRUE              "),
    // A renewal does not update the session in the row.
    (
        0,
        "session_id=CONNECTION_ID(),has_queue_lock=COALESCE(",
        "session_id=session_id+0,   has_queue_lock=COALESCE(",
    ),
    // A renewal does not record that the session has the queue lock.
    (0, "has_queue_lock=COALESCE(", "has_queue_lock=0*IFNULL("),
    // A renewal does not increment the counter.
    (0, "renewals=renewals+1", "renewals=renewals+0"),
    // A hand-off has no effect.
    (
        439,
        "session_id=IS_USED_LOCK(CONCAT('dlock-handoff",
        "session_id>IS_USED_LOCK(CONCAT('dlock-handoff",
    ),
    // A take-over ignores renewals.
    (469, " AND renewals=", " AND 1>    -1-"),
    // An attempt ignores the database.
    (0, "AND @dlock_database=", "AND @dlock_database<"),
    // An attempt ignores that the row is older.
    (0, " AND renewals>=", " AND -1 <      "),
    // A release does not remove the note.
    (
        218,
        "released_at=UTC_TIMESTAMP(6),sessions=NULL",
        "released_at=UTC_TIMESTAMP(6)/*ssions=NUL*/",
    ),
    // A grant does not tell that the row contains sessions.
    (
        0,
        "sessions IS NOT NULL AS has_sessions",
        "sessions IS     NULL AS has_sessions",
    ),
    // A holder writes its grant to a row of another holder.
    (
        44,
        " AND (owner_id IS NULL OR min_hold=1)",
        " AND (owner_id IS NULL OR min_hold=0)",
    ),
    // A holder writes its grant to a row with the same token.
    (0, " AND token<", " AND -1   <"),
    // A paused action is granted.
    (0, "paused_until<=", "paused_until>="),
    // The limits of the holders are ignored.
    (701, "MIN(s.slots)", "MAX(NULL   )"),
    // A slot gets no token.
    (
        0,
        "SET token=(SELECT token FROM",
        "SET token=(SELECT     0 FROM",
    ),
    // The slot of a dead holder is freed although it was granted again.
    (
        2701,
        " AND slot=1 AND owner_id IS NOT NULL AND token=",
        " AND slot=1 AND owner_id IS NOT NULL AND 0<    ",
    ),
    // The slot of a live holder is freed.
    (
        90,
        " AND NOT (has_queue_lock=1 AND",
        " AND NOT (has_queue_lock=2 AND",
    ),
    // A holder writes its grant to a slot with the same token.
    (
        1866,
        " AND owner_id IS NULL AND token<",
        " AND owner_id IS NULL AND -1   <",
    ),
    // The release of a slot frees the record although another slot is held.
    (
        0,
        "(s.owner_id IS NOT NULL OR s.sessions",
        "(FALSE                  OR s.sessions",
    ),
    // A refused attempt deletes the queue entry.
    (
        0,
        " AND EXISTS(SELECT 1 FROM dlock_slot AS s",
        " OR  EXISTS(SELECT 1 FROM dlock_slot AS s",
    ),
];

on_each_flavour!(broken_statement_is_detected);
fn broken_statement_is_detected(flavour: Flavour) {
    let mut worker = Worker::new(server(flavour));
    for (first, original, replacement) in BROKEN {
        let subject = Subject {
            rewrite: Some((original, replacement)),
            ..Subject::SOUND
        };
        let what = format!("{original} -> {replacement}");
        assert_found(&mut worker, &what, subject, first);
    }
}

/// Asserts that the model and the server have different results for a sequence, and equal results if nothing is broken. The
/// first sequence has the number `first`.
#[track_caller]
fn assert_found(worker: &mut Worker, what: &str, subject: Subject, first: u64) {
    let number = worker.find(subject, first..first + SEQUENCES_TO_FIND);
    let number = number.unwrap_or_else(|| panic!("not detected: {what}"));
    println!("{what}: sequence {number}");
    // The other test runs the sequences with smaller numbers.
    if number >= SEQUENCES {
        let without = worker.find(Subject::SOUND, number..number + 1);
        assert!(without.is_none(), "different without {what}");
    }
}
