//! One question of the protocol is lost, or its reply is lost, late, cut in the middle or somebody else's.

use std::thread;
use std::time::Duration;

use mysql::prelude::Queryable;

use super::{Scene, on_each, on_each_case};
use crate::command::{heard, tell};
use crate::dlock::{Dlock, eventually};
use crate::history::{endings, runs};
use crate::proxy::{Fault, Kind};

/// All that can happen to one question, by name.
fn faults() -> [(&'static str, Fault); 6] {
    [
        ("the request is lost", Fault::LoseRequest),
        ("the reply is lost", Fault::LoseReply),
        ("the reply comes late", Fault::HoldReply),
        ("reset before it", Fault::Reset),
        ("reset after it", Fault::ResetAfter),
        ("the reply is cut off", Fault::Truncate(9)),
    ]
}

#[test]
fn an_attempt_whose_reply_is_lost_is_made_again_and_runs_the_command_once() {
    on_each_case(&faults(), |scene, name, fault| {
        let case = scene.proxy.next(Kind::Attempt, fault);
        let running = scene.faulty("holder", &[], "exit 4").start();
        case.wait();
        running.heard("trying again");
        // By now it has given the connection up for another.
        case.let_go();
        assert_eq!(running.wait().status, Some(4), "{name}");
        scene.free();
        scene.over(&["holder"]);
    });
}

#[test]
fn whoever_gives_up_after_a_lost_reply_gives_back_what_it_was_granted() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        // A lease that would hold up everybody for longer than this test has patience.
        let options = ["--ttl", "10m", "--wait", "0", "--db-wait", "0"];
        let mut given_back = false;
        // It has 60 ms for that, which a busy machine may not give it every time.
        for _ in 0..10 {
            let case = scene.proxy.next(Kind::Attempt, Fault::ResetAfter);
            let url = scene.database.url_through(scene.proxy.port());
            let dlock = Dlock::new(["exec", "-a", "init"]).args(options);
            let outcome = dlock.args(["--", "true"]).env("DLOCK_URL", url).run();
            case.wait();
            assert_eq!(outcome.status, Some(69), "{flavour}: {outcome:#?}");
            given_back = scene.row("claim").is_none();
            if given_back {
                break;
            }
            let free = "UPDATE dlock_lock SET claim=NULL";
            scene
                .database
                .admin_conn()
                .query_drop(free)
                .expect("root may");
        }
        assert!(given_back, "{flavour}: never");
    });
}

#[test]
fn a_renewal_that_is_lost_or_whose_reply_is_never_touches_the_command() {
    on_each_case(&faults(), |scene, _, fault| {
        let holder = scene.holder(&[]);
        let before = scene.proxy.connections();
        let case = scene.proxy.next(Kind::Renew, fault);
        case.wait();
        scene.proxy.wait_connections(before + 1);
        case.let_go();
        holder.running.heard("is renewed again");
        holder.unharmed();
        scene.free();
        scene.over(&["holder"]);
    });
}

