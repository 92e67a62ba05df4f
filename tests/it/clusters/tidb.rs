//! A server with the version of TiDB, on which two sessions can hold the same named lock. TiDB does not run here: the test
//! simulates it with MariaDB and MySQL behind a proxy that changes the version in the response.

use testkit::cli_runner::Dlock;
use testkit::holder::Holder;
use testkit::proxy::Proxy;
use testkit::servers::{Flavour, shared};

use crate::faults::on_each;

/// The server executes the contents of version comments, but TiDB has no function `GTID_SUBSET`. A second proxy rewrites the
/// call of this function, so that MySQL returns the error of TiDB.
#[test]
fn tidb_gets_neither_named_locks_nor_version_comments() {
    on_each(|flavour| {
        let database = shared(flavour).database("tidb");
        // Both strings have the same length.
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
            Dlock::through(&database, proxy.port(), ["exec", "-a", "init"])
                .args(options)
                .args(["--", "echo", "ran"])
        };
        let holder = Holder::through(&database, proxy.port(), &[]);
        exec(&["-n"]).run().expect(75, "", "init is held by");
        let waiter = exec(&["-v"]).start();
        waiter.wait_for_output("named locks do not work on this server");
        waiter.wait_for_output("init is held by");
        assert_eq!(holder.end().status, Some(3), "{flavour}");
        waiter.wait().expect(0, "ran\n", "init is held by");
        if flavour == Flavour::MySql {
            let sessions = proxy.sessions();
            let requests = sessions.iter().flat_map(|session| &session.requests);
            let texts: Vec<String> = requests.map(|request| format!("{request:?}")).collect();
            let comments = texts.iter().filter(|text| text.contains("/*!8"));
            let refused = texts.iter().filter(|text| text.contains("GTID_SUBSET"));
            assert_eq!(comments.count(), refused.count(), "{texts:#?}");
        }
    });
}
