//! Tests of a committed grant whose response does not arrive or is an error.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use testkit::cli_runner::{Dlock, eventually};
use testkit::holder::status;
use testkit::proxy::{AcceptMode, Case, Fault, Kind, error_packet};

use super::no_overlap;
use crate::faults::{Scene, on_each, on_each_case};

/// An SQL expression for the name of the queue lock of the row's action.
const QUEUE_LOCK: &str =
    "CONCAT('dlock:',LEFT(SHA2(CONCAT(CAST(DATABASE() AS BINARY),x'00',action),256),40))";

/// Lets the server execute the next attempt to acquire, sends `response` to the client instead of the server's
/// response, and makes the proxy refuse new connections.
fn grant_and_shut(scene: &Scene, response: Vec<u8>) -> Case {
    let proxy = scene.proxy.clone();
    let alter = Arc::new(move |_: &[u8]| {
        proxy.door(AcceptMode::Refused);
        response.clone()
    });
    scene.proxy.next(Kind::TryAcquire, Fault::Alter(alter))
}

/// A contender that receives an error instead of its grant reconnects shortly before the granted lease expires. The
/// contender must not treat the row with its owner id as a new grant, because a rival takes the lease over when it has
/// expired by the server's clock.
#[test]
fn error_response_to_a_grant_never_starts_a_command_on_an_old_lease() {
    let errors = [
        ("not in the cluster", 1047),
        ("a proxy's error", 1105),
        ("lock wait", 1205),
        ("deadlock", 1213),
        ("read-only", 1290),
        ("killed query", 1317),
    ];
    on_each_case(&errors, |scene, name, code| {
        let granted = grant_and_shut(scene, error_packet(code, "an error after the commit"));
        let lost = scene.proxy.every(Kind::Renew, Fault::LoseRequest);
        let go = scene.stage.fifo("go");
        // The test and the command open the fifo for reading and writing, so neither of them blocks in `open`.
        let go_on = File::options().read(true).write(true).open(&go);
        let mut go_on = go_on.expect("the fifo can be opened");
        let script = r#"trap '' TERM; exec 8<>"$3"; read -r word <&8; exit 4"#;
        let late = scene.faulty("late", &["--connect-timeout", "1m"], script);
        let late = late.arg(&go).start();
        granted.wait();
        let rival = scene.contender();
        // A waiter is the queue head.
        scene.database.wait_until(format!(
            "COUNT(*)=1 FROM dlock_waiter WHERE session_id=IS_USED_LOCK({QUEUE_LOCK}) AND polls=0"
        ));
        // The lease has nearly expired.
        let nearly = "expires_at<UTC_TIMESTAMP(6)+INTERVAL 3500000 MICROSECOND FROM dlock_lock";
        scene.database.wait_until(nearly);
        scene.proxy.door(AcceptMode::Open);
        assert_eq!(rival.wait().status, Some(0), "{name}");
        no_overlap(scene, name);
        lost.lift();
        // A contender that cannot confirm the grant releases the old lease, and may then be granted a new lease before
        // the rival. This lease also expires, because the proxy drops the renewals.
        writeln!(go_on, "on").expect("the fifo accepts a line");
        let status = late.wait().status;
        assert!([Some(4), Some(76)].contains(&status), "{name}: {status:?}");
        no_overlap(scene, name);
    });
}

