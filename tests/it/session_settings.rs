//! Servers whose session variables have the worst values for dlock. The contract tests of the store run on these servers
//! too.
//!
//! The lists contain the session variables of `SHOW VARIABLES` that, according to the manuals, change what a statement does
//! that dlock sends: what is committed, found, refused or returned. A variable that needs a privilege in a session, or that
//! only limits resources, is not in the lists.

use std::sync::OnceLock;

use testkit::cli_runner::{Dlock, eventually};
use testkit::holder::{Holder, renewals};
use testkit::servers::{Database, Flavour, Server};

use crate::faults::on_each;

/// Options of both servers.
const BOTH: [&str; 9] = [
    "--transaction-isolation=SERIALIZABLE",
    "--sql-mode=ANSI,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION",
    "--character-set-server=latin1",
    "--default-storage-engine=MyISAM",
    "--lock-wait-timeout=31536000",
    "--innodb-lock-wait-timeout=1073741824",
    "--div-precision-increment=0",
    "--group-concat-max-len=4",
    "--max-sort-length=64",
];

/// Values that would also affect the tests' own sessions. The server gives them only to accounts without special
/// privileges.
const INIT_CONNECT: &str = "--init-connect=SET SESSION completion_type=CHAIN,autocommit=OFF,sql_safe_updates=ON,\
     sql_select_limit=0,sql_big_selects=OFF,max_join_size=1,sql_auto_is_null=ON,unique_checks=OFF,\
     character_set_client=latin1,character_set_results=latin1,collation_connection=latin1_german1_ci,\
     time_zone='+05:00',tx_read_only=ON;USE information_schema;START TRANSACTION";

/// Returns the server with the worst values that all tests of this process share. The first call starts the server.
pub(crate) fn worst(flavour: Flavour) -> &'static Server {
    static SERVERS: [OnceLock<Server>; 2] = [const { OnceLock::new() }; 2];
    let (server, init_connect) = match flavour {
        Flavour::MariaDb => (&SERVERS[0], INIT_CONNECT.to_owned()),
        Flavour::MySql => (
            &SERVERS[1],
            INIT_CONNECT.replace("tx_read", "transaction_read"),
        ),
    };
    server.get_or_init(|| Server::start(flavour, &[&BOTH[..], &[&init_connect]].concat()))
}

fn exec(database: &Database, options: &[&str]) -> Dlock {
    let dlock = Dlock::on(database, ["exec", "-a", "init"]).args(options);
    dlock.args(["--", "echo", "ran"])
}

#[test]
fn runs_renewals_and_waiters_end_as_on_a_server_with_the_defaults() {
    on_each(|flavour| {
        let database = &worst(flavour).database("worst");
        for (options, stdout, stderr) in [
            (&[][..], "ran\n", ""),
            (&["--fence"], "ran\n", ""),
            (&["--once"], "ran\n", ""),
            (&["--once"], "", "was done by"),
            (&["--once-per=1h"], "", "not run again within 1h"),
        ] {
            exec(database, options).expect(0, stdout, stderr);
        }
        let history = Dlock::on(database, ["history", "init"]).run();
        assert_eq!(history.stdout.matches("exit 0").count(), 3, "{history:?}");
        let status = Dlock::on(database, ["status", "init"]).run();
        assert!(status.stdout.starts_with("init: free\n"), "{status:?}");

        let holder = Holder::on(database, &["--ttl", "6s", "--fence"]);
        let waiters = [(); 3].map(|()| exec(database, &[]).start());
        for waiter in &waiters {
            waiter.wait_for_output("init is held by");
        }
        // Another session reads what is committed.
        eventually("the lease is renewed", || renewals(database) >= 3);
        // With the worst time limits, the server may have closed a first connection on a busy machine.
        holder.end().exited(3);
        for waiter in waiters {
            waiter.wait().expect(0, "ran\n", "init is held by");
        }
    });
}
