//! The model's server and real servers, compared: random sequences of requests, errors before and after a commit,
//! lost replies, operators' changes and ends of sessions bring the same responses and leave the same rows.
//!
//! The model proves the protocol (`tests/model`), so its server must not have rules of its own. After each step
//! of a sequence all that a contender hears and all that the server keeps of the action is compared. Where they
//! differ, the test prints the shortest sequence that shows it. To run more: `make chaos SEQUENCES=20000 SEED=7`.
//!
//! Not compared: what is only printed, `--once`, fences and `--min-hold`, which the model does not know; servers
//! without named locks; two requests that are carried out at the same time, but for a wait at the gate.

mod duel;
mod kept;
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
#[path = "../model/variant.rs"]
#[allow(dead_code, reason = "the model uses more of it")]
mod variant;

use std::sync::OnceLock;

use crate::duel::{Subject, compare};
use crate::server::Rules;
use crate::servers::{Flavour, Server};
use crate::variant::{Run, Variant};

const SOUND: Subject = Subject {
    rules: Run::sound().rules,
    variant: Variant::Sound,
    rewrite: None,
};

/// How many sequences run on each server, unless the environment says otherwise.
const SEQUENCES: u64 = 2000;

/// The one server of this flavour for all tests here. What it keeps need not survive a crash.
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

/// A number from the environment, if it is set and not empty.
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

/// The same sequences each time, unless it is told how many: then others each time.
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
fn the_model_and_mariadb_do_the_same() {
    agree_on(Flavour::MariaDb);
}

#[test]
fn the_model_and_mysql_do_the_same() {
    agree_on(Flavour::MySql);
}

#[test]
fn a_model_with_a_broken_rule_is_found() {
    let sound = SOUND.rules;
    let rules = [
        Rules {
            revoked_is_ours: true,
            ..sound
        },
        Rules {
            session_stays: true,
            ..sound
        },
        Rules {
            gate_alone: true,
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

/// A contender that believes what it should not: of a grant (R1), of a revoked lease (R2, R9), of any reply.
#[test]
fn a_contender_with_a_broken_rule_is_found() {
    for variant in [
        Variant::OldGrantBelieved,
        Variant::RevokedIsOurs,
        Variant::SumBelieved,
        Variant::OkBelieved,
    ] {
        let subject = Subject { variant, ..SOUND };
        assert_found(Flavour::MariaDb, &format!("{variant:?}"), subject);
    }
}

/// Statements that lack one of their conditions or assignments.
const BROKEN: [(&str, &str, &str); 8] = [
    (
        "a grant of unknown time counts as a new one (R1)",
        "=ROW_COUNT()",
        "=1          ",
    ),
    (
        "a revoked lease is renewed and released (R2, R9)",
        " AND broken_at IS NULL",
        " AND TRUE             ",
    ),
    (
        "a renewal leaves the old session in the row (R5)",
        "session_id=CONNECTION_ID(),gated=COALESCE(",
        "session_id=session_id+0,   gated=COALESCE(",
    ),
    (
        "a renewal does not note that it has the gate",
        "gated=COALESCE(",
        "gated=0*IFNULL(",
    ),
    (
        "a renewal does not count",
        "renewals=renewals+1",
        "renewals=renewals+0",
    ),
    (
        "a hand-off is not seen",
        "session_id=IS_USED_LOCK(CONCAT('dlock-notice",
        "session_id>IS_USED_LOCK(CONCAT('dlock-notice",
    ),
    (
        "a take-over does not mind renewals",
        " AND renewals=",
        " AND 1>    -1-",
    ),
    (
        "a closed action is granted",
        "closed_until<=",
        "closed_until>=",
    ),
];

#[test]
fn a_broken_statement_is_found_on_mariadb() {
    assert_all_found(Flavour::MariaDb);
}

#[test]
fn a_broken_statement_is_found_on_mysql() {
    assert_all_found(Flavour::MySql);
}

#[track_caller]
fn assert_all_found(flavour: Flavour) {
    for (what, said, heard) in BROKEN {
        let rewrite = Some((said, heard));
        assert_found(flavour, what, Subject { rewrite, ..SOUND });
    }
}

/// The comparison must find it, or it is blind.
#[track_caller]
fn assert_found(flavour: Flavour, what: &str, subject: Subject) {
    let difference = compare(server(flavour), subject, 1, SEQUENCES);
    let difference = difference.unwrap_or_else(|| panic!("{what}: not found"));
    println!("{what}: {difference}\n");
}
