//! The scenarios: the typed lines, and assertions about results that a block does not show.

use super::Block;
use super::fake_hosts::FakeHosts;
use crate::servers::Flavour;

/// All scenarios.
pub(super) const ALL: [fn(Flavour) -> Vec<Block>; 5] = [hangs, frozen, dead, maintenance, down];

/// The line that the contenders type.
const EXEC: &str = "dlock exec --action init -- ./migrate.sh";

/// The line that an operator types first.
const STATUS: &str = "dlock status init";

/// A ttl long enough for a busy machine to observe each event before the lease expires.
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

/// The command hangs, and the operator revokes its lease.
fn hangs(flavour: Flavour) -> Vec<Block> {
    let hosts = FakeHosts::with(flavour, "30s");
    let holder = hosts.types("web-1", EXEC);
    hosts.migrates();
    let next = hosts.types("web-2", EXEC);
    next.heard("you are next");
    let last = hosts.types("web-3", EXEC);
    last.heard("1 ahead of you");
    hosts.ages();
    let held = hosts.asks(STATUS, 0);
    last.signal("KILL");
    last.dies();
    let line = hosts.asks_until("dlock status", "gone");
    let reason = "it waits for a lock of the reports";
    let release = hosts.agrees(&format!(
        "dlock release --action init --reason \"{reason}\""
    ));
    let released = holder.ends(76);
    next.heard("migrating");
    hosts.migrates();
    hosts.lets_go();
    next.ends(0);
    let history = hosts.asks("dlock history init", 0);
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
    let holder = hosts.types("web-1", EXEC);
    hosts.migrates();
    let next = hosts.types("web-2", EXEC);
    next.heard("you are next");
    holder.signal("STOP");
    let frozen = hosts.asks_until(STATUS, "not renewing for");
    next.heard("migrating");
    hosts.migrates();
    hosts.lets_go();
    next.ends(0);
    holder.signal("CONT");
    let thawed = holder.ends(76);
    assert!(thawed.contains("cannot keep init: "), "{thawed}");
    vec![block("frozen", brief(&frozen))]
}

/// The holder is killed, and the next contender takes over.
fn dead(flavour: Flavour) -> Vec<Block> {
    let hosts = FakeHosts::with(flavour, SHORT);
    let holder = hosts.types("web-1", EXEC);
    hosts.migrates();
    let next = hosts.types("web-2", EXEC);
    next.heard("you are next");
    holder.signal("KILL");
    holder.dies();
    let dead = hosts.asks_until(STATUS, "connection is gone");
    next.heard("migrating");
    hosts.migrates();
    hosts.lets_go();
    next.ends(0);
    let lost = hosts.asks("dlock history init", 0);
    vec![block("dead", brief(&dead)), block("lost", lost)]
}

/// The operator pauses the action for a while.
fn maintenance(flavour: Flavour) -> Vec<Block> {
    let hosts = FakeHosts::with(flavour, "30s");
    let before = hosts.types("web-1", EXEC);
    hosts.migrates();
    // SIGTERM to the holder is an alternative to a release.
    before.signal("TERM");
    before.ends(143);
    let pause =
        hosts.agrees("dlock release --action init --pause 2h --reason \"restoring a backup\"");
    let kept_out = hosts.types("web-2", EXEC);
    kept_out.heard("you are next");
    let resume = hosts.asks("dlock release --action init --resume --yes", 0);
    kept_out.heard("migrating");
    hosts.migrates();
    hosts.lets_go();
    vec![
        block("pause", brief(&pause)),
        block("resume", brief(&resume)),
        block("kept-out", kept_out.ends(0)),
    ]
}

/// The server is down.
fn down(flavour: Flavour) -> Vec<Block> {
    let hosts = FakeHosts::with(flavour, "30s").with_server_down();
    let status = hosts.asks(STATUS, 69);
    let doctor = hosts.asks("dlock doctor | grep -v ^skip", 0);
    vec![block("down", status + &doctor)]
}
