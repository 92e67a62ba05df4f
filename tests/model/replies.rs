//! From what a packet brings back to what the real machines are told, as `store::mysql` does it.

use std::time::Duration;

use dlock::lease::instant::BootInstant;
use dlock::lease::{Claim, Token};
use dlock::store::{
    Answer, Failure, FailureKind, Holder, Question, Remainder, Reply, Sighting, Version, View,
};

use crate::server::{CLAIM, Look, Raw};
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
        (Question::Attempt(wish), Raw::Row(look, _)) => granted(wish.claim, look, variant),
        (Question::Stand(turn), Raw::Row(look, _)) => granted(turn.wish.claim, look, variant),
        (Question::Inspect(_), Raw::Row(look, _)) => Answer::Seen(sighting(look), view(look)),
        (Question::Queue(_), Raw::Row(look, _)) => Answer::Queued(sighting(look), view(look)),
        (Question::Renew(grant, _), Raw::Row(look, _)) => {
            let row = sighting(look);
            let ours = row.is_held_by(grant.claim, Some(grant.token));
            match ours || variant == Variant::OkBelieved {
                true => Answer::Renewed,
                false => Answer::Lost(row),
            }
        }
        (Question::Release(_), Raw::Freed(true)) => Answer::Released,
        (Question::Release(_), Raw::Freed(false)) => Answer::NotOurs,
        _ => return Err(failure(FailureKind::Unknown)),
    })
}

fn granted(claim: Claim, look: Look, variant: Variant) -> Answer {
    let row = sighting(look);
    match row.is_held_by(claim, None) || variant == Variant::OkBelieved {
        true => Answer::Granted(row.version.token),
        false => Answer::Seen(row, view(look)),
    }
}

/// The row as the real machines see it. What they only print is left out.
fn sighting(look: Look) -> Sighting {
    let claim = look.claim.map(|number| {
        let mut claim = [0; CLAIM + 1];
        claim[CLAIM] = number;
        Claim::new(claim)
    });
    Sighting {
        claim,
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
