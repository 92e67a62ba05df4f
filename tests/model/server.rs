//! The server of the model: one row, the gate, the line, and what each statement does to them.
//!
//! The conditions are those of the SQL in `src/store/mysql/statements.rs`, one function a
//! statement; a comparison with real servers on random sequences holds them to it (`tests/compare`).
//! Every packet is executed at one instant: its UPDATE is a single row, and the SELECT behind it proves
//! ownership only if nothing came in between.

use dlock::lease::{Claim, Token};
use dlock::store::intervention::Deed;
use dlock::store::read_back::{AttemptReadBack, ReleaseReadBack};
use dlock::store::{Fate, Gate, Keeper, Mode, Owner, POLLER_LIFE, Parting, Question, Version};

use crate::time::{TTL, Tick, whole_ticks};

/// A session: whose, and whether it belongs to the connection that the client still uses or to one
/// that it has dropped and the server has not noticed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    pub(crate) client: usize,
    pub(crate) dropped: bool,
}

impl Session {
    pub(crate) const fn current(client: usize) -> Self {
        Self {
            client,
            dropped: false,
        }
    }

    pub(crate) const fn dropped(client: usize) -> Self {
        Self {
            client,
            dropped: true,
        }
    }
}

/// The row of the action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) claim: Option<u8>,
    pub(crate) token: u8,
    pub(crate) renewals: u8,
    pub(crate) gated: bool,
    /// The holder's session; none once it has ended.
    pub(crate) session: Option<Session>,
    /// By the server's clock.
    pub(crate) expires: i8,
    /// Whether an operator has ended the lease.
    pub(crate) broken: bool,
    /// Until when an operator keeps the action from being granted, by the server's clock.
    pub(crate) closed: Option<i8>,
}

/// A place in the line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) claim: u8,
    pub(crate) session: Option<Session>,
    /// When it was last seen, if it waits without a gate.
    seen: Option<i8>,
}

/// Which packet of a question is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// The first.
    First,
    /// The attempt behind a wait at the gate.
    AtGate,
    /// What settles a lease that an operator has ended, or a run whose row was freed by hand, behind the
    /// release that found this.
    Settle(ReleaseReadBack),
}

/// Liberties that a broken variant takes, and rules that it lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rules {
    /// Whether named locks are refused.
    pub(crate) no_gate: bool,
    /// Whether a lease is over as soon as the server's clock says so, whoever asks.
    pub(crate) clock_alone: bool,
    /// Whether a gate that the holder has no more is as good as a hand-off.
    pub(crate) gate_alone: bool,
    /// Whether a lease that an operator has ended can be renewed and released like any other.
    pub(crate) revoked_is_ours: bool,
    /// Whether a renewal leaves the session in the row as it is.
    pub(crate) session_stays: bool,
}

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

/// The row and the line as a reply shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Look {
    pub(crate) claim: Option<u8>,
    pub(crate) token: u8,
    pub(crate) renewals: u8,
    /// Ticks until the lease lapses.
    pub(crate) left: i8,
    pub(crate) broken: bool,
    pub(crate) gated: bool,
    /// Ticks for which an operator keeps the action from being granted.
    pub(crate) closed: u8,
    pub(crate) keeper: Keeper,
    pub(crate) in_front: u8,
}

/// What a packet brings back, before the client makes sense of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Raw {
    /// The row, and whether the packet changed it.
    Row(Look, bool),
    /// The gate is the session's.
    AtGate,
    /// Whether the claim was handed off.
    HandedOff(bool),
    /// What was read back behind a release.
    Freed(ReleaseReadBack),
    /// What that had left over is settled.
    Settled(ReleaseReadBack),
    /// Named locks are refused.
    NoGate,
}

impl Raw {
    /// The next packet of `question`, of which this packet is not the last.
    pub(crate) fn next(&self, question: &Question) -> Option<Stage> {
        match (question, self) {
            (Question::Stand(_), Self::AtGate) => Some(Stage::AtGate),
            (Question::Release(parting), Self::Freed(freed)) if freed.needs_settling(parting) => {
                Some(Stage::Settle(*freed))
            }
            _ => None,
        }
    }
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

