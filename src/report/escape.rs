//! Escapes text from other clients, so that it cannot affect a terminal or a program that reads line by line.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns `text` with the escape `\u{…}` in place of each character that a terminal might interpret: C0
/// and C1 controls, DEL, line and paragraph separators, characters that change the reading direction, and the
/// byte order mark.
///
/// Does not escape backslashes, because the result is for users and not for parsers. JSON has its own
/// escapes.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_harmful(character) {
            // Writing to a String cannot fail.
            let _ = write!(escaped, "{}", character.escape_unicode());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Returns true for the characters that [`printable`] escapes. Some of them can make one string look like
/// another (CVE-2021-42574).
pub(super) fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{feff}')
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::{is_harmful, printable};

    /// Generates strings with many harmful characters. The strings that proptest generates by default contain
    /// no control characters.
    pub(in crate::report) fn hostile() -> impl Strategy<Value = String> {
        let bad =
            "\u{0}\t\n\r\u{1b}\"\\{}\u{7f}\u{85}\u{9b}\u{200f}\u{2028}\u{202e}\u{2066}\u{feff}";
        let bad = select(bad.chars().collect::<Vec<_>>());
        vec(prop_oneof![any::<char>(), bad], 0..24).prop_map(String::from_iter)
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("web-1/4711 größe"), "web-1/4711 größe");
        assert_eq!(
            printable("a\x1b[2Jb\nc\u{9b}d"),
            r"a\u{1b}[2Jb\u{a}c\u{9b}d"
        );
        assert_eq!(printable("x\u{202e}y\u{7f}"), r"x\u{202e}y\u{7f}");
    }

    proptest! {
        #[test]
        fn no_harmful_character_remains(text in hostile()) {
            prop_assert!(!printable(&text).contains(is_harmful));
        }
    }
}
