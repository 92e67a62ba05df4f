//! The connection settings from the command line, the environment, a URL, an option file and the configuration files.
//!
//! This module reads only files that the user specifies (never `~/.my.cnf`) and dlock's own configuration files, applies
//! the precedence of the sources, and returns one complete [`Target`](crate::store::target::Target). It prints nothing
//! and opens no connection. Its errors may contain the names of options and files, and line numbers. They never contain
//! the value of a setting, because a user may have put the password into the wrong option.

mod config_file;
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
mod variables;

pub use config_file::ConfigFile;
pub use error::Error;
pub use password::VARIABLE as PASSWORD_VARIABLE;
pub use precedence::{ConnectionSettings, connection_settings};
pub use settings::Setting;
pub use text_file::value as text_file_value;
pub use variables::connection_variables;
