//! What an exec costs the server: connections and packets.

use mysql::prelude::Queryable;

use super::actions;
use crate::dlock::Dlock;
use crate::proxy::{Proxy, Request};
use crate::servers::{Flavour, shared};

#[test]
fn an_exec_costs_one_connection_and_two_packets() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("cost");
        // The tables and the row of the action are there from then on.
        Dlock::on(&database, ["exec", "-a", "init", "--", "true"])
            .run()
            .expect(0, "", "");

        let proxy = Proxy::to(server.port());
        Dlock::new(["exec", "-a", "init", "--", "true"])
            .env("DLOCK_URL", database.url_through(proxy.port()))
            .run()
            .expect(0, "", "");
        let sessions = proxy.sessions();
        let [session] = &sessions[..] else {
            panic!("{flavour}: not one connection: {sessions:#?}");
        };
        let [
            Request::Query(attempt),
            Request::Query(release),
            Request::Quit,
        ] = &session.requests[..]
        else {
            panic!("{flavour}: not two packets and the end: {session:#?}");
        };
        assert!(
            attempt.contains("UPDATE dlock_lock SET token="),
            "{flavour}: {attempt}"
        );
        assert!(
            release.contains("UPDATE dlock_lock SET claim=NULL"),
            "{flavour}: {release}"
        );

        // An action that nobody has ever wanted costs one packet more.
        let proxy = Proxy::to(server.port());
        Dlock::new(["exec", "-a", "new", "--", "true"])
            .env("DLOCK_URL", database.url_through(proxy.port()))
            .run()
            .expect(0, "", "");
        let sessions = proxy.sessions();
        assert_eq!(sessions.len(), 1, "{flavour}: {sessions:#?}");
        assert_eq!(sessions[0].requests.len(), 4, "{flavour}: {sessions:#?}");
    }
}

#[test]
fn the_server_too_counts_one_connection_an_exec() {
    // The driver left to itself asks a server on loopback for its socket and connects a second time, by that.
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("count");
        Dlock::on(&database, ["setup"])
            .run()
            .expect(0, "", "in place");
        let limit = format!(
            "ALTER USER '{}'@'%' WITH MAX_CONNECTIONS_PER_HOUR 2",
            database.user
        );
        database.admin_conn().query_drop(limit).expect("root may");
        let run = || {
            Dlock::on(
                &database,
                ["exec", "-a", "init", "--db-wait", "0", "--", "true"],
            )
            .run()
        };
        run().expect(0, "", "");
        assert_eq!(actions(&database), ["init"], "{flavour}: not released");
        // A second connection of the first would have used up the limit; the driver hides that it could not have it.
        run().expect(0, "", "");
        // The server does keep count.
        run().expect(69, "", "max_connections_per_hour");
    }
}
