//! Processes and options that `dlock hold --pid` refuses, and its time limits.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::cli_runner::{Dlock, eventually};

use super::{Bystander, DLOCK, Script, database, is_free, runs, shell};

#[test]
fn processes_that_dlock_must_not_stop_and_contradicting_options_are_refused() {
    let database = database();
    let mut ended = Command::new("true").spawn().expect("true can be started");
    let gone = ended.id().to_string();
    ended.wait().expect("true ends");
    for (pid, why) in [
        ("1", "dlock cannot stop process 1"),
        (gone.as_str(), "there is no such process"),
        ("0", "0 is not in"),
        ("x", "invalid"),
    ] {
        let outcome = Dlock::on(&database, ["hold", "init", "--pid", pid]).run();
        outcome.expect(64, "(exit 64)\n", why);
    }
    // The shell becomes dlock, so its id is the one of dlock.
    let own = r#"exec "$dlock" hold init --pid $$"#;
    let outcome = shell(&database.url(), own).run();
    outcome.expect(64, "(exit 64)\n", "the process is dlock itself");
    // Options for another kind of hold.
    for (options, why) in [
        (&["--json", "--pid=2"][..], "cannot be used with"),
        (&["--on-lost=report"], "--pid"),
    ] {
        let outcome = Dlock::on(&database, ["hold", "init"]).args(options).run();
        outcome.expect(64, &outcome.stdout, why);
    }
}

#[test]
fn process_of_another_user_is_only_watched() {
    let database = database();
    database.set_up();
    let root = Bystander::start(&mut Command::new("sleep"));
    let hold = |options: &[&str], stderr: Stdio| {
        let program = ["--reuid=65534", "--clear-groups", DLOCK, "hold", "init"];
        Dlock::of(Path::new("setpriv"), program)
            .args(["--pid", &root.0.id().to_string()])
            .args(options)
            .env("DLOCK_URL", database.url())
            .stderr(stderr)
            .run()
    };
    hold(&[], Stdio::piped()).expect(64, "(exit 64)\n", "the process belongs to another user");
    assert!(is_free(&database));
    hold(&["--on-lost=report"], Stdio::null()).exited(0);
    assert!(!is_free(&database));
    drop(root);
}

#[test]
fn script_that_runs_for_too_long_is_stopped() {
    let database = database();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = folder.path().join("state");
    let options = format!(
        "--ttl=60s --grace=1s --max-runtime=1s --state-file={}",
        state.display()
    );
    let script = Script::start(&database, &options);
    let witness = script.witness;
    eventually("the file shows the lock", || {
        fs::read_to_string(&state).is_ok_and(|text| text.contains(&script.token))
    });
    let outcome = script.running.wait();
    assert!(!state.exists());
    let why = "init has run for 1s; stopping process ";
    assert!(outcome.stderr.contains(why), "{outcome:?}");
    assert!(witness.is_alone());
    assert!(is_free(&database));
    assert_eq!(runs(&database, &[])[1]["code"], 124);
}
