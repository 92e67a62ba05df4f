//! Measures followers, `dlock leader --follow` beside `etcdctl elect --listen`: the time until all have printed a new leader,
//! and what they cost a server of dlock while nothing changes.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use testkit::bench::host;
use testkit::bench::markdown::{Page, verdict};
use testkit::bench::site::Site;

use crate::crowd::SETTLED;
use crate::holds::{Peer, Scene, contender_name};

/// Number of followers of a change, and of the followers that wait.
const FOLLOWERS: usize = 10;
const IDLE_FOLLOWERS: usize = 100;

/// Time over which the cost is measured.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// Largest part of a core that waiting followers may cost a server.
const IDLE_TARGET: f64 = 0.01;

/// Returns the time from the end of a leader to the moment when the last follower has printed the next one.
pub(crate) fn end_to_last_follower(peer: Peer, lock: &str) -> Vec<Duration> {
    let mut scene = Scene::new(peer, lock);
    let old = scene.contend();
    scene.next_grant();
    let new = scene.contend();
    scene.wait_until_queued(1);
    let followers = follow(&mut scene, FOLLOWERS);
    wait_until_printed(&scene, followers.clone(), old);
    thread::sleep(SETTLED);
    let ended = scene.end(old);
    vec![wait_until_printed(&scene, followers, new) - ended]
}

/// Starts `count` followers, and returns their numbers.
fn follow(scene: &mut Scene, count: usize) -> BTreeSet<usize> {
    (0..count).map(|_| scene.follow()).collect()
}

/// Waits until all `followers` have printed the contender `leader`. Returns the time of the last line.
fn wait_until_printed(scene: &Scene, mut followers: BTreeSet<usize>, leader: usize) -> Instant {
    let name = contender_name(leader);
    loop {
        let printed = scene.next_line();
        if printed.line == name && followers.remove(&printed.program) && followers.is_empty() {
            return printed.at;
        }
    }
}

/// Writes the part of a core that a server uses without followers and with many.
pub(crate) fn idle_cost(page: &mut Page, sites: &[Site; 2]) {
    for site in sites {
        let (name, pid) = (site.name(), site.server.pid());
        let mut scene = Scene::new(Peer::Dlock(site), "idle");
        let leader = scene.contend();
        scene.next_grant();
        let without = load(pid);
        let followers = follow(&mut scene, IDLE_FOLLOWERS);
        wait_until_printed(&scene, followers, leader);
        thread::sleep(SETTLED);
        let with = load(pid);
        page.item(format_args!(
            "{name}: the server uses {:.2} % of a core with {IDLE_FOLLOWERS} followers, and {:.2} % without them, over {IDLE_TIME:?}. \
             Target: at most {:.0} % with them, {}.",
            with * 100.0,
            without * 100.0,
            IDLE_TARGET * 100.0,
            verdict(with <= IDLE_TARGET),
        ));
    }
}

/// Returns the part of a core that the process uses from now on.
fn load(pid: u32) -> f64 {
    let (start, before) = (Instant::now(), host::cpu(pid));
    thread::sleep(IDLE_TIME);
    let used = host::cpu(pid).saturating_sub(before);
    used.as_secs_f64() / start.elapsed().as_secs_f64()
}
