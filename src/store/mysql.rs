//! The store on a MySQL or MariaDB server. It sends requests and returns responses, on one connection at a time.
//!
//! [`Store::request`](crate::store::Store::request) blocks while it waits for a name server or for the database server. The wait may take
//! arbitrarily long. Therefore `exec` calls it on the database thread, and the event loop has its own time limit for
//! each response.

mod address;
mod admin;
mod attempt;
mod columns;
mod connect;
mod connection;
mod database;
pub mod doctor;
mod errors;
mod exchange;
mod group;
mod hosts;
mod release;
mod reminder;
mod rows;
pub mod schema;
mod session_rows;
mod sessions;
mod setup;
mod snapshot_rows;
mod statements;
pub mod worker;

pub use self::database::Database;
pub use self::setup::TablesState;
pub use self::statements::{Selection, fence_check};
