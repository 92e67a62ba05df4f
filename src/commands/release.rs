//! `dlock release`: an operator ends a lease, closes an action for a time, or opens it again.
//!
//! Nothing is done to anything but what was shown: the change has the token for its condition. And
//! no release starts a second command: the lease goes on, not to be renewed, until its command is
//! dead or its time is over.

use std::io::{self, IsTerminal};

use super::{ask_once, holder};
use crate::cli::release::ReleaseArgs;
use crate::exit::{Ending, Status};
use crate::lease::action::Action;
use crate::lease::timing::silence;
use crate::report::log::What;
use crate::report::{self, Report, words};
use crate::store::intervention::{Deed, Intervention, Outcome};
use crate::store::mysql::Selection;
use crate::store::target::Target;
use crate::store::{Holder, Sighting, State};

/// Shows the lock, asks, and acts.
///
/// # Errors
/// When the server cannot be reached or refuses, when nobody can be asked, when the token is not
/// the one that was shown.
pub fn run(args: ReleaseArgs, target: Target, report: &Report) -> anyhow::Result<Status> {
    let action = args.action;
    report.about(&action);
    let looked_at = action.clone();
    let survey = ask_once(target.clone(), move |database| {
        database.survey(Selection::Named(&[looked_at]))
    })?;
    let seen = survey.locks.into_iter().next();
    let seen = seen.unwrap_or_else(|| Sighting::never_held(action.clone()));
    let deed = match args.hold_off {
        _ if args.reopen => Deed::Reopen,
        Some(time) => Deed::Close(time),
        None => Deed::Release,
    };
    if let Some((status, why)) = needless(&action, &seen, deed) {
        report.notice(What::Message.by(None).ending_with(status.code()), why);
        return Ok(status);
    }
    let token = seen.version.token;
    if args.token.is_some_and(|expected| expected != token.0) {
        let why = format!("{action} has token {token} by now: look at it again");
        return Err(Ending::new(Status::LOST, why).into());
    }
    report.block(&report::status::details(&seen, &survey.waiters));
    if !args.yes && !agreed(report, &question(&action, deed))? {
        let why = format!("{action} is left as it is");
        return Err(Ending::new(Status::USAGE, why).into());
    }
    let intervention = Intervention {
        action: action.clone(),
        token,
        by: operator(args.holder, args.reason),
        deed,
    };
    let is_alive = seen.session_alive == Some(true);
    let wakes = seen.is_leased() && is_alive && deed != Deed::Reopen;
    let outcome = ask_once(target, move |database| {
        database.intervene(&intervention, wakes)
    })?;
    let Outcome::Done { woken } = outcome else {
        let why = format!("{action} has changed and was left alone: look at it again");
        return Err(Ending::new(Status::LOST, why).into());
    };
    let what = match deed {
        Deed::Release => What::Released,
        Deed::Close(_) => What::Closed,
        Deed::Reopen => What::Reopened,
    };
    let text = done(&action, &seen, deed, woken);
    report.notice(what.by(words::whose(&seen)), text);
    Ok(Status::OK)
}

/// Why there is nothing to do, if that is so.
fn needless(action: &Action, seen: &Sighting, deed: Deed) -> Option<(Status, String)> {
    let diagnosis = words::diagnosis(seen);
    match deed {
        Deed::Reopen if seen.closed.is_none() => {
            Some((Status::NOTHING, format!("{action} is not closed")))
        }
        Deed::Reopen | Deed::Close(_) => None,
        Deed::Release if seen.state() == State::Broken => {
            Some((Status::OK, format!("{action} is released: {diagnosis}")))
        }
        Deed::Release if seen.claim.is_some() => None,
        Deed::Release if seen.version.token.0 == 0 => Some((
            Status::NOTHING,
            format!("{action} is unknown: nobody has ever held it"),
        )),
        Deed::Release => Some((
            Status::NOTHING,
            format!("there is nothing to release: {action} is {diagnosis}"),
        )),
    }
}

fn question(action: &Action, deed: Deed) -> String {
    match deed {
        Deed::Release => format!("release {action}?"),
        Deed::Close(time) => format!("close {action} for {}?", words::duration(time)),
        Deed::Reopen => format!("open {action} again?"),
    }
}

/// Whether somebody at the terminal says yes.
fn agreed(report: &Report, question: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        let why = "nobody can be asked here: give --yes";
        return Err(Ending::new(Status::USAGE, why).into());
    }
    report.ask(question);
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// The operator: a person, so a process id would say nothing.
fn operator(label: Option<String>, reason: Option<String>) -> Holder {
    let who = holder(label.clone(), reason);
    Holder {
        label: label.unwrap_or_else(|| format!("{}@{}", who.user, who.host)),
        ..who
    }
}

fn done(action: &Action, seen: &Sighting, deed: Deed, is_woken: bool) -> String {
    let closed = match deed {
        Deed::Reopen => return format!("{action} is open again"),
        Deed::Release => "released".to_owned(),
        Deed::Close(time) => format!("closed for {}", words::duration(time)),
    };
    if !seen.is_leased() {
        return format!("{action} is {closed}");
    }
    let label = &seen.holder.label;
    let soon = match (is_woken, seen.state()) {
        (true, _) => "now".to_owned(),
        (false, State::Held) => {
            format!("within {}", words::duration(silence(seen.ttl)))
        }
        (false, _) => "if it is alive".to_owned(),
    };
    let end = words::duration(crate::store::diagnosis::takeable_in(seen));
    format!(
        "{action} is {closed}: {label} stops its command {soon}; its lease is over in {end} at the \
         latest"
    )
}
