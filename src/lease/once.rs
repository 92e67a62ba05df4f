//! When a run is needless: the key of a success, and the rule that makes one count.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Longest key in bytes: the width of the column.
pub const MAX_BYTES: usize = 255;

/// What a success was about, an image's tag for instance: 1 to 255 bytes of UTF-8 without control
/// characters, or nothing where the action alone says it.
///
/// Compared as bytes. Keys stand side by side: a success under one says nothing of another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Key(String);

impl Key {
    /// The key as typed; empty if there is none.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyError {
    /// Nothing at all; an unset variable in a script looks like this, and must not be taken for
    /// the wish to have no key.
    Empty,
    /// More than [`MAX_BYTES`] bytes: this many.
    TooLong(usize),
    /// A control character, which could forge lines wherever the key is shown.
    Control,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the key is empty"),
            Self::TooLong(bytes) => write!(f, "the key has {bytes} bytes, {MAX_BYTES} are allowed"),
            Self::Control => f.write_str("the key has a control character"),
        }
    }
}

impl std::error::Error for KeyError {}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        if text.is_empty() {
            Err(KeyError::Empty)
        } else if text.len() > MAX_BYTES {
            // Refused rather than cut: two long keys must never share a success.
            Err(KeyError::TooLong(text.len()))
        } else if text.chars().any(char::is_control) {
            Err(KeyError::Control)
        } else {
            Ok(Self(text.to_owned()))
        }
    }
}

/// Which success makes a run needless.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Once {
    /// Any under this key, however long ago.
    Ever(Key),
    /// Any of the action that is younger than this by the server's clock.
    Per(Duration),
}

#[cfg(test)]
mod tests {
    use super::{Key, KeyError};

    #[test]
    fn a_key_has_1_to_255_bytes_and_no_control_characters() {
        for (text, expected) in [
            ("v1", Ok(())),
            ("registry/app:größe", Ok(())),
            ("", Err(KeyError::Empty)),
            ("a\nb", Err(KeyError::Control)),
            ("a\u{85}", Err(KeyError::Control)),
        ] {
            assert_eq!(text.parse::<Key>().map(drop), expected, "{text:?}");
        }
        assert!("x".repeat(255).parse::<Key>().is_ok());
        assert_eq!("é".repeat(128).parse::<Key>(), Err(KeyError::TooLong(256)));
    }
}
