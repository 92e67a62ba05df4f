//! The notice: whoever comes next starts before the release is done, and nothing is forgotten over it.

use std::process::Stdio;

use mysql::prelude::Queryable;

use crate::command::{Stage, heard, tell};
use crate::dlock::{Dlock, Outcome, Running, eventually};
use crate::history::{endings, runs};
use crate::holder::{Holder, is_free};
use crate::proxy::{Fault, Kind, Proxy};
use crate::servers::{Database, Flavour, shared};

fn on(flavour: Flavour) -> Database {
    let database = shared(flavour).database("notice");
    let setup = Dlock::on(&database, ["setup", "-q"]).run();
    setup.expect(0, "", "");
    database
}

/// Somebody whose command ends with `status`.
fn contender(database: &Database, options: &[&str], status: &str) -> Dlock {
    Dlock::on(database, ["exec", "-q", "-a", "init"])
        .args(options)
        .args(["--", "sh", "-c", &format!("echo ran; exit {status}")])
}

/// Waits until somebody waits, and the holder has run for long enough to give notice of its end.
#[track_caller]
fn waited_for(database: &Database) {
    let mut admin = database.admin_conn();
    eventually("somebody waits for a long run", || {
        let found: Option<u64> = admin
            .query_first(
                "SELECT COUNT(*) FROM dlock_waiter JOIN dlock_lock USING (action) \
                 WHERE acquired_at<UTC_TIMESTAMP(6)-INTERVAL 200000 MICROSECOND",
            )
            .expect("the tables are there");
        found == Some(1)
    });
}

/// Waits until somebody has the lock.
#[track_caller]
fn held(database: &Database) {
    let mut admin = database.admin_conn();
    eventually("the lock is held", || {
        let held: Option<u64> = admin
            .query_first("SELECT COUNT(*) FROM dlock_lock WHERE claim IS NOT NULL")
            .expect("the table is there");
        held == Some(1)
    });
}

/// Lets `holder` end, with `next` behind it.
#[track_caller]
fn handed_over(database: &Database, holder: Holder, next: Dlock) -> (Outcome, Outcome) {
    let next: Running = next.start();
    waited_for(database);
    (holder.end(), next.wait())
}

#[test]
fn the_next_command_starts_while_the_release_is_still_on_its_way() {
    for flavour in Flavour::ALL {
        let database = on(flavour);
        let proxy = Proxy::to(database.port);
        let release = proxy.every(Kind::Release, Fault::HoldRequest);
        // By a release it would never start, and by a take-over in 10 minutes.
        let through =
            Dlock::on(&database, ["exec"]).env("DLOCK_URL", database.url_through(proxy.port()));
        let holder = Holder::start(through, &["--ttl", "10m"]);
        let next = contender(&database, &[], "5").start();
        waited_for(&database);
        tell(&holder.go(), "on");
        release.wait();
        let next = next.wait();
        assert_eq!(
            (next.status, &*next.stdout),
            (Some(5), "ran\n"),
            "{flavour}"
        );
        // What arrives now finds the row another's, and free.
        let after = contender(&database, &["-n"], "6").run();
        assert_eq!(after.status, Some(6), "{flavour}: {after:?}");
        release.let_go();
        let holder = holder.running.wait();
        holder.expect(3, "", "");
        let runs = runs(&database, &[]);
        let mut endings = endings(&runs);
        endings.sort_unstable();
        let exited = |number| ("exited", Some(number));
        assert_eq!(endings, [exited(3), exited(5), exited(6)], "{flavour}");
    }
}

#[test]
fn who_asks_for_a_success_waits_until_it_can_be_seen() {
    for flavour in Flavour::ALL {
        let database = on(flavour);
        let stage = Stage::new();
        let go = stage.fifo("go");
        let holder = Dlock::on(&database, ["exec", "-a", "init", "--", "cat"])
            .arg(&go)
            .stdin(Stdio::null())
            .start();
        held(&database);
        let next = contender(&database, &["--once-per", "1h"], "5").start();
        waited_for(&database);
        tell(&go, "on");
        holder.wait().expect(0, "on\n", "");
        next.wait().expect(0, "", "");
    }
}

