//! Commands that take too long: stopped when their time is over, or when they give no sign of life.

use std::fs;

use crate::command::{Stage, Witness, heard};
use crate::dlock::{Dlock, eventually};
use crate::servers::{Flavour, shared};

/// A command that says when it is up, and keeps the witness and itself alive whatever it is told.
const DEAF: &str = r#"
    exec 9>>"$1"
    flock -n 9 || exit 99
    trap "echo term" TERM
    echo up > "$2"
    while :; do sleep 0.05; done
"#;

#[test]
fn a_command_that_runs_for_too_long_is_stopped_with_124_and_its_lease_released() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("limits");
        let stage = Stage::new();
        let (witness, ready) = (Witness::on(&stage), stage.fifo("ready"));
        let running = Dlock::on(&database, ["exec", "-a", "init", "--max-runtime", "300ms"])
            .args(["--grace", "200ms", "--", "sh", "-c", DEAF, "sh"])
            .arg(witness.path())
            .arg(&ready)
            .start();
        heard(&ready);
        let outcome = running.wait();
        outcome.expect(
            124,
            "term\n",
            "init has run for 300ms; stopping the command",
        );
        assert!(witness.is_alone(), "{flavour}: something of it lives");
        Dlock::on(&database, ["exec", "-n", "-a", "init", "--", "echo", "ran"])
            .run()
            .expect(0, "ran\n", "");
    }
}

#[test]
fn a_command_that_ends_in_time_is_not_touched() {
    let database = shared(Flavour::MariaDb).database("limits");
    Dlock::on(&database, ["exec", "-a", "init", "--max-runtime", "1m"])
        .args(["--", "sh", "-c", "exit 3"])
        .run()
        .expect(3, "", "");
}

#[test]
fn a_job_whose_heartbeat_stops_loses_its_lease() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("limits");
        let stage = Stage::new();
        let (witness, ready) = (Witness::on(&stage), stage.fifo("ready"));
        let file = stage.path("heartbeat");
        fs::write(&file, "").expect("writes");
        let running = Dlock::on(&database, ["exec", "-a", "init", "--ttl", "2s"])
            .arg("--heartbeat-file")
            .arg(&file)
            .args(["--", "sh", "-c", DEAF, "sh"])
            .arg(witness.path())
            .arg(&ready)
            .start();
        heard(&ready);
        let outcome = running.wait();
        outcome.expect(
            76,
            "term\n",
            "heartbeat does not change; stopping the command",
        );
        assert!(witness.is_alone(), "{flavour}: something of it lives");
    }
}

#[test]
fn a_job_whose_heart_beats_may_run_for_many_leases() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("limits");
        let stage = Stage::new();
        let file = stage.path("heartbeat");
        let go = stage.path("go");
        let running = Dlock::on(&database, ["exec", "-a", "init", "--ttl", "3s"])
            .arg("--heartbeat-file")
            .arg(&file)
            .args(["--", "sh", "-c"])
            .arg(r#"while [ ! -e "$2" ]; do date +%N > "$1"; sleep 0.1; done; exit 5"#)
            .arg("sh")
            .arg(&file)
            .arg(&go)
            .start();
        let mut admin = database.admin_conn();
        eventually("two leases go by", || {
            use mysql::prelude::Queryable;
            let renewals: Option<u64> = admin
                .query_first("SELECT renewals FROM dlock_lock")
                .unwrap_or_default();
            renewals > Some(12)
        });
        fs::write(&go, "").expect("writes");
        assert_eq!(running.wait().status, Some(5), "{flavour}");
    }
}

#[test]
fn a_command_that_may_run_for_no_time_is_a_mistake() {
    Dlock::new(["exec", "-a", "init", "--max-runtime", "0s", "--", "true"])
        .run()
        .expect(64, "", "a command needs some time");
}
