//! The clock of a real server is set and runs at a wrong rate, by way of libfaketime: no second
//! holder, no healthy command stopped, and a dead holder's lease still ends.
//!
//! Judged by real lives, as the twins are. On MariaDB: under libfaketime MySQL spins in its timed
//! waits and need not come up for minutes. To dlock a step is the same on both: a row that lies
//! further back or ahead, which `twins::granting` has on both.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};

use mysql::Conn;
use mysql::prelude::Queryable;

use crate::command::Stage;
use crate::dlock::{Dlock, PATIENCE, Running, eventually};
use crate::servers::{Flavour, Server};
use crate::twins::scene::{Scene, Verdict};

/// An hour, in seconds.
const HOUR: f64 = 3_600.0;

/// Short, so that a whole one goes by at each rate.
const TTL: [&str; 2] = ["--ttl", "3s"];

/// How often a lease is renewed in its own length and the second that a rate may take to change.
const A_WHOLE_LEASE: u64 = 8;

/// A server of its own with a clock that can be set.
struct Clocked {
    server: Server,
    clock: PathBuf,
    started: Instant,
    _stage: Stage,
}

impl Clocked {
    fn start(flavour: Flavour) -> Self {
        let stage = Stage::new();
        let clock = stage.path("clock");
        fs::write(&clock, "+0 x1\n").expect("writes");
        let environment = [
            ("DLOCK_TEST_SERVER_PRELOAD", library()),
            ("FAKETIME_TIMESTAMP_FILE", clock.display().to_string()),
            // Seconds; to look at every call would keep MySQL from anything else.
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        let started = Instant::now();
        Self {
            server: Server::start_in(flavour, &[], &environment),
            clock,
            started,
            _stage: stage,
        }
    }

    /// Sets the clock so many seconds off the right time, from where it runs at this rate. The step is
    /// made when this returns, the rate within a second.
    fn set(&self, off: f64, rate: f64) {
        // The library applies a rate to all of the server's life; the past is taken back.
        let past = (1.0 - rate) * self.started.elapsed().as_secs_f64();
        // Replaced as a whole: the server reads it at any time.
        let new = self.clock.with_extension("new");
        fs::write(&new, format!("{:+.3} x{rate}\n", off + past)).expect("writes");
        fs::rename(&new, &self.clock).expect("renames");
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

/// How far the server's clock is ahead of ours.
fn seconds_off(admin: &mut Conn) -> f64 {
    let server: Option<f64> = admin
        .query_first("SELECT TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))/1e6")
        .expect("the server answers");
    let own = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    server.expect("a number") - own.expect("after 1970").as_secs_f64()
}

/// Where libfaketime is; it can be had wherever the servers can.
fn library() -> String {
    let fetch = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/fetch");
    let found = Command::new(fetch)
        .args(["--path", "libfaketimeMT.so.1"])
        .output()
        .expect("the script runs");
    let why = String::from_utf8_lossy(&found.stderr);
    assert!(found.status.success(), "no libfaketime: {why}");
    String::from_utf8_lossy(&found.stdout).trim().to_owned()
}

/// A holder that is well.
fn holder(scene: &Scene) -> Running {
    scene.holder(scene.exec(scene.database.port).args(TTL))
}

/// Waits until the lease is renewed so many times more, and then has a contender try.
#[track_caller]
fn renewed_and_alone(scene: &Scene, holder: &mut Running, times: u64) {
    let mut admin = scene.database.admin_conn();
    let mut renewals = || -> u64 {
        let row = admin.query_first("SELECT renewals FROM dlock_lock");
        row.expect("the table is there").expect("the row is there")
    };
    let least = renewals() + times;
    eventually("the lease is renewed", || {
        assert!(!holder.is_over(), "the holder has ended: {}", holder.said());
        renewals() >= least
    });
    let once = scene.next(scene.exec(scene.database.port).arg("-n")).wait();
    once.expect(75, "", "init is held by");
}

#[test]
fn the_servers_clock_may_go_wrong_in_any_way_while_the_holder_has_the_gate() {
    let clocked = &Clocked::start(Flavour::MariaDb);
    let scene = clocked.scene("");
    let mut holder = holder(&scene);
    let waiters = [scene.waiter(), scene.waiter()];
    for off in [HOUR, 0.0, -HOUR, 0.0] {
        clocked.set(off, 1.0);
        renewed_and_alone(&scene, &mut holder, 2);
    }
    for rate in [2.0, 0.5] {
        clocked.set(0.0, rate);
        renewed_and_alone(&scene, &mut holder, A_WHOLE_LEASE);
    }
    scene.let_go();
    holder.wait().expect(4, "", "the server's clock was set ");
    for waiter in waiters {
        waiter.wait().expect(0, "alone\n", "init is held by");
    }
    only_a_twin_believes_it(clocked);
}

/// Until the next renewal, which is ten seconds away.
#[test]
fn status_tells_of_a_clock_that_was_set() {
    let clocked = &Clocked::start(Flavour::MariaDb);
    for (off, diagnosis, difference) in [
        (
            HOUR,
            "its process is frozen, or the server's clock was set forward",
            "ahead of",
        ),
        (
            -HOUR,
            "held; the server's clock was set back by 59m ",
            "behind",
        ),
    ] {
        clocked.set(0.0, 1.0);
        let scene = clocked.scene("");
        let dlock = scene.exec(scene.database.port).args(["--ttl", "1m"]);
        let _holder = scene.holder(dlock);
        clocked.set(off, 1.0);
        let status = Dlock::on(&scene.database, ["status", "init"]).run();
        assert!(status.stdout.contains(diagnosis), "{status:?}");
        let told = format!("{difference} this machine's; no lease depends on that");
        status.expect(0, &status.stdout, &told);
    }
}

/// The twin of the claim above: a contender for whom the server's clock is enough.
fn only_a_twin_believes_it(clocked: &Clocked) {
    clocked.set(0.0, 1.0);
    let held = ["", "clock"].map(|without| {
        let scene = clocked.scene(without);
        // It is renewed so seldom that the contender comes before it is.
        let dlock = scene.exec(scene.database.port).args(["--ttl", "1m"]);
        let holder = scene.holder(dlock);
        (scene, holder)
    });
    clocked.set(HOUR, 1.0);
    let verdicts = held.map(|(scene, _holder)| {
        let once = scene.next(scene.exec(scene.database.port).arg("-n"));
        Verdict::of_next(&once.wait())
    });
    assert_eq!(verdicts, [Verdict::Clean, Verdict::TwoAlive]);
}

/// As the manual has it: then a clock that goes forward by more than is left of the lease and 5 s
/// deceives a contender. Nothing else does.
#[test]
fn without_the_gate_the_servers_clock_may_still_go_back_and_forward_by_five_seconds() {
    let clocked = &Clocked::start(Flavour::MariaDb);
    let scene = clocked.scene("");
    let mut holder = holder(&scene);
    let waiters = [scene.waiter(), scene.waiter()];
    scene.take_the_gate_away();
    for off in [5.0, 0.0] {
        clocked.set(off, 1.0);
        renewed_and_alone(&scene, &mut holder, 2);
    }
    a_dead_holder_is_followed_although_the_clock_is_set_back(clocked);
    for rate in [2.0, 0.5] {
        clocked.set(-HOUR, rate);
        renewed_and_alone(&scene, &mut holder, A_WHOLE_LEASE);
    }
    scene.let_go();
    holder.wait().expect(4, "", "the server's clock was set ");
    for waiter in waiters {
        waiter.wait().expect(0, "alone\n", "init is held by");
    }
}

/// The server says for an hour that the lease is live; the contender's own clock says otherwise.
fn a_dead_holder_is_followed_although_the_clock_is_set_back(clocked: &Clocked) {
    let dead = ["KILL", "STOP"].map(|signal| {
        let scene = clocked.scene("");
        let holder = holder(&scene);
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
