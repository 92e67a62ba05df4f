//! Replaces the crate `regex`, which only `mysql_common` uses. This crate contains only the functions that `mysql_common`
//! calls.
//!
//! `mysql_common` parses the version of the server, an RSA key and times with eleven short patterns. The crate `regex`
//! makes the program 1.1 MB larger. At each login, it compiles two of the patterns, which takes two thirds of all
//! instructions of a short `dlock exec`. `regex-lite` is small, and executes 2 % of these instructions.
//!
//! `regex-lite` matches text, and `mysql_common` matches bytes. Therefore each byte is matched as the character with the
//! same number. The result differs from that of the crate `regex` only if the bytes are not ASCII: there, `.` and `[^-]`
//! match only valid UTF-8, and `\d` also matches digits of other scripts, which `mysql_common` cannot convert.
//! `tests/it/driver_patterns.rs` contains the tests.
//!
//! If an update of `mysql_common` calls a function that is missing here, `dlock` does not compile. Compare the patterns of
//! the update with those of the tests.

/// Patterns for bytes.
pub mod bytes {
    use std::ops::Range;

    pub use regex_lite::Error;

    /// A compiled pattern.
    #[derive(Debug, Clone)]
    pub struct Regex(regex_lite::Regex);

    impl Regex {
        /// Compiles `pattern`.
        ///
        /// # Errors
        /// Returns an error if the pattern is invalid.
        pub fn new(pattern: &str) -> Result<Self, Error> {
            regex_lite::Regex::new(pattern).map(Self)
        }

        /// Returns true if the pattern matches anywhere in `haystack`.
        #[must_use]
        pub fn is_match(&self, haystack: &[u8]) -> bool {
            self.0.is_match(&text(haystack))
        }

        /// Returns the groups of the first match in `haystack`.
        #[must_use]
        pub fn captures<'h>(&self, haystack: &'h [u8]) -> Option<Captures<'h>> {
            let text = text(haystack);
            let captures = self.0.captures(&text)?;
            // A byte above 127 has two bytes in the text.
            let at = |end: usize| text[..end].chars().count();
            let range = |group: regex_lite::Match<'_>| at(group.start())..at(group.end());
            Some(Captures {
                haystack,
                groups: captures.iter().map(|group| group.map(range)).collect(),
            })
        }
    }

    /// The groups of a match.
    #[derive(Debug)]
    pub struct Captures<'h> {
        haystack: &'h [u8],
        groups: Vec<Option<Range<usize>>>,
    }

    impl<'h> Captures<'h> {
        /// Returns the group with this `number`, or the whole match if the number is 0. None if the group is not part of
        /// the match.
        #[must_use]
        pub fn get(&self, number: usize) -> Option<Match<'h>> {
            let range = self.groups.get(number)?.clone()?;
            Some(Match(&self.haystack[range]))
        }
    }

    /// A group of a match.
    #[derive(Debug, Clone, Copy)]
    pub struct Match<'h>(&'h [u8]);

    impl<'h> Match<'h> {
        /// Returns the bytes of the group.
        #[must_use]
        pub fn as_bytes(&self) -> &'h [u8] {
            self.0
        }
    }

    /// Returns `bytes` as text, in which each byte is the character with the same number.
    fn text(bytes: &[u8]) -> String {
        bytes.iter().copied().map(char::from).collect()
    }
}
