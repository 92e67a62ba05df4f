//! Creates a database with many actions, of which some are held. The rows are like those of real runs.
//!
//! The history contains one run of each action. The ttl of each lease is an hour. One session owns all queue locks,
//! although normally each holder's session owns its own queue lock. [`ACTION`] is one of the held actions. This file
//! does not create the row of [`ACTION`], because a real process acquires the action.

use std::process::Command;

use mysql::Conn;

use super::succeed;
use crate::servers::{Database, Server};
use crate::sql::Sql;

/// The action that a real process acquires.
pub const ACTION: &str = "init";

/// Number of rows in a transaction. The number is limited because the logs of the servers are small.
const BATCH: u32 = 100_000;

pub struct Population {
    pub database: Database,
    /// Session that owns the queue locks.
    session: Conn,
}

impl Population {
    /// Creates a database with `actions` actions, of which `held` are held. `awaited` of the held actions have two
    /// waiters.
    pub fn new(server: &Server, actions: u32, held: u32, awaited: u32) -> Self {
        let database = server.database("bench");
        let mut population = Self {
            session: database.admin_conn(),
            database,
        };
        succeed(&mut population.dlock(&["setup"]));
        // The binary log is not needed, and writing it would take longer than filling the tables.
        population.session.run("SET SESSION sql_log_bin=0");
        let is_held = format!("number%{}=0", actions / held);
        for batch_start in (0..actions).step_by(BATCH as usize) {
            // Number 0 is `ACTION`.
            let (first, end) = (batch_start.max(1), actions.min(batch_start + BATCH));
            population.session.run(rows(&is_held, first, end));
            population.session.run(runs(first, end));
        }
        let locks = format!(
            "SELECT SUM(GET_LOCK({LOCK_NAME},0)) FROM dlock_lock WHERE owner_id IS NOT NULL"
        );
        let locks: Option<u32> = population.session.first(locks);
        assert_eq!(locks, Some(held - 1), "number of queue locks");
        for _ in 0..2 {
            population.session.run(waiters(awaited));
        }
        population
    }

    /// Returns `dlock ARGUMENTS…` on this database, over TCP without TLS.
    pub fn dlock(&self, arguments: &[&str]) -> Command {
        super::dlock(&self.database, arguments)
    }

    /// Returns the number of waiters for [`ACTION`].
    pub fn waiting(&self) -> usize {
        let query = format!("SELECT COUNT(*) FROM dlock_waiter WHERE action='{ACTION}'");
        self.database.value(query)
    }
}

/// SQL expression for the name of the queue lock of a row's action.
const LOCK_NAME: &str =
    "CONCAT('dlock:',LEFT(SHA2(CONCAT(CAST(DATABASE() AS BINARY),x'00',action),256),40))";

/// Returns the statement that inserts the actions with the numbers `first..end`. An action is held if the SQL condition
/// `held` is true for its number.
fn rows(held: &str, first: u32, end: u32) -> String {
    format!(
        "INSERT INTO dlock_lock (action,token,owner_id,holder,host,pid,user,command,\
         server,session_id,has_queue_lock,ttl_us,renewals,acquired_at,renewed_at,expires_at,released_at) \
         WITH RECURSIVE low AS (SELECT 0 AS n UNION ALL SELECT n+1 FROM low WHERE n<999),\
         high AS (SELECT low.n FROM low WHERE low.n<{BATCH}/1000),\
         numbered AS (SELECT {base}+high.n*1000+low.n AS number FROM high,low) \
         SELECT {name},1700000000000000+number,IF({held},UNHEX(LEFT(SHA2(number,256),32)),NULL),\
         CONCAT('web-',number%40,'/',1000+number%30000),CONCAT('web-',number%40),1000+number%30000,\
         'deploy','migrate.sh',CONCAT(@@hostname,':',@@port,'/',@@server_id),CONNECTION_ID(),1,\
         3600000000,0,UTC_TIMESTAMP(6),UTC_TIMESTAMP(6),\
         IF({held},UTC_TIMESTAMP(6)+INTERVAL 1 HOUR,UTC_TIMESTAMP(6)),\
         IF({held},NULL,UTC_TIMESTAMP(6)) \
         FROM numbered WHERE number>={first} AND number<{end}",
        base = first - first % BATCH,
        name = name("number"),
    )
}

/// Returns the statement that inserts one run of each action `first..end` into the history.
fn runs(first: u32, end: u32) -> String {
    let facts = "holder,host,pid,user,note,pod,namespace,command";
    format!(
        "INSERT INTO dlock_history (action,token,{facts},started_at,ended_at,outcome,code) \
         SELECT action,token-1,{facts},acquired_at-INTERVAL 1 DAY,acquired_at-INTERVAL 23 HOUR,'exited',0 \
         FROM dlock_lock WHERE action BETWEEN {} AND {}",
        name(&first.to_string()),
        name(&(end - 1).to_string()),
    )
}

/// Returns the statement that inserts one waiter for each of the last `actions` held actions.
fn waiters(actions: u32) -> String {
    format!(
        "INSERT INTO dlock_waiter (action,owner_id,holder,host,pid,user,note,command,polls,\
         server,session_id,account,enqueued_at,last_seen_at) \
         SELECT action,UNHEX(LEFT(SHA2(UUID(),256),32)),holder,host,pid,user,note,command,0,\
         server,session_id,CURRENT_USER(),UTC_TIMESTAMP(6),UTC_TIMESTAMP(6) \
         FROM dlock_lock WHERE owner_id IS NOT NULL ORDER BY action DESC LIMIT {actions}"
    )
}

/// Returns the SQL expression for the name of an action. Names sort like their numbers.
fn name(number: &str) -> String {
    format!("CONCAT('job-',LPAD({number},7,'0'))")
}
