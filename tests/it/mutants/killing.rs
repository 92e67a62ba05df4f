//! Scenarios in which a mutant lets the command or its descendants outlive the lease. The mutants have no monitor, do
//! not wait for descendants of the command, or have no safety margin.

use testkit::cli_runner::{Dlock, eventually};
use testkit::command::signal;
use testkit::compiler::preload;
use testkit::proxy::{Fault, Kind, Proxy};
use testkit::servers::Flavour;

use super::scene::ScenarioResult::{self, TwoAlive};
use super::scene::compare;

#[test]
fn without_the_monitor_the_command_of_a_killed_or_frozen_dlock_overlaps_the_next_command() {
    for signal in ["KILL", "STOP"] {
        println!("after SIG{signal}");
        let mutant = [("monitor", TwoAlive)];
        compare([Flavour::of_this_test()], mutant, |scene| {
            let holder = scene.holder(scene.exec(scene.database.port).args(["--ttl", "6s"]));
            let waiter = scene.waiter();
            holder.signal(signal);
            ScenarioResult::of_next(&waiter.wait())
        });
    }
}

/// In the second case, a process of the script has left the tree before the script ends.
#[test]
fn without_signals_to_a_ward_or_the_search_for_strays_a_script_overlaps_the_next_command() {
    for (safeguard, victim) in [("ward", "dlock"), ("strays", "the script")] {
        println!("after SIGKILL to {victim}");
        let mutant = [(safeguard, TwoAlive)];
        compare([Flavour::of_this_test()], mutant, |scene| {
            let script = scene.script();
            let waiter = scene.waiter();
            let pid = match victim {
                "dlock" => script.holder,
                _ => script.pid,
            };
            signal(pid, "KILL");
            ScenarioResult::of_next(&waiter.wait())
        });
    }
}

#[test]
fn without_waiting_for_the_tree_leftover_processes_overlap_the_next_command() {
    compare([Flavour::of_this_test()], [("tree", TwoAlive)], |scene| {
        let _holder = scene.holder(scene.exec(scene.database.port));
        let waiter = scene.waiter();
        scene.let_go();
        ScenarioResult::of_next(&waiter.wait())
    });
}

/// The source of a library whose `kill` delays each SIGKILL, as if the machine were busy. The monitor kills the process
/// tree with up to three calls: one for the process group, one for the command, and one for the descendant if the
/// monitor has inherited the descendant. The delays of three calls add up to 450 ms of the safety margin of 600 ms.
const SLOW_KILL: &str = r"
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

int kill(pid_t pid, int number) {
    if (number == SIGKILL) usleep(150000);
    return syscall(SYS_kill, pid, number);
}
";

/// A contender may take the lease over one ttl after the contender has first observed the last renewal. The contender
/// usually observes a renewal up to one second late. In this test, the contender observes the renewal immediately,
/// because the proxy holds the contender's read request until the server has committed the renewal.
#[test]
fn without_the_margin_a_command_that_dies_slowly_overlaps_the_next_command() {
    compare([Flavour::of_this_test()], [("margin", TwoAlive)], |scene| {
        let port = scene.database.port;
        let (proxy, contenders) = (Proxy::to(port), Proxy::to(port));
        let dlock = scene.exec(proxy.port()).args(["--ttl", "18s"]);
        let dlock = dlock.env("LD_PRELOAD", preload(&scene.stage, SLOW_KILL));
        let _holder = scene.holder(dlock);

        let proxied = scene.database.through(contenders.port());
        let next = scene.next(Dlock::typed(&proxied, "exec -a init"));
        next.wait_for_output("init is held by");
        eventually("the contender waits for the queue lock or has it", || {
            contenders.asked(Kind::WaitTurn) > 0 || contenders.asked(Kind::Get) > 2
        });
        scene.take_queue_lock_away();

        let read = contenders.next(Kind::Get, Fault::HoldRequest);
        read.wait();
        let last = proxy.next(Kind::Renew, Fault::HoldResponse);
        proxy.every(Kind::Renew, Fault::LoseRequest);
        last.wait();
        read.let_go();
        last.let_go();
        ScenarioResult::of_next(&next.wait())
    });
}
