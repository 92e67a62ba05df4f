//! `dlock explain`: explains an exit status, without connecting to the server.

use crate::cli::explain::ExplainArgs;
use crate::exit::Status;
use crate::report;

/// Prints the explanation of one exit status, or the table of all exit statuses.
///
/// # Errors
/// Fails if stdout cannot be written.
pub fn run(args: &ExplainArgs) -> anyhow::Result<Status> {
    report::result(&match args.status {
        Some(code) => report::explain::status(code),
        None => report::explain::all(),
    })?;
    Ok(Status::OK)
}
