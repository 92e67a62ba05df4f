//! Tests on a server with the version of TiDB, on which two sessions can hold the same named lock. TiDB does not run
//! here: the tests simulate it with MariaDB and MySQL behind a proxy that changes the version in the response.

use crate::cli_runner::Dlock;
use crate::holder::Holder;
use crate::proxy::Proxy;
use crate::servers::{Flavour, shared};

#[test]
fn named_locks_of_tidb_are_not_used() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("tidb");
        // Both strings have the same length.
        let proxy = Proxy::rewriting(
            database.port,
            "VERSION() AS server_version",
            "'5.7TiDB' AS server_version",
        );
        let through = |options: &[&str]| {
            Dlock::new(["exec", "-a", "init"])
                .env("DLOCK_URL", database.url_through(proxy.port()))
                .args(options)
        };
        let verbose = through(&["-v", "--", "echo", "ran"]).run();
        verbose.expect(0, "ran\n", "named locks do not work on this server");

        let holder = Holder::start(
            Dlock::new(["exec"]).env("DLOCK_URL", database.url_through(proxy.port())),
            &[],
        );
        through(&["-n", "--", "echo", "ran"])
            .run()
            .expect(75, "", "init is held by");
        let waiter = through(&["--", "echo", "ran"]).start();
        waiter.wait_for_output("init is held by");
        assert_eq!(holder.end().status, Some(3), "{flavour}");
        waiter.wait().expect(0, "ran\n", "init is held by");
    }
}
