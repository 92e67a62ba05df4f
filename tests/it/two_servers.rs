//! All of two independent servers: a `dlock exec` on one server inside a `dlock exec` on the other. The command runs only while
//! both leases are live.

use std::thread;

use testkit::cli_runner::Dlock;
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

    /// Runs a command under both leases, runs `fault`, and asserts that dlock stops the command.
    #[track_caller]
    fn stops_after(&self, name: &str, fault: impl FnOnce()) {
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
        fault();
        let outcome = running.wait();
        assert_eq!(outcome.status, Some(76), "{name}: {outcome:?}");
        self.are_free();
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

/// The faults of one server run in a thread, because a command is stopped at the end of a lease.
#[test]
fn command_under_two_servers_stops_when_one_of_them_revokes_its_lease_or_fails() {
    thread::scope(|scope| {
        for number in [0, 1] {
            scope.spawn(move || {
                let scene = Scene::new();
                let proxy = &scene.proxies[number];
                scene.stops_after("revoked", || {
                    let release = ["release", "both", "--yes"];
                    let released = Dlock::on(&scene.databases[number], release).run();
                    assert_eq!(released.status, Some(0), "{released:?}");
                });
                scene.stops_after("refused", || {
                    proxy.door(AcceptMode::Refused);
                    proxy.reset();
                });
                proxy.door(AcceptMode::Open);
                // The server accepts connections and never responds.
                scene.stops_after("frozen", || {
                    proxy.both(Flow::Hold);
                    proxy.door(AcceptMode::Silent);
                });
            });
        }
    });
}
