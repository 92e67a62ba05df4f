//! Number of connections and packets that one `dlock exec` needs.

use mysql::prelude::Queryable;
use testkit::cli_runner::Dlock;
use testkit::proxy::{Kind, Proxy, Request, Session};
use testkit::servers::{Flavour, Series, Server, shared};

use super::actions;

/// Returns the requests of `session` except a hand-off. On a busy machine, `true` may take so long that its holder hands
/// off the lease.
fn without_hand_off(session: &Session) -> Vec<&Request> {
    let is_hand_off = |request: &&Request| request.kind() == Some(Kind::Handoff);
    let requests = session.requests.iter();
    requests.filter(|it| !is_hand_off(it)).collect()
}

#[test]
fn an_exec_costs_one_connection_and_two_packets() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("cost");
        // Creates the tables and the row of the action.
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
            panic!("{flavour}: expected one connection: {sessions:#?}");
        };
        let [
            Request::Query(attempt),
            Request::Query(release),
            Request::Quit,
        ] = &without_hand_off(session)[..]
        else {
            panic!("{flavour}: expected two packets and Quit: {session:#?}");
        };
        assert!(
            attempt.contains("UPDATE dlock_lock SET token="),
            "{flavour}: {attempt}"
        );
        assert!(
            release.contains("UPDATE dlock_lock SET owner_id=NULL"),
            "{flavour}: {release}"
        );

        // The first exec of an action costs one more packet.
        let proxy = Proxy::to(server.port());
        Dlock::new(["exec", "-a", "new", "--", "true"])
            .env("DLOCK_URL", database.url_through(proxy.port()))
            .run()
            .expect(0, "", "");
        let sessions = proxy.sessions();
        assert_eq!(sessions.len(), 1, "{flavour}: {sessions:#?}");
        let requests = without_hand_off(&sessions[0]);
        assert_eq!(requests.len(), 4, "{flavour}: {sessions:#?}");
    }
}

#[test]
fn the_server_also_counts_one_connection_per_exec() {
    // By default the driver requests the socket path of a server on loopback and connects a second time through the
    // socket.
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("count");
        Dlock::on(&database, ["setup"])
            .run()
            .expect(0, "", "in place");
        let limit = format!(
            "ALTER USER '{}'@'%' WITH MAX_CONNECTIONS_PER_HOUR 2",
            database.user
        );
        database
            .admin_conn()
            .query_drop(limit)
            .expect("root has the privilege");
        let run = || {
            Dlock::on(
                &database,
                ["exec", "-a", "init", "--connect-timeout", "0", "--", "true"],
            )
            .run()
        };
        run().expect(0, "", "");
        assert_eq!(actions(&database), ["init"], "{flavour}: not released");
        // If the first exec had opened two connections, the limit would be reached now. The driver hides the failure of
        // a second connection.
        run().expect(0, "", "");
        // This failure proves that the server counts the connections.
        run().expect(69, "", "max_connections_per_hour");
    }
}

#[test]
fn transactions_of_another_server_cost_one_more_packet() {
    // MySQL with GTIDs may belong to a group, so dlock looks closer if it has transactions of another server.
    let gtids = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"];
    let server = Server::start(Series::MySql97, &gtids);
    let database = server.database("gtids");
    let proxy = Proxy::to(server.port());
    let packets = || {
        let exec = ["exec", "-a", "init", "--", "true"];
        let url = database.url_through(proxy.port());
        let before = proxy.sessions().len();
        Dlock::new(exec)
            .env("DLOCK_URL", url)
            .run()
            .expect(0, "", "");
        let sessions = proxy.sessions().split_off(before);
        let requests = sessions
            .iter()
            .flat_map(without_hand_off)
            .filter(|request| matches!(request, Request::Query(_)));
        requests.count()
    };
    packets();
    assert_eq!(packets(), 2);
    let foreign = "SET GLOBAL gtid_purged='+11111111-2222-3333-4444-555555555555:1-7'";
    server
        .admin()
        .query_drop(foreign)
        .expect("root may add transactions");
    assert_eq!(packets(), 3);
}
