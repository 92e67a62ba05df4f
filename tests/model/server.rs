//! The server of the model: one row, the gate, the line, and what each statement does to them.
//!
//! The conditions are those of the SQL in `src/store/mysql/statements.rs`, one function a
//! statement; a comparison with real servers on random sequences holds them to it (`tests/compare`).
//! Every packet is executed at one instant: its UPDATE is a single row, and the SELECT behind it proves
//! ownership only if nothing came in between.

#[path = "server/line.rs"]
mod line;
#[path = "server/release.rs"]
mod release;
#[path = "server/types.rs"]
mod types;

use dlock::lease::{Claim, Token};
use dlock::store::intervention::Deed;
use dlock::store::{Fate, Gate, Keeper, Mode, Owner, Question, Version};

use crate::time::{TTL, Tick, whole_ticks};

use self::types::claim_in;
pub(crate) use self::types::{CLAIM, Look, Place, Raw, Row, Rules, Session, Stage, full};

/// What lives on the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) row: Row,
    /// Who has the gate, and behind it who waits for it.
    pub(crate) gate: Vec<Session>,
    pub(crate) line: Vec<Place>,
    /// The claims that were handed off, each with the session that did; as often as it did.
    pub(crate) handed_off: Vec<(u8, Session)>,
    /// How runs ended, by token.
    pub(crate) history: Vec<(u8, Fate)>,
    /// Whether a lease that an operator had ended was renewed.
    pub(crate) revoked_renewed: bool,
    /// By how much its clock is ahead of the true time.
    ahead: i8,
}

impl Server {
    pub(crate) const fn new() -> Self {
        Self {
            row: Row {
                claim: None,
                token: 0,
                renewals: 0,
                gated: false,
                session: None,
                expires: 0,
                broken: false,
                closed: None,
            },
            gate: Vec::new(),
            line: Vec::new(),
            handed_off: Vec::new(),
            history: Vec::new(),
            revoked_renewed: false,
            ahead: 0,
        }
    }

    /// Somebody frees the row as a tool would do it that knows nothing of commands.
    pub(crate) fn free_by_hand(&mut self) {
        self.row.claim = None;
    }

    /// An operator acts on the row if it has the token `shown`: with a release the token is another, the
    /// claim stays. Whether that was done.
    pub(crate) fn intervene(&mut self, now: Tick, shown: u8, deed: Deed) -> bool {
        if self.row.token != shown {
            return false;
        }
        let clock = self.clock(now);
        if deed != Deed::Reopen {
            let is_held = self.row.claim.is_some();
            if is_held && !self.row.broken {
                self.record(self.row.token, Fate::Broken);
            }
            self.row.broken = is_held;
        }
        match deed {
            Deed::Release => {}
            Deed::Close(time) => self.row.closed = Some(clock + whole_ticks(time)),
            Deed::Reopen => self.row.closed = None,
        }
        self.row.token += 1;
        true
    }

    /// Sets the clock.
    pub(crate) const fn step(&mut self, by: i8) {
        self.ahead += by;
    }

    /// Ends a session: its place at the gate goes, the rows that name it stay.
    pub(crate) fn end(&mut self, session: Session) {
        self.gate.retain(|other| *other != session);
        self.handed_off.retain(|(_, other)| *other != session);
        self.rename(session, None);
    }

    /// The client gives its connection up; the server goes on with it as if nothing had happened.
    pub(crate) fn abandon(&mut self, client: usize) {
        self.end(Session::dropped(client));
        let (current, dropped) = (Session::current(client), Session::dropped(client));
        let handed_off = self.handed_off.iter_mut().map(|(_, session)| session);
        for session in self.gate.iter_mut().chain(handed_off) {
            if *session == current {
                *session = dropped;
            }
        }
        self.rename(current, Some(dropped));
    }

    fn rename(&mut self, session: Session, to: Option<Session>) {
        let places = self.line.iter_mut().map(|place| &mut place.session);
        for named in places.chain([&mut self.row.session]) {
            if *named == Some(session) {
                *named = to;
            }
        }
    }

    /// A restart: every session is gone, the rows stay.
    pub(crate) fn restart(&mut self) {
        self.gate.clear();
        self.handed_off.clear();
        self.row.session = None;
        for place in &mut self.line {
            place.session = None;
        }
    }

