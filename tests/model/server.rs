//! The server of the model: one row, the gate, the line, and what each statement does to them.
//!
//! The conditions are those of the SQL in `src/store/mysql/statements.rs`, one function a
//! statement. Every packet is executed at one instant: its UPDATE is a single row, and the SELECT
//! behind it proves ownership only if nothing came in between.

use std::time::Duration;

use dlock::store::{ALLOWANCE, GATE_ALLOWANCE, Gate, Keeper, Parting, Question, Version, Wish};

use crate::time::{TTL, Tick, ticks};

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
    gated: bool,
    /// The holder's session; none once it has ended.
    session: Option<Session>,
    /// By the server's clock.
    expires: i8,
    /// Whether an operator has ended the lease.
    pub(crate) broken: bool,
}

/// A place in the line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    claim: u8,
    session: Option<Session>,
}

/// Liberties that a broken variant takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rules {
    /// Whether named locks are refused.
    pub(crate) no_gate: bool,
    /// Whether a lease is over as soon as the server's clock says so, whoever asks.
    pub(crate) clock_alone: bool,
    /// Whether a gate that the holder has no more is as good as a notice.
    pub(crate) gate_alone: bool,
}

/// What lives on the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) row: Row,
    /// Who has the gate, and behind it who waits for it.
    gate: Vec<Session>,
    line: Vec<Place>,
    /// The claims of which notice was given, each with the session that gave it.
    notices: Vec<(u8, Session)>,
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
    /// Notice was given.
    Noticed,
    /// Whether a row was freed.
    Freed(bool),
    /// Named locks are refused.
    NoGate,
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
            },
            gate: Vec::new(),
            line: Vec::new(),
            notices: Vec::new(),
            ahead: 0,
        }
    }

    /// An operator ends the lease: the token is another, the claim stays. Unless `at_once`, as a tool
    /// would do it that knows nothing of commands.
    pub(crate) const fn break_by_hand(&mut self, at_once: bool) {
        self.row.token += 1;
        self.row.broken = true;
        if at_once {
            self.row.claim = None;
        }
    }

    /// Sets the clock.
    pub(crate) const fn step(&mut self, by: i8) {
        self.ahead += by;
    }

    /// Ends a session: its place at the gate goes, the rows that name it stay.
    pub(crate) fn end(&mut self, session: Session) {
        self.gate.retain(|other| *other != session);
        self.notices.retain(|(_, other)| *other != session);
        self.rename(session, None);
    }

    /// The client gives its connection up; the server goes on with it as if nothing had happened.
    pub(crate) fn abandon(&mut self, client: usize) {
        self.end(Session::dropped(client));
        let (current, dropped) = (Session::current(client), Session::dropped(client));
        let notices = self.notices.iter_mut().map(|(_, session)| session);
        for session in self.gate.iter_mut().chain(notices) {
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
        self.notices.clear();
        self.row.session = None;
        for place in &mut self.line {
            place.session = None;
        }
    }

    /// Whether `session` waits at the gate and would go on waiting.
    pub(crate) fn keeps_waiting(&self, session: Session) -> bool {
        self.gate.iter().skip(1).any(|other| *other == session)
    }

    /// Forgets what makes no difference any more.
    pub(crate) fn forget(&mut self) {
        if self.row.claim.is_none() {
            self.row = Row {
                claim: None,
                token: self.row.token,
                renewals: 0,
                gated: false,
                session: None,
                expires: 0,
                broken: false,
            };
        }
        // Sessions are named to tell whose gate and whose notice it is.
        let row = &mut self.row;
        row.session = row.session.filter(|session| {
            !session.dropped || self.gate.contains(session) || row.claim.is_some()
        });
        let named = (row.claim, row.session);
        self.notices
            .retain(|(claim, session)| named == (Some(*claim), Some(*session)));
        for place in &mut self.line {
            place.session = place
                .session
                .filter(|session| !session.dropped || self.gate.contains(session));
        }
    }

    /// Whether `question`, carried out late, could still change anything.
    pub(crate) fn heeds(&self, question: &Question) -> bool {
        let held = |claim: &dlock::lease::Claim, token: Option<dlock::lease::Token>| {
            self.row.claim == Some(claim.bytes()[CLAIM])
                && token.is_none_or(|token| token.0 == u64::from(self.row.token))
        };
        match question {
            Question::Renew(grant, _) => held(&grant.claim, Some(grant.token)),
            Question::Release(parting) => {
                let broken = self.row.broken && held(&parting.claim, None);
                parting.token.is_none() || broken || held(&parting.claim, parting.token)
            }
            _ => true,
        }
    }

    /// Whether `session` has the gate or waits for it, so that its end makes a difference.
    pub(crate) fn knows(&self, session: Session) -> bool {
        self.gate.contains(&session)
    }

    /// Whether anybody has the gate.
    pub(crate) const fn has_keeper(&self) -> bool {
        !self.gate.is_empty()
    }

    /// Carries `question` out for `session`; none when it now waits at the gate. `moved` tells that
    /// the connection is new, `second` that this is the attempt behind a wait at the gate or the release
    /// behind a notice.
    pub(crate) fn execute(
        &mut self,
        now: Tick,
        session: Session,
        question: &Question,
        (moved, second): (bool, bool),
        rules: Rules,
    ) -> Option<Raw> {
        let gate = match question {
            Question::Attempt(wish) => wish.gate,
            Question::Inspect(place) | Question::Queue(place) => place.gate,
            Question::Stand(turn) => turn.wish.gate,
            Question::Renew(_, gate) => *gate,
            Question::Release(parting) => parting.gate,
            Question::Look => Gate::Absent,
        };
        if rules.no_gate && gate == Gate::Used {
            return Some(Raw::NoGate);
        }
        let clock = self.clock(now);
        Some(match question {
            Question::Attempt(wish) => {
                let changed = self.attempt(clock, session, wish, second, rules);
                let (keeper, in_front) = self.view(session, wish.claim.bytes()[CLAIM], gate);
                Raw::Row(self.look(clock, keeper, in_front), changed)
            }
            Question::Stand(turn) if second => {
                let wish = &turn.wish;
                let changed = self.attempt(clock, session, wish, true, rules);
                let (keeper, in_front) = self.view(session, wish.claim.bytes()[CLAIM], gate);
                Raw::Row(self.look(clock, keeper, in_front), changed)
            }
            Question::Inspect(place) => {
                let (keeper, in_front) = self.view(session, place.claim.bytes()[CLAIM], gate);
                Raw::Row(self.look(clock, keeper, in_front), false)
            }
            Question::Queue(place) => {
                let claim = place.claim.bytes()[CLAIM];
                self.queue(claim, session);
                let (keeper, in_front) = self.view(session, claim, gate);
                Raw::Row(self.look(clock, keeper, in_front), true)
            }
            Question::Stand(turn) => {
                self.queue(turn.wish.claim.bytes()[CLAIM], session);
                if !self.gate.contains(&session) {
                    self.gate.push(session);
                }
                if self.gate.first() != Some(&session) {
                    return None;
                }
                Raw::AtGate
            }
            Question::Renew(grant, _) => {
                let ours = self.row.claim == Some(grant.claim.bytes()[CLAIM])
                    && u64::from(self.row.token) == grant.token.0;
                if moved && gate == Gate::Used {
                    self.try_gate(session);
                }
                if ours {
                    self.row.renewals += 1;
                    self.row.expires = clock + TTL.cast_signed();
                    if moved {
                        self.row.session = Some(session);
                        self.row.gated = self.gate.first() == Some(&session);
                    }
                }
                Raw::Row(self.look(clock, Keeper::Unasked, 0), ours)
            }
            Question::Release(parting) if !second && !moved && gives_notice(parting) => {
                self.notices.push((parting.claim.bytes()[CLAIM], session));
                self.pass(session);
                Raw::Noticed
            }
            Question::Release(parting) => {
                let claim = parting.claim.bytes()[CLAIM];
                let token = parting.token.map(|token| token.0);
                let ours = self.row.claim == Some(claim)
                    && token.is_none_or(|token| token == u64::from(self.row.token));
                // What is broken is given up by its claim, in a packet of its own.
                if ours || (self.row.claim == Some(claim) && self.row.broken) {
                    self.row.claim = None;
                    self.row.expires = clock;
                }
                if gate == Gate::Used {
                    self.pass(session);
                }
                if parting.queued {
                    self.line.retain(|place| place.claim != claim);
                }
                Raw::Freed(ours)
            }
            // Asked by `dlock wait`, which takes no part.
            Question::Look => Raw::Row(self.look(clock, Keeper::Unasked, 0), false),
        })
    }

    /// The conditional UPDATE; whether it changed the row.
    fn attempt(
        &mut self,
        clock: i8,
        session: Session,
        wish: &Wish,
        at_gate: bool,
        rules: Rules,
    ) -> bool {
        if wish.gate == Gate::Used && !at_gate {
            self.try_gate(session);
        }
        let has_gate = self.gate.first() == Some(&session);
        let row = &self.row;
        let lapsed =
            |by: Duration| clock > row.expires && ticks((clock - row.expires).cast_unsigned()) > by;
        let version = Version {
            token: dlock::lease::Token(row.token.into()),
            renewals: row.renewals.into(),
        };
        let noticed = row.claim.zip(row.session);
        let noticed = noticed.is_some_and(|notice| self.notices.contains(&notice));
        let passed = row.gated
            && row
                .session
                .is_none_or(|holder| !self.gate.contains(&holder));
        let takeable = row.claim.is_none()
            || (wish.gate == Gate::Used && noticed)
            || (rules.gate_alone && passed)
            || lapsed(ALLOWANCE)
            || (wish.gate == Gate::Used && row.gated && lapsed(GATE_ALLOWANCE))
            || wish.seen == Some(version)
            || (rules.clock_alone && clock > row.expires);
        if !takeable || (wish.gate == Gate::Used && !has_gate) {
            return false;
        }
        let claim = wish.claim.bytes()[CLAIM];
        self.row = Row {
            claim: Some(claim),
            token: self.row.token + 1,
            renewals: 0,
            gated: wish.gate == Gate::Used,
            session: Some(session),
            expires: clock + TTL.cast_signed(),
            broken: false,
        };
        // A place is given up after the grant; it does not count until then.
        if wish.queued {
            self.line.retain(|place| place.claim != claim);
        }
        true
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

    fn queue(&mut self, claim: u8, session: Session) {
        match self.line.iter_mut().find(|place| place.claim == claim) {
            Some(place) => place.session = Some(session),
            None => self.line.push(Place {
                claim,
                session: Some(session),
            }),
        }
    }

    fn view(&self, session: Session, claim: u8, gate: Gate) -> (Keeper, u8) {
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
            false => self.line.iter().take_while(|p| p.claim != claim).count(),
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
            keeper,
            in_front,
        }
    }

    const fn clock(&self, now: Tick) -> i8 {
        now.cast_signed() + self.ahead
    }
}

/// Whether the end of what `parting` is about is told before the row is freed: there is nothing in the
/// row then that anybody has to see.
const fn gives_notice(parting: &Parting) -> bool {
    parting.token.is_some() && matches!(parting.gate, Gate::Used)
}

/// Where a claim differs from another: the other bytes are zero, so that the machines' jitter is
/// the same for all.
pub(crate) const CLAIM: usize = 15;
