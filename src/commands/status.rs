//! `dlock status`: who holds what.

use std::time::Duration;

use super::ask_once;
use crate::cli::StatusArgs;
use crate::exit::{Ending, Status};
use crate::report::log::What;
use crate::report::{self, Report, words};
use crate::store::target::Target;
use crate::store::{Sighting, State};
use crate::sys::clock;
use crate::watch::asked::Asked;
use crate::watch::show::{self, Wishes};

/// Shows the actions asked for, once or with `--watch` again and again; or with `--check` only says
/// by the status whether one is held.
///
/// # Errors
/// When the server cannot be reached, refuses, or has no tables of ours.
pub fn run(args: StatusArgs, target: Target, report: &Report) -> anyhow::Result<Status> {
    let asked = Asked::new(args.actions.into_iter().chain(args.action), args.all);
    if let Some(interval) = args.repeat.watch {
        if args.check {
            let why = "--watch shows what --check only tells by the status: one of them, please";
            return Err(Ending::new(Status::USAGE, why).into());
        }
        let wishes = Wishes {
            asked,
            json: args.json,
            interval,
            color: args.repeat.color,
        };
        return show::run(wishes, target, report);
    }
    let wanted = asked.clone();
    let mut survey = ask_once(target, move |database| database.survey(wanted.selection()))?;
    asked.complete(&mut survey);
    if args.check {
        let is_taken = |seen: &Sighting| {
            seen.closed.is_some() || matches!(seen.state(), State::Held | State::Broken)
        };
        return Ok(match survey.locks.iter().any(is_taken) {
            true => Status::HELD,
            false => Status::OK,
        });
    }
    let ours = clock::wall();
    let text = match survey.locks.as_slice() {
        _ if args.json => report::status::json(&survey, ours)?,
        [seen] if asked.is_named() => report::status::details(seen, &survey.waiters),
        locks => report::status::table(locks, &survey.waiters),
    };
    report::result(&text)?;
    let server = Duration::from_micros(survey.server_time.0);
    if let Some(difference) = words::clock_difference(server, ours) {
        report.notice(What::ClockDifference, difference);
    }
    Ok(Status::OK)
}
