//! `dlock forget`: lets a command run again that has succeeded.

use super::{ask_once, holder};
use crate::cli::forget::ForgetArgs;
use crate::exit::Status;
use crate::report::log::What;
use crate::report::{Report, words};
use crate::store::target::Target;

/// Forgets one success; that there was none is no failure.
///
/// # Errors
/// When the server cannot be reached or refuses.
pub fn run(args: ForgetArgs, target: Target, report: &Report) -> anyhow::Result<Status> {
    let ForgetArgs {
        action,
        once,
        holder: label,
        note,
    } = args;
    report.about(&action);
    let key = once.flatten().unwrap_or_default();
    let what = words::with_key(&action, &key);
    let who = holder(label, note);
    let forgotten = ask_once(target, move |database| database.forget(&action, &key, &who))?;
    let text = match forgotten {
        true => format!("{what} is forgotten: the next dlock exec --once runs it again"),
        false => format!("{what} was not recorded as done"),
    };
    report.notice(What::Message, text);
    Ok(Status::OK)
}
