//! Runs sequences on the model and on a real server, and shortens a sequence for which the results differ.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::servers::{Database, Server};

use crate::model_side::{ModelSide, owner_id_of};
use crate::mutation::{Run, Variant};
use crate::server::Rules;
use crate::server_contender::Rewrite;
use crate::server_side::ServerSide;
use crate::step::{Sequence, Step};

/// Number of sequences that run concurrently on one server.
const WORKERS: usize = 3;

/// Number of runs without a late step that must have equal results after a run whose results differ, if a late step may
/// be the cause of the difference.
const CONFIRMATIONS: usize = 3;

/// Maximum number of runs of a sequence.
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
        rules: Run::sound().rules,
        variant: Variant::Sound,
        rewrite: None,
    };

    fn is_sound(&self) -> bool {
        self.rules == Self::SOUND.rules && self.variant == Variant::Sound && self.rewrite.is_none()
    }
}

/// A sequence for which the model and the server have different results.
pub(crate) struct Difference {
    pub(crate) number: u64,
    sequence: Sequence,
    /// The results of the model and the server for the last step.
    description: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            sequence,
            description,
        } = self;
        write!(f, "sequence {number}:\n{sequence}{description}")
    }
}

/// Runs the sequences `numbers` of `seed` on `server` until the results of one differ. Returns None if all results are
/// equal. Prints and shortens only a difference that is not expected.
pub(crate) fn compare(
    server: &Server,
    subject: Subject,
    seed: u64,
    numbers: Range<u64>,
) -> Option<Difference> {
    let next = AtomicU64::new(numbers.start);
    let is_found = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut worker = Worker::new(server.database("compare"), subject);
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= numbers.end || is_found.load(Ordering::Relaxed) {
                            return None;
                        }
                        let sequence = Sequence::random(seed, number);
                        if let Some((at, description)) = worker.first_difference(&sequence) {
                            is_found.store(true, Ordering::Relaxed);
                            let difference = Difference {
                                number,
                                sequence,
                                description,
                            };
                            if !subject.is_sound() {
                                return Some(difference);
                            }
                            eprintln!("has different results, is being shortened: {difference}");
                            return Some(worker.shorten(difference, at));
                        }
                    }
                })
            })
            .collect();
        let outcomes = workers.into_iter().map(thread::ScopedJoinHandle::join);
        let outcomes: Vec<_> = outcomes
            .map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        outcomes.into_iter().flatten().next()
    })
}

/// A worker, which runs one sequence after another on its own database.
struct Worker {
    database: Database,
    subject: Subject,
    server_side: ServerSide,
}

impl Worker {
    fn new(database: Database, subject: Subject) -> Self {
        Self {
            server_side: ServerSide::new(&database, subject.rewrite),
            database,
            subject,
        }
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
        let difference = self.run(sequence);
        let is_late = self.server_side.is_late();
        let finished = self.server_side.finish();
        if difference.is_some() || finished.is_err() {
            self.server_side = ServerSide::new(&self.database, self.subject.rewrite);
        }
        (difference, is_late)
    }

    fn run(&mut self, sequence: &Sequence) -> Option<(usize, String)> {
        // A hand-off is identified by its owner id alone, so owner ids must be unique on the server.
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        self.server_side
            .begin(SERIAL.fetch_add(1, Ordering::Relaxed));
        let mut model_side = ModelSide::new(sequence, self.subject.rules, self.subject.variant);
        for (at, step) in sequence.steps.iter().enumerate() {
            let Some((concrete, expected)) = model_side.step(*step) else {
                continue;
            };
            let mut actual = self.server_side.step(&concrete, &expected);
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

    /// Removes the steps and faults without which the results still differ. `at` is the index of the first step whose
    /// results differ.
    fn shorten(&mut self, difference: Difference, at: usize) -> Difference {
        let Difference {
            number,
            mut sequence,
            mut description,
        } = difference;
        sequence.steps.truncate(at + 1);
        let (mut was_shortened, began) = (true, Instant::now());
        while was_shortened && began.elapsed() < SHORTENING_LIMIT {
            was_shortened = false;
            for shorter in simplified(&sequence) {
                if let Some((at, shorter_description)) = self.first_difference(&shorter) {
                    sequence = shorter;
                    sequence.steps.truncate(at + 1);
                    description = shorter_description;
                    was_shortened = true;
                    break;
                }
            }
        }
        Difference {
            number,
            sequence,
            description,
        }
    }
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
