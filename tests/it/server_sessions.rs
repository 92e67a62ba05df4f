//! `--server-sessions`: the sessions that a command leaves on the server have ended before another command starts.
//!
//! - `scene`: a command whose statement waits for a row lock of the test. The server does not notice that the client of
//!   such a statement is dead.
//! - `bystanders`: sessions of other programs, which dlock never ends
//! - `killed`: sessions of a command whose dlock is killed
//! - `limits`: sessions that dlock cannot find or cannot end
//! - `other_host`: sessions on a server to which dlock is not connected
//! - `ward`: sessions of the process of `dlock hold --pid`
//! - this file: who ends the sessions, and when

mod bystanders;
mod killed;
mod limits;
mod other_host;
mod scene;
mod ward;

use std::fs;

use testkit::cli_runner::eventually;
use testkit::command::write_message;
use testkit::holder::renewals;
use testkit::on_each_flavour;
use testkit::servers::Flavour;

use self::scene::Scene;

const ENDED: &str = "ended 1 session that the command of init left on the server";

#[test]
fn statement_of_a_killed_client_has_ended_when_dlock_exits() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let (holder, client) = scene.start(&[]);
        scene.wait_until_noted();
        client.kill();
        let outcome = holder.wait();
        assert_eq!(scene.statements(), 0, "{flavour}: {outcome:#?}");
        outcome.expect(137, "", ENDED);
        assert!(!scene.is_noted(), "{flavour}");
        let history = scene.dlock(["history", "init"]).run();
        let ended = "SIGKILL, ended 1 session ";
        assert!(history.stdout.contains(ended), "{flavour}: {history:#?}");
    }
}

#[test]
fn statement_ends_if_a_client_is_killed_below_a_shell_that_fails() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let (holder, client) = scene.start_below(&[], "exit 3");
        scene.wait_until_noted();
        client.kill();
        let outcome = holder.wait();
        assert_eq!(scene.statements(), 0, "{flavour}: {outcome:#?}");
        outcome.expect(3, "", ENDED);
    }
}

#[test]
fn statement_ends_if_dlock_stops_the_command() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        // The client of MySQL ignores SIGTERM while it waits for the server.
        let (holder, _) = scene.start(&["--max-runtime", "8s", "--stop-signal", "KILL"]);
        let outcome = holder.wait();
        assert_eq!(scene.statements(), 0, "{flavour}: {outcome:#?}");
        outcome.expect(124, "", ENDED);
    }
}

#[test]
fn statement_ends_if_the_successful_command_leaves_its_client_behind() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let go = scene.stage.fifo("go");
        let (holder, _) = scene.start_beside(&[], &format!("read word < '{}'", go.display()));
        scene.wait_until_noted();
        write_message(&go, "on");
        let outcome = holder.wait();
        assert_eq!(scene.statements(), 0, "{flavour}: {outcome:#?}");
        outcome.expect(0, "", ENDED);
    }
}

on_each_flavour!(success_is_recorded_within_the_lease_that_was_renewed_while_a_statement_ended);
fn success_is_recorded_within_the_lease_that_was_renewed_while_a_statement_ended(flavour: Flavour) {
    let mut scene = Scene::new(flavour);
    let go = scene.stage.fifo("go");
    let options = ["--once", "--ttl", "6s", "--server-sessions", "wait"];
    let beside = format!("read word < '{}'", go.display());
    let (holder, _) = scene.start_beside(&options, &beside);
    scene.wait_until_noted();
    write_message(&go, "on");
    holder.wait_for_output("which the command of init left on the server, has ended");
    // The lease that the command had has expired after seven more renewals, one each second.
    scene.wait_for_renewals(renewals(&scene.database) + 7);
    // Without a lease, dlock tries for two seconds. The server ends each try after one second.
    scene.lock_record_until_waited(3);
    holder.wait().expect(0, "", "has ended");
    let again = scene.next(&["--once"]).run();
    again.expect(0, "", "init was done by ");
}

