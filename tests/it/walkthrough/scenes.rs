//! The stories: what is typed, and what must have come of it where a block does not show that.

use super::Block;
use super::place::Place;
use crate::servers::Flavour;

/// The stories.
pub(super) const ALL: [fn(Flavour) -> Vec<Block>; 5] = [hangs, frozen, dead, maintenance, down];

/// What everybody wants to run.
const EXEC: &str = "dlock exec --action init -- ./migrate.sh";

/// What an operator asks first.
const STATUS: &str = "dlock status init";

/// Leases long enough that a busy machine sees what happens before they are over.
const SHORT: &str = "20s";

fn block(name: &'static str, text: String) -> Block {
    Block { name, text }
}

/// `text` without the facts of the lock below the diagnosis.
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

/// The command hangs, and the operator ends its lease.
fn hangs(flavour: Flavour) -> Vec<Block> {
    let place = Place::with(flavour, "30s");
    let holder = place.types("web-1", EXEC);
    place.migrates();
    let next = place.types("web-2", EXEC);
    next.heard("you are next");
    let last = place.types("web-3", EXEC);
    last.heard("1 ahead of you");
    place.ages();
    let held = place.asks(STATUS, 0);
    last.signal("KILL");
    last.dies();
    let line = place.asks_until("dlock status", "gone");
    let reason = "it waits for a lock of the reports";
    let release = place.agrees(&format!(
        "dlock release --action init --reason \"{reason}\""
    ));
    let released = holder.ends(76);
    next.heard("migrating");
    place.migrates();
    place.lets_go();
    next.ends(0);
    let history = place.asks("dlock history init", 0);
    vec![
        block("held", held),
        block("release", brief(&release)),
        block("released", released),
        block("history", history),
        block("line", line),
    ]
}

/// The holder's dlock is stopped, its monitor does its duty, and the next starts.
fn frozen(flavour: Flavour) -> Vec<Block> {
    let place = Place::with(flavour, SHORT);
    let holder = place.types("web-1", EXEC);
    place.migrates();
    let next = place.types("web-2", EXEC);
    next.heard("you are next");
    holder.signal("STOP");
    let frozen = place.asks_until(STATUS, "not renewing for");
    next.heard("migrating");
    place.migrates();
    place.lets_go();
    next.ends(0);
    holder.signal("CONT");
    let thawed = holder.ends(76);
    assert!(thawed.contains("cannot keep init: "), "{thawed}");
    vec![block("frozen", brief(&frozen))]
}

/// The holder is killed, and the next takes its lease over.
fn dead(flavour: Flavour) -> Vec<Block> {
    let place = Place::with(flavour, SHORT);
    let holder = place.types("web-1", EXEC);
    place.migrates();
    let next = place.types("web-2", EXEC);
    next.heard("you are next");
    holder.signal("KILL");
    holder.dies();
    let dead = place.asks_until(STATUS, "connection is gone");
    next.heard("migrating");
    place.migrates();
    place.lets_go();
    next.ends(0);
    let lost = place.asks("dlock history init", 0);
    vec![block("dead", brief(&dead)), block("lost", lost)]
}

/// The operator closes the action for a while.
fn maintenance(flavour: Flavour) -> Vec<Block> {
    let place = Place::with(flavour, "30s");
    let before = place.types("web-1", EXEC);
    place.migrates();
    // What may be done instead of a release.
    before.signal("TERM");
    before.ends(143);
    let close =
        place.agrees("dlock release --action init --hold-off 2h --reason \"restoring a backup\"");
    let kept_out = place.types("web-2", EXEC);
    kept_out.heard("you are next");
    let reopen = place.asks("dlock release --action init --reopen --yes", 0);
    kept_out.heard("migrating");
    place.migrates();
    place.lets_go();
    vec![
        block("hold-off", brief(&close)),
        block("reopen", brief(&reopen)),
        block("kept-out", kept_out.ends(0)),
    ]
}

/// It is the server.
fn down(flavour: Flavour) -> Vec<Block> {
    let place = Place::with(flavour, "30s").whose_server_is_down();
    let status = place.asks(STATUS, 69);
    let doctor = place.asks("dlock doctor | grep -v ^-", 0);
    vec![block("down", status + &doctor)]
}