    /// Whether `session` waits at the gate and would go on waiting.
    pub(crate) fn keeps_waiting(&self, session: Session) -> bool {
        self.gate.iter().skip(1).any(|other| *other == session)
    }

    /// Forgets what makes no difference any more; of the history only the runs of `tokens` count.
    pub(crate) fn forget(&mut self, tokens: &[u8]) {
        self.history.retain(|(token, _)| tokens.contains(token));
        if self.row.claim.is_none() {
            self.row = Row {
                claim: None,
                token: self.row.token,
                renewals: 0,
                gated: false,
                session: None,
                expires: 0,
                broken: false,
                closed: self.row.closed,
            };
        }
        // Sessions are named to tell whose gate and whose hand-off it is.
        let row = &mut self.row;
        row.session = row.session.filter(|session| {
            !session.dropped || self.gate.contains(session) || row.claim.is_some()
        });
        let named = (row.claim, row.session);
        self.handed_off
            .retain(|(claim, session)| named == (Some(*claim), Some(*session)));
        for place in &mut self.line {
            place.session = place
                .session
                .filter(|session| !session.dropped || self.gate.contains(session));
        }
    }

    /// Whether `question`, carried out late, could still change anything.
    pub(crate) fn heeds(&self, question: &Question) -> bool {
        let names = |claim: &Claim| self.row.claim == Some(claim.bytes()[CLAIM]);
        match question {
            Question::Renew(grant, _) => {
                names(&grant.claim) && u64::from(self.row.token) == grant.token.0
            }
            Question::Release(parting) => names(&parting.claim) || parting.token.is_none(),
            _ => true,
        }
    }

    /// Whether `session` has the gate or waits for it, so that its end makes a difference.
    pub(crate) fn knows(&self, session: Session) -> bool {
        self.gate.contains(&session)
    }

    /// The session that the row names.
    pub(crate) const fn holder_session(&self) -> Option<Session> {
        self.row.session
    }

    /// Whether anybody has the gate.
    pub(crate) const fn has_keeper(&self) -> bool {
        !self.gate.is_empty()
    }

    /// Carries a packet of `question` out for `session`; none when it now waits at the gate.
    pub(crate) fn execute(
        &mut self,
        now: Tick,
        session: Session,
        question: &Question,
        stage: Stage,
        rules: Rules,
    ) -> Option<Raw> {
        let gate = match question {
            Question::Attempt(wish) => wish.gate,
            Question::Inspect(place) | Question::Queue(place) => place.gate,
            Question::Stand(_) | Question::HandOff(_) => Gate::Used,
            Question::Renew(_, gate) => *gate,
            Question::Release(parting) => parting.gate,
            Question::Look => Gate::Absent,
        };
        if rules.no_gate && gate == Gate::Used {
            return Some(Raw::NoGate);
        }
        let clock = self.clock(now);
        let claim = claim_in(question);
        Some(match question {
            Question::Attempt(wish) => {
                if gate == Gate::Used && !wish.is_take_over() {
                    self.try_gate(session);
                }
                let changed = self.attempt(clock, session, (claim, gate), wish.mode, rules);
                self.seen(clock, session, claim, gate, changed)
            }
            Question::Stand(_) if stage == Stage::AtGate => {
                let changed = self.attempt(clock, session, (claim, gate), Mode::IfFree, rules);
                self.seen(clock, session, claim, gate, changed)
            }
            Question::Inspect(_) => self.seen(clock, session, claim, gate, false),
            Question::Queue(_) => {
                self.queue(clock, session, claim, gate);
                self.seen(clock, session, claim, gate, true)
            }
            Question::Stand(_) => {
                self.queue(clock, session, claim, gate);
                if !self.gate.contains(&session) {
                    self.gate.push(session);
                }
                if self.gate.first() != Some(&session) {
                    return None;
                }
                Raw::AtGate
            }
            Question::Renew(grant, _) => {
                if gate == Gate::Used {
                    self.try_gate(session);
                }
                let ours = self.is_held_by(claim, Some(grant.token), rules);
                if ours {
                    self.revoked_renewed |= self.row.broken;
                    self.row.renewals += 1;
                    self.row.expires = clock + TTL.cast_signed();
                    if !rules.session_stays {
                        self.row.session = Some(session);
                        self.row.gated = gate == Gate::Used && self.gate.first() == Some(&session);
                    }
                }
                Raw::Row(self.look(clock, Keeper::Unasked, 0), ours)
            }
            Question::HandOff(_) => {
                let mut handed_off = self.handed_off.iter();
                let can = handed_off.all(|(other, by)| *other != claim || *by == session);
                if can {
                    self.handed_off.push((claim, session));
                    self.pass(session);
                }
                Raw::HandedOff(can)
            }
            Question::Release(parting) if let Stage::Settle(freed) = stage => {
                self.settle(clock, parting, freed.broken);
                Raw::Settled(freed)
            }
            Question::Release(parting) => Raw::Freed(self.release(clock, session, parting, rules)),
            // Asked by `dlock wait`, which takes no part.
            Question::Look => Raw::Row(self.look(clock, Keeper::Unasked, 0), false),
        })
    }

