//! Tests with an incorrect clock on a real server. libfaketime sets the server's clock or makes the clock run at an
//! incorrect rate. There must never be two holders, no healthy command may be stopped, and the lease of a dead holder
//! must still expire.
//!
//! Like the mutant tests, these tests check which processes are alive. The tests run only on MariaDB, since under
//! libfaketime MySQL spins in its timed waits and may take minutes to start. On both servers, a clock jump only makes
//! the times in the row too early or too late; `mutants::granting` tests such rows on both servers.

use std::fs;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use mysql::Conn;
use testkit::cli_runner::{Dlock, PATIENCE, Running, eventually};
use testkit::command::Stage;
use testkit::holder::renewals;
use testkit::proxy::Proxy;
use testkit::servers::{Flavour, Server, fetched};
use testkit::sql::Sql;

use crate::mutants::scene::{ScenarioResult, Scene};

const HOUR: f64 = 3_600.0;

/// The ttl of holders. The ttl is short, so that the tests can wait for a whole lease at each clock rate.
const TTL: &str = "3s";

/// Number of renewals in one [`TTL`] and one more second, because a change of the clock rate may take a second.
const A_WHOLE_LEASE: u64 = 8;

/// A separate server with a clock that the test can set.
struct ClockServer {
    server: Server,
    clock: PathBuf,
    started: Instant,
    _stage: Stage,
}

