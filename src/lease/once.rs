//! The key of a success, and the rule by which a success makes a run unnecessary.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Maximum length of a key in bytes, which is the width of the database column.
pub const MAX_BYTES: usize = 255;

/// The key of a success, for example the tag of an image: 1 to 255 bytes of UTF-8 without control
/// characters, or empty if the action alone identifies the success.
///
/// Keys are compared as bytes. A success under one key does not count for a different key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct OnceKey(String);

impl OnceKey {
    /// Returns the key as typed, or an empty string if there is no key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The reason why a string is not a valid key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyError {
    /// The key is empty, for example because a variable in a script is not set. An empty key must not be treated like a
    /// missing key.
    Empty,
    /// The key has this many bytes, more than [`MAX_BYTES`].
    TooLong(usize),
    /// The key contains a control character, which could forge lines of output.
    Control,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the key is empty"),
            Self::TooLong(bytes) => write!(
                f,
                "the key has {bytes} bytes; at most {MAX_BYTES} are allowed"
            ),
            Self::Control => f.write_str("the key contains a control character"),
        }
    }
}

impl std::error::Error for KeyError {}

impl FromStr for OnceKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        if text.is_empty() {
            Err(KeyError::Empty)
        } else if text.len() > MAX_BYTES {
            // A long key is refused and not truncated, because two keys must never share a success.
            Err(KeyError::TooLong(text.len()))
        } else if text.chars().any(char::is_control) {
            Err(KeyError::Control)
        } else {
            Ok(Self(text.to_owned()))
        }
    }
}

/// The successes that make a run unnecessary.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Once {
    /// Any success under this key, regardless of its age.
    Ever(OnceKey),
    /// Any success of the action that is younger than this duration by the server's clock.
    Per(Duration),
}

#[cfg(test)]
mod tests {
    use super::{KeyError, OnceKey};

    #[test]
    fn key_has_1_to_255_bytes_and_no_control_characters() {
        for (text, expected) in [
            ("v1", Ok(())),
            ("registry/app:größe", Ok(())),
            ("", Err(KeyError::Empty)),
            ("a\nb", Err(KeyError::Control)),
            ("a\u{85}", Err(KeyError::Control)),
        ] {
            assert_eq!(text.parse::<OnceKey>().map(drop), expected, "{text:?}");
        }
        assert!("x".repeat(255).parse::<OnceKey>().is_ok());
        assert_eq!(
            "é".repeat(128).parse::<OnceKey>(),
            Err(KeyError::TooLong(256))
        );
    }
}
