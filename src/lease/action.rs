//! The name of a lock, and the rules for valid names.

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
    use super::{Action, ActionError};

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
