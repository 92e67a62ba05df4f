//! `dlock note`: changes the note of the run under which this command runs.

use std::time::Duration;

use super::outer::selected_leases;
use super::query_once;
use crate::cli::note::NoteArgs;
use crate::exit::{ExitError, Status};
use crate::lease::Token;
use crate::store::target::Targets;
use crate::store::{Contender, Holder, OuterLease};

/// Writes the note to each lease of the run.
///
/// # Errors
/// Fails if a token is not current, or if the server cannot be reached, is read-only or refuses the request.
pub fn run(args: NoteArgs, targets: Targets) -> anyhow::Result<Status> {
    let NoteArgs {
        text,
        action,
        token,
    } = args;
    let leases = selected_leases(action, false, Token(token));
    let stale = query_once(targets, move |database| {
        for lease in leases {
            let OuterLease { action, token } = lease.clone();
            let contender = Contender::without_command(action, Holder::default(), Duration::ZERO);
            let record = database.current_record(&contender)?;
            if !database.change_note(&record, token, &text)? {
                return Ok(Some(lease));
            }
        }
        Ok(None)
    })?;
    if let Some(OuterLease { action, token }) = stale {
        let why = format!("the note is not changed: token {token} of {action} is not current");
        return Err(ExitError::new(Status::LOST, why).into());
    }
    Ok(Status::OK)
}
