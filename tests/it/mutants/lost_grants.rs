//! Fail-overs to a replica that lacks the latest grant, and restores of a snapshot that lacks it. A mutant does not wait
//! until the lost lease has ended.
//!
//! `make failovers ROUNDS=200` runs half of the rounds on each kind of server, and prints the number of overlaps.

use std::env;
use std::ops::Range;
use std::sync::OnceLock;
use std::thread;

use testkit::cli_runner::{Dlock, eventually};
use testkit::command::read_message;
use testkit::holder::Holder;
use testkit::proxy::{AcceptMode, Fault, Kind, Proxy};
use testkit::servers::{Flavour, Server};

use super::scene::{ScenarioResult, Scene};
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
                let rounds = rounds / 2;
                let sound = overlaps(flavour, "", 0..rounds);
                let (mut of_mutant, mut broken) = (0, 0);
                // On a busy machine, the waiter may start so late that the holder is dead.
                while of_mutant < MUTANT_ROUNDS && (broken == 0 || of_mutant < rounds) {
                    let next = of_mutant + LANES;
                    broken += overlaps(flavour, "lostgrant", of_mutant..next);
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

/// Returns the number of `rounds` in which two commands were alive at the same time.
fn overlaps(flavour: Flavour, without: &str, rounds: Range<u32>) -> usize {
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|lane| {
                let own = rounds.clone().skip(lane as usize).step_by(LANES as usize);
                scope.spawn(move || {
                    own.filter(|round| round_of(flavour, without, *round))
                        .count()
                })
            })
            .collect();
        let counts = lanes.into_iter().map(thread::ScopedJoinHandle::join);
        counts.map(|count| count.expect("the rounds end")).sum()
    })
}

/// Returns true if two commands were alive at the same time. The rounds alternate between the kinds of [`Reach`].
fn round_of(flavour: Flavour, without: &str, round: u32) -> bool {
    let reach = match round % 2 {
        0 => Reach::Nothing,
        _ => Reach::Replica,
    };
    let scene = Scene::new(flavour, without);
    let loss = Loss::FailOver(replica(flavour));
    kill_right_after_a_grant(&scene, loss, reach) == ScenarioResult::TwoAlive
}

#[test]
fn no_waiter_starts_beside_the_holder_of_a_grant_that_a_restored_snapshot_lacks() {
    thread::scope(|scope| {
        for flavour in Flavour::ALL {
            for (without, reach, expected) in [
                ("", Reach::Nothing, ScenarioResult::Clean),
                ("", Reach::Replica, ScenarioResult::Clean),
                ("lostgrant", Reach::Nothing, ScenarioResult::TwoAlive),
            ] {
                scope.spawn(move || {
                    let mut server = Server::start(flavour, &[]);
                    let scene = Scene::on(server.database("restored"), without);
                    let loss = Loss::Restore(&mut server);
                    let result = kill_right_after_a_grant(&scene, loss, reach);
                    assert_eq!(result, expected, "{flavour} without {without:?}");
                });
            }
        }
    });
}

/// Returns the server of this flavour that replaces the shared server.
fn replica(flavour: Flavour) -> &'static Server {
    static MARIADB: OnceLock<Server> = OnceLock::new();
    static MYSQL: OnceLock<Server> = OnceLock::new();
    let server = match flavour {
        Flavour::MariaDb => &MARIADB,
        Flavour::MySql => &MYSQL,
    };
    server.get_or_init(|| Server::start(flavour, &[]))
}

/// How the database loses a grant.
enum Loss<'a> {
    /// A replica without the grant replaces the server.
    FailOver(&'a Server),
    /// The server continues with its data from before the grant, under the same name and port.
    Restore(&'a mut Server),
}

/// A holder is granted the lease while a waiter waits for the queue lock. The server dies immediately, and the database
/// loses the grant. Its record is then as the waiter has read it, except that it is free.
fn kill_right_after_a_grant(scene: &Scene, loss: Loss, reach: Reach) -> ScenarioResult {
    // A restore takes some seconds. The mutant waits for 3 seconds, because the queue entry of the holder came first, and
    // on a busy machine it reconnects late.
    let ttl = [
        "--ttl",
        if matches!(loss, Loss::Restore(_)) {
            "20s"
        } else {
            "10s"
        },
    ];
    let (proxy, holders) = (
        Proxy::to(scene.database.port),
        Proxy::to(scene.database.port),
    );
    let url = scene.database.url_through(proxy.port());
    let first = Holder::start(Dlock::new(["exec"]).env("DLOCK_URL", url), &ttl);

    let ready = scene.stage.fifo("ready");
    let holder = scene.start_command(scene.exec(holders.port()).args(ttl), &ready);
    holders.wait_asked(Kind::WaitTurn, 1);
    let mut next = scene.next(scene.exec(proxy.port()).args(ttl));
    proxy.wait_asked(Kind::WaitTurn, 1);

    let grant = holders.next(Kind::TryAcquire, Fault::HoldRequest);
    first.end();
    grant.wait();
    let mut port = scene.database.port;
    let restored = match loss {
        Loss::FailOver(replica) => {
            port = copy(&scene.database, replica).port;
            None
        }
        Loss::Restore(server) => {
            server.snapshot();
            Some(server)
        }
    };
    grant.let_go();
    assert_eq!(read_message(&ready), "up");
    if reach == Reach::Nothing {
        holders.door(AcceptMode::Refused);
    }
    if let Some(server) = restored {
        server.restore();
    }
    for proxy in [&holders, &proxy] {
        proxy.retarget(port);
        proxy.reset();
    }
    if reach == Reach::Replica {
        eventually("the holder continues or the waiter has run", || {
            holder.stderr_so_far().contains("is renewed again after") || next.is_over()
        });
        scene.let_go();
    }
    ScenarioResult::of_next(&next.wait())
}
