//! Starts clusters of three servers on 127.0.0.1: Galera and Group Replication. Makes a server a replica of another one.
//! All tests of one cluster share it, one test at a time, and each test leaves a cluster of three healthy members behind.

use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::{self, ScopedJoinHandle};

use mysql::prelude::Queryable;

use crate::cli_runner::eventually;
use crate::servers::{Flavour, Series, Server};

/// The nodes of a Galera cluster, each with its own state.
pub struct Galera {
    pub nodes: Vec<Server>,
}

/// The members of a group of MySQL servers. The first one is the primary.
pub struct Group {
    pub members: Vec<Server>,
}

/// Returns the shared Galera cluster. The first call starts it, which takes about four seconds.
pub fn galera() -> MutexGuard<'static, Galera> {
    static CLUSTER: OnceLock<Mutex<Galera>> = OnceLock::new();
    healthy(&CLUSTER, Galera::start)
}

/// Returns the shared group. The first call starts it, which takes about ten seconds.
pub fn group() -> MutexGuard<'static, Group> {
    static GROUP: OnceLock<Mutex<Group>> = OnceLock::new();
    healthy(&GROUP, Group::start)
}

/// Returns the cluster. Starts another one if there is none, or if a test with the cluster has failed.
fn healthy<T>(shared: &'static OnceLock<Mutex<T>>, start: fn() -> T) -> MutexGuard<'static, T> {
    let shared = shared.get_or_init(|| Mutex::new(start()));
    shared.lock().unwrap_or_else(|failed| {
        let mut cluster = failed.into_inner();
        *cluster = start();
        shared.clear_poison();
        cluster
    })
}

/// Returns the first value that `query` selects. None if there is no row.
#[track_caller]
pub fn value(server: &Server, query: &str) -> Option<String> {
    server.first(query)
}

/// Makes `replica`, which is empty, a read-only replica that copies all changes of `primary`.
pub fn replicate(primary: &Server, replica: &Server) {
    // A replica that became the primary has copied the account.
    primary.run("CREATE USER IF NOT EXISTS repl@'%' IDENTIFIED BY 'repl'; GRANT REPLICATION SLAVE ON *.* TO repl@'%'",
    );
    let port = primary.port();
    let source = match primary.flavour() {
        Flavour::MariaDb => format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1',MASTER_PORT={port},MASTER_USER='repl',MASTER_PASSWORD='repl',\
             MASTER_CONNECT_RETRY=1,MASTER_USE_GTID=slave_pos"
        ),
        Flavour::MySql => format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1',SOURCE_PORT={port},SOURCE_USER='repl',\
             SOURCE_PASSWORD='repl',SOURCE_CONNECT_RETRY=1,SOURCE_AUTO_POSITION=1,GET_SOURCE_PUBLIC_KEY=1"
        ),
    };
    // read_only is not an option of the start, because a server that has become the primary may be restarted.
    replica.run(format!("SET GLOBAL read_only=ON; {source}; START REPLICA"));
}

/// Waits until `replica` has the current changes of `primary`.
pub fn wait_replicated(primary: &Server, replica: &Server) {
    let (position, wait) = match primary.flavour() {
        Flavour::MariaDb => ("@@gtid_binlog_pos", "MASTER_GTID_WAIT"),
        Flavour::MySql => ("@@global.gtid_executed", "WAIT_FOR_EXECUTED_GTID_SET"),
    };
    let done = value(primary, &format!("SELECT {position}"));
    let done = done.expect("the primary has a binary log");
    let waited = value(replica, &format!("SELECT {wait}('{done}',60)"));
    assert_eq!(waited.as_deref(), Some("0"), "{done}");
}

impl Galera {
    pub fn start() -> Self {
        let first = Server::start(Series::Galera, &["--wsrep-new-cluster"]);
        let address = value(&first, "SELECT @@wsrep_node_address").expect("a node has an address");
        let address = format!("--wsrep-cluster-address=gcomm://{address}");
        let mut nodes = vec![first];
        for _ in 1..3 {
            nodes.push(Server::start(Series::Galera, &[&address]));
        }
        Self { nodes }
    }

