//! All of two independent servers: a `dlock exec` on one server inside a `dlock exec` on the other. The command runs only while
//! both leases are live.

use std::thread;

use testkit::cli_runner::{Dlock, Outcome};
use testkit::command::{Stage, read_message};
use testkit::proxy::{AcceptMode, Flow, Proxy};
use testkit::servers::{Database, Flavour, shared};

/// The two servers, each behind a proxy.
struct Scene {
    databases: [Database; 2],
    proxies: [Proxy; 2],
}

impl Scene {
    fn new() -> Self {
        let databases = Flavour::ALL.map(|flavour| shared(flavour).database("both"));
        let proxies = [0, 1].map(|number| Proxy::to(databases[number].port));
        Self { databases, proxies }
    }

    /// Runs a command under both leases, lets `fault` happen to one of the servers, and returns the outcome.
    #[track_caller]
    fn outcome_after(&self, fault: impl FnOnce(&Self)) -> Outcome {
        let stage = Stage::new();
        let (ready, life) = (stage.fifo("ready"), stage.fifo("life"));
        let [first, second] =
            [0, 1].map(|number| self.databases[number].url_through(self.proxies[number].port()));
        let running = Dlock::new(["exec", "both", "--ttl=6s", "--url", &first, "--"])
            .arg(env!("CARGO_BIN_EXE_dlock"))
            .args(["exec", "both", "--ttl=6s", "--url", &second, "--"])
            .args(["sh", "-c", r#"echo up > "$1"; read word < "$2""#, "sh"])
            .arg(&ready)
            .arg(&life)
            .start();
        assert_eq!(read_message(&ready), "up");
        fault(self);
        running.wait()
    }

    /// Asserts that both locks can be acquired.
    #[track_caller]
    fn are_free(&self) {
        for database in &self.databases {
            let next = ["exec", "both", "--ttl=6s", "--", "true"];
            assert_eq!(Dlock::on(database, next).run().status, Some(0));
        }
    }
}

/// Runs `test` for each server on which a fault happens, in parallel, because a test waits for the end of a lease.
fn for_each_server(test: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for number in [0, 1] {
            let test = &test;
            scope.spawn(move || test(number));
        }
    });
}

#[test]
fn command_under_two_servers_stops_when_one_of_them_revokes_its_lease() {
    for_each_server(|number| {
        let scene = Scene::new();
        let outcome = scene.outcome_after(|scene| {
            let release = ["release", "both", "--yes"];
            let released = Dlock::on(&scene.databases[number], release).run();
            assert_eq!(released.status, Some(0), "{released:?}");
        });
        assert_eq!(outcome.status, Some(76), "{number}: {outcome:?}");
        scene.are_free();
    });
}

#[test]
fn command_under_two_servers_stops_when_one_of_them_cannot_be_reached() {
    for_each_server(|number| {
        let scene = Scene::new();
        let outcome = scene.outcome_after(|scene| {
            scene.proxies[number].door(AcceptMode::Refused);
            scene.proxies[number].reset();
        });
        assert_eq!(outcome.status, Some(76), "{number}: {outcome:?}");
        scene.are_free();
    });
}

/// The server accepts connections and never responds.
#[test]
fn command_under_two_servers_stops_when_one_of_them_is_frozen() {
    for_each_server(|number| {
        let scene = Scene::new();
        let outcome = scene.outcome_after(|scene| {
            scene.proxies[number].both(Flow::Hold);
            scene.proxies[number].door(AcceptMode::Silent);
        });
        assert_eq!(outcome.status, Some(76), "{number}: {outcome:?}");
        scene.are_free();
    });
}
