//! `dlock status`: who holds what.

use super::ask_once;
use crate::cli::StatusArgs;
use crate::exit::{Ending, Status};
use crate::report::{self, Report};
use crate::store::target::Target;
use crate::store::{Sighting, State};
use crate::watch::show::{self, Wishes};
use crate::watch::survey::Selected;

/// Shows the actions asked for, once or with `--watch` again and again; or with `--check` only says
/// by the status whether one is held.
///
/// # Errors
/// When the server cannot be reached, refuses, or has no tables of ours.
pub fn run(args: StatusArgs, target: Target, report: &Report) -> anyhow::Result<Status> {
    let selected = Selected::new(args.actions.into_iter().chain(args.action), args.all);
    if let Some(interval) = args.repeat.watch {
        if args.check {
            let why = "--watch shows what --check only tells by the status: one of them, please";
            return Err(Ending::new(Status::USAGE, why).into());
        }
        let wishes = Wishes {
            selected,
            json: args.json,
            interval,
            color: args.repeat.color,
        };
        return show::run(wishes, target, report);
    }
    let wanted = selected.clone();
    let (found, waiters) = ask_once(target, move |database| database.survey(wanted.selection()))?;
    let sightings = selected.completed(found);
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
