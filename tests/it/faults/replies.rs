//! One request of the protocol is lost, or its response is lost, late or cut off, or belongs to another request.

use std::time::Duration;

use testkit::cli_runner::eventually;
use testkit::holder::{status, wait_renewals};
use testkit::proxy::{Fault, Kind};

use super::{Scene, on_each, on_each_case};
use crate::history::{endings, runs};

/// Returns all faults that can affect one request or its response, with their names.
fn faults() -> [(&'static str, Fault); 6] {
    [
        ("the request is lost", Fault::LoseRequest),
        ("the response is lost", Fault::LoseResponse),
        ("the response comes late", Fault::HoldResponse),
        ("reset before the request", Fault::Reset),
        ("reset after the request", Fault::ResetAfter),
        ("the response is cut off", Fault::Truncate(9)),
    ]
}

#[test]
fn a_request_without_a_response_is_retried_and_does_not_affect_the_command() {
    on_each_case(&faults(), |scene, name, fault| {
        let attempt = scene.proxy.next(Kind::TryAcquire, fault.clone());
        let holder = scene.start("holder", &[], "");
        attempt.wait();
        holder.running.wait_for_output("trying again");
        // By now dlock has opened a new connection.
        attempt.let_go();
        let holder = holder.up();

        let connections = scene.proxy.connections();
        let renewal = scene.proxy.next(Kind::Renew, fault.clone());
        renewal.wait();
        scene.proxy.wait_connections(connections + 1);
        renewal.let_go();
        holder.running.wait_for_output("is renewed again");

        let stderr = holder.running.stderr_so_far();
        let release = scene.proxy.next(Kind::Release, fault);
        let outcome = holder.end();
        outcome.expect(4, "", &stderr);
        assert_eq!(outcome.stderr, stderr, "{name}: the release prints nothing");
        release.wait();
        release.let_go();
        scene.free();
        scene.over(&["holder"]);
    });
}

#[test]
fn giving_up_after_a_lost_response_releases_the_grant() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        // With this ttl the lease does not expire during the test.
        let options = ["--ttl", "10m", "--wait", "0", "--connect-timeout", "0"];
        let mut is_released = false;
        // dlock has 60 ms for the release, which is sometimes too short on a busy machine.
        for _ in 0..10 {
            let case = scene.proxy.next(Kind::TryAcquire, Fault::ResetAfter);
            let outcome = scene.faulty("nobody", &options, "").run();
            case.wait();
            assert_eq!(outcome.status, Some(69), "{flavour}: {outcome:#?}");
            is_released = scene.row("owner_id").is_none();
            if is_released {
                break;
            }
            scene.database.run("UPDATE dlock_lock SET owner_id=NULL");
        }
        assert!(is_released, "{flavour}: never released");
    });
}

#[test]
fn a_lost_hand_off_delays_no_waiter_and_every_run_is_recorded() {
    on_each_case(&faults(), |scene, name, fault| {
        let first = scene.holder(&[]);
        let case = scene.proxy.next(Kind::Handoff, fault);
        let second = scene.exec("second", &["--ttl", "10m"], "exit 5").start();
        scene.queued();
        // The holder has read the waiter with the first of these renewals.
        wait_renewals(&scene.database, 2);
        first.unharmed();
        case.wait();
        case.let_go();
        assert_eq!(second.wait().status, Some(5), "{name}");
        scene.over(&["holder", "second"]);
        scene.free();
        let runs = runs(&scene.database, &["--number", "2"]);
        let mut outcomes = endings(&runs);
        outcomes.sort_unstable();
        let exited = |status| ("exited", Some(status));
        assert_eq!(outcomes, [exited(4), exited(5)], "{name}");
    });
}

