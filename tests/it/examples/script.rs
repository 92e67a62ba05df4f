//! Tests of the deploy scripts.

use super::{Host, IN_SLOT, JOB, path};

/// Script of a deployment step that writes to the fifo `ready`, waits for a word from the fifo `go`, and logs its start
/// and its end.
const SWITCH: &str =
    r#"echo "switching $1" >> log; echo up > ready; read word < go; echo "switched $1" >> log"#;

#[test]
fn deployments_run_one_after_the_other_and_a_failure_frees_the_lock() {
    let host = &Host::with_job("switch.sh", SWITCH);
    let deploy = |release: &str| host.script("self-locking.sh", &[release]);
    let first = deploy("42").start();
    host.is_ready();
    let status = host.dlock(&["status", "deploy"]).stdout;
    assert!(status.contains("deploy 42"), "{status}");
    let second = deploy("41").start();
    second.wait_for_output("deploy is held by ");
    host.tell("go", "on");
    host.is_ready();
    host.tell("go", "on");
    for (deployment, release) in [(first, "42"), (second, "41")] {
        let outcome = deployment.wait();
        assert_eq!(outcome.status, Some(0), "{outcome:#?}");
        let deployed = format!("\ndeployed {release}\n");
        assert!(outcome.stdout.contains(&deployed), "{outcome:#?}");
    }
    let wanted = ["switching 42", "switched 42", "switching 41", "switched 41"];
    assert_eq!(host.log(), wanted);

    host.job("switch.sh", JOB);
    host.secret("fail", "");
    let outcome = deploy("43").run();
    assert_eq!(outcome.status, Some(3), "{outcome:#?}");
    assert!(!outcome.stdout.contains("deployed"), "{outcome:#?}");
    assert!(host.is_free("deploy"));
}

#[test]
fn the_script_locks_itself_under_a_dlock_of_another_action() {
    let host = &Host::with_job("switch.sh", r#"echo "$DLOCK_ACTION" >> log"#);
    let script = path("self-locking.sh").display().to_string();
    for words in [
        &["dlock", "exec", "--action", "other", "--", &script, "42"][..],
        // If an operator sets DLOCK_ACTION, the script still acquires the lock.
        &["DLOCK_ACTION=deploy", &script, "42"],
    ] {
        host.starts_with_url(words).run().exited(0);
    }
    assert_eq!(host.log(), ["deploy", "deploy"]);
    let history = host.dlock(&["history", "deploy"]);
    let runs = history.stdout.matches("exit 0").count();
    assert_eq!(runs, 2, "{history:#?}");
}

#[test]
fn a_deployment_of_two_services_excludes_those_of_each_service() {
    let host = &Host::with_job("switch.sh", SWITCH);
    let both = host.script("two-services.sh", &["42"]).start();
    host.is_ready();
    for service in ["api", "web"] {
        let one = host.dlock(&["exec", "-n", service, "--", "true"]);
        one.expect(75, "", &format!("{service} is held by "));
    }
    host.tell("go", "on");
    both.wait().expect(0, "", "");
    assert_eq!(host.log(), ["switching 42", "switched 42"]);
    assert!(host.is_free("api") && host.is_free("web"));
}

#[test]
fn at_most_two_hosts_reboot_at_a_time() {
    let host = &Host::with_job("reboot-and-wait.sh", IN_SLOT);
    let reboot = |name: &str| host.script("reboot.sh", &[name]).start();
    let [one, two] = [("a", "go-1"), ("b", "go-2")].map(|(name, go)| {
        host.stage.fifo(go);
        let running = reboot(name);
        host.is_ready();
        running
    });
    let third = reboot("c");
    third.wait_for_output("(2 of 2 slots)");
    host.tell("go-1", "on");
    one.wait();
    host.is_ready();
    for (go, running) in [("go-1", third), ("go-2", two)] {
        host.tell(go, "on");
        running.wait();
    }
    let log = host.log();
    assert_eq!(log[..4], ["begin a", "begin b", "end a", "begin c"]);
    assert!(host.is_free("reboot"), "{log:?}");
}

#[test]
fn backups_run_together_and_a_restore_alone() {
    let host = &Host::with_job("backup-job.sh", IN_SLOT);
    host.job("restore-job.sh", IN_SLOT);
    let start = |arguments: &[&str]| host.script("backup.sh", arguments).start();
    let backups = ["go-1", "go-2"].map(|go| {
        host.stage.fifo(go);
        let running = start(&["backup"]);
        host.is_ready();
        (go, running)
    });
    let restore = start(&["restore", "monday"]);
    restore.wait_for_output("(2 shared holders)");
    let later = start(&["backup"]);
    later.wait_for_output("1 ahead of you");
    for (go, backup) in backups {
        host.tell(go, "on");
        backup.wait();
    }
    host.is_ready();
    let status = host.dlock(&["status", "db"]).stdout;
    assert!(status.contains("restore monday"), "{status}");
    host.tell("go-1", "on");
    restore.wait();
    host.is_ready();
    host.tell("go-1", "on");
    later.wait();
    assert!(host.is_free("db"));
}
