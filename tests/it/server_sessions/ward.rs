//! `dlock hold --pid`: the sessions of the process, which dlock has not started.

use testkit::command::{is_alive, signal};
use testkit::on_each_flavour;
use testkit::servers::Flavour;

use super::scene::{Scene, Ward};

on_each_flavour!(statement_of_a_process_has_ended_before_the_next_command_starts);
fn statement_of_a_process_has_ended_before_the_next_command_starts(flavour: Flavour) {
    let scene = Scene::new(flavour);
    let ended_by = |end: &dyn Fn(&Ward)| {
        let ward = scene.start_ward();
        let next = scene.next(&[]).start_until("init is held by");
        end(&ward);
        next.wait().expect(0, "0 statements\n", "acquired init in");
        assert!(!is_alive(&ward.pid.to_string()));
        assert!(!scene.is_noted());
        ward.running
    };
    let killed = ended_by(&|ward| signal(ward.pid, "KILL"));
    killed.wait_for_output("ended 1 session that process ");
    ended_by(&|_| {
        let release = scene.dlock(["release", "init", "--yes", "--operator=ops"]);
        release.expect(0, "", "init is released");
    });
    // dlock is killed.
    ended_by(&|ward| signal(ward.holder, "KILL"));

    // The process goes on without the lock.
    let ward = scene.start_ward();
    signal(ward.holder, "TERM");
    scene.next(&["-q"]).expect(0, "1 statements\n", "");
    assert!(is_alive(&ward.pid.to_string()));
    assert!(!scene.is_noted());
    signal(ward.pid, "KILL");
}
