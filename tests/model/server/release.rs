//! The release of the model's server, and its history.

use dlock::lease::Token;
use dlock::store::read_back::ReleaseReadBack;
use dlock::store::{Fate, Gate, Parting};

use super::{CLAIM, Rules, Server, Session};

impl Server {
    /// The release, what it records, and what is read back behind it.
    pub(super) fn release(
        &mut self,
        clock: i8,
        session: Session,
        parting: &Parting,
        rules: Rules,
    ) -> ReleaseReadBack {
        let claim = parting.claim.bytes()[CLAIM];
        let is_named = |server: &Self| server.row.claim == Some(claim);
        let ours = match parting.token {
            Some(_) => self.is_held_by(claim, parting.token, rules),
            None => is_named(self),
        };
        let token = parting
            .token
            .and_then(|token| u8::try_from(token.0).ok())
            .filter(|_| parting.run.is_some());
        if ours {
            self.row.claim = None;
            self.row.expires = clock;
        }
        if let (Some(token), Some(run)) = (token, parting.run)
            && (ours || parting.handed_off)
        {
            self.record(token, run.fate);
        }
        if parting.handed_off && token.is_some() {
            let mut handed_off = self.handed_off.iter();
            if let Some(at) = handed_off.position(|hand_off| *hand_off == (claim, session)) {
                self.handed_off.remove(at);
            }
        }
        if parting.gate == Gate::Used {
            self.pass(session);
        }
        if parting.queued {
            self.line.retain(|place| place.claim != claim);
        }
        let is_broken = is_named(self) && self.row.broken;
        let is_left = is_named(self)
            && parting
                .token
                .is_none_or(|token| token.0 == u64::from(self.row.token));
        let ending = token.and_then(|token| self.recorded(token));
        ReleaseReadBack {
            changed: ours,
            is_named: is_left || is_broken,
            broken: is_broken.then_some(Token(self.row.token.into())),
            is_recorded: None,
            ending,
        }
    }

    /// Frees a row that names the claim and has the token `broken`, by which an operator ended the lease.
    /// Records the run as broken if it is the last that had the row, and the row is free.
    pub(super) fn settle(&mut self, clock: i8, parting: &Parting, broken: Option<Token>) {
        let token = Token(self.row.token.into());
        let is_named = self.row.claim == Some(parting.claim.bytes()[CLAIM]);
        if is_named && self.row.broken && broken == Some(token) {
            self.row.claim = None;
            self.row.expires = clock;
        }
        if parting.run.is_some() && parting.token == Some(token) && self.row.claim.is_none() {
            self.record(self.row.token, Fate::Broken);
        }
    }

    /// Records how a run ended, unless that is recorded already.
    pub(super) fn record(&mut self, token: u8, fate: Fate) {
        if self.recorded(token).is_none() {
            self.history.push((token, fate));
            self.history.sort_unstable_by_key(|(token, _)| *token);
        }
    }

    /// How the run of `token` ended, if that is recorded.
    pub(crate) fn recorded(&self, token: u8) -> Option<Fate> {
        let found = self.history.iter().find(|(other, _)| *other == token);
        found.map(|(_, fate)| *fate)
    }
}
