//! What is asked once and not in the course of a run: who holds what, what ran, forget a success, make
//! the tables.

use super::exchange::Request;
use super::statements::{self, Selection};
use super::{Database, rows, schema};
use crate::lease::action::Action;
use crate::lease::once::Key;
use crate::store::intervention::{Deed, Intervention, Outcome};
use crate::store::{Entry, Failure, FailureKind, Gate, Holder, Survey};

impl Database {
    /// Shows rows and who waits, in order; changes nothing.
    ///
    /// # Errors
    /// Any failure; a missing table is one.
    pub fn survey(&mut self, selection: Selection) -> Result<Survey, Failure> {
        let survey = statements::survey(selection, Gate::Used);
        match self.exchange(Request::Plain, &survey, rows::survey) {
            // The holders' sessions are known by their named locks.
            Err(failure) if failure.kind == FailureKind::NoGate => {
                let survey = statements::survey(selection, Gate::Absent);
                self.exchange(Request::Plain, &survey, rows::survey)
            }
            outcome => outcome,
        }
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
        let survey = statements::survey(Selection::Named(&[]), Gate::Absent);
        let packet = format!("{}{survey}", schema::DDL);
        let outcome = self.exchange(Request::Plain, &packet, rows::survey);
        outcome.map(drop).map_err(|mut failure| {
            if failure.kind == FailureKind::Denied {
                let database = &self.target.database;
                let account = format!("'{}'@'…'", self.target.user);
                let advice = format!(
                    "; run dlock setup with an account that may create tables ({}), \
                     then this account needs: {}",
                    one_line(&schema::setup_grants(database, "'…'@'…'")),
                    one_line(&schema::runtime_grants(database, &account)),
                );
                failure.message.push_str(&advice);
            }
            failure
        })
    }

    /// Shows the last `limit` entries of the history, newest first.
    ///
    /// # Errors
    /// Any failure; a missing table is one.
    pub fn history(&mut self, selection: Selection, limit: u32) -> Result<Vec<Entry>, Failure> {
        let entries = statements::entries(selection, limit);
        self.exchange(Request::Plain, &entries, rows::entries)
    }

    /// Forgets that `action` has succeeded under `key`, and records that `who` did it. Returns whether
    /// there was such a success.
    ///
    /// # Errors
    /// Any failure; then nothing is forgotten, or it is not known.
    pub fn forget(&mut self, action: &Action, key: &Key, who: &Holder) -> Result<bool, Failure> {
        let forget = statements::forget(action, key, who);
        self.exchange(Request::Plain, &forget, rows::answer)
    }

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
        let intervene = statements::intervene(intervention, wakes);
        let packet = format!("{create}{intervene}");
        Ok(
            match self.exchange(Request::Plain, &packet, rows::intervened)? {
                (false, _) => Outcome::Changed,
                (true, session) => Outcome::Done {
                    woken: session.is_some_and(|session| self.wake(session)),
                },
            },
        )
    }

    /// Ends another session of ours; whether it did. Only on the connection by which its number was read:
    /// a server that has been started again has given that number to somebody else.
    fn wake(&mut self, session: u64) -> bool {
        let wake = statements::wake(session);
        self.connection.is_some() && self.exchange(Request::Plain, &wake, rows::answer).is_ok()
    }
}

fn one_line(statements: &str) -> String {
    statements.trim_end().replace('\n', " ")
}
