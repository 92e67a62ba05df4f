//! Formats a packet for reading.

use super::super::database_id::database;
use super::super::fragments::{HERE, READ_ONLY, SERVER_TIME, SESSIONS, queue_lock_name};
use super::super::sessions::STARTED;

/// Maximum length of a line that is not broken.
const WIDTH: usize = 100;

/// The words before which a long text is broken, from the outermost to the innermost, and the indent of the parts.
const BREAKS: [(&[&str], usize); 3] = [
    (
        &[
            " FROM ",
            " LEFT JOIN ",
            " JOIN ",
            " ON ",
            " WHERE ",
            " SET ",
            " VALUES ",
            " ORDER BY ",
            " UNION ",
            " FOR UPDATE",
        ],
        2,
    ),
    (&[","], 2),
    (&[" AND ", " OR "], 2),
];

/// Expressions that many packets contain, and the names that stand for them in a formatted packet.
pub(super) fn abbreviations() -> Vec<(&'static str, String)> {
    vec![
        ("{DATABASE}", database()),
        ("{SERVER}", HERE.to_owned()),
        ("{NOW}", SERVER_TIME.to_owned()),
        ("{SESSIONS}", SESSIONS.to_owned()),
        ("{READ_ONLY}", READ_ONLY.to_owned()),
        ("{QUEUE_LOCK}", queue_lock_name("x'696e6974'")),
        ("{STARTED}", STARTED.to_owned()),
    ]
}

/// Returns `packet` with one statement on each line, or on several lines if it is long. Hex literals of text are shown as
/// text in double quotes, and the expressions in [`abbreviations`] as their names.
pub(super) fn readable(packet: &str) -> String {
    let mut text = packet.to_owned();
    for (name, expression) in abbreviations() {
        text = text.replace(&expression, name);
    }
    let statements = split(&decoded(&text), &[";"]);
    let lines = statements
        .iter()
        .map(|statement| formatted(statement.trim(), 0));
    lines.collect::<Vec<String>>().join(";\n")
}

/// Replaces the hex literals of printable text with the text.
fn decoded(text: &str) -> String {
    let mut parts = text.split("x'");
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_once('\'').expect("the literal ends");
        let pairs = digits.as_bytes().chunks(2);
        let bytes = pairs.map(|pair| {
            let pair = str::from_utf8(pair).expect("digits are ASCII");
            u8::from_str_radix(pair, 16).expect("a hex number")
        });
        let bytes: Vec<u8> = bytes.collect();
        let is_text = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        let literal = match bytes.iter().all(is_text) {
            true => format!("{:?}", String::from_utf8_lossy(&bytes)),
            false => format!("x'{digits}'"),
        };
        decoded.push_str(&literal);
        decoded.push_str(rest);
    }
    decoded
}

/// Splits `text` before each of the `marks` that is outside parentheses and texts. A mark that begins with a letter or a
/// space stays at the beginning of the next part, and another mark is removed.
fn split(text: &str, marks: &[&str]) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let (mut depth, mut quote) = (0_usize, None);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mark = marks
            .iter()
            .find(|mark| depth == 0 && quote.is_none() && rest.starts_with(**mark));
        if let Some(mark) = mark
            && !part.is_empty()
        {
            parts.push(std::mem::take(&mut part));
            if mark.starts_with(' ') {
                part.push_str(mark);
            }
            rest = &rest[mark.len()..];
            continue;
        }
        match first {
            '\'' | '"' if quote == Some(first) => quote = None,
            '\'' | '"' if quote.is_none() => quote = Some(first),
            '(' if quote.is_none() => depth += 1,
            ')' if quote.is_none() => depth = depth.saturating_sub(1),
            _ => {}
        }
        part.push(first);
        rest = &rest[first.len_utf8()..];
    }
    parts.push(part);
    parts
}

/// Formats one statement or expression, whose lines after the first begin with at least `indent` spaces.
fn formatted(text: &str, indent: usize) -> String {
    if text.len() + indent <= WIDTH {
        return text.to_owned();
    }
    for (marks, further) in BREAKS {
        let parts = split(text, marks);
        if parts.len() == 1 {
            continue;
        }
        let comma = if marks == [","] { "," } else { "" };
        let line = format!("{comma}\n{:indent$}", "", indent = indent + further);
        let parts = parts.iter().enumerate().map(|(index, part)| {
            let indent = if index == 0 { indent } else { indent + further };
            formatted(part.trim(), indent)
        });
        return parts.collect::<Vec<String>>().join(&line);
    }
    opened(text, indent)
}

/// Formats an expression with a long part in parentheses, which then has its own lines.
fn opened(text: &str, indent: usize) -> String {
    let mut depth = 0_usize;
    let mut groups = Vec::new();
    for (at, char) in text.char_indices() {
        match char {
            '(' => {
                depth += 1;
                if depth == 1 {
                    groups.push((at + 1, at + 1));
                }
            }
            ')' => {
                depth = depth.saturating_sub(1);
                if let Some(last) = groups.last_mut()
                    && depth == 0
                {
                    last.1 = at;
                }
            }
            _ => {}
        }
    }
    let Some((start, end)) = groups.into_iter().max_by_key(|(start, end)| end - start) else {
        return text.to_owned();
    };
    let inner = formatted(text[start..end].trim(), indent + 2);
    let line = format!("\n{:indent$}", "");
    format!("{}{line}  {inner}{line}{}", &text[..start], &text[end..])
}
