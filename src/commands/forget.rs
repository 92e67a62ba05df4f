//! `dlock forget`: deletes the record of a success, so that the command can run again.

use super::{operator, query_once};
use crate::cli::forget::ForgetArgs;
use crate::exit::Status;
use crate::report::log::EventKind;
use crate::report::{Report, messages};
use crate::store::target::Targets;

/// Deletes one success. A success that does not exist is not an error.
///
/// # Errors
/// Fails if the server cannot be reached or refuses the request.
pub fn run(args: ForgetArgs, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    let ForgetArgs {
        name,
        once,
        operator: label,
        note,
    } = args;
    let action = name.action().clone();
    report.about(&action);
    let key = once.flatten().unwrap_or_default();
    let what = messages::with_key(&action, &key);
    let who = operator(label, note);
    let forgotten = query_once(targets, move |database| {
        database.forget(&action, &key, &who)
    })?;
    let text = match forgotten {
        true => format!("{what} is forgotten: the next dlock exec --once runs the command again"),
        false => format!("{what} was not recorded as done"),
    };
    report.info(EventKind::Message, text);
    Ok(Status::OK)
}
