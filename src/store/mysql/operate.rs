//! What is asked once and not in the course of a run: who holds what, what ran, forget a success, make
//! the tables.

use mysql::Row;

use super::exchange::{Patience, Trace};
use super::rows::Intervened;
use super::statements::{self, Outlook, Selection};
use super::{Database, rows, schema};
use crate::lease::action::Action;
use crate::lease::once::Key;
use crate::store::intervention::{Deed, Intervention, Outcome};
use crate::store::{Entry, Failure, FailureKind, Gate, Holder, Survey};

/// Whether there was a success to forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgotten {
    /// There was, and it is gone.
    Yes,
    /// There was none.
    Nothing,
}

impl Database {
    /// Shows rows and who waits, in order; changes nothing.
    ///
    /// # Errors
    /// Any failure; a missing table is one.
    pub fn survey(&mut self, selection: Selection) -> Result<Survey, Failure> {
        match self.survey_with(selection, Gate::Used) {
            // The holders' sessions are known by their named locks.
            Err(failure) if failure.kind == FailureKind::NoGate => {
                self.survey_with(selection, Gate::Absent)
            }
            outcome => outcome,
        }
    }

    fn survey_with(&mut self, selection: Selection, gate: Gate) -> Result<Survey, Failure> {
        let survey = |request| {
            let sight = statements::sight(request, selection, Outlook::Survey(gate), None);
            format!("{sight};{}", statements::waiters(request, selection))
        };
        let read = |sets: Vec<Vec<Row>>, request| {
            let mut sets = sets.into_iter();
            let sight = rows::sight(sets.next().unwrap_or_default(), request)?;
            let waiters = rows::waiters(sets.next().unwrap_or_default(), request)?;
            Ok(Survey {
                server_time: sight.server_time,
                locks: sight.rows,
                waiters,
            })
        };
        let found = self.exchange(Patience::Limited, &mut Trace::new(), survey, read)?;
        Ok(found)
    }

    /// Checks the version of the tables, and creates them where they are missing.
    ///
    /// # Errors
    /// Any failure; when the account may not create them, the message lists the grants.
    pub fn setup(&mut self) -> Result<(), Failure> {
        match self.survey(Selection::Named(&[])) {
            // With Config the version may be missing, which the definition puts right, or be another
            // one, which it leaves alone and reports again.
            Err(Failure {
                kind: FailureKind::NoTables | FailureKind::Config,
                ..
            }) => self.create_tables(),
            outcome => outcome.map(drop),
        }
    }

    pub(super) fn create_tables(&mut self) -> Result<(), Failure> {
        let nothing = Selection::Named(&[]);
        let outcome = self.look(schema::DDL, nothing, Outlook::Row, None, &mut Trace::new());
        outcome.map(drop).map_err(|failure| match failure.kind {
            FailureKind::Denied => Failure {
                message: format!(
                    "{}; run dlock setup with an account that may create tables ({}), \
                     then this account needs: {}",
                    failure.message,
                    one_line(&schema::setup_grants(&self.target.database, "'…'@'…'")),
                    one_line(&schema::runtime_grants(
                        &self.target.database,
                        &format!("'{}'@'…'", self.target.user)
                    )),
                ),
                ..failure
            },
            _ => failure,
        })
    }

    /// Shows the last `limit` entries of the history, newest first.
    ///
    /// # Errors
    /// Any failure; a missing table is one.
    pub fn history(&mut self, selection: Selection, limit: u32) -> Result<Vec<Entry>, Failure> {
        let entries = |request| statements::entries(request, selection, limit);
        let read = |sets: Vec<Vec<Row>>, request| {
            rows::entries(sets.into_iter().next().unwrap_or_default(), request)
        };
        let found = self.exchange(Patience::Limited, &mut Trace::new(), entries, read)?;
        Ok(found)
    }

    /// Forgets that `action` has succeeded under `key`, and records that `who` did it.
    ///
    /// # Errors
    /// Any failure; then nothing is forgotten, or it is not known.
    pub fn forget(
        &mut self,
        action: &Action,
        key: &Key,
        who: &Holder,
    ) -> Result<Forgotten, Failure> {
        let forget = |request| statements::forget(request, action, key, who);
        let trace = &mut Trace::new();
        Ok(
            match self.exchange(Patience::Limited, trace, forget, rows::answer)? {
                false => Forgotten::Nothing,
                true => Forgotten::Yes,
            },
        )
    }
}

impl Database {
    /// Does to an action what an operator wants done, if it still has the token that was shown. With
    /// `wakes` it then ends the holder's session, where that can be told, so that the holder connects again
    /// and looks at its row at once; otherwise the holder finds out by its next renewal.
    ///
    /// # Errors
    /// Any failure of the change; then nothing was done, or it is not known.
    pub fn intervene(
        &mut self,
        intervention: &Intervention,
        wakes: bool,
    ) -> Result<Outcome, Failure> {
        // What nobody has ever held can be closed.
        let create = match intervention.deed {
            Deed::Close(_) => statements::create_row(&intervention.action),
            Deed::Release | Deed::Reopen => String::new(),
        };
        let intervene = |request| {
            let intervene = statements::intervene(request, intervention, wakes);
            format!("{create}{intervene}")
        };
        let trace = &mut Trace::new();
        let intervened = self.exchange(Patience::Limited, trace, intervene, rows::intervened)?;
        Ok(match intervened {
            Intervened { done: false, .. } => Outcome::Changed,
            Intervened { session, .. } => Outcome::Done {
                woken: session.is_some_and(|session| self.wake(session)),
            },
        })
    }

    /// Ends another session of ours; whether it did. Only on the connection by which its number was read:
    /// a server that has been started again has given that number to somebody else.
    fn wake(&mut self, session: u64) -> bool {
        let kill = |request| statements::wake(request, session);
        let trace = &mut Trace::new();
        self.connection.is_some()
            && (self.exchange(Patience::Limited, trace, kill, rows::answer)).is_ok()
    }
}

fn one_line(statements: &str) -> String {
    statements.trim_end().replace('\n', " ")
}
