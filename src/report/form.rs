//! The form of a result for programs: a line of JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::escape::is_harmful;

/// `document` as one line that no terminal acts on.
pub(super) fn json_line(document: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string(document)?;
    // serde_json leaves DEL and C1 as they are; a terminal that shows the document would act on
    // them. Between quotes, where they can only be, an escape means the same character.
    let mut safe = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if is_harmful(character) {
            // All of them are below U+10000, so each is one unit of UTF-16.
            let _ = write!(safe, "\\u{:04x}", u32::from(character));
        } else {
            safe.push(character);
        }
    }
    safe.push('\n');
    Ok(safe)
}
