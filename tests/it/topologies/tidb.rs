//! Tests on a server with the version of TiDB, on which two sessions can hold the same named lock. TiDB does not run
//! here: the tests simulate it with MariaDB and MySQL behind a proxy that changes the version in the response.

use testkit::cli_runner::Dlock;
use testkit::holder::Holder;
use testkit::proxy::Proxy;
use testkit::servers::{Flavour, shared};

/// The server executes the contents of version comments, but has no function `GTID_SUBSET`. Two proxies rewrite the
/// version and the call of this function, so that MySQL returns the error of TiDB.
#[test]
fn packets_for_tidb_contain_no_version_comments() {
    let database = shared(Flavour::MySql).database("tidb");
    let version = Proxy::rewriting(
        database.port,
        "VERSION() AS server_version",
        "'5.7TiDB' AS server_version",
    );
    let proxy = Proxy::rewriting(
        version.port(),
        "@@gtid_mode<>'ON' OR GTID_SUBSET(",
        "@@gtid_mode='X' OR z.GTID_SUBSET(",
    );
    let exec = |options: &[&str]| {
        Dlock::new(["exec", "-a", "init"])
            .env("DLOCK_URL", database.url_through(proxy.port()))
            .args(options)
            .args(["--", "echo", "ran"])
    };
    let url = database.url_through(proxy.port());
    let holder = Holder::start(Dlock::new(["exec"]).env("DLOCK_URL", url), &[]);
    exec(&["-n"]).run().expect(75, "", "init is held by");
    let waiter = exec(&["-v"]).start();
    waiter.wait_for_output("named locks do not work on this server");
    waiter.wait_for_output("init is held by");
    assert_eq!(holder.end().status, Some(3));
    waiter.wait().expect(0, "ran\n", "init is held by");
    let sessions = proxy.sessions();
    let texts: Vec<String> = sessions
        .iter()
        .flat_map(|session| &session.requests)
        .map(|request| format!("{request:?}"))
        .collect();
    let comments = texts.iter().filter(|text| text.contains("/*!8"));
    let refused = texts.iter().filter(|text| text.contains("GTID_SUBSET"));
    assert_eq!(comments.count(), refused.count(), "{texts:#?}");
}

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
