//! The scenarios: the typed lines, and assertions about results that no block contains.

use testkit::servers::Flavour;

use super::Block;
use super::fake_hosts::{EXEC, FakeHosts};

pub(super) const ALL: [fn(Flavour) -> Vec<Block>; 5] = [hangs, frozen, dead, maintenance, down];

const STATUS: &str = "dlock status init";

/// A ttl that is long enough for a test on a busy machine to observe each event before the lease expires.
const SHORT: &str = "20s";

fn block(name: &'static str, text: String) -> Block {
    Block { name, text }
}

/// Returns `text` without the details of the lock below the diagnosis.
fn brief(text: &str) -> String {
    let mut brief = String::new();
    let mut is_fact = false;
    for line in text.lines() {
        let was_fact = is_fact;
        is_fact = match line.trim_start().split("  ").next() {
            Some("diagnosis") => {
                brief.push_str(line);
                brief.push_str("\n  ...\n");
                true
            }
            _ => was_fact && !line.starts_with("dlock: "),
        };
        if !is_fact {
            brief.push_str(line);
            brief.push('\n');
        }
    }
    brief
}

/// Returns `text` with the messages of dlock before the output of the command. The command and the thread that writes the
/// messages of dlock run at the same time, so their order differs between runs.
fn messages_first(text: &str) -> String {
    let (typed, output) = text.split_once('\n').expect("a typed line and its output");
    let (messages, others): (Vec<&str>, Vec<&str>) =
        output.lines().partition(|line| line.starts_with("dlock: "));
    let mut lines = vec![typed];
    lines.extend(messages);
    lines.extend(others);
    lines.join("\n") + "\n"
}

/// The command hangs, and the operator revokes its lease.
fn hangs(flavour: Flavour) -> Vec<Block> {
    let hosts = FakeHosts::with(flavour, "30s");
    let [holder, next] = hosts.holder_and_next();
    let last = hosts.user_starts("web-3", EXEC);
    last.running.wait_for_output("1 ahead of you");
    hosts.shift_times_to_the_past();
    let held = hosts.operator_runs(STATUS, 0);
    last.running.signal("KILL");
    last.dies();
    let line = hosts.operator_runs_until("dlock status", "gone");
    let reason = "blocked by the reporting job";
    let release = hosts.operator_confirms(&format!("dlock release init --reason \"{reason}\""));
    let released = holder.ends(76);
    hosts.ends_after_migration(next);
    let history = hosts.operator_runs("dlock history init", 0);
    vec![
        block("held", held),
        block("release", brief(&release)),
        block("released", released),
        block("history", history),
        block("line", line),
    ]
}

/// The holder's dlock is frozen, its monitor stops the command, and the next command starts.
fn frozen(flavour: Flavour) -> Vec<Block> {
    let hosts = FakeHosts::with(flavour, SHORT);
    let [holder, next] = hosts.holder_and_next();
    holder.running.signal("STOP");
    hosts.wait_until_renewal_is_overdue();
    let frozen = hosts.operator_runs_until(STATUS, "not renewed for");
    hosts.ends_after_migration(next);
    holder.running.signal("CONT");
    let thawed = holder.ends(76);
    assert!(thawed.contains("cannot keep init: "), "{thawed}");
    vec![block("frozen", brief(&frozen))]
}

/// The holder is killed, and the next contender takes over.
fn dead(flavour: Flavour) -> Vec<Block> {
    let hosts = FakeHosts::with(flavour, SHORT);
    let [holder, next] = hosts.holder_and_next();
    holder.running.crash();
    holder.dies();
    let dead = hosts.operator_runs_until(STATUS, "connection is gone");
    hosts.ends_after_migration(next);
    let lost = hosts.operator_runs("dlock history init", 0);
    vec![block("dead", brief(&dead)), block("lost", lost)]
}

/// The operator pauses the action for a while.
fn maintenance(flavour: Flavour) -> Vec<Block> {
    let hosts = FakeHosts::with(flavour, "30s");
    let before = hosts.user_starts("web-1", EXEC);
    hosts.wait_for_migration();
    // The operator stops the holder with SIGTERM instead of a release.
    before.running.signal("TERM");
    before.ends(143);
    let pause = hosts.operator_confirms(
        "dlock release --action init --pause 2h --reason \"restoring a backup\"",
    );
    let paused_waiter = hosts.user_starts("web-2", EXEC);
    paused_waiter
        .running
        .wait_for_output("init is paused for another");
    let resume = hosts.operator_runs("dlock release --action init --resume --yes", 0);
    let paused_waiter = hosts.ends_after_migration(paused_waiter);
    vec![
        block("pause", brief(&pause)),
        block("resume", brief(&resume)),
        block("kept-out", messages_first(&paused_waiter)),
    ]
}

fn down(flavour: Flavour) -> Vec<Block> {
    let hosts = FakeHosts::with(flavour, "30s").with_server_down();
    let status = hosts.operator_runs(STATUS, 69);
    let doctor = hosts.operator_runs("dlock doctor | grep -v -e ^set -e ^skip", 0);
    vec![block("down", status + &doctor)]
}