    /// The release, what it records, and what is read back behind it.
    fn release(
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
    fn settle(&mut self, clock: i8, parting: &Parting, broken: Option<Token>) {
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
    fn record(&mut self, token: u8, fate: Fate) {
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

    /// A row and the line, as they are seen behind a statement that `changed` something or not.
    fn seen(&self, clock: i8, session: Session, claim: u8, gate: Gate, changed: bool) -> Raw {
        let (keeper, in_front) = self.view(clock, session, claim, gate);
        Raw::Row(self.look(clock, keeper, in_front), changed)
    }

    /// `RELEASE_LOCK`.
    fn pass(&mut self, session: Session) {
        if self.gate.first() == Some(&session) {
            self.gate.remove(0);
        }
    }

    /// `GET_LOCK` without waiting.
    fn try_gate(&mut self, session: Session) {
        if self.gate.is_empty() {
            self.gate.push(session);
        }
    }

    fn queue(&mut self, clock: i8, session: Session, claim: u8, gate: Gate) {
        let place = Place {
            claim,
            session: Some(session),
            seen: (gate == Gate::Absent).then_some(clock),
        };
        match self.line.iter_mut().find(|place| place.claim == claim) {
            Some(old) => *old = place,
            None => self.line.push(place),
        }
    }

    fn view(&self, clock: i8, session: Session, claim: u8, gate: Gate) -> (Keeper, u8) {
        let keeper = match (gate, self.gate.first()) {
            (Gate::Absent, _) => Keeper::Unasked,
            (Gate::Used, None) => Keeper::Nobody,
            (Gate::Used, Some(keeper)) if *keeper == session => Keeper::Us,
            (Gate::Used, Some(keeper)) => {
                let holder = self.row.gated && self.row.session == Some(*keeper);
                let waits = |place: &Place| place.session == Some(*keeper);
                match holder || self.line.iter().any(waits) {
                    true => Keeper::Line,
                    false => Keeper::Stranger,
                }
            }
        };
        let in_front = match self.row.claim == Some(claim) {
            true => 0,
            false => {
                let before = self.line.iter().take_while(|place| place.claim != claim);
                let counts =
                    |place: &&Place| self.row.claim != Some(place.claim) && !place.is_silent(clock);
                before.filter(counts).count()
            }
        };
        (keeper, u8::try_from(in_front).expect("a short line"))
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

impl Place {
    /// Whether its waiter asks from time to time and has not done so for too long.
    fn is_silent(&self, clock: i8) -> bool {
        self.seen
            .is_some_and(|seen| clock - seen >= whole_ticks(POLLER_LIFE))
    }
}

/// The claim that a question is about; 0 where it is about none.
fn claim_in(question: &Question) -> u8 {
    let claim = match question {
        Question::Attempt(wish) => wish.claim,
        Question::Inspect(place) | Question::Queue(place) => place.claim,
        Question::Stand(turn) => turn.claim,
        Question::Renew(grant, _) | Question::HandOff(grant) => grant.claim,
        Question::Release(parting) => parting.claim,
        Question::Look => return 0,
    };
    claim.bytes()[CLAIM]
}

/// The claim that the server knows by this number.
pub(crate) const fn full(number: u8) -> Claim {
    let mut claim = [0; CLAIM + 1];
    claim[CLAIM] = number;
    Claim::new(claim)
}

impl Look {
    /// What an attempt reads back.
    pub(crate) fn read_back(self, changed: bool) -> AttemptReadBack {
        AttemptReadBack {
            changed,
            owner: Owner {
                claim: self.claim.map(full),
                token: Token(self.token.into()),
                is_broken: self.broken,
            },
        }
    }
}

/// Where a claim differs from another: the other bytes are zero, so that the machines' jitter is
/// the same for all.
pub(crate) const CLAIM: usize = 15;
