//! Formats a result as one line of JSON.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::escape::is_harmful;

/// Formats `document` as one line of JSON, including the newline. Escapes the characters that a terminal
/// would interpret.
pub(crate) fn json_line(document: &impl Serialize) -> serde_json::Result<String> {
    let mut line = Vec::new();
    write_json_line(document, &mut line)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Writes the same to `writer`, in small parts.
pub(crate) fn write_json_line(
    document: &impl Serialize,
    writer: &mut dyn Write,
) -> serde_json::Result<()> {
    serde_json::to_writer(SafeWriter(writer), document)?;
    writer.write_all(b"\n").map_err(serde_json::Error::io)
}

/// Escapes the characters that a terminal would interpret and that `serde_json` does not escape, for example DEL and C1
/// controls. They occur only inside JSON strings, where an escape sequence represents the same character.
struct SafeWriter<'a>(&'a mut dyn Write);

impl Write for SafeWriter<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        // serde_json writes whole characters.
        let text = String::from_utf8_lossy(part);
        let mut rest = &*text;
        while let Some(index) = rest.find(is_harmful) {
            let (safe, harmful) = rest.split_at(index);
            self.0.write_all(safe.as_bytes())?;
            let mut characters = harmful.chars();
            // All harmful characters are below U+10000, so each needs only one UTF-16 code unit.
            let character = characters.next().map_or(0, u32::from);
            write!(self.0, "\\u{character:04x}")?;
            rest = characters.as_str();
        }
        self.0.write_all(rest.as_bytes())?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns `duration` in whole milliseconds, rounded down.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
