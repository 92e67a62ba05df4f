//! Tests of the deploy scripts.

use std::path::Path;

use testkit::cli_runner::Dlock;
use testkit::command::{read_message, write_message};

use super::{Host, IN_SLOT, JOB, path};

/// Returns a run of the script that deploys `release`, as an operator would start the script.
fn deployment(host: &Host, release: &str) -> Dlock {
    run_of(host, "self-locking.sh", release)
}

fn run_of(host: &Host, script: &str, argument: &str) -> Dlock {
    run_with(host, script, &[argument])
}

/// Returns a run of the example `script` with `arguments`.
fn run_with(host: &Host, script: &str, arguments: &[&str]) -> Dlock {
    let script = path(script).display().to_string();
    let variables = [("DLOCK_URL", host.database.url())];
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let words = [script.as_str()]
        .into_iter()
        .chain(arguments.iter().copied());
    host.starts(&variables, words)
}

/// Script of a deployment step that writes to the fifo `ready`, waits for a word from the fifo `go`, and logs its start
/// and its end.
const SWITCH: &str =
    r#"echo "switching $1" >> log; echo up > ready; read word < go; echo "switched $1" >> log"#;

#[test]
fn two_deployments_run_one_after_the_other() {
    let host = &Host::of_this_test();
    host.job("switch.sh", SWITCH);
    let [ready, go] = ["ready", "go"].map(|name| host.stage.path(name));
    let first = deployment(host, "42").start();
    read_message(&ready);
    let second = deployment(host, "41").start();
    second.wait_for_output("deploy is held by ");
    write_message(&go, "on");
    read_message(&ready);
    write_message(&go, "on");
    for (deployment, release) in [(first, "42"), (second, "41")] {
        let outcome = deployment.wait();
        assert_eq!(outcome.status, Some(0), "{outcome:#?}");
        let stdout = outcome.stdout;
        assert!(
            stdout.contains(&format!("\ndeployed {release}\n")),
            "{stdout}"
        );
    }
    let wanted = ["switching 42", "switched 42", "switching 41", "switched 41"];
    assert_eq!(host.log(), wanted);
}

#[test]
fn status_shows_the_release_that_is_deployed() {
    let host = &Host::of_this_test();
    host.job("switch.sh", SWITCH);
    let first = deployment(host, "42").start();
    read_message(&host.stage.path("ready"));
    let status = Dlock::on(&host.database, ["status", "deploy"]).run().stdout;
    assert!(status.contains("deploy 42"), "{status}");
    write_message(&host.stage.path("go"), "on");
    first.wait();
}

#[test]
fn the_script_locks_itself_under_a_dlock_of_another_action() {
    let host = &Host::of_this_test();
    host.job("switch.sh", r#"echo "$DLOCK_ACTION" >> log"#);
    let script = path("self-locking.sh").display().to_string();
    let words = ["dlock", "exec", "--action", "other", "--", &script, "42"];
    let url = host.database.url();
    let outcome = host.starts(&[("DLOCK_URL", url.as_str())], words).run();
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    // If an operator sets DLOCK_ACTION, the script still acquires the lock.
    let variables = [("DLOCK_URL", url.as_str()), ("DLOCK_ACTION", "deploy")];
    let outcome = host.starts(&variables, [script.as_str(), "42"]).run();
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    assert_eq!(host.log(), ["deploy", "deploy"]);
    let history = Dlock::on(&host.database, ["history", "deploy"]).run();
    let runs = history.stdout.matches("exit 0").count();
    assert_eq!(runs, 2, "{history:#?}");
}

#[test]
fn a_failed_deployment_returns_its_status_and_frees_the_lock() {
    let host = &Host::of_this_test();
    host.job("switch.sh", JOB);
    host.secret("fail", "");
    let outcome = deployment(host, "42").run();
    assert_eq!(outcome.status, Some(3), "{outcome:#?}");
    assert!(!outcome.stdout.contains("deployed"), "{outcome:#?}");
    assert!(host.is_free("deploy"));
}

#[test]
fn a_deployment_of_two_services_excludes_those_of_each_service() {
    let host = &Host::of_this_test();
    host.job("switch.sh", SWITCH);
    let [ready, go] = ["ready", "go"].map(|name| host.stage.path(name));
    let both = run_of(host, "two-services.sh", "42").start();
    read_message(&ready);
    for service in ["api", "web"] {
        Dlock::on(&host.database, ["exec", "-n", service, "--", "true"])
            .run()
            .expect(75, "", &format!("{service} is held by "));
    }
    write_message(&go, "on");
    both.wait().expect(0, "", "");
    assert_eq!(host.log(), ["switching 42", "switched 42"]);
    assert!(host.is_free("api") && host.is_free("web"));
}

#[test]
fn at_most_two_hosts_reboot_at_a_time() {
    let host = &Host::of_this_test();
    host.job("reboot-and-wait.sh", IN_SLOT);
    let ready = host.stage.path("ready");
    let go = ["go-1", "go-2"].map(|name| host.stage.fifo(name));
    let [one, two] = ["a", "b"].map(|name| {
        let running = run_of(host, "reboot.sh", name).start();
        read_message(&ready);
        running
    });
    let third = run_of(host, "reboot.sh", "c").start();
    third.wait_for_output("(2 of 2 slots)");
    write_message(Path::new(&go[0]), "on");
    one.wait();
    read_message(&ready);
    for go in &go {
        write_message(Path::new(go), "on");
    }
    two.wait();
    third.wait();
    let log = host.log();
    assert_eq!(
        log[..4],
        ["begin a", "begin b", "end a", "begin c"],
        "{log:?}"
    );
    assert!(host.is_free("reboot"), "{log:?}");
}

#[test]
fn backups_run_together_and_a_restore_alone() {
    let host = &Host::of_this_test();
    host.job("backup-job.sh", IN_SLOT);
    host.job("restore-job.sh", IN_SLOT);
    let ready = host.stage.path("ready");
    let go = ["go-1", "go-2"].map(|name| host.stage.fifo(name));
    let backups = [(); 2].map(|()| {
        let running = run_of(host, "backup.sh", "backup").start();
        read_message(&ready);
        running
    });
    let restore = run_with(host, "backup.sh", &["restore", "monday"]).start();
    restore.wait_for_output("(2 shared holders)");
    let later = run_of(host, "backup.sh", "backup").start();
    later.wait_for_output("1 ahead of you");
    for (go, backup) in go.iter().zip(backups) {
        write_message(Path::new(go), "on");
        backup.wait();
    }
    read_message(&ready);
    let status = Dlock::on(&host.database, ["status", "db"]).run().stdout;
    assert!(status.contains("restore monday"), "{status}");
    write_message(Path::new(&go[0]), "on");
    restore.wait();
    read_message(&ready);
    write_message(Path::new(&go[0]), "on");
    later.wait();
    assert!(host.is_free("db"));
}
