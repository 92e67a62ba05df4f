//! What goes between front and runner, as bytes: facts as `NAME=VALUE` with a NUL after each, words as
//! a kind and a number.

use super::{Facts, VARIABLES, Word};
use crate::sys::tree::End;

/// Most bytes of a reason: a message of a server may be of any length.
const REASON: usize = 4096;

/// Most bytes of a message with facts: far more than all of them together.
pub(super) const LONGEST: usize = 1 << 16;

/// Bytes of a word.
pub(super) const WORD: usize = 5;

/// `facts` as a message.
pub(super) fn of_facts(facts: &Facts) -> Vec<u8> {
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let seconds = |time: std::time::Duration| format!("{:.3}", time.as_secs_f64());
    let values = [
        facts.occasion.word().to_owned(),
        facts.action.to_owned(),
        number(facts.token.map(|token| token.0)),
        facts.holder.to_owned(),
        facts.other.to_owned(),
        facts.result.to_owned(),
        number(facts.status.map(u64::from)),
        shortened(facts.reason).to_owned(),
        seconds(facts.waited),
        seconds(facts.held),
    ];
    let mut message = Vec::new();
    for (name, value) in VARIABLES.iter().zip(values) {
        message.extend_from_slice(name.as_bytes());
        message.push(b'=');
        // Nothing in an environment can hold it.
        message.extend(value.bytes().filter(|byte| *byte != 0));
        message.push(0);
    }
    message
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(REASON)]
}

/// The variables in a message.
pub(super) fn variables(message: &[u8]) -> Vec<(&str, String)> {
    let texts = message.split(|byte| *byte == 0);
    let texts = texts.filter_map(|text| std::str::from_utf8(text).ok());
    texts
        .filter_map(|text| text.split_once('='))
        .map(|(name, value)| (name, value.to_owned()))
        .collect()
}

/// `word` as a message; [`Word::Gone`] is never sent.
pub(super) fn of_word(word: Word) -> [u8; WORD] {
    let (kind, number) = match word {
        Word::Ended(End::Exited(status)) => (b'e', status.into()),
        Word::Ended(End::Killed(signal)) => (b'k', signal),
        Word::Late => (b'l', 0),
        Word::Stuck => (b's', 0),
        Word::Unstartable(errno) => (b'u', errno),
        Word::Gone => (0, 0),
    };
    let [one, two, three, four] = number.to_ne_bytes();
    [kind, one, two, three, four]
}

/// The word in a message.
pub(super) fn word(message: [u8; WORD]) -> Word {
    let [kind, number @ ..] = message;
    let number = i32::from_ne_bytes(number);
    match kind {
        b'e' => Word::Ended(End::Exited(u8::try_from(number).unwrap_or(u8::MAX))),
        b'k' => Word::Ended(End::Killed(number)),
        b'l' => Word::Late,
        b's' => Word::Stuck,
        b'u' => Word::Unstartable(number),
        _ => Word::Gone,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{LONGEST, of_facts, of_word, variables, word};
    use crate::hook::{Facts, Occasion, VARIABLES, Word};
    use crate::lease::Token;
    use crate::sys::tree::End;

    #[test]
    fn what_is_said_is_what_is_heard() {
        for said in [
            Word::Ended(End::Exited(255)),
            Word::Ended(End::Killed(64)),
            Word::Late,
            Word::Stuck,
            Word::Unstartable(8),
        ] {
            assert_eq!(word(of_word(said)), said);
        }
    }

    proptest! {
        #[test]
        fn no_text_becomes_another_variable_or_is_cut_but_at_its_end(
            action in any::<String>(),
            other in any::<String>(),
            reason in "\\PC{0,5000}",
        ) {
            let facts = Facts {
                occasion: Occasion::Lost,
                action: &action,
                token: Some(Token(u64::MAX)),
                holder: "web-1",
                other: &other,
                result: "lost",
                status: Some(76),
                reason: &reason,
                waited: Duration::from_millis(1),
                held: Duration::from_secs(90),
            };
            let message = of_facts(&facts);
            prop_assert!(message.len() < LONGEST);
            let told = variables(&message);
            let names: Vec<&str> = told.iter().map(|(name, _)| *name).collect();
            prop_assert_eq!(names, VARIABLES);
            let value = |name: &str| &told.iter().find(|told| told.0 == name).expect("it is there").1;
            prop_assert_eq!(value("DLOCK_ACTION"), &action.replace('\0', ""));
            prop_assert_eq!(value("DLOCK_OTHER"), &other.replace('\0', ""));
            prop_assert!(reason.starts_with(value("DLOCK_REASON")));
            prop_assert_eq!(value("DLOCK_TOKEN"), &u64::MAX.to_string());
            prop_assert_eq!(value("DLOCK_HELD_SECONDS"), "90.000");
        }
    }
}
