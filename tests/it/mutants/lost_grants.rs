//! Fail-overs to a replica that lacks the latest grant, and restores of a snapshot that lacks it. A mutant does not wait
//! until the lost lease has ended.
//!
//! `make failovers ROUNDS=200` runs half of the rounds on each kind of server, and prints the number of overlaps.

use std::env;
use std::ops::Range;
use std::path::PathBuf;
use std::thread;

use testkit::cli_runner::{Running, eventually};
use testkit::command::read_message;
use testkit::holder::Holder;
use testkit::proxy::{AcceptMode, Case, Fault, Kind, Proxy};
use testkit::servers::{Flavour, Server};

use super::scene::{ScenarioResult, Scene};
use crate::faults::on_each;
use crate::old_replica::copy;

/// Environment variable with the number of rounds on both kinds of servers together.
const ROUNDS: &str = "DLOCK_FAILOVERS";

/// Number of rounds that run at the same time on each kind of server.
const LANES: u32 = 4;

/// Maximum number of rounds of the mutant on each kind of server.
const MUTANT_ROUNDS: u32 = 12;

/// The servers that the holder can reach after the database has lost its grant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// The holder reaches no server, and its lease ends.
    Nothing,
    /// The holder reaches the database, writes its grant again and continues.
    Replica,
}

#[test]
fn no_waiter_starts_beside_the_holder_of_a_grant_that_a_fail_over_has_lost() {
    let rounds = env::var(ROUNDS).map_or(4, |text| text.parse().expect("a number of rounds"));
    thread::scope(|scope| {
        for flavour in Flavour::ALL {
            scope.spawn(move || {
                let replica = Server::start(flavour, &[]);
                let rounds = rounds / 2;
                let sound = overlaps(&replica, "", 0..rounds);
                let (mut of_mutant, mut broken) = (0, 0);
                // On a busy machine, the waiter may start so late that the holder is dead.
                while of_mutant < MUTANT_ROUNDS && (broken == 0 || of_mutant < rounds) {
                    let next = of_mutant + rounds.clamp(1, LANES);
                    broken += overlaps(&replica, "lostgrant", of_mutant..next);
                    of_mutant = next;
                }
                println!(
                    "{rounds} fail-overs on {flavour}: {sound} overlaps; \
                     {of_mutant} without the wait: {broken} overlaps"
                );
                assert_eq!(sound, 0, "overlaps on {flavour}");
                assert!(broken > 0, "the mutant has no overlap on {flavour}");
            });
        }
    });
}

/// Returns the number of `rounds` in which two commands were alive at the same time after a fail-over to `replica`.
fn overlaps(replica: &Server, without: &str, rounds: Range<u32>) -> usize {
    let lane = |lane: u32| {
        let own = rounds.clone().skip(lane as usize).step_by(LANES as usize);
        // A replica without the grant replaces the server.
        let is_overlap = |round| {
            let scene = Scene::new(replica.flavour(), without);
            let reach = [Reach::Nothing, Reach::Replica][round as usize % 2];
            let lost = LostGrant::prepared(&scene, "10s", reach);
            let port = copy(&scene.database, replica).port;
            lost.granted();
            lost.result(port) == ScenarioResult::TwoAlive
        };
        own.filter(|round| is_overlap(*round)).count()
    };
    thread::scope(|scope| {
        let lane = &lane;
        let lanes: Vec<_> = (0..LANES)
            .map(|number| scope.spawn(move || lane(number)))
            .collect();
        let counts = lanes.into_iter().map(thread::ScopedJoinHandle::join);
        counts.map(|count| count.expect("the rounds end")).sum()
    })
}

/// The server continues with its data from before the grants, under the same name and port.
#[test]
fn no_waiter_starts_beside_the_holder_of_a_grant_that_a_restored_snapshot_lacks() {
    on_each(|flavour| {
        let mut server = Server::start(flavour, &[]);
        let port = server.port();
        // A restore takes some seconds. The holder of the mutant must live until its end, however busy the machine is.
        let cases = [
            ("", Reach::Nothing, "20s", ScenarioResult::Clean),
            ("", Reach::Replica, "20s", ScenarioResult::Clean),
            ("lostgrant", Reach::Nothing, "10m", ScenarioResult::TwoAlive),
        ];
        let scenes = cases.map(|(without, ..)| Scene::on(server.database("restored"), without));
        let lost: Vec<_> = (scenes.iter().zip(cases))
            .map(|(scene, (_, reach, ttl, _))| LostGrant::prepared(scene, ttl, reach))
            .collect();
        server.snapshot();
        lost.iter().for_each(LostGrant::granted);
        server.restore();
        thread::scope(|scope| {
            for (lost, (without, .., expected)) in lost.into_iter().zip(cases) {
                scope.spawn(move || {
                    let result = lost.result(port);
                    assert_eq!(result, expected, "{flavour} without {without:?}");
                });
            }
        });
    });
}

/// A holder is granted the lease while a waiter waits for the queue lock. The server dies immediately, and the database
/// loses the grant. Its record is then as the waiter has read it, except that it is free.
struct LostGrant<'a> {
    scene: &'a Scene,
    reach: Reach,
    holder: Running,
    holders: Proxy,
    ready: PathBuf,
    turn: Case,
    next: Running,
    waiters: Proxy,
}

impl<'a> LostGrant<'a> {
    /// Starts the holder and the waiter. The record is free, and the proxy has the response after which the holder requests
    /// the grant. The holder waits for this response without a limit, so the caller may take its time.
    fn prepared(scene: &'a Scene, ttl: &str, reach: Reach) -> Self {
        let ttl = ["--ttl", ttl];
        let [holders, waiters] = [(); 2].map(|()| Proxy::to(scene.database.port));
        let first = Holder::on(&scene.database.through(waiters.port()), &ttl);
        let ready = scene.stage.fifo("ready");
        let turn = holders.next(Kind::WaitTurn, Fault::HoldResponse);
        let holder = scene.start_command(scene.exec(holders.port()).args(ttl), &ready);
        holders.wait_asked(Kind::WaitTurn, 1);
        let next = scene.next(scene.exec(waiters.port()).args(ttl));
        waiters.wait_asked(Kind::WaitTurn, 1);
        first.end();
        Self {
            scene,
            reach,
            holder,
            holders,
            ready,
            turn,
            next,
            waiters,
        }
    }

    /// Lets the holder request the grant, and waits until the holder's command runs.
    fn granted(&self) {
        self.turn.let_go();
        assert_eq!(read_message(&self.ready), "up");
        if self.reach == Reach::Nothing {
            self.holders.door(AcceptMode::Refused);
        }
    }

    /// Connects both to the server on `port`, which has lost the grant, and waits for the end of the waiter.
    fn result(mut self, port: u16) -> ScenarioResult {
        for proxy in [&self.holders, &self.waiters] {
            proxy.retarget(port);
            proxy.reset();
        }
        if self.reach == Reach::Replica {
            eventually("the holder continues or the waiter has run", || {
                let renewed = "is renewed again after";
                self.holder.stderr_so_far().contains(renewed) || self.next.is_over()
            });
            self.scene.let_go();
        }
        ScenarioResult::of_next(&self.next.wait())
    }
}
