//! Runs sequences on the model and on a real server, and shortens a sequence for which the results differ.

use std::fmt;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use testkit::arguments::concurrently;
use testkit::servers::{Database, Server};

use crate::model_side::{ModelSide, owner_id_of};
use crate::mutation::Variant;
use crate::server::Rules;
use crate::server_contender::Rewrite;
use crate::server_side::ServerSide;
use crate::step::{Sequence, Step};

/// Number of sequences that run concurrently on one server.
const WORKERS: usize = 3;

/// Number of runs without a late step that must have equal results after a run whose results differ, if a late step may
/// be the cause of the difference.
const CONFIRMATIONS: usize = 3;

const MAX_RUNS: usize = 10;

/// Maximum time to shorten a sequence. Each run takes seconds if a contender waits although it should not.
const SHORTENING_LIMIT: Duration = Duration::from_mins(1);

/// The two sides of a comparison: the model, with at most one broken rule, and the server, with at most one broken
/// statement.
#[derive(Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) rules: Rules,
    pub(crate) variant: Variant,
    /// The replacement that breaks a statement. None leaves all statements unchanged.
    pub(crate) rewrite: Option<Rewrite>,
}

impl Subject {
    /// Nothing is broken, so no difference is expected.
    pub(crate) const SOUND: Self = Self {
        rules: Rules::NONE,
        variant: Variant::Sound,
        rewrite: None,
    };
}

/// A sequence for which the model and the server have different results.
pub(crate) struct Difference {
    number: u64,
    sequence: Sequence,
    /// The results of the model and the server for the last step.
    description: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sequence, description) = (&self.sequence, &self.description);
        write!(f, "sequence {}:\n{sequence}{description}", self.number)
    }
}

/// Runs the first `count` sequences of `seed` on `server` until the results of one differ. Returns None if all results are
/// equal. Shortens the sequence whose results differ.
pub(crate) fn compare(server: &Server, seed: u64, count: u64) -> Option<Difference> {
    let next = AtomicU64::new(0);
    let is_found = AtomicBool::new(false);
    let work = || {
        let mut worker = Worker::new(server);
        while !is_found.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            let sequence = Sequence::random(seed, number);
            if let Some((at, description)) = worker.first_difference(&sequence) {
                is_found.store(true, Ordering::Relaxed);
                let difference = Difference {
                    number,
                    sequence,
                    description,
                };
                eprintln!("has different results, is being shortened: {difference}");
                return Some(worker.shorten(difference, at));
            }
        }
        None
    };
    let outcomes = concurrently(0..WORKERS, |_| work()).into_iter();
    let outcomes = outcomes.map(|outcome| outcome.unwrap_or_else(|panic| resume_unwind(panic)));
    outcomes.collect::<Vec<_>>().into_iter().flatten().next()
}

/// A worker, which runs one sequence after another on its own database.
pub(crate) struct Worker {
    database: Database,
    subject: Subject,
    /// None before the first sequence, and after a difference.
    server_side: Option<ServerSide>,
}

impl Worker {
    pub(crate) fn new(server: &Server) -> Self {
        Self {
            database: server.database("compare"),
            subject: Subject::SOUND,
            server_side: None,
        }
    }

    /// Returns the number of the first of `numbers`, of the seed 1, for which the results of `subject` differ.
    pub(crate) fn find(&mut self, subject: Subject, mut numbers: Range<u64>) -> Option<u64> {
        if subject.rewrite != self.subject.rewrite {
            self.server_side = None;
        }
        self.subject = subject;
        numbers.find(|number| {
            let sequence = Sequence::random(1, *number);
            self.first_difference(&sequence).is_some()
        })
    }

    /// Runs `sequence` on a new action. Returns the index of the first step whose results differ, and a description of
    /// the difference. Returns None if all results are equal.
    fn first_difference(&mut self, sequence: &Sequence) -> Option<(usize, String)> {
        let (difference, is_late) = self.run_and_clean(sequence);
        if difference.is_none() || !is_late {
            return difference;
        }
        // On a busy machine, a step may take seconds. Leases on the server then expire earlier than in the model.
        let mut confirmations = 0;
        for _ in 1..MAX_RUNS {
            match self.run_and_clean(sequence) {
                (again @ Some(_), false) => return again,
                (None, false) => confirmations += 1,
                (_, true) => {}
            }
            if confirmations == CONFIRMATIONS {
                return None;
            }
        }
        difference
    }

