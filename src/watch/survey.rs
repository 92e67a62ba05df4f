//! Which actions are asked for, and what the server answered: they, and who waits for them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lease::action::Action;
use crate::lease::instant::BootInstant;
use crate::store::mysql::Selection;
use crate::store::{Sighting, State, Waiter};

/// Which actions somebody asked for.
#[derive(Debug, Clone)]
pub struct Selected {
    /// In order, each once; if there are none, those held or waited for.
    named: Vec<Action>,
    /// Or all.
    all: bool,
}

impl Selected {
    /// The actions `named`, or if there are none, `all` of them or those held or waited for.
    pub fn new(named: impl IntoIterator<Item = Action>, all: bool) -> Self {
        let mut named: Vec<Action> = named.into_iter().collect();
        named.sort();
        named.dedup();
        Self { named, all }
    }

    /// What to ask the server for.
    #[must_use]
    pub fn selection(&self) -> Selection<'_> {
        match self.named.as_slice() {
            [] if self.all => Selection::All,
            [] => Selection::Wanted,
            named => Selection::Named(named),
        }
    }

    /// What was found in order, with those asked for by name that were never held: who asks for an
    /// action gets an answer about it.
    #[must_use]
    pub fn completed(&self, mut found: Vec<Sighting>) -> Vec<Sighting> {
        for action in &self.named {
            if !found.iter().any(|seen| seen.action == *action) {
                found.push(Sighting::never_held(action.clone()));
            }
        }
        found.sort_by(|one, other| one.action.cmp(&other.action));
        found
    }
}

/// One answer.
#[derive(Debug, Clone)]
pub struct Survey {
    /// Each action once, in the order of their bytes.
    pub sightings: Vec<Sighting>,
    /// Who waits, by action, in order.
    pub waiters: Vec<Waiter>,
    /// When it came.
    pub heard: BootInstant,
    /// The same on the wall clock of this machine, for showing: since 1970.
    pub heard_at: Duration,
    /// Waiters of each action whose sessions are not known to be gone.
    waiting: BTreeMap<Action, usize>,
}

impl Survey {
    /// What was found at `heard`.
    #[must_use]
    pub fn new(
        (sightings, waiters): (Vec<Sighting>, Vec<Waiter>),
        (heard, heard_at): (BootInstant, Duration),
    ) -> Self {
        let mut waiting = BTreeMap::new();
        for waiter in waiters.iter().filter(|waiter| waiter.alive != Some(false)) {
            *waiting.entry(waiter.action.clone()).or_default() += 1;
        }
        Self {
            sightings,
            waiters,
            heard,
            heard_at,
            waiting,
        }
    }

    /// The action as it was found.
    #[must_use]
    pub fn sighting(&self, action: &Action) -> Option<&Sighting> {
        self.sightings.iter().find(|seen| seen.action == *action)
    }

    /// How many wait for it.
    #[must_use]
    pub fn waiting(&self, action: &Action) -> usize {
        self.waiting.get(action).copied().unwrap_or(0)
    }

    /// How many wait for any.
    #[must_use]
    pub fn all_waiting(&self) -> usize {
        self.waiting.values().sum()
    }

    /// The line of an action, with places.
    pub fn line_of(&self, action: &Action) -> impl Iterator<Item = (usize, &Waiter)> {
        (1..).zip(
            self.waiters
                .iter()
                .filter(|waiter| waiter.action == *action),
        )
    }

    /// How many actions are in `state`.
    #[must_use]
    pub fn count(&self, state: State) -> usize {
        let sightings = self.sightings.iter();
        sightings.filter(|seen| seen.state() == state).count()
    }
}
