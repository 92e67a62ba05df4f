//! Signals: who gets them, and how dlock ends.

use mysql::prelude::Queryable;

use crate::command::{Stage, heard, signal, tell};
use crate::dlock::{Dlock, Running};
use crate::servers::{Database, Flavour, shared};

/// Signals that end a process by default, with their numbers on Linux, and some that do not.
const FORWARDED: [(&str, i32); 14] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("USR1", 10),
    ("USR2", 12),
    ("ALRM", 14),
    ("TERM", 15),
    ("CONT", 18),
    ("TSTP", 20),
    ("URG", 23),
    ("WINCH", 28),
    ("PWR", 30),
    ("34", 34),
    ("64", 64),
];

/// A command that says when it is up, and on the signal `$3` says so and ends with 7.
const TRAPPED: &str = r#"
    trap 'echo got $3; exit 7' $3
    echo up > "$1"
    while :; do sleep 0.02; done
"#;

fn start_trapped(database: &Database, stage: &Stage, number: &str) -> Running {
    let ready = stage.fifo(&format!("ready-{number}"));
    // A session of its own has no controlling terminal, wherever the tests run.
    let running = Dlock::on(
        database,
        ["exec", "-a", "init", "--", "sh", "-c", TRAPPED, "sh"],
    )
    .arg(&ready)
    .arg("-")
    .arg(number)
    .start();
    assert_eq!(heard(&ready), "up");
    running
}

#[test]
fn every_signal_reaches_the_command_as_itself() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("signals");
        let stage = Stage::new();
        for (name, number) in FORWARDED {
            let running = start_trapped(&database, &stage, &number.to_string());
            running.signal(name);
            running.wait().expect(7, &format!("got {number}\n"), "");
        }
    }
}

#[test]
fn a_signal_that_the_command_does_not_survive_gives_128_plus_its_number() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("signals");
        let stage = Stage::new();
        for (name, number) in [("HUP", 1), ("INT", 2), ("TERM", 15), ("USR1", 10)] {
            let running = start_trapped(&database, &stage, "64");
            running.signal(name);
            running.wait().expect(128 + number, "", "");
            std::fs::remove_file(stage.path("ready-64")).expect("removes");
        }
    }
}

#[test]
fn a_second_term_or_int_kills() {
    let database = shared(Flavour::MariaDb).database("signals");
    let stage = Stage::new();
    let ready = stage.fifo("ready");
    let told = stage.fifo("told");
    let running = Dlock::on(&database, ["exec", "-a", "init", "--", "sh", "-c"])
        .arg(r#"trap 'echo deaf > "$2"' TERM; echo up > "$1"; while :; do sleep 0.02; done"#)
        .arg("sh")
        .arg(&ready)
        .arg(&told)
        .start();
    heard(&ready);
    running.signal("TERM");
    assert_eq!(heard(&told), "deaf");
    running.signal("INT");
    running.wait().expect(137, "", "");
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let database = shared(Flavour::MariaDb).database("signals");
    let stage = Stage::new();
    let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
    let nohup = std::process::Command::new("sh")
        .args(["-c", r#"trap '' HUP; exec "$0" exec -a init -- sh -c 'echo up > "$1"; read w < "$2"' sh "$1" "$2""#])
        .arg(env!("CARGO_BIN_EXE_dlock"))
        .args([&ready, &go])
        .env("DLOCK_URL", database.url())
        .spawn();
    let mut nohup = nohup.expect("sh runs");
    heard(&ready);
    signal(nohup.id(), "HUP");
    tell(&go, "on");
    assert_eq!(nohup.wait().expect("ends").code(), Some(0));
}

#[test]
fn a_signal_that_was_ignored_at_the_start_does_not_end_the_waiting() {
    let database = shared(Flavour::MariaDb).database("signals");
    let stage = Stage::new();
    let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
    let holder = Dlock::on(&database, ["exec", "-a", "init", "--", "sh", "-c"])
        .arg(r#"echo up > "$1"; read word < "$2""#)
        .arg("sh")
        .arg(&ready)
        .arg(&go)
        .start();
    heard(&ready);
    let waiter = std::process::Command::new("sh")
        .args(["-c", r#"trap '' HUP; exec "$0" exec -a init -- true"#])
        .arg(env!("CARGO_BIN_EXE_dlock"))
        .env("DLOCK_URL", database.url())
        .stderr(std::process::Stdio::null())
        .spawn();
    let mut waiter = waiter.expect("sh runs");
    let mut admin = database.admin_conn();
    crate::dlock::eventually("the waiter stands in line", || {
        let waiting: Option<u64> = admin
            .query_first("SELECT COUNT(*) FROM dlock_waiter")
            .expect("the table is there");
        waiting == Some(1)
    });
    signal(waiter.id(), "HUP");
    tell(&go, "on");
    holder.wait().expect(0, "", "");
    assert_eq!(waiter.wait().expect("ends").code(), Some(0));
}

#[test]
fn the_command_has_the_signal_mask_and_ignored_signals_that_dlock_had() {
    // What dlock blocks for itself must not reach the command, and what was ignored must.
    let database = shared(Flavour::MariaDb).database("signals");
    let show = "grep -E '^Sig(Blk|Ign)' /proc/self/status";
    let bare = std::process::Command::new("sh")
        .args(["-c", &format!("trap '' USR1; {show}")])
        .output()
        .expect("sh runs");
    let through = std::process::Command::new("sh")
        .args([
            "-c",
            &format!(r#"trap '' USR1; exec "$0" exec -a init -- {show}"#),
        ])
        .arg(env!("CARGO_BIN_EXE_dlock"))
        .env("DLOCK_URL", database.url())
        .output()
        .expect("sh runs");
    assert!(!bare.stdout.is_empty());
    assert_eq!(
        String::from_utf8_lossy(&through.stdout),
        String::from_utf8_lossy(&bare.stdout)
    );
}

#[test]
fn a_signal_while_waiting_ends_the_waiting_and_leaves_the_lock_alone() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("signals");
        let stage = Stage::new();
        let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
        let holder = Dlock::on(&database, ["exec", "-a", "init", "--", "sh", "-c"])
            .arg(r#"echo up > "$1"; read word < "$2"; echo done"#)
            .arg("sh")
            .arg(&ready)
            .arg(&go)
            .start();
        heard(&ready);
        for (name, number) in [
            ("TERM", 15),
            ("INT", 2),
            ("HUP", 1),
            ("USR1", 10),
            ("64", 64),
        ] {
            let waiter = Dlock::on(&database, ["exec", "-a", "init", "--", "echo", "ran"]).start();
            waiter.heard("init is held by");
            // What a process ignores by default does not end its waiting either.
            waiter.signal("WINCH");
            waiter.signal(name);
            waiter
                .wait()
                .expect(128 + number, "", "while waiting for init");
        }
        tell(&go, "on");
        holder.wait().expect(0, "done\n", "");
    }
}
