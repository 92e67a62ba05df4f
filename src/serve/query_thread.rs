//! The thread that owns the connection to the database, because the driver blocks. It runs one query after another.

use std::io;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::locks::IO_TIMEOUT;
use crate::store::Failure;
use crate::store::mysql::Database;
use crate::store::mysql::worker::Worker;
use crate::store::target::Targets;

/// Time without a query after which the server ends the session, if this process does not close the connection.
const SESSION_TIMEOUT: Duration = Duration::from_mins(5);

/// The thread that owns the connection to the database.
#[derive(Debug)]
pub(super) struct QueryThread(Worker);

impl QueryThread {
    /// Starts the thread. It connects at the first query.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a thread or a descriptor.
    pub(super) fn start(targets: Targets) -> io::Result<Self> {
        Worker::start(Database::new(targets, IO_TIMEOUT, SESSION_TIMEOUT)).map(Self)
    }

    /// Runs `query` on the thread, as [`Worker::call`] does, without blocking this one.
    ///
    /// # Errors
    /// Returns the failure of the query. The kind is `Unreachable` after `limit`, and if the thread has ended.
    pub(super) async fn query<T: Send + 'static>(
        &self,
        limit: Duration,
        query: impl FnOnce(&mut Database) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (sender, response) = oneshot::channel();
        self.0.send(move |database| {
            // Nobody waits any more for the result of a query that took too long or whose client is gone.
            if !sender.is_closed() {
                let _ = sender.send(query(database));
            }
        });
        match timeout(limit, response).await {
            Ok(outcome) => outcome.map_err(|_| Worker::ended())?,
            Err(_) => Err(self.0.timed_out(limit)),
        }
    }
}
