//! Compares the model's server with real servers: random sequences of requests, errors before and after a commit, lost
//! responses, operator actions and ends of sessions must give the same responses and leave the same rows.
//!
//! The model checks the protocol (`tests/model`), so its server must behave as the real ones. After each step of a
//! sequence, the test compares all responses and all that the server stores about the action. If they differ, the test
//! prints the shortest sequence that it found. To run more sequences: `make chaos SEQUENCES=20000 SEED=7`.
//!
//! Not compared: columns that are only printed, `--once`, fences and `--min-hold`, which the model does not have;
//! servers without named locks; two requests that are executed at the same time, except a wait for the queue lock.

mod duel;
mod kept;
#[path = "../model/mutation.rs"]
#[allow(dead_code, reason = "the model uses more of it")]
mod mutation;
mod observed;
mod operator;
mod peer;
#[path = "../it/proxy.rs"]
mod proxy;
mod question;
mod reality;
#[path = "../model/replies.rs"]
#[allow(dead_code, reason = "the model uses more of it")]
mod replies;
#[path = "../model/server.rs"]
#[allow(dead_code, reason = "the model uses more of it")]
mod server;
#[path = "../it/servers.rs"]
mod servers;
mod step;
mod theory;
#[path = "../model/time.rs"]
#[allow(dead_code, reason = "the model uses more of it")]
mod time;

use std::sync::OnceLock;

use crate::duel::{Subject, compare};
use crate::mutation::{Run, Variant};
use crate::server::Rules;
use crate::servers::{Flavour, Server};

const SOUND: Subject = Subject {
    rules: Run::sound().rules,
    variant: Variant::Sound,
    rewrite: None,
};

/// Number of sequences on each server, unless `DLOCK_SEQUENCES` sets another.
const SEQUENCES: u64 = 2000;

/// Returns the server of this flavour that all tests here share. Its data need not survive a crash.
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

/// Returns a number from the environment. None if the variable is not set or empty.
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}

/// Compares the same sequences each time. With `DLOCK_SEQUENCES` and without `DLOCK_SEED`, the seed is random.
fn agree_on(flavour: Flavour) {
    let (count, seed) = (setting("DLOCK_SEQUENCES"), setting("DLOCK_SEED"));
    let random = || match count {
        Some(_) => getrandom::u64().expect("random numbers") >> 32,
        None => 1,
    };
    let seed = seed.unwrap_or_else(random);
    let count = count.unwrap_or(SEQUENCES);
    println!("{count} sequences on {flavour}, DLOCK_SEED={seed}");
    if let Some(difference) = compare(server(flavour), SOUND, seed, count) {
        panic!("{flavour} and the model differ with DLOCK_SEED={seed}: {difference}");
    }
}

#[test]
fn model_and_mariadb_do_the_same() {
    agree_on(Flavour::MariaDb);
}

#[test]
fn model_and_mysql_do_the_same() {
    agree_on(Flavour::MySql);
}

#[test]
fn model_with_a_broken_rule_is_detected() {
    let sound = SOUND.rules;
    let rules = [
        Rules {
            revoked_is_held: true,
            ..sound
        },
        Rules {
            session_stays: true,
            ..sound
        },
        Rules {
            queue_lock_alone: true,
            ..sound
        },
        Rules {
            clock_alone: true,
            ..sound
        },
    ];
    for rules in rules {
        let subject = Subject { rules, ..SOUND };
        assert_found(Flavour::MariaDb, &format!("{rules:?}"), subject);
    }
}

/// A contender that trusts an old grant (R1), a revoked lease (R2, R9) or any response.
#[test]
fn contender_with_a_broken_rule_is_detected() {
    for variant in [
        Variant::OldGrantBelieved,
        Variant::RevokedIsHeld,
        Variant::SumBelieved,
        Variant::OkBelieved,
    ] {
        let subject = Subject { variant, ..SOUND };
        assert_found(Flavour::MariaDb, &format!("{variant:?}"), subject);
    }
}

/// Statements without one of their conditions or assignments: a name, the text, and its replacement.
const BROKEN: [(&str, &str, &str); 8] = [
    (
        "a grant of unknown time counts as a new one (R1)",
        "=ROW_COUNT()",
        "=1          ",
    ),
    (
        "a revoked lease is renewed and released (R2, R9)",
        " AND revoked_at IS NULL",
        " AND TRUE              ",
    ),
    (
        "a renewal leaves the old session in the row (R5)",
        "session_id=CONNECTION_ID(),has_queue_lock=COALESCE(",
        "session_id=session_id+0,   has_queue_lock=COALESCE(",
    ),
    (
        "a renewal does not record that it has the queue lock",
        "has_queue_lock=COALESCE(",
        "has_queue_lock=0*IFNULL(",
    ),
    (
        "a renewal does not count",
        "renewals=renewals+1",
        "renewals=renewals+0",
    ),
    (
        "a hand-off is not seen",
        "session_id=IS_USED_LOCK(CONCAT('dlock-handoff",
        "session_id>IS_USED_LOCK(CONCAT('dlock-handoff",
    ),
    (
        "a take-over ignores renewals",
        " AND renewals=",
        " AND 1>    -1-",
    ),
    (
        "a paused action is granted",
        "paused_until<=",
        "paused_until>=",
    ),
];

#[test]
fn broken_statement_is_detected_on_mariadb() {
    assert_all_found(Flavour::MariaDb);
}

#[test]
fn broken_statement_is_detected_on_mysql() {
    assert_all_found(Flavour::MySql);
}

#[track_caller]
fn assert_all_found(flavour: Flavour) {
    for (what, said, heard) in BROKEN {
        let rewrite = Some((said, heard));
        assert_found(flavour, what, Subject { rewrite, ..SOUND });
    }
}

/// Asserts that the comparison finds the difference.
#[track_caller]
fn assert_found(flavour: Flavour, what: &str, subject: Subject) {
    let difference = compare(server(flavour), subject, 1, SEQUENCES);
    let difference = difference.unwrap_or_else(|| panic!("{what}: not found"));
    println!("{what}: {difference}\n");
}
