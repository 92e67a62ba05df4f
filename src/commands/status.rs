//! `dlock status`: who holds what.

use std::time::Duration;

use super::ask_once;
use crate::cli::StatusArgs;
use crate::exit::Status;
use crate::report::log::What;
use crate::report::{self, Report, words};
use crate::store::mysql::Selection;
use crate::store::target::Target;
use crate::store::{Sighting, State};
use crate::sys::clock;

/// Shows the actions asked for, or with `--check` only says by the status whether one is held.
///
/// # Errors
/// When the server cannot be reached, refuses, or has no tables of ours.
pub fn run(args: StatusArgs, target: Target, report: &Report) -> anyhow::Result<Status> {
    let mut actions = args.actions;
    actions.extend(args.action);
    actions.sort();
    actions.dedup();
    let wanted = actions.clone();
    let named = !wanted.is_empty();
    let mut survey = ask_once(target, move |database| {
        database.survey(match wanted.as_slice() {
            [] if args.all => Selection::All,
            [] => Selection::Wanted,
            named => Selection::Named(named),
        })
    })?;
    // Who asks for an action by name gets an answer about it, also if it was never held.
    for action in actions {
        if !survey.locks.iter().any(|seen| seen.action == action) {
            survey.locks.push(Sighting::never_held(action));
        }
    }
    survey
        .locks
        .sort_by(|one, other| one.action.cmp(&other.action));
    if args.check {
        let is_taken =
            |seen: &Sighting| matches!(seen.state(), State::Held | State::Broken | State::Closed);
        return Ok(match survey.locks.iter().any(is_taken) {
            true => Status::HELD,
            false => Status::OK,
        });
    }
    let ours = clock::wall();
    let text = match survey.locks.as_slice() {
        _ if args.json => report::status::json(&survey, ours)?,
        [seen] if named => report::status::details(seen, &survey.waiters),
        locks => report::status::table(locks, &survey.waiters),
    };
    report::result(&text)?;
    let server = Duration::from_micros(survey.server_time.0);
    if let Some(difference) = words::clock_difference(server, ours) {
        report.notice(What::ClockDifference, difference);
    }
    Ok(Status::OK)
}