#[test]
fn successful_command_keeps_its_statement_and_verbose_output_names_it() {
    for flavour in Flavour::ALL {
        for (option, message) in [
            ("-v", "still executes a statement on the server"),
            ("-q", "Killed"),
        ] {
            let scene = Scene::new(flavour);
            let (holder, client) = scene.start_below(&[option], "exit 0");
            scene.wait_until_noted();
            client.kill();
            let outcome = holder.wait();
            assert_eq!(scene.statements(), 1, "{flavour}: {outcome:#?}");
            outcome.expect(0, "", message);
            assert!(!scene.is_noted(), "{flavour}");
        }
    }
}

#[test]
fn a_waiter_does_not_end_the_statement_of_a_successful_command() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let go = scene.stage.fifo("go");
        let after = format!("read word < '{}'; exit 0", go.display());
        let (holder, client) = scene.start_below(&[], &after);
        scene.wait_until_noted();
        let waiter = scene.next(&[]).start();
        waiter.wait_for_output("you are next");
        client.kill();
        write_message(&go, "on");
        holder.wait().expect(0, "", "Killed");
        waiter.wait().expect(0, "1 statements\n", "init is held by");
        assert_eq!(scene.statements(), 1, "{flavour}");
    }
}

on_each_flavour!(next_command_starts_after_the_statement_of_a_dead_holder_has_ended);
fn next_command_starts_after_the_statement_of_a_dead_holder_has_ended(flavour: Flavour) {
    let scene = Scene::new(flavour);
    let (holder, _) = scene.start(&["--ttl", "2s"]);
    scene.wait_until_noted();
    holder.crash();
    assert_eq!(
        scene.statements(),
        1,
        "{flavour}: the statement outlives its client"
    );
    let outcome = scene.next(&[]).run();
    outcome.expect(
        0,
        "0 statements\n",
        "ended 1 session that an earlier run of init left on the server",
    );
    let history = scene.dlock(["history", "init"]).run();
    let ended = "exit 0, ended 1 session ";
    assert!(history.stdout.contains(ended), "{flavour}: {history:#?}");
}

/// Without the safeguard, the two tests above would find the statement alive. This test shows that they would fail.
#[test]
fn a_program_without_the_safeguard_leaves_the_statement_alive() {
    for flavour in Flavour::ALL {
        let scene = Scene::without_safeguard(flavour);
        let (holder, client) = scene.start(&["--ttl", "2s"]);
        scene.wait_until_noted();
        client.kill();
        holder.wait().expect(137, "", "");
        assert_eq!(scene.statements(), 1, "{flavour}");
        let (holder, _) = scene.start(&["--ttl", "2s"]);
        scene.wait_until_noted();
        holder.crash();
        let next = scene.next(&[]).run();
        next.expect(0, "2 statements\n", "init is held by");
    }
}

on_each_flavour!(with_wait_the_lease_is_kept_until_the_statement_has_ended_by_itself);
fn with_wait_the_lease_is_kept_until_the_statement_has_ended_by_itself(flavour: Flavour) {
    let mut scene = Scene::new(flavour);
    let metrics = scene.stage.path("metrics");
    let metrics = metrics.to_str().expect("the path is UTF-8");
    let options = ["--ttl", "2s", "--server-sessions", "wait", "--metrics-file"];
    let (holder, client) = scene.start(&[&options[..], &[metrics]].concat());
    scene.wait_until_noted();
    client.kill();
    holder.wait_for_output("which the command of init left on the server, has ended");
    let renewals = || -> u64 {
        let text = fs::read_to_string(metrics).unwrap_or_default();
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with("dlock_renewals_total{"));
        let number = line.and_then(|line| line.rsplit(' ').next());
        number.map_or(0, |number| number.parse().expect("a number"))
    };
    let before = renewals();
    let busy = scene.next(&["--wait", "3s"]).run();
    busy.expect(75, "", "init is held by");
    // The renewals of this time count too.
    eventually("renewals are counted", || renewals() > before + 2);
    assert_eq!(scene.statements(), 1, "{flavour}");
    scene.unlock();
    holder.wait().expect(137, "", "has ended");
    scene.next(&[]).run().expect(0, "0 statements\n", "");
    assert!(scene.is_updated(), "{flavour}: the statement was killed");
}

