//! `dlock forget`: deletes the record of a success, so that the command can run again.

use super::{operator, query_once};
use crate::cli::forget::ForgetArgs;
use crate::exit::Status;
use crate::report::log::EventKind;
use crate::report::{Report, messages};
use crate::store::target::Targets;

/// Deletes one success. A success that does not exist is not an error, but the exit status shows an action that does not
/// exist, because its name may be misspelled.
///
/// # Errors
/// Fails if the server cannot be reached or refuses the request.
pub fn run(args: ForgetArgs, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    let ForgetArgs {
        name,
        once,
        operator: label,
        reason,
    } = args;
    let action = name.action().clone();
    report.about(&action);
    let key = once.flatten().unwrap_or_default();
    let what = messages::with_key(&action, &key);
    let who = operator(label, reason);
    let (is_forgotten, is_known) = query_once(targets, {
        let action = action.clone();
        move |database| {
            let is_forgotten = database.forget(&action, &key, &who)?;
            // The action itself is the first of the names that begin with its name.
            let is_known = is_forgotten || database.names(action.as_str(), 1)?.contains(&action);
            Ok((is_forgotten, is_known))
        }
    })?;
    let (status, text) = match (is_forgotten, is_known) {
        (true, _) => (
            Status::OK,
            format!("{what} is forgotten: the next dlock exec --once runs the command again"),
        ),
        (_, true) => (Status::OK, format!("{what} was not recorded as done")),
        (_, false) => (Status::NOTHING, messages::never_used(&action)),
    };
    report.info(EventKind::Message.by(None).ending_with(status.code()), text);
    Ok(status)
}
