//! The name of a lock: what is allowed in it and why the rest is not.

use std::fmt;
use std::str::FromStr;

/// Longest name in bytes: the width of the column.
pub const MAX_BYTES: usize = 255;

/// The name of a lock: 1 to 255 bytes of UTF-8 without control characters.
///
/// Compared as bytes, by dlock and by the server: `Init` and `init` are two locks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Action(String);

impl Action {
    /// The name as typed.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionError {
    /// Nothing at all; an unset variable in a script looks like this.
    Empty,
    /// More than [`MAX_BYTES`] bytes: this many.
    TooLong(usize),
    /// A control character, which could forge lines wherever the name is shown.
    Control,
}

impl fmt::Display for ActionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the name is empty"),
            Self::TooLong(bytes) => {
                write!(f, "the name has {bytes} bytes, {MAX_BYTES} are allowed")
            }
            Self::Control => f.write_str("the name has a control character"),
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
            // Refused rather than cut: two long names must never share a lock.
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
    use super::{Action, ActionError};

    #[test]
    fn a_name_has_1_to_255_bytes_and_no_control_characters() {
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
