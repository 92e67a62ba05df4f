//! The lock on a MySQL or MariaDB server: receives requests and returns responses, on one connection at a time.
//!
//! [`Database::ask`] blocks for as long as a name server or a hanging server takes. Only the database thread
//! calls it, and the event loop has its own limit for each response.

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
