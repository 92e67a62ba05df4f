//! From a question of the model to the same question with real claims and tokens. Pure.

use dlock::lease::{Claim, Grant, Token};
use dlock::store::{Mode, Parting, Place, Question, Turn, Version, Wish};

/// The question with what `claim` and `token` make of its claims and tokens.
pub(crate) fn translated(
    question: &Question,
    claim: impl Fn(Claim) -> Claim,
    token: impl Fn(Token) -> Token,
) -> Question {
    let grant = |grant: &Grant| Grant {
        claim: claim(grant.claim),
        token: token(grant.token),
    };
    let place = |place: &Place| Place {
        claim: claim(place.claim),
        ..*place
    };
    match question {
        Question::Attempt(wish) => Question::Attempt(Wish {
            claim: claim(wish.claim),
            mode: match wish.mode {
                Mode::TakeOver { version, fenced } => Mode::TakeOver {
                    version: Version {
                        token: token(version.token),
                        ..version
                    },
                    fenced,
                },
                mode => mode,
            },
            gate: wish.gate,
        }),
        Question::Inspect(it) => Question::Inspect(place(it)),
        Question::Queue(it) => Question::Queue(place(it)),
        Question::Look => Question::Look,
        Question::Stand(turn) => Question::Stand(Turn {
            claim: claim(turn.claim),
            ..*turn
        }),
        Question::Renew(it, gate) => Question::Renew(grant(it), *gate),
        Question::HandOff(it) => Question::HandOff(grant(it)),
        Question::Release(parting) => Question::Release(Parting {
            claim: claim(parting.claim),
            token: parting.token.map(token),
            ..*parting
        }),
    }
}
