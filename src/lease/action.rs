//! The name of a lock, and the rules for valid names.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Maximum length of a name in bytes, which is the width of the database column.
pub const MAX_BYTES: usize = 255;

/// The name of a lock: 1 to 255 bytes of UTF-8 without control characters.
///
/// dlock and the server compare names as bytes, so `Init` and `init` are two locks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Action(String);

impl Action {
    /// Returns the name as typed.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares two names in the order in which lists show names: like their bytes, but a number in a name counts as a
    /// number, so that `job-2` precedes `job-10`. Names that differ only in leading zeros are in the order of their
    /// bytes.
    #[must_use]
    pub fn natural_cmp(&self, other: &Self) -> Ordering {
        let (mut one, mut two) = (self.0.as_bytes(), other.0.as_bytes());
        while let ([first, ..], [second, ..]) = (one, two) {
            let is_number = first.is_ascii_digit() && second.is_ascii_digit();
            let length = if is_number { digits } else { |_: &[u8]| 1 };
            let (part, rest) = one.split_at(length(one));
            let (other_part, other_rest) = two.split_at(length(two));
            let order = match is_number {
                true => {
                    let (part, other_part) = (significant(part), significant(other_part));
                    (part.len(), part).cmp(&(other_part.len(), other_part))
                }
                false => part.cmp(other_part),
            };
            if order.is_ne() {
                return order;
            }
            (one, two) = (rest, other_rest);
        }
        // The name whose part is left over is longer.
        (one.len().cmp(&two.len())).then_with(|| self.cmp(other))
    }
}

/// Returns the number of digits at the start of `text`.
fn digits(text: &[u8]) -> usize {
    let is_other = |byte: &u8| !byte.is_ascii_digit();
    text.iter().position(is_other).unwrap_or(text.len())
}

/// Returns the digits without leading zeros.
fn significant(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    &digits[zeros..]
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The reason why a string is not a valid name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionError {
    /// The name is empty, for example because a variable in a script is not set.
    Empty,
    /// The name has this many bytes, more than [`MAX_BYTES`].
    TooLong(usize),
    /// The name contains a control character, which could forge lines of output.
    Control,
}

impl fmt::Display for ActionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the name is empty"),
            Self::TooLong(bytes) => {
                write!(
                    f,
                    "the name has {bytes} bytes; at most {MAX_BYTES} are allowed"
                )
            }
            Self::Control => f.write_str("the name contains a control character"),
        }
    }
}

impl std::error::Error for ActionError {}

impl FromStr for Action {
    type Err = ActionError;

    fn from_str(text: &str) -> Result<Self, ActionError> {
        if text.is_empty() {
            Err(ActionError::Empty)
        } else if text.len() > MAX_BYTES {
            // A long name is refused and not truncated, because two names must never share a lock.
            Err(ActionError::TooLong(text.len()))
        } else if text.chars().any(char::is_control) {
            Err(ActionError::Control)
        } else {
            Ok(Self(text.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::{Action, ActionError};

    fn action(name: &str) -> Action {
        name.parse().expect("a valid action name")
    }

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        let sorted = [
            "7",
            "10",
            "a",
            "a-1",
            "a01",
            "a1",
            "a2",
            "a2b1",
            "a2b10",
            "a10",
            "a10b2",
            "job-2",
            "job-10",
            "job-99999999999999999999999",
            "job-100000000000000000000000",
            "job-x",
            "é",
        ];
        let mut names: Vec<Action> = sorted.iter().rev().map(|name| action(name)).collect();
        names.sort_by(Action::natural_cmp);
        let names: Vec<&str> = names.iter().map(Action::as_str).collect();
        assert_eq!(names, sorted);
    }

    proptest! {
        #[test]
        fn natural_order_is_total(names in proptest::array::uniform3("[ab01]{1,5}")) {
            let [one, two, three] = names.map(|name| action(&name));
            prop_assert_eq!(one.natural_cmp(&two), two.natural_cmp(&one).reverse());
            prop_assert_eq!(one.natural_cmp(&two) == Ordering::Equal, one == two);
            if one.natural_cmp(&two).is_le() && two.natural_cmp(&three).is_le() {
                prop_assert!(one.natural_cmp(&three).is_le());
            }
        }
    }

    #[test]
    fn name_has_1_to_255_bytes_and_no_control_characters() {
        let cases = [
            ("init", Ok(())),
            ("größe/été 数", Ok(())),
            ("", Err(ActionError::Empty)),
            ("a\nb", Err(ActionError::Control)),
            ("a\u{7f}", Err(ActionError::Control)),
            ("a\u{85}", Err(ActionError::Control)),
        ];
        for (name, expected) in cases {
            assert_eq!(name.parse::<Action>().map(drop), expected, "{name:?}");
        }
        assert!("x".repeat(255).parse::<Action>().is_ok());
        assert_eq!(
            "x".repeat(256).parse::<Action>(),
            Err(ActionError::TooLong(256))
        );
        assert_eq!(
            "é".repeat(128).parse::<Action>(),
            Err(ActionError::TooLong(256))
        );
    }
}
