//! Runs sequences on the model and on a real server.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use testkit::arguments::concurrently;
use testkit::servers::{Database, Server};

use crate::model_side::{ModelSide, owner_id_of};
use crate::mutation::Variant;
use crate::server::Rules;
use crate::server_contender::Rewrite;
use crate::server_side::ServerSide;
use crate::step::Sequence;

/// Number of sequences that run concurrently on one server.
const WORKERS: usize = 3;

/// Number of runs without a late step that must have equal results after a run whose results differ, if a late step may
/// be the cause of the difference.
const CONFIRMATIONS: usize = 3;

const MAX_RUNS: usize = 10;

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

/// Runs the first `count` sequences of `seed` on `server` until the results of one differ. Returns a description of the
/// sequence up to the difference. None if all results are equal.
pub(crate) fn compare(server: &Server, seed: u64, count: u64) -> Option<String> {
    let next = AtomicU64::new(0);
    let is_found = AtomicBool::new(false);
    let work = || {
        let mut worker = Worker::new(server);
        while !is_found.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            let mut sequence = Sequence::random(seed, number);
            if let Some((at, description)) = worker.first_difference(&sequence) {
                is_found.store(true, Ordering::Relaxed);
                sequence.steps.truncate(at + 1);
                return Some(format!("sequence {number}:\n{sequence}{description}"));
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

fn has_slots(sequence: &Sequence, owner_id: u8) -> bool {
    let mut contenders = sequence.limits.iter().enumerate();
    contenders.any(|(index, limit)| owner_id_of(index) == owner_id && !limit.is_exclusive())
}