    /// Returns the value of the status variable `name` of `node`. Empty if the node ends the connection, as it does when it
    /// loses the other nodes.
    pub fn status(node: &Server, name: &str) -> String {
        let query = format!("SHOW GLOBAL STATUS LIKE '{name}'");
        let row = (node.try_admin()).and_then(|mut root| root.query_first(query));
        let row: Option<(String, String)> = row.unwrap_or_default();
        row.map_or_else(String::new, |(_, value)| value)
    }

    /// Cuts `node` off from the other nodes, and waits until it knows that it is alone.
    #[track_caller]
    pub fn isolate(node: &Server) {
        node.run("SET GLOBAL wsrep_provider_options='gmcast.isolate=1'");
        eventually("the isolated node is not primary", || {
            Self::status(node, "wsrep_cluster_status") == "non-Primary"
        });
    }

    /// Replaces the cluster by a new one. A node that was forced to be primary cannot join the other nodes again.
    pub fn rebuild(&mut self) {
        *self = Self::start();
        self.wait_healthy();
    }

    #[track_caller]
    pub fn wait_healthy(&self) {
        for node in &self.nodes {
            eventually("the node is one of three", || {
                Self::status(node, "wsrep_cluster_size") == "3"
                    && Self::status(node, "wsrep_ready") == "ON"
            });
        }
    }
}

impl Group {
    pub fn start() -> Self {
        let members: Vec<Server> = thread::scope(|scope| {
            let start = || Server::start(Series::Group, &[]);
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(start)).collect();
            let servers = threads.into_iter().map(ScopedJoinHandle::join);
            servers
                .collect::<Result<_, _>>()
                .expect("the servers start")
        });
        let address = |member| value(member, "SELECT @@group_replication_local_address");
        let addresses: Vec<String> = members.iter().filter_map(address).collect();
        for member in &members {
            // All statements run in one session, because the first one applies to the session.
            member.run("SET sql_log_bin=0; CREATE USER recovery@'127.0.0.1' IDENTIFIED BY 'recovery'; \
                 GRANT REPLICATION SLAVE,CONNECTION_ADMIN,BACKUP_ADMIN,GROUP_REPLICATION_STREAM ON *.* \
                 TO recovery@'127.0.0.1'; SET sql_log_bin=1; \
                 CHANGE REPLICATION SOURCE TO SOURCE_USER='recovery',SOURCE_PASSWORD='recovery' \
                 FOR CHANNEL 'group_replication_recovery'",
            );
            let seeds = addresses.join(",");
            member.run(format!(
                "SET GLOBAL group_replication_group_seeds='{seeds}'"
            ));
        }
        let group = Self { members };
        group.bootstrap();
        group
    }

    /// Starts the group. No member may be online.
    #[track_caller]
    pub fn bootstrap(&self) {
        let [first, others @ ..] = &self.members[..] else {
            panic!("a group has members");
        };
        first.run("SET GLOBAL group_replication_bootstrap_group=ON");
        first.run("START GROUP_REPLICATION");
        first.run("SET GLOBAL group_replication_bootstrap_group=OFF");
        thread::scope(|scope| {
            for member in others {
                scope.spawn(|| member.run("START GROUP_REPLICATION"));
            }
        });
        self.wait_healthy();
    }

    /// Waits until all members have applied the transactions of the first one.
    #[track_caller]
    pub fn wait_applied(&self) {
        for member in &self.members {
            wait_replicated(&self.members[0], member);
        }
    }

    #[track_caller]
    pub fn wait_healthy(&self) {
        let online = "SELECT COUNT(*) FROM performance_schema.replication_group_members \
                      WHERE member_state='ONLINE'";
        for member in &self.members {
            eventually("three members are online", || {
                value(member, online).as_deref() == Some("3")
            });
        }
    }
}
