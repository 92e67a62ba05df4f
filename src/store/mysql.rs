//! The store on a MySQL or MariaDB server. It sends requests and returns responses, on one connection at a time.
//!
//! [`Database::request`] blocks while it waits for a name server or for the database server, which may take arbitrarily
//! long. Therefore the database thread calls it, and the event loop has its own limit for each response.

mod admin;
mod attempt;
mod connection;
mod database;
pub mod doctor;
mod errors;
mod exchange;
mod release;
mod rows;
pub mod schema;
mod setup;
mod statements;

pub use self::database::Database;
pub use self::setup::TablesState;
pub use self::statements::{Selection, fence_check};