    /// Runs `sequence`, and returns the first difference, and true if a step was late. Removes what the sequence left.
    fn run_and_clean(&mut self, sequence: &Sequence) -> (Option<(usize, String)>, bool) {
        let new_side = || ServerSide::new(&self.database, self.subject.rewrite);
        let mut server_side = self.server_side.take().unwrap_or_else(new_side);
        let difference = run(sequence, self.subject, &mut server_side);
        let is_late = server_side.is_late();
        let finished = server_side.finish();
        if difference.is_none() && finished.is_ok() {
            self.server_side = Some(server_side);
        }
        (difference, is_late)
    }

    /// Removes the steps and faults without which the results still differ. `at` is the index of the first step whose
    /// results differ.
    fn shorten(&mut self, mut difference: Difference, at: usize) -> Difference {
        difference.sequence.steps.truncate(at + 1);
        let began = Instant::now();
        while began.elapsed() < SHORTENING_LIMIT {
            let mut simpler = simplified(&difference.sequence).into_iter();
            let shorter = simpler.find_map(|mut sequence| {
                let (at, description) = self.first_difference(&sequence)?;
                sequence.steps.truncate(at + 1);
                Some((sequence, description))
            });
            let Some((sequence, description)) = shorter else {
                break;
            };
            (difference.sequence, difference.description) = (sequence, description);
        }
        difference
    }
}

/// Runs `sequence` on the model and the server. Returns the index of the first step whose results differ, and a description
/// of the difference.
fn run(
    sequence: &Sequence,
    subject: Subject,
    server_side: &mut ServerSide,
) -> Option<(usize, String)> {
    // A hand-off is identified by its owner id alone, so owner ids must be unique on the server.
    static SERIAL: AtomicU64 = AtomicU64::new(1);
    server_side.begin(SERIAL.fetch_add(1, Ordering::Relaxed));
    let mut model_side = ModelSide::new(sequence, subject.rules, subject.variant);
    for (at, step) in sequence.steps.iter().enumerate() {
        let Some((concrete, expected)) = model_side.step(*step) else {
            continue;
        };
        let mut actual = server_side.step(&concrete, &expected);
        if let Ok(observed) = &mut actual {
            // No other contender reads the holder lock of an exclusive lease, so the model has none.
            let locks = &mut observed.rows.holder_locks;
            locks.retain(|(owner_id, _)| has_slots(sequence, *owner_id));
        }
        match actual {
            Ok(actual) if actual == expected => {}
            Ok(actual) => {
                let description = format!("the model:  {expected:?}\nthe server: {actual:?}");
                return Some((at, description));
            }
            Err(error) => return Some((at, format!("the model: {expected:?}\n{error}"))),
        }
    }
    None
}

/// Returns true if the leases of the contender with `owner_id` are in slots.
fn has_slots(sequence: &Sequence, owner_id: u8) -> bool {
    let mut contenders = sequence.limits.iter().enumerate();
    contenders.any(|(index, limit)| owner_id_of(index) == owner_id && !limit.is_exclusive())
}

/// Returns all sequences that result from `sequence` if one step or one fault is removed.
fn simplified(sequence: &Sequence) -> Vec<Sequence> {
    let without_step = |at: usize| {
        let mut shorter = sequence.clone();
        shorter.steps.remove(at);
        shorter
    };
    let without_fault = |at: usize| {
        let mut simplified = sequence.clone();
        match &mut simplified.steps[at] {
            Step::Send(_, _, fault) if fault.is_some() => *fault = None,
            _ => return None,
        }
        Some(simplified)
    };
    let steps = 0..sequence.steps.len();
    let shorter = steps.clone().map(without_step);
    shorter.chain(steps.filter_map(without_fault)).collect()
}
