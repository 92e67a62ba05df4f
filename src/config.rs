//! The connection settings, collected from the flags, the environment, a URL and an option file.
//!
//! This folder reads only files that the user names (no `~/.my.cnf`), decides which source takes precedence, and
//! returns one complete [`Target`](crate::store::target::Target). It prints nothing and opens no connection. Its
//! errors contain only names of options and files, and line numbers, never a value, so that a password in the wrong
//! place is not disclosed.

mod error;
mod flags;
mod option_file;
mod option_group;
mod option_line;
mod password;
mod precedence;
mod settings;
mod text_file;
mod tls;
mod url;
mod value;

pub use error::Error;
pub use precedence::target;
