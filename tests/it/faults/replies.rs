//! One request of the protocol is lost, or its response is lost, late or cut off, or belongs to another request.

use std::thread;
use std::time::Duration;

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, eventually};
use testkit::command::{read_message, write_message};
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
fn an_attempt_without_a_response_is_retried_and_runs_the_command_once() {
    on_each_case(&faults(), |scene, name, fault| {
        let case = scene.proxy.next(Kind::TryAcquire, fault);
        let running = scene.faulty("holder", &[], "exit 4").start();
        case.wait();
        running.wait_for_output("trying again");
        // By now dlock has opened a new connection.
        case.let_go();
        assert_eq!(running.wait().status, Some(4), "{name}");
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
            let url = scene.database.url_through(scene.proxy.port());
            let dlock = Dlock::new(["exec", "-a", "init"]).args(options);
            let outcome = dlock.args(["--", "true"]).env("DLOCK_URL", url).run();
            case.wait();
            assert_eq!(outcome.status, Some(69), "{flavour}: {outcome:#?}");
            is_released = scene.row("owner_id").is_none();
            if is_released {
                break;
            }
            let free = "UPDATE dlock_lock SET owner_id=NULL";
            scene
                .database
                .admin_conn()
                .query_drop(free)
                .expect("root has the privilege");
        }
        assert!(is_released, "{flavour}: never released");
    });
}

#[test]
fn a_renewal_without_a_response_does_not_affect_the_command() {
    on_each_case(&faults(), |scene, _, fault| {
        let holder = scene.holder(&[]);
        let before = scene.proxy.connections();
        let case = scene.proxy.next(Kind::Renew, fault);
        case.wait();
        scene.proxy.wait_connections(before + 1);
        case.let_go();
        holder.running.wait_for_output("is renewed again");
        holder.unharmed();
        scene.free();
        scene.over(&["holder"]);
    });
}

#[test]
fn a_release_without_a_response_does_not_change_the_status() {
    on_each_case(&faults(), |scene, _, fault| {
        let case = scene.proxy.next(Kind::Release, fault);
        let outcome = scene.faulty("holder", &[], "exit 4").run();
        outcome.expect(4, "", "");
        case.wait();
        case.let_go();
        scene.free();
        scene.over(&["holder"]);
    });
}

#[test]
fn a_lost_hand_off_delays_no_waiter_and_every_run_is_recorded() {
    on_each_case(&faults(), |scene, name, fault| {
        let first = scene.holder(&[]);
        let case = scene.proxy.next(Kind::Handoff, fault);
        let second = scene.exec("second", &["--ttl", "10m"], "exit 5").start();
        scene.queued();
        scene.renewed();
        first.unharmed();
        case.wait();
        case.let_go();
        assert_eq!(second.wait().status, Some(5), "{name}");
        scene.over(&["holder", "second"]);
        scene.free();
        let runs = runs(&scene.database, &["--number", "2"]);
        let mut outcomes = endings(&runs);
        outcomes.sort_unstable();
        assert_eq!(
            outcomes,
            [("exited", Some(4)), ("exited", Some(5))],
            "{name}"
        );
    });
}

#[test]
fn a_waiter_that_loses_a_request_or_response_still_gets_the_lock() {
    on_each_case(&faults(), |scene, name, fault| {
        for kind in [Kind::TryAcquire, Kind::Get] {
            let holder = scene.holder(&[]);
            let before = scene.proxy.connections();
            let case = scene.proxy.next(kind, fault.clone());
            let waiter = scene.faulty("waiter", &[], "exit 5").start();
            case.wait();
            scene.proxy.wait_connections(before + 2);
            case.let_go();
            holder.unharmed();
            assert_eq!(waiter.wait().status, Some(5), "{name}, {kind:?}");
        }
        scene.over(&["holder", "waiter"].repeat(2));
    });
}

