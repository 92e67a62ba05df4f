//! Where the database is, collected from the flags, the environment, a URL and an option file.
//!
//! This folder reads the files that are named and no other (no `~/.my.cnf`), decides which source
//! wins, and hands out one complete [`Target`](crate::store::target::Target). It prints nothing,
//! connects to nothing, and no error of it repeats a value that was given: only the names of
//! options, files and lines, so that a password in the wrong place stays where it is.

mod error;
mod flags;
mod option_file;
mod option_group;
mod option_line;
mod partial;
mod password;
mod precedence;
mod text_file;
mod tls;
mod url;
mod value;

pub use error::Error;
pub use precedence::target;
