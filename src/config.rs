//! The connection settings from the flags, the environment, a URL and an option file.
//!
//! This module reads only files that the user specifies (never `~/.my.cnf`), applies the precedence of the sources, and
//! returns one complete [`Target`](crate::store::target::Target). It prints nothing and opens no connection. Its errors
//! may contain the names of options and files, and line numbers. They never contain the value of a setting, because a
//! user may have put the password into the wrong option.

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
