//! Number of connections and packets that one `dlock exec` needs.

use testkit::cli_runner::Dlock;
use testkit::holder::acquire_once;
use testkit::proxy::{Kind, Proxy, Request};
use testkit::servers::{Database, Flavour, Series, Server, shared};

use super::actions;

/// Runs `true` under `action` through `proxy`, and returns the requests. Runs it again if an attempt has timed out on a busy
/// machine.
#[track_caller]
fn requests(database: &Database, proxy: &Proxy, action: &str) -> Vec<Request> {
    let run = || {
        let before = proxy.sessions().len();
        let exec = ["exec", "-a", action, "--", "true"];
        let outcome = Dlock::through(database, proxy.port(), exec).run();
        assert_eq!(outcome.status, Some(0), "{outcome:#?}");
        let is_usual = outcome.stderr.is_empty();
        is_usual.then(|| proxy.sessions().split_off(before))
    };
    let sessions = (0..9).find_map(|_| run());
    let sessions = sessions.expect("an exec succeeds without a message");
    let sent = sessions.into_iter().flat_map(|session| session.requests);
    let mut requests: Vec<Request> = sent.collect();
    // On a busy machine, `true` may take so long that its holder hands off the lease.
    requests.retain(|request| request.kind() != Some(Kind::Handoff));
    requests
}

/// Creates the tables and the row of `init`. Returns a proxy to the server.
#[track_caller]
fn with_row(database: &Database) -> Proxy {
    acquire_once(database);
    Proxy::to(database.port)
}

#[test]
fn an_exec_costs_one_connection_and_two_packets() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("cost");
        let proxy = with_row(&database);
        let sent = requests(&database, &proxy, "init");
        let has =
            |request: &Request, part| matches!(request, Request::Query(it) if it.contains(part));
        let [attempt, release, Request::Quit] = &sent[..] else {
            panic!("{flavour}: expected two packets and Quit: {sent:#?}");
        };
        assert!(has(attempt, "UPDATE dlock_lock SET token="), "{sent:#?}");
        let released = has(release, "UPDATE dlock_lock SET owner_id=NULL");
        assert!(released, "{sent:#?}");
        // The first exec of an action costs one more packet.
        let sent = requests(&database, &proxy, "new");
        assert_eq!(sent.len(), 4, "{flavour}: {sent:#?}");

        // The server also counts one connection per exec. By default the driver requests the socket path of a server on
        // loopback and connects a second time through the socket.
        let user = &database.user;
        let limit = "WITH MAX_CONNECTIONS_PER_HOUR 2";
        database.run(format!("ALTER USER '{user}'@'%' {limit}"));
        let run = || {
            let exec = ["exec", "-a", "init", "--connect-timeout", "0", "--", "true"];
            Dlock::on(&database, exec).run()
        };
        run().expect(0, "", "");
        assert_eq!(actions(&database), ["init", "new"], "{flavour}");
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
    let proxy = with_row(&database);
    let packets = || {
        let sent = requests(&database, &proxy, "init").into_iter();
        sent.filter(|it| matches!(it, Request::Query(_))).count()
    };
    assert_eq!(packets(), 2);
    server.run("SET GLOBAL gtid_purged='+11111111-2222-3333-4444-555555555555:1-7'");
    assert_eq!(packets(), 3);
}
