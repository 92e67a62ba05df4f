//! `dlock doctor`: whether all is there that dlock rests on.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use anyhow::Context;

use super::{LIMIT, PATIENCE};
use crate::cli::doctor::DoctorArgs;
use crate::database::THREAD_NAME;
use crate::exit::Status;
use crate::report;
use crate::store::Failure;
use crate::store::finding::{Check, Finding};
use crate::store::mysql::doctor::examine;
use crate::store::target::Target;
use crate::sys::clock;

/// What comes from the thread that asks.
enum News {
    Finding(Finding),
    Over(Result<(), Failure>),
}

/// Prints what is found; the status tells whether anything must be mended.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(args: &DoctorArgs, target: Target) -> anyhow::Result<Status> {
    let (findings, outcome) = collect(target)?;
    let findings = complete(findings, &outcome);
    let status = match outcome {
        Outcome::Over(Err(failure)) => failure.kind.status(),
        Outcome::Over(Ok(())) if findings.iter().any(Finding::is_mend) => Status::CONFIG,
        Outcome::Over(Ok(())) => Status::OK,
        Outcome::Stuck => Status::UNAVAILABLE,
        Outcome::Panicked => Status::INTERNAL,
    };
    report::result(&match args.json {
        true => report::doctor::json(&findings, status)?,
        false => report::doctor::text(&findings),
    })?;
    Ok(status)
}

/// How the examination ended.
enum Outcome {
    Over(Result<(), Failure>),
    /// It did not, within the time that somebody looks at a screen.
    Stuck,
    Panicked,
}

/// Examines on a thread of its own, since some of what the driver does has no limit; what was found
/// until time is up is not lost.
fn collect(target: Target) -> anyhow::Result<(Vec<Finding>, Outcome)> {
    let (sender, receiver) = mpsc::channel();
    let end = clock::now() + PATIENCE;
    thread::Builder::new()
        .name(THREAD_NAME.to_owned())
        .spawn(move || {
            // A send fails only if nobody waits any more.
            let mut tell = |finding| _ = sender.send(News::Finding(finding));
            let outcome = examine(&target, LIMIT, &mut tell);
            _ = sender.send(News::Over(outcome));
        })
        .context("cannot start a thread")?;
    // Not joined: it may be stuck in the resolver. The process ends soon and it with it.
    let mut findings = Vec::new();
    loop {
        match receiver.recv_timeout(end.since(clock::now())) {
            Ok(News::Finding(finding)) => findings.push(finding),
            Ok(News::Over(outcome)) => return Ok((findings, Outcome::Over(outcome))),
            Err(RecvTimeoutError::Timeout) => return Ok((findings, Outcome::Stuck)),
            Err(RecvTimeoutError::Disconnected) => return Ok((findings, Outcome::Panicked)),
        }
    }
}

/// All checks in order, with those that were not come to.
fn complete(mut findings: Vec<Finding>, outcome: &Outcome) -> Vec<Finding> {
    let is_told = |findings: &[Finding], check| findings.iter().any(|one| one.check == check);
    let interrupted = match outcome {
        Outcome::Over(_) => None,
        Outcome::Stuck => Some(format!("no answer within {PATIENCE:?}")),
        Outcome::Panicked => Some("the reply could not be read".to_owned()),
    };
    let next = Check::ALL
        .into_iter()
        .find(|check| !is_told(&findings, *check));
    if let (Some(fact), Some(check)) = (interrupted, next) {
        findings.push(Finding::mend(
            check,
            fact,
            "every command of dlock needs an answer, and in much less time",
            "check the name server of this machine, the server, and what stands between",
        ));
    }
    for check in Check::ALL {
        if !is_told(&findings, check) {
            findings.push(Finding::unchecked(check, ""));
        }
    }
    findings.sort_by_key(|finding| finding.check);
    findings
}
