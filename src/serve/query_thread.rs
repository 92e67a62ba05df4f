//! The thread that owns the connection to the database, because the driver blocks. It runs one query after another.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::event::database::THREAD_NAME;
use crate::store::mysql::Database;
use crate::store::target::Targets;
use crate::store::{Failure, FailureKind};
use crate::sys::socket::Interrupter;
use crate::watch::app::poller::IO_TIMEOUT;

/// Time without a query after which the server ends the session, if this process does not close the connection.
const SESSION_TIMEOUT: Duration = Duration::from_mins(5);

/// A query on the database thread.
type Query = Box<dyn FnOnce(&mut Database) + Send>;

/// The thread that owns the connection to the database.
#[derive(Debug)]
pub(super) struct QueryThread {
    queries: mpsc::Sender<Query>,
    interrupter: Interrupter,
    servers: String,
}

impl QueryThread {
    /// Starts the thread. It connects at the first query.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a thread.
    pub(super) fn start(targets: Targets) -> io::Result<Self> {
        let servers = targets.to_string();
        let mut database = Database::new(targets, IO_TIMEOUT, SESSION_TIMEOUT);
        let interrupter = database.interrupter();
        let (queries, receiver) = mpsc::channel::<Query>();
        thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            .spawn(move || {
                for query in receiver {
                    query(&mut database);
                }
            })?;
        Ok(Self {
            queries,
            interrupter,
            servers,
        })
    }

    /// Runs `query` on the thread. After `limit`, interrupts the connection and returns a failure. The thread then runs
    /// the next query when this one has ended.
    ///
    /// # Errors
    /// Returns the failure of the query. The kind is `Unreachable` after `limit`, and if the thread has ended.
    pub(super) async fn query<T: Send + 'static>(
        &self,
        limit: Duration,
        query: impl FnOnce(&mut Database) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (sender, response) = oneshot::channel();
        let query = move |database: &mut Database| {
            // Nobody waits any more for the result of a query that took too long or whose client is gone.
            if !sender.is_closed() {
                let _ = sender.send(query(database));
            }
        };
        let failure = |why: String| Failure::new(FailureKind::Unreachable, why);
        let ended = || failure("the database thread has ended".to_owned());
        self.queries.send(Box::new(query)).map_err(|_| ended())?;
        if let Ok(outcome) = timeout(limit, response).await {
            return outcome.map_err(|_| ended())?;
        }
        self.interrupter.interrupt();
        let servers = &self.servers;
        Err(failure(format!(
            "no response from {servers} within {limit:?}"
        )))
    }
}
