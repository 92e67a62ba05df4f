//! Tests that messages report what has happened: no wrong cause, no wrong next step, and one message for one event.

use std::fs;

use testkit::cli_runner::{Dlock, Outcome};
use testkit::command::Stage;
use testkit::holder::Holder;
use testkit::servers::{Database, Flavour, shared};

fn release(database: &Database, options: &[&str]) -> Outcome {
    Dlock::on(database, ["release", "-a", "init", "--yes"])
        .args(options)
        .run()
}

#[test]
fn released_holder_reads_one_message_and_nobody_is_next_while_the_action_is_paused() {
    let database = shared(Flavour::of_this_test()).database("true_messages");
    let holder = Holder::on(&database, &["--holder=web-1"]);
    let released = release(&database, &["--operator=eve", "--reason=stuck"]);
    assert_eq!(released.status, Some(0), "{released:#?}");
    let outcome = holder.running.wait();
    assert_eq!(outcome.status, Some(76), "{outcome:#?}");
    let message = "dlock: lost init: released by eve (reason: stuck); stopping the command \
         (exit status 76; see dlock explain 76)\n";
    assert_eq!(outcome.stderr, message);

    release(&database, &["--pause=1h", "--operator=eve"]);
    let waiter = ["exec", "-a", "init", "-w", "50ms", "--", "true"];
    let outcome = Dlock::on(&database, waiter).expect(75, "", "init is paused for another 59m");
    assert!(!outcome.stderr.contains("next"), "{outcome:#?}");
}

#[test]
fn missing_heartbeat_is_reported_with_its_cause() {
    let database = shared(Flavour::of_this_test()).database("true_messages");
    let stage = Stage::new();
    fs::write(stage.path("old"), "").expect("the file can be written");
    let missing = "cannot be read: No such file or directory (os error 2)";
    let causes = [("old", "does not change"), ("missing", missing)];
    let holders = causes.map(|(name, _)| {
        let (action, file) = (format!("--action={name}"), stage.path(name));
        let file = format!("--heartbeat-file={}", file.display());
        Holder::on(&database, &[&action, "--ttl=6s", &file])
    });
    for (holder, (name, cause)) in holders.into_iter().zip(causes) {
        let outcome = holder.running.wait();
        assert_eq!(outcome.status, Some(76), "{outcome:#?}");
        let file = stage.path(name);
        let message = format!(
            "dlock: cannot keep {name}: no heartbeat, because {} {cause}; stopping the command \
             (exit status 76; see dlock explain 76)\n",
            file.display()
        );
        assert_eq!(outcome.stderr, message);
    }
}
