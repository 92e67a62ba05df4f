//! Snapshots of everything that this module formats: tables, facts, JSON, and messages.
//!
//! Each snapshot is a file in `tests/snapshots` with the name of its test. CONTRIBUTING.md describes how to update the
//! snapshots.

mod doctor;
mod history;
mod messages;
pub(crate) mod records;
mod status;

use super::layout::Layout;
use super::line;

/// Returns a line of JSON with a newline between every two fields, so that a snapshot shows which field has changed.
#[track_caller]
fn by_field(json: &str) -> String {
    let line = json
        .strip_suffix('\n')
        .expect("the line ends with a newline");
    assert!(!line.contains('\n'), "more than one line: {line:?}");
    line.replace(",\"", ",\n\"").replace("},{", "},\n{")
}

/// Returns what `print` formats for a terminal of 80 columns, for one of 200 columns, and for a pipe. Panics if a line
/// is wider than its terminal.
#[track_caller]
fn at_each_width(print: impl Fn(Layout) -> String) -> String {
    let at = |width: Option<usize>| {
        let text = whole_lines(print(Layout {
            width,
            ..Layout::FULL
        }));
        for line in text.lines() {
            assert!(line::width(line) <= width.unwrap_or(usize::MAX), "{line}");
        }
        let title = width.map_or("in full".to_owned(), |width| format!("{width} columns"));
        format!("{title}:\n{text}")
    };
    [Some(80), Some(200), None].map(at).join("\n")
}

/// Returns `text`. Panics if the text does not end with exactly one newline, because a snapshot does not show trailing
/// newlines.
#[track_caller]
fn whole_lines(text: String) -> String {
    assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{text:?}");
    text
}