    /// The one predicate of ownership, as the SQL has it.
    fn is_held_by(&self, claim: u8, token: Option<Token>, rules: Rules) -> bool {
        let owner = Owner {
            is_broken: self.row.broken && !rules.revoked_is_ours,
            ..self.owner()
        };
        owner.is_held_by(full(claim), token)
    }

    /// Whose the row is, as it is read back.
    fn owner(&self) -> Owner {
        Owner {
            claim: self.row.claim.map(full),
            token: Token(self.row.token.into()),
            is_broken: self.row.broken,
        }
    }

    /// The conditional UPDATE; whether it changed the row.
    fn attempt(
        &mut self,
        clock: i8,
        session: Session,
        (claim, gate): (u8, Gate),
        mode: Mode,
        rules: Rules,
    ) -> bool {
        let has_gate = self.gate.first() == Some(&session);
        let row = &self.row;
        let hand_off = row.claim.zip(row.session);
        let by_hand_off = hand_off.is_some_and(|hand_off| self.handed_off.contains(&hand_off));
        let passed = row.gated
            && row
                .session
                .is_none_or(|holder| !self.gate.contains(&holder));
        let version = Version {
            token: Token(row.token.into()),
            renewals: row.renewals.into(),
        };
        let takeable = match mode {
            Mode::TakeOver { version: seen, .. } => seen == version,
            Mode::First | Mode::IfFree => {
                row.claim.is_none()
                    || (gate == Gate::Used && by_hand_off)
                    || (rules.gate_alone && passed)
                    || (rules.clock_alone && clock > row.expires)
            }
        };
        let closed = row.closed.is_some_and(|until| until > clock);
        if !takeable || closed || (gate == Gate::Used && !has_gate) {
            return false;
        }
        if let (Mode::TakeOver { .. }, Some(before)) = (mode, row.claim) {
            if !row.broken {
                self.record(self.row.token, Fate::Lost);
            }
            self.line.retain(|place| place.claim != before);
        }
        self.row = Row {
            claim: Some(claim),
            token: self.row.token + 1,
            renewals: 0,
            gated: gate == Gate::Used,
            session: Some(session),
            expires: clock + TTL.cast_signed(),
            broken: false,
            closed: self.row.closed,
        };
        true
    }

    /// A row and the line, as they are seen behind a statement that `changed` something or not.
    fn seen(&self, clock: i8, session: Session, claim: u8, gate: Gate, changed: bool) -> Raw {
        let (keeper, in_front) = self.view(clock, session, claim, gate);
        Raw::Row(self.look(clock, keeper, in_front), changed)
    }

    const fn look(&self, clock: i8, keeper: Keeper, in_front: u8) -> Look {
        Look {
            claim: self.row.claim,
            token: self.row.token,
            renewals: self.row.renewals,
            left: self.row.expires - clock,
            broken: self.row.broken,
            gated: self.row.gated,
            closed: match self.row.closed {
                Some(until) if until > clock => (until - clock).unsigned_abs(),
                Some(_) | None => 0,
            },
            keeper,
            in_front,
        }
    }

    const fn clock(&self, now: Tick) -> i8 {
        now.cast_signed() + self.ahead
    }
}
