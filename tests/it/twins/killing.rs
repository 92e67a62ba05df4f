//! The twins that let the command live on: without the monitor, without waiting for what the command
//! leaves behind, without the margin.

use super::scene::{Scene, Verdict, compare};
use crate::compiler::preload;
use crate::dlock::{Dlock, eventually};
use crate::proxy::{Fault, Kind, Proxy};

#[test]
fn without_the_monitor_a_killed_dlock_leaves_its_command_to_the_next_holder() {
    compare("monitor", Verdict::TwoAlive, 1, |scene| {
        after_signal(scene, "KILL")
    });
}

#[test]
fn without_the_monitor_a_frozen_dlock_leaves_its_command_to_the_next_holder() {
    compare("monitor", Verdict::TwoAlive, 1, |scene| {
        after_signal(scene, "STOP")
    });
}

fn after_signal(scene: &Scene, signal: &str) -> Verdict {
    let port = scene.database.port;
    let holder = scene.holder(scene.exec(port).args(["--ttl", "2s"]));
    let waiter = scene.waiter();
    holder.signal(signal);
    Verdict::of_next(&waiter.wait())
}

#[test]
fn without_waiting_for_the_tree_the_next_holder_meets_what_the_command_left() {
    compare("tree", Verdict::TwoAlive, 1, |scene| {
        let _holder = scene.holder(scene.exec(scene.database.port));
        let waiter = scene.waiter();
        scene.let_go();
        Verdict::of_next(&waiter.wait())
    });
}

/// SIGKILL that takes a while to kill: a machine so busy, or a command so large, that its death
/// takes a good part of the margin of 250 ms. The tree takes up to three: its group, the command, and the
/// descendant if the monitor has inherited it by then.
const SLOW_DEATH: &str = r"
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

int kill(pid_t pid, int number) {
    if (number == SIGKILL) usleep(55000);
    return syscall(SYS_kill, pid, number);
}
";

/// The contender may take the lease over by its own clock a ttl after it first saw the last renewal.
/// As a rule it sees that up to a second later. Here it looks in the very moment: its look is held
/// until the server has done the renewal.
#[test]
fn without_the_margin_the_next_holder_meets_a_command_that_takes_time_to_die() {
    compare("margin", Verdict::TwoAlive, 6, |scene| {
        let port = scene.database.port;
        let (proxy, contenders) = (Proxy::to(port), Proxy::to(port));
        let dlock = scene.exec(proxy.port()).args(["--ttl", "3s"]);
        let dlock = dlock.env("LD_PRELOAD", preload(&scene.stage, SLOW_DEATH));
        let _holder = scene.holder(dlock);

        let url = scene.database.url_through(contenders.port());
        let next = Dlock::new(["exec", "-a", "init"]).env("DLOCK_URL", url);
        let next = scene.next(next);
        next.heard("init is held by");
        eventually("the contender waits at the gate or has it", || {
            contenders.asked(Kind::Stand) > 0 || contenders.asked(Kind::Look) > 2
        });
        scene.take_the_gate_away();

        let look = contenders.next(Kind::Look, Fault::HoldRequest);
        look.wait();
        let last = proxy.next(Kind::Renew, Fault::HoldReply);
        proxy.every(Kind::Renew, Fault::LoseRequest);
        last.wait();
        look.let_go();
        last.let_go();
        Verdict::of_next(&next.wait())
    });
}