#[test]
fn a_release_that_is_lost_or_whose_reply_is_changes_neither_the_status_nor_who_runs() {
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
fn a_notice_that_is_lost_or_whose_reply_is_holds_nobody_up_and_every_run_is_recorded() {
    on_each_case(&faults(), |scene, name, fault| {
        let first = scene.holder(&[]);
        let case = scene.proxy.next(Kind::Notice, fault);
        let second = scene.exec("second", &["--ttl", "10m"], "exit 5").start();
        scene.queued();
        scene.renewed();
        first.unharmed();
        case.wait();
        case.let_go();
        assert_eq!(second.wait().status, Some(5), "{name}");
        scene.over(&["holder", "second"]);
        scene.free();
        let runs = runs(&scene.database, &["-n", "2"]);
        let mut endings = endings(&runs);
        endings.sort_unstable();
        assert_eq!(
            endings,
            [("exited", Some(4)), ("exited", Some(5))],
            "{name}"
        );
    });
}

#[test]
fn a_waiter_that_loses_a_question_or_its_reply_gets_the_lock_in_the_end() {
    on_each_case(&faults(), |scene, name, fault| {
        for kind in [Kind::Attempt, Kind::Look] {
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
fn the_queue_entry_of_a_holder_does_not_count_and_goes_with_the_release_whatever_that_meets() {
    on_each_case(&faults(), |scene, name, fault| {
        let first = scene.holder(&[]);
        let (ready, go) = (scene.stage.fifo("up"), scene.stage.fifo("go"));
        let script = r#"echo up > "$4"; read -r word < "$3"; exit 5"#;
        let waiter = scene.faulty("waiter", &[], script);
        let waiter = waiter.arg(&go).arg(&ready).start();
        scene.proxy.wait_asked(Kind::Stand, 1);
        first.unharmed();
        heard(&ready);
        let status = Dlock::on(&scene.database, ["status", "--json", "init"]).run();
        let line: serde_json::Value = serde_json::from_str(&status.stdout).expect("JSON");
        assert_eq!(line["locks"][0]["waiters"], serde_json::json!([]), "{name}");
        let case = scene.proxy.next(Kind::Release, fault);
        tell(&go, "on");
        case.wait();
        case.let_go();
        assert_eq!(waiter.wait().status, Some(5), "{name}");
        scene.free();
        scene.nobody_waits();
        scene.over(&["holder", "waiter"]);
    });
}

#[test]
fn a_waiter_whose_wake_up_is_lost_holds_up_the_line_for_no_longer_than_its_lease() {
    // Of the other faults the server learns at once, and ends the session.
    on_each_case(&faults()[..3], |scene, name, fault| {
        let holder = scene.holder(&[]);
        let case = scene.proxy.next(Kind::Stand, fault);
        let options = ["--ttl", "3s"];
        let waiter = scene.faulty("waiter", &options, "exit 5").start();
        scene.proxy.wait_asked(Kind::Stand, 1);
        holder.unharmed();
        case.wait();
        assert_eq!(scene.contender().wait().status, Some(0), "{name}");
        // As long as the connection is kept up by whoever swallows the reply, the waiter cannot know.
        case.let_go();
        assert_eq!(waiter.wait().status, Some(5), "{name}");
        assert!(!scene.witness().contains("overlap"), "{name}");
    });
}

#[test]
fn a_request_that_arrives_when_its_sender_has_given_up_changes_nothing_for_the_next() {
    let late = |flavour, kind| {
        println!("{flavour}, {kind:?}");
        let scene = Scene::new(flavour);
        let case = scene.proxy.next(kind, Fault::HoldRequest);
        let first = scene.holder(&[]);
        if kind == Kind::Renew {
            case.wait();
            first.running.heard("is renewed again");
        }
        first.unharmed();
        case.wait();
        let second = scene.holder(&[]);
        let claim = scene.row("claim");
        case.let_go();
        scene.renewed();
        scene.renewed();
        assert_eq!(scene.row("claim"), claim, "{flavour}, {kind:?}");
        second.unharmed();
        scene.over(&["holder", "holder"]);
    };
    on_each(|flavour| {
        thread::scope(|scope| {
            for kind in [Kind::Attempt, Kind::Renew, Kind::Release] {
                scope.spawn(move || late(flavour, kind));
            }
        });
    });
}

#[test]
fn an_attempt_that_arrives_when_its_sender_is_gone_holds_nobody_up_for_longer_than_a_lease() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        let case = scene.proxy.every(Kind::Attempt, Fault::HoldRequest);
        let options = ["--ttl", "3s", "--db-wait", "2s"];
        let outcome = scene.faulty("holder", &options, "").run();
        outcome.expect(69, "", "gave up");
        case.wait();
        case.let_go();
        eventually("it arrives", || scene.row("claim").is_some());
        let outcome = scene.contender().wait();
        outcome.expect(0, "", "is held by");
        scene.over(&["contender"]);
    });
}

#[test]
fn the_reply_to_another_question_is_never_taken_for_the_answer() {
    on_each(|flavour| {
        let scene = Scene::new(flavour);
        // A grant and a release that were true once, recorded and played again.
        let [grant, release] = [Kind::Attempt, Kind::Release]
            .map(|kind| scene.proxy.next(kind, Fault::Drip(Duration::ZERO)));
        scene.faulty("holder", &[], "").run().expect(0, "", "");
        let holder = scene.exec("owner", &[], "read -r word < \"$3\"");
        let go = scene.stage.fifo("owner");
        let holder = holder.arg(&go).start();
        eventually("the owner runs", || scene.witness().contains("owner"));
        scene
            .proxy
            .every(Kind::Attempt, Fault::Answer(grant.reply()));
        let options = ["--wait", "0", "--db-wait", "0"];
        let outcome = scene.faulty("thief", &options, "").run();
        assert_eq!(outcome.status, Some(69), "{flavour}: {outcome:#?}");
        tell(&go, "on");
        holder.wait().expect(0, "", "");

        let other = Scene::new(flavour);
        let holder = other.holder(&[]);
        let answer = Fault::Answer(release.reply());
        let case = other.proxy.next(Kind::Release, answer);
        holder.unharmed();
        case.wait();
        other.free();
        scene.over(&["holder", "owner"]);
    });
}
