//! `dlock help` and `dlock version`, which do not connect to the server.

use crate::cli::help::HelpArgs;
use crate::cli::{built, words};
use crate::exit::{ExitError, Status};
use crate::report;
use crate::store::mysql::schema;

/// The commit of the source, which the Makefile sets.
const COMMIT: Option<&str> = option_env!("DLOCK_COMMIT");

/// Prints the long help of a subcommand, or of dlock.
///
/// # Errors
/// Fails if there is no such subcommand, or if stdout cannot be written.
pub fn help(args: &HelpArgs) -> anyhow::Result<Status> {
    let mut root = built();
    let command = match &args.subcommand {
        None => &mut root,
        Some(name) => root.find_subcommand_mut(name).ok_or_else(|| {
            let hint = words::similar_subcommand(name);
            let hint = hint.unwrap_or_else(|| "dlock -h lists the subcommands".to_owned());
            let why = format!("there is no subcommand {name}; {hint}");
            ExitError::new(Status::USAGE, why)
        })?,
    };
    report::result(&command.render_long_help().to_string())?;
    Ok(Status::OK)
}

/// Prints the version of the program, its commit, and the version of the schema.
///
/// # Errors
/// Fails if stdout cannot be written.
pub fn version() -> anyhow::Result<Status> {
    report::result(&format!(
        "dlock {}\ncommit: {}\nschema version: {}\n",
        env!("CARGO_PKG_VERSION"),
        COMMIT.unwrap_or("unknown"),
        schema::VERSION,
    ))?;
    Ok(Status::OK)
}
