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
mod observed;
mod operator;
mod peer;
#[path = "../it/proxy.rs"]
mod proxy;
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

use crate::duel::{Subject, compare};
use crate::servers::{Flavour, Server};
use crate::variant::{Run, Variant};

const SOUND: Subject = Subject {
    rules: Run::sound().rules,
    variant: Variant::Sound,
    rewrite: None,
};

/// Options of a server that need not survive a crash.
fn started(flavour: Flavour) -> Server {
    let options: &[&str] = match flavour {
        Flavour::MariaDb => &["--innodb-flush-log-at-trx-commit=0"],
        Flavour::MySql => &["--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"],
    };
    Server::start(flavour, options)
}

/// A number from the environment, if it is set and not empty.
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

fn agree_on(flavour: Flavour) {
    let count = setting("DLOCK_SEQUENCES").unwrap_or(2000);
    let random = || getrandom::u64().expect("random numbers") >> 32;
    let seed = setting("DLOCK_SEED").unwrap_or_else(random);
    let server = started(flavour);
    if let Some(difference) = compare(&server, SOUND, seed, count) {
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
