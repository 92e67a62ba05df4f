//! Formats a result as one line of JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::escape::is_harmful;

/// Formats `document` as one line of JSON, including the newline. Escapes the characters that a terminal
/// would interpret.
pub(crate) fn json_line(document: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string(document)?;
    // serde_json does not escape all characters that a terminal would interpret, for example DEL and C1
    // controls. They occur only inside JSON strings, where an escape sequence represents the same character.
    let mut safe = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if is_harmful(character) {
            // All harmful characters are below U+10000, so each needs only one UTF-16 code unit.
            let _ = write!(safe, "\\u{:04x}", u32::from(character));
        } else {
            safe.push(character);
        }
    }
    safe.push('\n');
    Ok(safe)
}

/// Returns `duration` in whole milliseconds, rounded down.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