/// The lease is revoked as an operator does, before the contender has received the response. Then the server returns.
#[test]
fn contender_whose_unknown_grant_was_revoked_limits_its_requests_and_is_granted_again() {
    const SECONDS: usize = 3;
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let granted = grant_and_shut(&scene, Vec::new());
        let late = scene.faulty("late", &["--connect-timeout", "1m"], "exit 4");
        let mut late = late.start();
        granted.wait();
        let release = Dlock::typed(&scene.database, "release -a init --yes");
        release.run().exited(0);

        let before = scene.proxy.asked_in_all();
        scene.proxy.door(AcceptMode::Open);
        scene.proxy.wait_asked(Kind::TryAcquire, 2);
        let next = scene.exec("next", &["--wait", "20s"], "").start();
        let end = Instant::now() + Duration::from_secs(SECONDS as u64);
        eventually("the measurement has ended", || {
            late.is_over() || Instant::now() >= end
        });
        let sent = scene.proxy.asked_in_all() - before;
        let limit = 10 * SECONDS;
        assert!(sent <= limit, "{flavour}: {sent} requests in {SECONDS} s");
        let next = next.wait();
        assert_eq!(next.status, Some(0), "{flavour}: {next:#?}");
        assert_eq!(late.wait().status, Some(4), "{flavour}");
        no_overlap(&scene, "after a release");
        scene.free();
    });
}

#[test]
fn holder_whose_grant_response_was_lost_hands_over_to_a_waiter() {
    let cases = [
        ("the response", &[Fault::LoseResponse][..]),
        ("the response and the connection", &[Fault::ResetAfter]),
        (
            "also the response of the renewal that confirms the grant",
            &[Fault::ResetAfter, Fault::ResetAfter],
        ),
    ];
    on_each_case(&cases, |scene, name, faults| {
        for (kind, fault) in [Kind::TryAcquire, Kind::Renew].into_iter().zip(faults) {
            scene.proxy.next(kind, fault.clone());
        }
        let holder = scene.holder(&["--ttl", "10m"]);
        let began = Instant::now();
        let lock = status(&scene.database);
        assert_eq!(lock["session_alive"], true, "{name}: {lock}");
        let has_queue_lock: Option<u64> = scene.database.value(format!(
            "SELECT has_queue_lock=1 AND session_id=IS_USED_LOCK({QUEUE_LOCK}) FROM dlock_lock"
        ));
        assert_eq!(has_queue_lock, Some(1), "{name}");
        let contender = scene.contender();
        scene.queued();
        let polls: u64 = scene.database.value("SELECT MAX(polls) FROM dlock_waiter");
        assert_eq!(polls, 0, "{name}: the contender polls");
        eventually("the run is long enough for a hand-off", || {
            began.elapsed() >= Duration::from_millis(300)
        });
        // Only the hand-off can start the contender, because the proxy holds the release until the contender has ended.
        let release = scene.proxy.every(Kind::Release, Fault::HoldRequest);
        holder.stage.let_go("on");
        release.wait();
        assert_eq!(contender.wait().status, Some(0), "{name}");
        release.let_go();
        assert_eq!(holder.running.wait().status, Some(4), "{name}");
        scene.over(&["holder", "contender"]);
    });
}

#[test]
fn time_limits_hold_while_the_outcome_of_a_grant_is_unknown() {
    /// The longest time limit of the cases, which is one second, plus time for a busy machine.
    const LIMIT: Duration = Duration::from_secs(5);
    let cases = [
        ("--wait", ["--wait", "1s"].as_slice()),
        ("--nonblock", &["-n"]),
        ("--connect-timeout", &["--connect-timeout", "1s"]),
    ];
    on_each_case(&cases, |scene, name, options| {
        if name == "--connect-timeout" {
            // The client gets no response.
            grant_and_shut(scene, Vec::new());
        } else {
            // The client can reconnect, but the renewal that confirms the grant gets no response.
            scene.proxy.next(Kind::TryAcquire, Fault::ResetAfter);
            scene.proxy.every(Kind::Renew, Fault::LoseRequest);
        }
        let mut late = scene.faulty("late", options, "").start();
        scene.proxy.wait_asked(Kind::TryAcquire, 1);
        let until = Instant::now() + LIMIT;
        eventually("dlock ends or the limit is over", || {
            late.is_over() || Instant::now() >= until
        });
        assert!(late.is_over(), "{name}: dlock still runs after {LIMIT:?}");
        let outcome = late.wait();
        let is_limit = matches!(outcome.status, Some(69 | 75));
        assert!(is_limit, "{name}: {outcome:#?}");
        scene.over(&[]);
    });
}
