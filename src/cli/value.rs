//! Option values that several subcommands share, and the functions that parse them.

use std::str::FromStr;
use std::time::Duration;

/// Maximum waiting time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// No limit.
    Forever,
    /// The given duration. Zero means one attempt.
    AtMost(Duration),
}

impl FromStr for Wait {
    type Err = humantime::DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "forever" => Ok(Self::Forever),
            duration => humantime::parse_duration(duration).map(Self::AtMost),
        }
    }
}

/// Parses the value of a variable whose option takes no value. An empty value counts as not set.
///
/// # Errors
/// Returns a message if `text` is not a Boolean value.
pub(super) fn switch(text: &str) -> Result<bool, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "y" | "yes" | "t" | "true" | "on" => Ok(true),
        "" | "0" | "n" | "no" | "f" | "false" | "off" => Ok(false),
        _ => Err("write true or false"),
    }
}

/// Parses a duration that must not be zero.
///
/// # Errors
/// Returns a message if `text` is not a duration or is zero.
pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("must be longer than 0".to_owned()),
        outcome => outcome.map_err(|error| error.to_string()),
    }
}

/// Shortest and longest time after which `prune` removes a lock. A process that asks again for the result of its last
/// request does so within an hour.
const PRUNE_AGES: std::ops::RangeInclusive<Duration> =
    Duration::from_hours(1)..=Duration::from_hours(24 * 36_500);

/// Parses the age of locks to remove.
pub(super) fn prune_age(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(age) if PRUNE_AGES.contains(&age) => Ok(age),
        Ok(_) => Err("must be between 1h and 36500d".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Checks that a value for the column `holder` has at most 255 bytes.
pub(super) fn label(text: &str) -> Result<String, String> {
    at_most(text, 255)
}

/// Checks that a value for the column `note` or `reason` has at most 1023 bytes.
pub(super) fn note(text: &str) -> Result<String, String> {
    at_most(text, 1023)
}

fn at_most(text: &str, bytes: usize) -> Result<String, String> {
    if text.len() > bytes {
        // The text is not truncated, because a truncated text may be misleading.
        return Err(format!(
            "the text has {} bytes, but only {bytes} are allowed",
            text.len()
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Wait;

    #[test]
    fn wait_is_a_duration_or_0_or_forever() {
        assert_eq!("forever".parse(), Ok(Wait::Forever));
        assert_eq!("0".parse(), Ok(Wait::AtMost(Duration::ZERO)));
        assert_eq!("1m 30s".parse(), Ok(Wait::AtMost(Duration::from_secs(90))));
        assert_eq!(
            "2500ms".parse(),
            Ok(Wait::AtMost(Duration::from_millis(2500)))
        );
        assert!("5".parse::<Wait>().is_err());
    }
}