#[test]
fn a_success_is_remembered_whoever_has_the_row_by_then() {
    for flavour in Flavour::ALL {
        let database = on(flavour);
        let stage = Stage::new();
        let go = stage.fifo("go");
        let holder = Dlock::on(&database, ["exec", "-a", "init", "--", "cat"])
            .arg(&go)
            .start();
        held(&database);
        let (ready, failing) = (stage.fifo("ready"), stage.fifo("failing"));
        let next = Dlock::on(&database, ["exec", "-q", "-a", "init", "--", "sh", "-c"])
            .args([r#"echo up > "$1"; read -r word < "$2"; exit 5"#, "sh"])
            .arg(&ready)
            .arg(&failing)
            .start();
        waited_for(&database);
        tell(&go, "on");
        heard(&ready);
        // Its row is the next one's by now.
        holder.wait().expect(0, "on\n", "");
        tell(&failing, "on");
        assert_eq!(next.wait().status, Some(5), "{flavour}");
        let third = contender(&database, &["--once-per", "1h"], "6").run();
        third.expect(0, "", "");
        let runs = runs(&database, &[]);
        let exited = |number| ("exited", Some(number));
        assert_eq!(endings(&runs), [exited(5), exited(0)], "{flavour}");
    }
}

#[test]
fn a_lease_that_was_ended_by_hand_at_the_last_moment_is_given_up_and_told() {
    for flavour in Flavour::ALL {
        let database = on(flavour);
        let holder = Holder::on(&database, &[]);
        // As an operator's release does it, but for the end of the session, by which the holder hears of it.
        let mut admin = database.admin_conn();
        for statement in [
            "INSERT INTO dlock_run (action,token,holder,host,pid,user,note,began_at,ended_at,ending) \
             SELECT action,token,holder,host,pid,user,note,acquired_at,UTC_TIMESTAMP(6),'broken' FROM dlock_lock",
            "UPDATE dlock_lock SET token=token+1,broken_at=UTC_TIMESTAMP(6)",
        ] {
            admin.query_drop(statement).expect("root may");
        }
        let next = contender(&database, &["-q"], "5");
        let (holder, next) = handed_over(&database, holder, next);
        assert_eq!(holder.status, Some(76), "{flavour}");
        let told = "init was released by an operator before the command had ended";
        assert!(holder.stderr.contains(told), "{flavour}: {holder:?}");
        assert_eq!(next.status, Some(5), "{flavour}: {next:?}");
        assert!(is_free(&database), "{flavour}");
        let runs = runs(&database, &[]);
        let endings: Vec<&str> = endings(&runs).iter().map(|(ending, _)| *ending).collect();
        assert_eq!(endings, ["exited", "broken"], "{flavour}");
    }
}

#[test]
fn where_there_is_a_fence_the_next_one_raises_it() {
    for flavour in Flavour::ALL {
        let database = on(flavour);
        let fenced = contender(&database, &["--fence"], "4").run();
        assert_eq!(fenced.status, Some(4), "{flavour}: {fenced:?}");
        let fence = |database: &Database| -> Option<u64> {
            let fence = "SELECT token FROM dlock_fence";
            let mut admin = database.admin_conn();
            admin.query_first(fence).expect("the table is there")
        };
        let before = fence(&database);
        let holder = Holder::on(&database, &[]);
        let (holder, next) = handed_over(&database, holder, contender(&database, &[], "5"));
        assert_eq!(
            (holder.status, next.status),
            (Some(3), Some(5)),
            "{flavour}"
        );
        let last = runs(&database, &["-n", "1"]);
        assert_eq!(fence(&database), last[0]["token"].as_u64(), "{flavour}");
        assert!(fence(&database) > before, "{flavour}");
    }
}
