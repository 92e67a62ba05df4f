//! From what a packet brings back to what the real machines are told, as `store::mysql` does it.

use std::time::Duration;

use dlock::lease::instant::BootInstant;
use dlock::lease::{Claim, Token};
use dlock::store::{
    Answer, Closed, Failure, FailureKind, Holder, Question, Remainder, Reply, Sighting, Version,
    View,
};

use crate::server::{Look, Raw, full};
use crate::time::{TTL, Tick, instant, ticks};
use crate::variant::Variant;

/// A reply as the database thread hands it over. What is received at once and taken in late is the
/// worst case: the own-clock rule counts from there.
pub(crate) fn reply(sent: Tick, received: Tick, outcome: Result<Answer, Failure>) -> Reply {
    let sent: BootInstant = instant(sent);
    Reply {
        sent,
        received: instant(received).max(sent),
        server_time: None,
        could_grant: true,
        outcome,
    }
}

pub(crate) const fn failure(kind: FailureKind) -> Failure {
    Failure {
        kind,
        message: String::new(),
    }
}

/// What the client makes of a packet's result, as `store::mysql` does.
pub(crate) fn interpret(
    question: &Question,
    raw: Raw,
    variant: Variant,
) -> Result<Answer, Failure> {
    Ok(match (question, raw) {
        (_, Raw::NoGate) => return Err(failure(FailureKind::NoGate)),
        (Question::Attempt(wish), Raw::Row(look, changed)) => {
            granted(wish.claim, look, changed, variant)
        }
        (Question::Stand(turn), Raw::Row(look, changed)) => {
            granted(turn.claim, look, changed, variant)
        }
        (Question::Inspect(_), Raw::Row(look, _)) => Answer::Seen(sighting(look), view(look)),
        (Question::Queue(_), Raw::Row(look, _)) => Answer::Queued(sighting(look), view(look)),
        (Question::Renew(grant, _), Raw::Row(look, changed)) => {
            let row = sighting(look);
            let row_is_ours = match variant {
                Variant::RevokedIsOurs => row.claim == Some(grant.claim),
                _ => row.is_held_by(grant.claim, Some(grant.token)),
            };
            match (row_is_ours, changed) {
                _ if variant == Variant::OkBelieved => Answer::Renewed,
                (true, true) => Answer::Renewed,
                (true, false) => return Err(failure(FailureKind::Unknown)),
                (false, _) => Answer::Lost(row),
            }
        }
        (Question::HandOff(_), Raw::HandedOff(true)) => Answer::HandedOff,
        (Question::HandOff(_), Raw::HandedOff(false)) => Answer::NotOurs(None),
        (Question::Release(_), Raw::Freed(freed) | Raw::Settled(freed))
            if variant == Variant::SumBelieved && freed.broken.is_some() =>
        {
            Answer::Released
        }
        (Question::Release(parting), Raw::Freed(freed) | Raw::Settled(freed)) => {
            match freed.answer(parting) {
                Some(answer) => answer,
                None => return Err(failure(FailureKind::Unknown)),
            }
        }
        _ => return Err(failure(FailureKind::Unknown)),
    })
}

fn granted(claim: Claim, mut look: Look, changed: bool, variant: Variant) -> Answer {
    look.broken &= variant != Variant::RevokedIsOurs;
    match look.read_back(changed).granted(claim) {
        // Not what is read back, but what brought no error.
        _ if variant == Variant::OkBelieved => Answer::Granted(Token(look.token.into())),
        // The row is ours, whoever made it so.
        Some(Answer::AlreadyOurs(token)) if variant == Variant::OldGrantBelieved => {
            Answer::Granted(token)
        }
        Some(answer) => answer,
        None => Answer::Seen(sighting(look), view(look)),
    }
}

/// The row as the real machines see it. What they only print is left out.
fn sighting(look: Look) -> Sighting {
    Sighting {
        claim: look.claim.map(full),
        version: Version {
            token: Token(look.token.into()),
            renewals: look.renewals.into(),
        },
        holder: Holder::default(),
        ttl: ticks(TTL),
        remainder: match look.left {
            0.. => Remainder::Left(ticks(look.left.unsigned_abs())),
            _ => Remainder::Lapsed(ticks(look.left.unsigned_abs())),
        },
        gated_here: look.gated,
        broken_ago: look.broken.then_some(Duration::ZERO),
        closed: (look.closed > 0).then(|| Closed {
            until: String::new(),
            left: ticks(look.closed),
        }),
        ..Sighting::never_held("a".parse().expect("a name"))
    }
}

fn view(look: Look) -> View {
    View {
        keeper: look.keeper,
        ahead: look.in_front.into(),
        first_for: None,
    }
}