/// The queue entry of a waiter remains while it holds the lock.
#[test]
fn a_waiter_that_loses_requests_gets_the_lock_and_its_entry_ends_with_the_release() {
    on_each_case(&faults(), |scene, name, fault| {
        let first = scene.holder(&[]);
        let mut connections = scene.proxy.connections() + 1;
        let lost = [Kind::TryAcquire, Kind::Get].map(|kind| scene.proxy.next(kind, fault.clone()));
        let waiter = scene.start("waiter", &[], "");
        for case in lost {
            case.wait();
            connections += 1;
            scene.proxy.wait_connections(connections);
            case.let_go();
        }
        scene.proxy.wait_asked(Kind::WaitTurn, 1);
        first.unharmed();
        let waiter = waiter.up();
        let shown = status(&scene.database)["waiters"].clone();
        assert_eq!(shown, serde_json::json!([]), "{name}");
        let release = scene.proxy.next(Kind::Release, fault);
        let outcome = waiter.end();
        release.wait();
        release.let_go();
        assert_eq!(outcome.status, Some(4), "{name}: {outcome:#?}");
        scene.free();
        let entries: u64 = scene.database.value("SELECT COUNT(*) FROM dlock_waiter");
        assert_eq!(entries, 0, "{name}");
        scene.over(&["holder", "waiter"]);
    });
}

#[test]
fn a_lost_wake_up_delays_the_queue_by_at_most_one_lease() {
    // The server detects the other faults immediately and ends the session.
    on_each_case(&faults()[..3], |scene, name, fault| {
        let holder = scene.holder(&[]);
        let case = scene.proxy.next(Kind::WaitTurn, fault);
        let waiter = scene.faulty("waiter", &["--ttl", "3s"], "exit 5").start();
        scene.proxy.wait_asked(Kind::WaitTurn, 1);
        holder.unharmed();
        case.wait();
        assert_eq!(scene.contender().wait().status, Some(0), "{name}");
        // The waiter cannot detect the fault while the proxy keeps the connection open without a response.
        case.let_go();
        assert_eq!(waiter.wait().status, Some(5), "{name}");
        assert!(!scene.witness().contains("overlap"), "{name}");
    });
}

#[test]
fn a_request_that_arrives_late_does_not_affect_the_next_holder() {
    let kinds = [
        ("attempt", Kind::TryAcquire),
        ("renewal", Kind::Renew),
        ("release", Kind::Release),
    ];
    on_each_case(&kinds, |scene, name, kind| {
        let case = scene.proxy.next(kind, Fault::HoldRequest);
        let first = scene.holder(&[]);
        if kind == Kind::Renew {
            case.wait();
            first.running.wait_for_output("is renewed again");
        }
        first.unharmed();
        case.wait();
        let second = scene.holder(&[]);
        let owner_id = scene.row("owner_id");
        case.let_go();
        wait_renewals(&scene.database, 2);
        assert_eq!(scene.row("owner_id"), owner_id, "{name}");
        second.unharmed();
        scene.over(&["holder", "holder"]);
    });
}

#[test]
fn an_attempt_that_arrives_late_blocks_for_at_most_one_lease() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let case = scene.proxy.every(Kind::TryAcquire, Fault::HoldRequest);
        // dlock tries for a moment to release a lease that it may have been granted, and does not wait for the response. On a
        // busy machine, this release could arrive after the attempt and end the lease.
        scene.proxy.every(Kind::Release, Fault::LoseRequest);
        let options = ["--ttl", "15s", "--connect-timeout", "2s"];
        let outcome = scene.faulty("holder", &options, "").run();
        outcome.expect(69, "", "gave up");
        case.wait();
        case.let_go();
        eventually("the attempt arrives", || scene.row("owner_id").is_some());
        scene.contender().wait().expect(0, "", "is held by");
        scene.over(&["contender"]);
    });
}

#[test]
fn a_response_to_another_request_is_never_accepted() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        // Records the response to an attempt and the response to a release, to replay these responses later.
        let record = |kind| scene.proxy.next(kind, Fault::Drip(Duration::ZERO));
        let [grant, release] = [Kind::TryAcquire, Kind::Release].map(record);
        scene.faulty("holder", &[], "").expect(0, "", "");
        let owner = scene.start("owner", &[], "").up();
        let replay = Fault::Respond(grant.response());
        let replayed = scene.proxy.every(Kind::TryAcquire, replay);
        let options = ["--wait", "0", "--connect-timeout", "0"];
        scene.faulty("thief", &options, "").run().exited(69);
        replayed.lift();
        owner.unharmed();

        let holder = scene.holder(&[]);
        let replay = Fault::Respond(release.response());
        let replayed = scene.proxy.next(Kind::Release, replay);
        holder.unharmed();
        replayed.wait();
        scene.free();
        scene.over(&["holder", "owner", "holder"]);
    });
}
