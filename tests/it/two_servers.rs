//! All of two independent servers: a `dlock exec` on one server inside a `dlock exec` on the other. The command runs only while
//! both leases are live.

use std::thread;

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::proxy::{AcceptMode, Flow, Proxy};
use testkit::servers::{Database, Flavour, shared};

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

    /// Runs a command under both leases, runs `fault`, and asserts that dlock stops the command and releases both locks.
    #[track_caller]
    fn stops_after(&self, fault: impl FnOnce()) {
        let [first, second] =
            [0, 1].map(|number| self.databases[number].url_through(self.proxies[number].port()));
        let both = Dlock::new(["exec", "both", "--ttl=6s", "--url", &first, "--"])
            .arg(env!("CARGO_BIN_EXE_dlock"))
            .args(["exec", "both", "--ttl=6s", "--url", &second]);
        let stage = Stage::new();
        let running = stage.start(both, r#"echo up > "$1"; read word < "$2""#);
        fault();
        running.wait().exited(76);
        for database in &self.databases {
            Dlock::typed(database, "exec both --ttl=6s -- true")
                .run()
                .exited(0);
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
                scene.stops_after(|| {
                    Dlock::typed(&scene.databases[number], "release both --yes")
                        .run()
                        .exited(0);
                });
                scene.stops_after(|| {
                    proxy.door(AcceptMode::Refused);
                    proxy.reset();
                });
                proxy.door(AcceptMode::Open);
                // The server accepts connections and never responds.
                scene.stops_after(|| {
                    proxy.both(Flow::Hold);
                    proxy.door(AcceptMode::Silent);
                });
            });
        }
    });
}