#[test]
fn a_queue_entry_of_a_holder_is_not_shown_and_ends_with_the_release() {
    on_each_case(&faults(), |scene, name, fault| {
        let first = scene.holder(&[]);
        let (ready, go) = (scene.stage.fifo("up"), scene.stage.fifo("go"));
        let script = r#"echo up > "$4"; read -r word < "$3"; exit 5"#;
        let waiter = scene.faulty("waiter", &[], script);
        let waiter = waiter.arg(&go).arg(&ready).start();
        scene.proxy.wait_asked(Kind::WaitTurn, 1);
        first.unharmed();
        read_message(&ready);
        let status = Dlock::on(&scene.database, ["status", "--json", "init"]).run();
        let status: serde_json::Value =
            serde_json::from_str(&status.stdout).expect("the output is JSON");
        assert_eq!(
            status["locks"][0]["waiters"],
            serde_json::json!([]),
            "{name}"
        );
        let case = scene.proxy.next(Kind::Release, fault);
        write_message(&go, "on");
        case.wait();
        case.let_go();
        assert_eq!(waiter.wait().status, Some(5), "{name}");
        scene.free();
        scene.queue_is_empty();
        scene.over(&["holder", "waiter"]);
    });
}

#[test]
fn a_lost_wake_up_delays_the_queue_by_at_most_one_lease() {
    // The server detects the other faults immediately and ends the session.
    on_each_case(&faults()[..3], |scene, name, fault| {
        let holder = scene.holder(&[]);
        let case = scene.proxy.next(Kind::WaitTurn, fault);
        let options = ["--ttl", "3s"];
        let waiter = scene.faulty("waiter", &options, "exit 5").start();
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
    let late = |flavour, kind| {
        println!("{flavour}, {kind:?}");
        let scene = Scene::new(flavour);
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
        scene.renewed();
        scene.renewed();
        assert_eq!(scene.row("owner_id"), owner_id, "{flavour}, {kind:?}");
        second.unharmed();
        scene.over(&["holder", "holder"]);
    };
    on_each(|flavour| {
        thread::scope(|scope| {
            for kind in [Kind::TryAcquire, Kind::Renew, Kind::Release] {
                scope.spawn(move || late(flavour, kind));
            }
        });
    });
}

#[test]
fn an_attempt_that_arrives_late_blocks_for_at_most_one_lease() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let case = scene.proxy.every(Kind::TryAcquire, Fault::HoldRequest);
        let options = ["--ttl", "3s", "--connect-timeout", "2s"];
        let outcome = scene.faulty("holder", &options, "").run();
        outcome.expect(69, "", "gave up");
        case.wait();
        case.let_go();
        eventually("the attempt arrives", || scene.row("owner_id").is_some());
        let outcome = scene.contender().wait();
        outcome.expect(0, "", "is held by");
        scene.over(&["contender"]);
    });
}

#[test]
fn a_response_to_another_request_is_never_accepted() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        // Records the response to an attempt and the response to a release, to replay these responses later.
        let [grant, release] = [Kind::TryAcquire, Kind::Release]
            .map(|kind| scene.proxy.next(kind, Fault::Drip(Duration::ZERO)));
        scene.faulty("holder", &[], "").run().expect(0, "", "");
        let holder = scene.exec("owner", &[], "read -r word < \"$3\"");
        let go = scene.stage.fifo("owner");
        let holder = holder.arg(&go).start();
        eventually("the owner runs", || scene.witness().contains("owner"));
        scene
            .proxy
            .every(Kind::TryAcquire, Fault::Respond(grant.response()));
        let options = ["--wait", "0", "--connect-timeout", "0"];
        let outcome = scene.faulty("thief", &options, "").run();
        assert_eq!(outcome.status, Some(69), "{flavour}: {outcome:#?}");
        write_message(&go, "on");
        holder.wait().expect(0, "", "");

        let other = Scene::new(flavour);
        let holder = other.holder(&[]);
        let replay = Fault::Respond(release.response());
        let case = other.proxy.next(Kind::Release, replay);
        holder.unharmed();
        case.wait();
        other.free();
        scene.over(&["holder", "owner"]);
    });
}
