//! `dlock leader`: prints the leader, which is the holder of an exclusive lease, once or after each change.
//!
//! A follower reads the record in the packet that waits on the server for the end of the leader's session, so it sends a
//! request every 15 seconds while nothing changes. Where the server cannot wait, it reads once a second: while there is
//! no leader, and while the leader is connected to another server. After a change it reads more often for a moment, because
//! the next leader often follows at once.

use std::thread;
use std::time::Duration;

use anyhow::Context;

use crate::cli::leader::LeaderArgs;
use crate::cli::value::Wait;
use crate::commands::QUERY_TIMEOUT;
use crate::exit::{ExitError, Status};
use crate::lease::OwnerId;
use crate::lease::action::Action;
use crate::locks::IO_TIMEOUT;
use crate::report::leader::{json, line, nobody, unknown};
use crate::report::log::EventKind;
use crate::report::{self, Reader, Report, messages};
use crate::store::mysql::Database;
use crate::store::mysql::worker::Worker;
use crate::store::target::Targets;
use crate::store::{Contender, Failure, FailureKind, Holder, LockRecord};
use crate::sys::clock;

/// Maximum time for which a request waits on the server. A changed note is noticed after this time at the latest.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// Pause before the first request after a change.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Maximum pause between two requests, and the pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Reads the leader, again and again.
struct Follower {
    worker: Worker,
    contender: Contender,
    /// The owner id of the leader in the latest response. None if there was no leader.
    leader: Option<OwnerId>,
    pause: Duration,
}

/// Prints the leader once, or each time when it has changed.
///
/// # Errors
/// Fails if the first request fails, if there is no leader, or if the output cannot be written.
pub fn run(args: &LeaderArgs, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    let action = args.name.action();
    report.about(action);
    let follower = Follower::new(action.clone(), targets)?;
    match args.follow {
        true => follow(follower, args.json, report),
        false => find(follower, args.wait, args.json, report),
    }
}

/// Prints the leader. Waits until there is one, for at most `wait`.
fn find(
    mut follower: Follower,
    wait: Wait,
    as_json: bool,
    report: &Report,
) -> anyhow::Result<Status> {
    let started = clock::now();
    let is_over = || matches!(wait, Wait::AtMost(limit) if clock::now().since(started) >= limit);
    loop {
        match follower.read() {
            Ok((record, is_read_only)) => {
                let has_leader = record.leader().is_some();
                if has_leader || is_over() {
                    if has_leader || as_json {
                        report::result(&text(&record, is_read_only, as_json)?)?;
                    }
                    if is_read_only {
                        report.info(EventKind::ReadOnly, messages::READ_ONLY);
                    }
                    return match has_leader {
                        true => Ok(Status::OK),
                        false => Err(ExitError::new(Status::NOTHING, nobody(&record)).into()),
                    };
                }
                thread::park_timeout(follower.pause);
            }
            Err(failure) if is_over() || !may_pass(&failure) => {
                return Err(ExitError::new(failure.kind.status(), failure).into());
            }
            Err(failure) => {
                report.remind(EventKind::Waiting, failure);
                thread::park_timeout(LONGEST_PAUSE);
            }
        }
    }
}

/// Prints a line about the leader after each change.
fn follow(mut follower: Follower, as_json: bool, report: &Report) -> anyhow::Result<Status> {
    // The line before is the state that the reader knows. None before the first response.
    let mut printed: Option<String> = None;
    let mut last_failure = None;
    loop {
        let (line, pause) = match follower.read() {
            Ok((record, is_read_only)) => {
                last_failure = None;
                if is_read_only && printed.is_none() {
                    report.info(EventKind::ReadOnly, messages::READ_ONLY);
                }
                let line = text(&record, is_read_only, as_json)?;
                (Some(line), follower.pause)
            }
            Err(failure) if printed.is_none() => {
                return Err(ExitError::new(failure.kind.status(), failure).into());
            }
            Err(failure) => {
                let why = failure.to_string();
                let is_news = last_failure.as_ref() != Some(&why);
                if is_news {
                    report.info(EventKind::Waiting, &why);
                }
                let line = (is_news && as_json)
                    .then(|| unknown(&follower.contender.action, &why))
                    .transpose()?;
                last_failure = Some(why);
                (line, LONGEST_PAUSE)
            }
        };
        if line.is_some() && line != printed {
            if report::stream(line.as_deref().unwrap_or_default())? == Reader::Gone {
                return Ok(Status::OK);
            }
            printed = line;
        }
        thread::park_timeout(pause);
    }
}

fn text(record: &LockRecord, is_read_only: bool, as_json: bool) -> serde_json::Result<String> {
    match as_json {
        true => json(record, is_read_only),
        false => Ok(line(record)),
    }
}

/// Returns true if a later request may succeed without a change of the configuration.
fn may_pass(failure: &Failure) -> bool {
    use FailureKind::{TooManyConnections, Unknown, Unreachable};
    matches!(failure.kind, Unknown | Unreachable | TooManyConnections)
}

impl Follower {
    fn new(action: Action, targets: Targets) -> anyhow::Result<Self> {
        let idle = LONGEST_WAIT + QUERY_TIMEOUT;
        let worker = Worker::start(Database::new(targets, IO_TIMEOUT, idle))
            .context("cannot start a thread")?;
        Ok(Self {
            worker,
            contender: Contender::without_command(action, Holder::default(), Duration::ZERO),
            leader: None,
            pause: FIRST_PAUSE,
        })
    }

    /// Waits until the session of the leader ends, for at most [`LONGEST_WAIT`], and returns the record, and true if the
    /// server is read-only. Sets the pause before the next call.
    fn read(&mut self) -> Result<(LockRecord, bool), Failure> {
        let started = clock::now();
        let (record, is_read_only) = match self.request() {
            // The server may have closed the connection, for example while this process was suspended.
            Err(failure) if failure.kind == FailureKind::Unknown => self.request()?,
            response => response?,
        };
        let leader = record.leader().and_then(|lease| lease.owner_id);
        let has_waited = clock::now().since(started) >= LONGEST_PAUSE;
        self.pause = match has_waited || leader != self.leader {
            true => FIRST_PAUSE,
            false => (self.pause * 3 / 2).min(LONGEST_PAUSE),
        };
        self.leader = leader;
        Ok((record, is_read_only))
    }

    fn request(&self) -> Result<(LockRecord, bool), Failure> {
        let contender = self.contender.clone();
        let leader = self.leader.map(|owner_id| (owner_id, LONGEST_WAIT));
        self.worker
            .call(LONGEST_WAIT + QUERY_TIMEOUT, move |database| {
                database.leader(&contender, leader)
            })
    }
}