on_each_flavour!(a_contender_does_not_kill_a_session_of_a_holder_that_chose_wait);
fn a_contender_does_not_kill_a_session_of_a_holder_that_chose_wait(flavour: Flavour) {
    let mut scene = Scene::new(flavour);
    let (holder, _) = scene.start(&["--ttl", "2s", "--server-sessions", "wait"]);
    scene.wait_until_noted();
    holder.crash();
    let next = scene.next(&["--ttl", "2s"]).start();
    next.wait_for_output("which an earlier run of init left on the server, has ended");
    assert_eq!(scene.statements(), 1, "{flavour}");
    scene.unlock();
    next.wait().expect(0, "0 statements\n", "has ended");
    assert!(scene.is_updated(), "{flavour}: the statement was killed");
}

on_each_flavour!(a_contender_starts_no_command_after_a_failed_renewal_until_another_succeeds);
fn a_contender_starts_no_command_after_a_failed_renewal_until_another_succeeds(flavour: Flavour) {
    let mut scene = Scene::new(flavour);
    let (holder, _) = scene.start(&["--ttl", "2s", "--server-sessions", "wait"]);
    scene.wait_until_noted();
    holder.crash();
    let next = scene.next(&["--ttl", "6s"]).start();
    next.wait_for_output("which an earlier run of init left on the server, has ended");
    scene.refuse_updates();
    next.wait_for_output("cannot renew init");
    scene.unlock();
    next.wait()
        .expect(69, "", "the lease of init cannot be renewed");
}

#[test]
fn with_ignore_nothing_is_noted_and_the_statement_continues() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let options = ["--ttl", "1500ms", "--server-sessions", "ignore"];
        let (holder, client) = scene.start(&options);
        scene.wait_for_renewals(3);
        assert!(!scene.is_noted(), "{flavour}");
        client.kill();
        holder.wait().expect(137, "", "");
        assert_eq!(scene.statements(), 1, "{flavour}");
        scene.next(&[]).run().expect(0, "1 statements\n", "");
    }
}

#[test]
fn a_contender_with_ignore_does_not_wait_for_noted_sessions() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let (holder, _) = scene.start(&["--ttl", "2s"]);
        scene.wait_until_noted();
        holder.crash();
        let next = scene.next(&["--server-sessions", "ignore"]).run();
        next.expect(0, "1 statements\n", "init is held by");
        // The sessions stay noted, so the next contender ends them.
        let next = scene.next(&[]).run();
        let ended = "ended 1 session that an earlier run of init left on the server";
        next.expect(0, "0 statements\n", ended);
    }
}

#[test]
fn only_the_sessions_of_the_command_are_ended() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        // The same account, the same machine, the same statement, but not a process of the command.
        let bystander = scene.client_process();
        scene.wait_for_statements(1);
        let (holder, client) = scene.start(&[]);
        scene.wait_until_noted();
        client.kill();
        let outcome = holder.wait();
        assert_eq!(scene.statements(), 1, "{flavour}: {outcome:#?}");
        outcome.expect(137, "", ENDED);
        bystander.kill();
    }
}

on_each_flavour!(a_noted_id_that_another_session_has_is_not_killed);
fn a_noted_id_that_another_session_has_is_not_killed(flavour: Flavour) {
    for change in [
        r#"REPLACE(sessions,'"client":"','"client":"0')"#,
        r#"REPLACE(sessions,'"started":','"started":1')"#,
    ] {
        let scene = Scene::new(flavour);
        let (holder, _) = scene.start(&["--ttl", "2s"]);
        scene.wait_until_noted();
        holder.crash();
        scene.execute(&format!("UPDATE dlock_lock SET sessions={change}"));
        let next = scene.next(&[]).run();
        next.expect(0, "1 statements\n", "init is held by");
        assert_eq!(scene.statements(), 1, "{flavour}, {change}");
    }
}
