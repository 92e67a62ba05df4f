//! `dlock doctor`: checks everything that dlock depends on.

use std::sync::mpsc::{self, RecvTimeoutError};

use anyhow::Context;

use super::QUERY_TIMEOUT;
use crate::cli::doctor::DoctorArgs;
use crate::config::{ConnectionSettings, Setting};
use crate::exit::Status;
use crate::locks::IO_TIMEOUT;
use crate::report;
use crate::report::doctor::{ConfigFileLine, SettingLine, SettingsReport};
use crate::store::Failure;
use crate::store::check::{Check, Finding};
use crate::store::mysql::doctor::examine;
use crate::store::mysql::worker;
use crate::store::target::{Address, Targets};
use crate::sys::{clock, proc};

/// A message from the thread that runs the checks.
enum CheckProgress {
    Finding(Finding),
    Over(Result<(), Failure>),
}

/// Prints the settings and all findings. Returns a status that shows whether a check failed.
///
/// # Errors
/// Fails if the settings are incomplete, or if stdout cannot be written.
pub fn run(args: &DoctorArgs, settings: &ConnectionSettings) -> anyhow::Result<Status> {
    let targets = settings.targets()?;
    let shown = settings_report(settings, &targets);
    let has_hosts = targets.are_several();
    let (findings, outcome) = collect(args.session_user.clone(), targets)?;
    let mut findings = complete([vec![processes()], findings].concat(), &outcome);
    if !has_hosts {
        findings.retain(|finding| finding.check != Check::Hosts);
    }
    let status = match outcome {
        CheckRun::Over(Err(failure)) => failure.kind.status(),
        CheckRun::Over(Ok(())) if findings.iter().any(Finding::is_failure) => Status::CONFIG,
        CheckRun::Over(Ok(())) => Status::OK,
        CheckRun::Stuck => Status::UNAVAILABLE,
        CheckRun::Panicked => Status::INTERNAL,
    };
    report::result(&match args.json {
        true => report::doctor::json(&shown, &findings, status)?,
        false => report::doctor::text(&shown, &findings),
    })?;
    Ok(status)
}

/// Checks that dlock finds the processes of a command.
fn processes() -> Finding {
    match proc::check() {
        Ok(()) => Finding::ok(Check::Processes, "/proc shows the processes of a command"),
        Err(why) => Finding::fail(
            Check::Processes,
            why.fact(),
            "dlock could not stop the descendants of a command, so dlock exec does not start it",
            why.fix(),
        ),
    }
}

/// Returns the settings in `targets`, where each of them is set, and the configuration files that exist.
fn settings_report(settings: &ConnectionSettings, targets: &Targets) -> SettingsReport {
    let value = |setting| match (setting, &targets.first().address) {
        (Setting::Host, _) if targets.are_several() => Some(targets.to_string()),
        (Setting::Host, Address::Tcp { host, .. }) => Some(host.clone()),
        (Setting::Port, Address::Tcp { port, .. }) if !targets.are_several() => {
            Some(port.to_string())
        }
        (Setting::Port, _) => None,
        (Setting::SslMode, _) => Some(ssl_modes(targets)),
        (setting, _) => settings.text(setting).map(str::to_owned),
    };
    let lines = Setting::ALL.iter().map(|setting| SettingLine {
        name: setting.name(),
        value: value(*setting),
        origin: settings.origin(*setting).map(str::to_owned),
    });
    let lines = lines.filter(|line| line.value.is_some() || line.name == Setting::Password.name());
    let files = settings.files().iter().map(|file| ConfigFileLine {
        path: file.path.display().to_string(),
        ignored_because_of: file.ignored_because_of.clone(),
    });
    SettingsReport {
        settings: lines.collect(),
        files: files.collect(),
    }
}

/// Returns the TLS modes of the hosts, without repetitions.
fn ssl_modes(targets: &Targets) -> String {
    let mut modes: Vec<String> = targets
        .iter()
        .map(|target| target.tls.mode.to_string())
        .collect();
    modes.dedup();
    modes.join(",")
}

/// How the checks ended.
enum CheckRun {
    Over(Result<(), Failure>),
    /// The checks did not end within [`QUERY_TIMEOUT`].
    Stuck,
    Panicked,
}

/// Runs the checks on a new thread, because some operations of the driver have no time limit. Returns all
/// findings that arrived before the timeout.
fn collect(
    session_user: Option<String>,
    targets: Targets,
) -> anyhow::Result<(Vec<Finding>, CheckRun)> {
    let (sender, receiver) = mpsc::channel();
    let end = clock::now() + QUERY_TIMEOUT;
    let work = move || {
        // A send fails only if the receiver no longer waits.
        let mut emit = |finding| _ = sender.send(CheckProgress::Finding(finding));
        let outcome = examine(&targets, session_user.as_deref(), IO_TIMEOUT, &mut emit);
        _ = sender.send(CheckProgress::Over(outcome));
    };
    worker::spawn(work).context("cannot start a thread")?;
    // The thread is not joined, because it may be stuck in the resolver. It ends with the process, which
    // exits soon.
    let mut findings = Vec::new();
    loop {
        match receiver.recv_timeout(end.since(clock::now())) {
            Ok(CheckProgress::Finding(finding)) => findings.push(finding),
            Ok(CheckProgress::Over(outcome)) => return Ok((findings, CheckRun::Over(outcome))),
            Err(RecvTimeoutError::Timeout) => return Ok((findings, CheckRun::Stuck)),
            Err(RecvTimeoutError::Disconnected) => return Ok((findings, CheckRun::Panicked)),
        }
    }
}

/// Returns the findings of all checks in order. Adds a skipped finding for each check that was not
/// reached.
fn complete(mut findings: Vec<Finding>, outcome: &CheckRun) -> Vec<Finding> {
    let is_present = |findings: &[Finding], check| findings.iter().any(|one| one.check == check);
    let interrupted = match outcome {
        CheckRun::Over(_) => None,
        CheckRun::Stuck => Some(format!("no response within {QUERY_TIMEOUT:?}")),
        CheckRun::Panicked => Some("the response could not be read".to_owned()),
    };
    let mut checks = Check::ALL.iter().copied();
    let next = checks.find(|check| !is_present(&findings, *check));
    if let (Some(fact), Some(check)) = (interrupted, next) {
        findings.push(Finding::fail(
            check,
            fact,
            "dlock commands normally need a response in much less time",
            "check the name server of this machine, the database server, and the network between them",
        ));
    }
    for check in Check::ALL.iter().copied() {
        if !is_present(&findings, check) {
            findings.push(Finding::skip(check, ""));
        }
    }
    findings.sort_by_key(|finding| finding.check);
    findings
}
