//! `dlock serve`: a page for operators, and metrics of all actions for monitoring.
//!
//! One thread runs an HTTP server (`server`). A second thread has the only connection to the database (`query_thread`):
//! all viewers share its responses, and it sends no query if there is neither a viewer nor a request. The page only
//! reads. It shows the commands with which an operator acts.
//!
//! `access` decides which requests are answered. `rendering` and `stream` limit the memory and the time that a client can
//! use. `overview`, `action_document` and `metrics` turn the records into responses, and depend on no clock and no socket.

pub mod access;
pub mod action_document;
mod assets;
pub mod listener;
pub mod metrics;
pub mod overview;
mod query_thread;
pub mod reader;
pub mod rendering;
mod router;
pub mod server;
mod stream;
mod viewers;

#[cfg(test)]
mod tests;
