//! `dlock serve`: a page for operators, and metrics of all actions for monitoring.
//!
//! One thread runs an HTTP server (`server`). A second thread has the only connection to the database (`query_thread`):
//! all requests share its responses, and it sends a query only if a request needs newer records. The page asks for the
//! overview in each interval. It only reads, and shows the commands with which an operator acts.
//!
//! `access` decides which requests are answered. `documents` limits the memory and the time that a client can use.
//! `overview`, `action_document` and `metrics` turn the records into documents, and depend on no clock and no socket.

pub mod access;
pub mod action_document;
mod assets;
pub mod documents;
pub mod listener;
pub mod metrics;
pub mod overview;
mod query_thread;
pub mod reader;
mod router;
pub mod server;

#[cfg(test)]
mod tests;
