//! Runs sequences on the model and on a real server, and shortens a sequence on which they differ.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::mutation::Variant;
use crate::peer::Rewrite;
use crate::reality::Reality;
use crate::server::Rules;
use crate::servers::{Database, Server};
use crate::step::{Sequence, Step};
use crate::theory::Theory;

/// Number of sequences that run at the same time on one server.
const WORKERS: usize = 3;

/// Maximum number of runs of a sequence that differs and takes too long.
const TRIES: usize = 3;

/// Maximum time to shorten a sequence. If a contender waits by mistake, each run takes seconds.
const SHORTENING: Duration = Duration::from_mins(1);

/// The subject of a comparison: the model, sound or broken, and the server, sound or with a broken statement.
#[derive(Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) rules: Rules,
    pub(crate) variant: Variant,
    pub(crate) rewrite: Option<Rewrite>,
}

/// A sequence on which the model and the server differ.
pub(crate) struct Difference {
    number: u64,
    sequence: Sequence,
    /// The results of both for the last step.
    text: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            sequence,
            text,
        } = self;
        write!(f, "sequence {number}, shortened:\n{sequence}{text}")
    }
}

/// Runs the sequences `0..count` of `seed` on `server`, until one differs. Returns None if none does.
pub(crate) fn compare(
    server: &Server,
    subject: Subject,
    seed: u64,
    count: u64,
) -> Option<Difference> {
    let next = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut arena = Arena::new(server.database("compare"), subject);
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count || is_over.load(Ordering::Relaxed) {
                            return None;
                        }
                        let sequence = Sequence::random(seed, number);
                        if let Some((at, text)) = arena.differ(&sequence) {
                            is_over.store(true, Ordering::Relaxed);
                            eprintln!(
                                "sequence {number} differs, and is shortened now:\n{sequence}{text}"
                            );
                            return Some(arena.shortened(number, sequence, at, text));
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

/// The environment in which the sequences of one worker run.
struct Arena {
    database: Database,
    subject: Subject,
    reality: Reality,
}

impl Arena {
    fn new(database: Database, subject: Subject) -> Self {
        Self {
            reality: Reality::new(&database, subject.rewrite),
            database,
            subject,
        }
    }

    /// Runs `sequence` on a new action. Returns the first step that differs with a description; None if none does.
    fn differ(&mut self, sequence: &Sequence) -> Option<(usize, String)> {
        let mut outcome = None;
        // If the machine is busy for seconds, leases expire too early for the model.
        for _ in 0..TRIES {
            let difference = self.run(sequence);
            let is_late = self.reality.is_late();
            let finished = self.reality.finish();
            if difference.is_some() || finished.is_err() {
                self.reality = Reality::new(&self.database, self.subject.rewrite);
            }
            outcome = difference;
            if outcome.is_none() || !is_late {
                break;
            }
        }
        outcome
    }

    fn run(&mut self, sequence: &Sequence) -> Option<(usize, String)> {
        // Hand-offs are identified by the owner id alone, on the whole server.
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        self.reality.begin(SERIAL.fetch_add(1, Ordering::Relaxed));
        let mut theory = Theory::new(sequence, self.subject.rules, self.subject.variant);
        for (at, step) in sequence.steps.iter().enumerate() {
            let Some((it, expected)) = theory.step(*step) else {
                continue;
            };
            match self.reality.step(&it, &expected) {
                Ok(found) if found == expected => {}
                Ok(found) => {
                    let text = format!("the model:  {expected:?}\nthe server: {found:?}");
                    return Some((at, text));
                }
                Err(why) => return Some((at, format!("the model: {expected:?}\n{why}"))),
            }
        }
        None
    }

    /// Removes all steps and faults from a sequence, which differs at step `at`, that are not needed for a difference.
    fn shortened(
        &mut self,
        number: u64,
        mut sequence: Sequence,
        at: usize,
        mut text: String,
    ) -> Difference {
        sequence.steps.truncate(at + 1);
        let (mut goes_on, began) = (true, Instant::now());
        while goes_on && began.elapsed() < SHORTENING {
            goes_on = false;
            for shorter in simpler(&sequence) {
                if let Some((at, why)) = self.differ(&shorter) {
                    sequence = shorter;
                    sequence.steps.truncate(at + 1);
                    text = why;
                    goes_on = true;
                    break;
                }
            }
        }
        Difference {
            number,
            sequence,
            text,
        }
    }
}

/// Returns the sequences that lack one of the steps, and those that lack one of the faults.
fn simpler(sequence: &Sequence) -> Vec<Sequence> {
    let without = |at: usize| {
        let mut shorter = sequence.clone();
        shorter.steps.remove(at);
        shorter
    };
    let faultless = |at: usize| {
        let mut simpler = sequence.clone();
        match &mut simpler.steps[at] {
            Step::Ask(_, _, fault) if fault.is_some() => *fault = None,
            _ => return None,
        }
        Some(simpler)
    };
    let steps = 0..sequence.steps.len();
    let shorter = steps.clone().map(without);
    shorter.chain(steps.filter_map(faultless)).collect()
}
