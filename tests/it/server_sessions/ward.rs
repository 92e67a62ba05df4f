//! `dlock hold --pid`: the sessions of the process, which dlock has not started.

use testkit::cli_runner::Dlock;
use testkit::command::{is_alive, signal};
use testkit::servers::Flavour;

use super::scene::Scene;

const ENDED: &str = "ended 1 session that process ";

#[test]
fn statement_of_a_killed_process_has_ended_before_the_next_command_starts() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let ward = scene.start_ward();
        let next = scene.next(&[]).start();
        next.wait_for_output("init is held by");
        signal(ward.pid, "KILL");
        next.wait().expect(0, "0 statements\n", "acquired init in");
        ward.running.wait_for_output(ENDED);
    }
}

#[test]
fn statement_of_a_process_that_dlock_stops_has_ended_before_the_next_command_starts() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let ward = scene.start_ward();
        let next = scene.next(&[]).start();
        next.wait_for_output("init is held by");
        let release = ["release", "init", "--yes", "--operator=ops"];
        let released = Dlock::on(&scene.database, release).run();
        released.expect(0, "", "init is released");
        next.wait().expect(0, "0 statements\n", "acquired init in");
        assert!(!is_alive(&ward.pid.to_string()));
    }
}

#[test]
fn statement_ends_with_a_killed_holder() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let ward = scene.start_ward();
        signal(ward.holder, "KILL");
        let next = scene.next(&["-q"]).run();
        next.expect(0, "0 statements\n", "");
        assert!(!is_alive(&ward.pid.to_string()));
    }
}

#[test]
fn statement_of_a_process_that_goes_on_without_the_lock_continues() {
    for flavour in Flavour::ALL {
        let scene = Scene::new(flavour);
        let ward = scene.start_ward();
        signal(ward.holder, "TERM");
        let next = scene.next(&["-q"]).run();
        next.expect(0, "1 statements\n", "");
        assert!(is_alive(&ward.pid.to_string()));
        assert!(!scene.is_noted());
        signal(ward.pid, "KILL");
    }
}
