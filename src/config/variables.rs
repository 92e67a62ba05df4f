//! The environment variables that contain or name connection settings.

use std::ffi::OsString;

use clap::{Args, Command};

use super::password;
use crate::cli::connection::ConnectionArgs;

/// Returns the variables of all connection options, and the variable that contains the password.
///
/// Some of them contain no secret. But if a nested dlock got only those, it would mix them with its own settings.
#[must_use]
pub fn connection_variables() -> Vec<OsString> {
    let grammar = ConnectionArgs::augment_args(Command::new("dlock"));
    let variables = grammar
        .get_arguments()
        .filter_map(|option| option.get_env());
    variables
        .map(OsString::from)
        .chain([password::VARIABLE.into()])
        .collect()
}