impl ClockServer {
    fn start() -> Self {
        let stage = Stage::new();
        let clock = stage.path("clock");
        fs::write(&clock, "+0 x1\n").expect("the folder is writable");
        let library = fetched("libfaketimeMT.so.1");
        let environment = [
            ("DLOCK_TEST_SERVER_PRELOAD", library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", clock.display().to_string()),
            // libfaketime reads the file once in this number of seconds. Reading the file in every call would slow
            // the server down too much.
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        let started = Instant::now();
        Self {
            server: Server::start_in(Flavour::MariaDb, &[], &environment),
            clock,
            started,
            _stage: stage,
        }
    }

    /// Sets the server's clock to `off` seconds ahead of the true time and lets it run at `rate`. Waits until the clock
    /// is set if `rate` is 1, the normal rate. A different rate takes effect within one second.
    fn set(&self, off: f64, rate: f64) {
        // libfaketime applies the rate to the whole lifetime of the server. This offset cancels the effect of the rate
        // on the time that has already passed.
        let past = (1.0 - rate) * self.started.elapsed().as_secs_f64();
        // Replaces the file atomically, since the server may read the file at any time.
        let new = self.clock.with_extension("new");
        fs::write(&new, format!("{:+.3} x{rate}\n", off + past)).expect("the folder is writable");
        fs::rename(&new, &self.clock).expect("the file can be renamed");
        if (rate - 1.0).abs() < f64::EPSILON {
            let mut admin = self.server.admin();
            eventually("the server's clock is set", || {
                (seconds_off(&mut admin) - off).abs() < 1.0
            });
        }
    }

    fn scene(&self, without: &str) -> Scene {
        Scene::on(self.server.database("clocks"), without)
    }
}

/// Returns the number of seconds by which the server's clock is ahead of this machine's clock.
fn seconds_off(admin: &mut Conn) -> f64 {
    let server: f64 =
        admin.value("SELECT TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))/1e6");
    let own = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    server - own.expect("after 1970").as_secs_f64()
}

fn holder(scene: &Scene, ttl: &str) -> Running {
    scene.holder(scene.exec(scene.database.port).args(["--ttl", ttl]))
}

/// Waits for `times` more renewals by `holder`, and asserts that a contender then does not acquire the lock.
#[track_caller]
fn assert_renewed_and_exclusive(scene: &Scene, holder: &mut Running, times: u64) {
    let least = renewals(&scene.database) + times;
    eventually("the lease is renewed", || {
        let is_over = holder.is_over();
        assert!(!is_over, "the holder has ended: {}", holder.stderr_so_far());
        renewals(&scene.database) >= least
    });
    let once = scene.next(scene.exec(scene.database.port).arg("-n")).wait();
    once.expect(75, "", "init is held by");
}

/// Lets the command of `holder` end, and asserts that the holder and then the waiters end as usual.
#[track_caller]
fn all_end(scene: &Scene, holder: Running, waiters: [Running; 2]) {
    scene.let_go();
    holder.wait().expect(4, "", "the server's clock was set ");
    for waiter in waiters {
        waiter.wait().expect(0, "alone\n", "init is held by");
    }
}

#[test]
fn any_server_clock_error_is_harmless_and_reported_while_the_queue_lock_is_held() {
    let clocked = &ClockServer::start();
    let scene = clocked.scene("");
    let mut holder = holder(&scene, TTL);
    let waiters = [scene.waiter(), scene.waiter()];
    for off in [HOUR, 0.0, -HOUR, 0.0] {
        clocked.set(off, 1.0);
        assert_renewed_and_exclusive(&scene, &mut holder, 2);
    }
    for rate in [2.0, 0.5] {
        clocked.set(0.0, rate);
        assert_renewed_and_exclusive(&scene, &mut holder, A_WHOLE_LEASE);
    }
    all_end(&scene, holder, waiters);
    only_the_mutant_trusts_the_server_clock(clocked);
    a_contender_without_named_locks_does_not_trust_the_server_clock(clocked);
    status_reports_that_the_server_clock_was_set(clocked);
}

/// Asserts that `status` reports a clock jump, which it does only until the next renewal. If the ttl is one minute, renewals
/// are ten seconds apart.
fn status_reports_that_the_server_clock_was_set(clocked: &ClockServer) {
    let forward = "the holder is frozen, or the server's clock was set forward";
    let back = "held; the server's clock was set back by at least 59m ";
    for (off, diagnosis, difference) in [(HOUR, forward, "ahead of"), (-HOUR, back, "behind")] {
        clocked.set(0.0, 1.0);
        let scene = clocked.scene("");
        let _holder = holder(&scene, "1m");
        clocked.set(off, 1.0);
        let status = Dlock::on(&scene.database, ["status", "init"]).run();
        assert!(status.stdout.contains(diagnosis), "{status:?}");
        let expected = format!("{difference} this machine's; this does not affect leases");
        status.expect(0, &status.stdout, &expected);
    }
}

/// Asserts that two commands run at the same time if the contender is a mutant that trusts only the server's clock, and
/// that the unchanged dlock prevents this.
fn only_the_mutant_trusts_the_server_clock(clocked: &ClockServer) {
    clocked.set(0.0, 1.0);
    let held = ["", "clock"].map(|without| {
        let scene = clocked.scene(without);
        // The ttl is long, so the contender makes its attempt before the next renewal.
        let holder = holder(&scene, "1m");
        (scene, holder)
    });
    clocked.set(HOUR, 1.0);
    let verdicts = held.map(|(scene, _holder)| {
        let once = scene.next(scene.exec(scene.database.port).arg("-n"));
        ScenarioResult::of_next(&once.wait())
    });
    assert_eq!(verdicts, [ScenarioResult::Clean, ScenarioResult::TwoAlive]);
}

/// Asserts that a contender whose requests for named locks are refused does not take over a lease by the server's clock if the
/// holder's session has the queue lock.
fn a_contender_without_named_locks_does_not_trust_the_server_clock(clocked: &ClockServer) {
    clocked.set(0.0, 1.0);
    let scene = clocked.scene("");
    let mut holder = holder(&scene, "1m");
    // The server has no such function.
    let refusing = Proxy::rewriting(scene.database.port, "GET_LOCK(", "GET_L0CK(");
    clocked.set(HOUR, 1.0);
    // The lease expired long ago by the server's clock.
    let contender = scene.exec(refusing.port()).args(["-v", "--wait", "8s"]);
    let contender = scene.next(contender).wait();
    contender.expect(75, "", "named locks do not work on this server");
    assert!(!holder.is_over(), "{}", holder.stderr_so_far());
}

/// A contender that sees the holder's session does not trust the server's clock, although the holder has no queue lock.
#[test]
fn without_queue_lock_the_server_clock_may_be_set_while_the_session_is_seen() {
    let clocked = &ClockServer::start();
    let scene = clocked.scene("");
    let mut holder = holder(&scene, TTL);
    let waiters = [scene.waiter(), scene.waiter()];
    scene.take_queue_lock_away();
    for off in [5.0, HOUR, 0.0] {
        clocked.set(off, 1.0);
        assert_renewed_and_exclusive(&scene, &mut holder, 2);
    }
    a_dead_holder_is_replaced_although_the_clock_is_set_back(clocked);
    for rate in [2.0, 0.5] {
        clocked.set(-HOUR, rate);
        assert_renewed_and_exclusive(&scene, &mut holder, A_WHOLE_LEASE);
    }
    all_end(&scene, holder, waiters);
}

/// Asserts that a contender replaces a dead holder after the server's clock is set back by an hour. By the server's
/// clock the lease is live for another hour, but the contender measures the ttl with its own clock.
fn a_dead_holder_is_replaced_although_the_clock_is_set_back(clocked: &ClockServer) {
    let dead = ["KILL", "STOP"].map(|signal| {
        let scene = clocked.scene("");
        let holder = holder(&scene, TTL);
        let waiter = scene.waiter();
        (scene, holder, waiter, signal)
    });
    for (_, holder, _, signal) in &dead {
        holder.signal(signal);
    }
    clocked.set(-HOUR, 1.0);
    let since = Instant::now();
    for (_scene, _holder, waiter, signal) in dead {
        waiter.wait().expect(0, "alone\n", "init is held by");
        let waited = since.elapsed();
        assert!(waited < PATIENCE, "{signal}: {waited:?}");
    }
}
