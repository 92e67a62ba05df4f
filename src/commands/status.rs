//! `dlock status`: who holds what.

use super::ask_once;
use crate::cli::StatusArgs;
use crate::exit::Status;
use crate::report;
use crate::store::mysql::Selection;
use crate::store::target::Target;
use crate::store::{Sighting, State};

/// Shows the actions asked for, or with `--check` only says by the status whether one is held.
///
/// # Errors
/// When the server cannot be reached, refuses, or has no tables of ours.
pub fn run(args: StatusArgs, target: Target) -> anyhow::Result<Status> {
    let mut actions = args.actions;
    actions.extend(args.action);
    actions.sort();
    actions.dedup();
    let wanted = actions.clone();
    let (mut sightings, waiters) = ask_once(target, move |database| {
        database.survey(match wanted.as_slice() {
            [] if args.all => Selection::All,
            [] => Selection::Wanted,
            named => Selection::Named(named),
        })
    })?;
    // Who asks for an action by name gets an answer about it, also if it was never held.
    for action in actions {
        if !sightings.iter().any(|seen| seen.action == action) {
            sightings.push(Sighting::never_held(action));
        }
    }
    sightings.sort_by(|one, other| one.action.cmp(&other.action));
    if args.check {
        let is_held = |seen: &Sighting| seen.state() == State::Held;
        return Ok(match sightings.iter().any(is_held) {
            true => Status::HELD,
            false => Status::OK,
        });
    }
    let text = if args.json {
        report::status::json(&sightings, &waiters)?
    } else {
        report::status::table(&sightings, &waiters)
    };
    report::result(&text)?;
    Ok(Status::OK)
}
