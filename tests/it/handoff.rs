//! Tests of the hand-off. The next command starts before the previous holder's release is committed, and no run,
//! success or fence is lost.

use testkit::cli_runner::{Dlock, Outcome, Running};
use testkit::command::{Stage, read_message, write_message};
use testkit::each_server::everywhere;
use testkit::holder::{Holder, is_free};
use testkit::proxy::{Fault, Kind, Proxy};
use testkit::servers::Database;

use crate::history::{endings, runs};
use crate::regressions::revoked::revoke;

/// Returns a contender whose command prints `ran` and exits with `status`.
fn contender(database: &Database, options: &[&str], status: &str) -> Dlock {
    Dlock::on(database, ["exec", "-q", "-a", "init"])
        .args(options)
        .args(["--", "sh", "-c", &format!("echo ran; exit {status}")])
}

/// Waits until a contender waits and the holder has held the lock long enough for a hand-off.
#[track_caller]
fn wait_for_waiter(database: &Database) {
    database.wait_until(
        "COUNT(*)=1 FROM dlock_waiter JOIN dlock_lock USING (action) \
         WHERE acquired_at<UTC_TIMESTAMP(6)-INTERVAL 200000 MICROSECOND",
    );
}

/// Starts a holder whose command succeeds when the test writes to the fifo `go` of `stage`.
#[track_caller]
fn succeeding_holder(database: &Database, stage: &Stage) -> Running {
    let exec = Dlock::on(database, ["exec", "-a", "init", "--ttl", "10m"]);
    stage.start(exec, r#"echo up > "$1"; read word < "$2""#)
}

/// Starts `next` and lets `holder`'s command end when `next` waits. Returns the outcomes of `holder` and `next`.
#[track_caller]
fn hand_over(database: &Database, holder: Holder, next: Dlock) -> (Outcome, Outcome) {
    let next: Running = next.start();
    wait_for_waiter(database);
    (holder.end(), next.wait())
}

#[test]
fn the_next_command_starts_before_the_release_is_committed() {
    everywhere(|database| {
        let proxy = Proxy::to(database.port);
        let release = proxy.every(Kind::Release, Fault::HoldRequest);
        // The proxy withholds the release and the ttl is 10 minutes, so only the hand-off can start the next command.
        let holder = Holder::through(database, proxy.port(), &["--ttl", "10m"]);
        let next = contender(database, &[], "5").start();
        wait_for_waiter(database);
        write_message(&holder.go(), "on");
        release.wait();
        next.wait().expect(5, "ran\n", "");
        // The release arrives after two other commands have held and released the lock.
        contender(database, &["-n"], "6").expect(6, "ran\n", "");
        release.let_go();
        holder.running.wait().expect(3, "", "");
        let runs = runs(database, &[]);
        let mut endings = endings(&runs);
        endings.sort_unstable();
        let exited = |number| ("exited", Some(number));
        assert_eq!(endings, [exited(3), exited(5), exited(6)]);
    });
}

#[test]
fn a_waiter_with_once_per_waits_until_the_success_is_committed() {
    waits_for_the_success(&["--once-per", "1h"]);
}

#[test]
fn a_shared_waiter_with_once_per_waits_until_the_success_is_committed() {
    waits_for_the_success(&["--once-per", "1h", "--shared"]);
}

/// Checks that a waiter with `options` does not start its command on a hand-off.
#[track_caller]
fn waits_for_the_success(options: &[&str]) {
    everywhere(|database| {
        let proxy = Proxy::to(database.port);
        let release = proxy.every(Kind::Release, Fault::HoldRequest);
        let stage = Stage::new();
        let holder = succeeding_holder(&database.through(proxy.port()), &stage);
        let next = contender(database, options, "5").start();
        wait_for_waiter(database);
        stage.let_go("on");
        release.wait();
        // If the waiter's command had started, this contender would be granted the lock after it.
        contender(database, &["--wait", "1s"], "6").expect(75, "", "gave up");
        release.let_go();
        holder.wait().expect(0, "", "");
        next.wait().expect(0, "", "");
    });
}

#[test]
fn a_success_is_recorded_even_if_the_record_has_a_new_holder() {
    everywhere(|database| {
        let stage = Stage::new();
        let holder = succeeding_holder(database, &stage);
        let (ready, failing) = (stage.fifo("next"), stage.fifo("failing"));
        let next = Dlock::on(database, ["exec", "-q", "-a", "init", "--", "sh", "-c"])
            .args([r#"echo up > "$1"; read -r word < "$2"; exit 5"#, "sh"])
            .arg(&ready)
            .arg(&failing)
            .start();
        wait_for_waiter(database);
        stage.let_go("on");
        read_message(&ready);
        // By now the next contender holds the lock.
        holder.wait().expect(0, "", "");
        write_message(&failing, "on");
        assert_eq!(next.wait().status, Some(5));
        contender(database, &["--once-per", "1h"], "6").expect(0, "", "");
        let runs = runs(database, &[]);
        let exited = |number| ("exited", Some(number));
        assert_eq!(endings(&runs), [exited(5), exited(0)]);
    });
}

#[test]
fn a_lease_revoked_just_before_the_release_is_reported_as_lost() {
    everywhere(|database| {
        let holder = Holder::on(database, &[]);
        revoke(database);
        let next = contender(database, &["-q"], "5");
        let (holder, next) = hand_over(database, holder, next);
        let message =
            "init was released by an operator before the command had ended (exit status 76;";
        holder.expect(76, "", message);
        next.exited(5);
        assert!(is_free(database));
        let runs = runs(database, &[]);
        let endings: Vec<&str> = endings(&runs).iter().map(|(ending, _)| *ending).collect();
        assert_eq!(endings, ["exited", "revoked"]);
    });
}

#[test]
fn the_next_holder_advances_an_existing_fence_and_a_take_over_records_no_loss() {
    everywhere(|database| {
        contender(database, &["--fence"], "4").run().exited(4);
        let fence = || database.first::<u64>("SELECT token FROM dlock_fence");
        let before = fence();
        let holder = Holder::on(database, &[]);
        let (holder, next) = hand_over(database, holder, contender(database, &[], "5"));
        holder.exited(3);
        next.exited(5);
        let last = runs(database, &["--number", "1"]);
        assert_eq!(fence(), last[0]["token"].as_u64());
        assert!(fence() > before);

        // The attempt of the next holder fails, because a grant must advance the fence. If the server's clock was set
        // forward, the next holder then takes the lease over.
        let holder = Holder::on(database, &["--ttl=5m"]);
        let next = contender(database, &[], "5").start();
        wait_for_waiter(database);
        database.run("UPDATE dlock_lock SET expires_at=UTC_TIMESTAMP(6)-INTERVAL 1 HOUR");
        holder.end().exited(3);
        next.wait().exited(5);
        let last = runs(database, &["--number", "2"]);
        let outcomes: Vec<_> = last.iter().map(|run| run["outcome"].as_str()).collect();
        assert_eq!(outcomes, [Some("exited"); 2]);
    });
}
