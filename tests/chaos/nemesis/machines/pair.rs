//! Faults of a primary and its asynchronous replica behind a proxy: MariaDB behind HAProxy, or MySQL behind MySQL Router. A
//! server that is replaced never returns; a new server becomes the replica and replays the binary log.

use std::sync::atomic::{AtomicU32, Ordering};

use mysql::prelude::Queryable;
use testkit::clusters::{replicate, wait_replicated};
use testkit::command::signal;
use testkit::middle::Middle;
use testkit::servers::{Database, Flavour, Server};

use super::Machines;
use crate::fault_kind::FaultKind;
use crate::schedule::Step;

/// A primary and its replica, and the proxy that leads to the primary.
pub(crate) struct Pair {
    /// The primary is the first element.
    servers: Vec<Server>,
    middle: Middle,
}

/// Starts a server with all of its changes in its binary log, for the next replica. A server that is killed loses no
/// commit, because the binary log would keep it, and the replica would have rows that its primary lacks.
fn start_server(flavour: Flavour) -> Server {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let id = format!("--server-id={number}");
    let [first, second] = match flavour {
        Flavour::MariaDb => ["--log-bin", "--log-slave-updates"],
        Flavour::MySql => ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"],
    };
    let flush = "--innodb-flush-log-at-trx-commit=2";
    Server::start(flavour, &[&id, first, second, flush])
}

/// Starts an empty replica, which copies all changes of `primary`.
fn start_replica(primary: &Server) -> Server {
    let replica = start_server(primary.flavour());
    replicate(primary, &replica);
    replica
}

impl Pair {
    pub(crate) fn start(flavour: Flavour) -> Self {
        let primary = start_server(flavour);
        let replica = start_replica(&primary);
        Self {
            middle: match flavour {
                Flavour::MariaDb => Middle::haproxy(&primary),
                Flavour::MySql => Middle::router(&primary, false),
            },
            servers: vec![primary, replica],
        }
    }

    /// Makes the replica the primary. Clients connect to it from now on, and a new server becomes the replica.
    fn promote(&mut self) {
        let replica = self.servers.pop().expect("a pair has a replica");
        replica.run("STOP REPLICA");
        replica.run("RESET REPLICA ALL");
        replica.run("SET GLOBAL read_only=OFF");
        match replica.flavour() {
            Flavour::MariaDb => self.middle.lead_to(&replica),
            Flavour::MySql => self.middle.restart_router(&replica),
        }
        self.servers = vec![replica];
        self.servers.push(start_replica(&self.servers[0]));
    }
}

impl Machines for Pair {
    fn nodes(&self) -> &[Server] {
        &self.servers
    }

    fn entries(&self, database: &Database) -> Vec<Database> {
        let mut entry = database.clone();
        entry.port = self.middle.port();
        vec![entry]
    }

    fn victim(&self, _: Step) -> usize {
        0
    }

    fn inject(&mut self, kind: FaultKind, _: usize, pause: &dyn Fn()) {
        let [primary, replica] = &mut self.servers[..] else {
            panic!("a pair has two servers");
        };
        match kind {
            FaultKind::SwitchPrimary => {
                primary.run("SET GLOBAL read_only=ON");
                wait_replicated(primary, replica);
                self.promote();
            }
            FaultKind::LosePrimary => {
                replica.run("STOP REPLICA");
                pause();
                signal(primary.pid(), "KILL");
                self.promote();
            }
            _ => primary.restart(),
        }
    }

    fn heal(&mut self) -> bool {
        let [primary, replica] = &self.servers[..] else {
            panic!("a pair has two servers");
        };
        let Ok(mut root) = replica.try_admin() else {
            return false;
        };
        let row: Option<mysql::Row> = root.query_first("SHOW REPLICA STATUS").ok().flatten();
        let column = |name: &str| row.as_ref().and_then(|row| row.get::<String, _>(name));
        let word = match primary.flavour() {
            Flavour::MariaDb => "Slave",
            Flavour::MySql => "Replica",
        };
        let threads = ["IO", "SQL"].map(|thread| column(&format!("{word}_{thread}_Running")));
        let replicates = threads.iter().all(|state| state.as_deref() == Some("Yes"));
        if replicates {
            wait_replicated(primary, replica);
        }
        replicates
    }
}
