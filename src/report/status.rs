//! The output formats of `dlock status`: tables and facts for users, and JSON for programs.

mod details;
mod holders;
mod json;
mod sessions;
mod table;
mod waiters;

pub use self::details::{details, facts, next};
pub use self::json::{Connections, LockJson, json, lock_document, write_json};
pub use self::table::{COLUMNS, cells, holder_and_others, paint, table};
