//! The grammar of one line of a MySQL option file, as `mysys/my_default` of both servers reads it.
//!
//! An own parser, because INI crates know neither `!include` nor keys without a value nor the
//! escapes of MySQL, and a password read differently than by the `mysql` client is a wrong
//! password. Pure text, one line at a time; what a key means is not known here.

use super::value::Fault;

/// What one line says.
#[cfg_attr(test, derive(Debug, PartialEq))]
pub(super) enum Line<'a> {
    /// Nothing, or a comment.
    Blank,
    /// `[group]`: the following options belong to it.
    Group(&'a str),
    /// `!include FILE`.
    Include(&'a str),
    /// `!includedir FOLDER`.
    IncludeFolder(&'a str),
    /// `key = value`, or `key` alone, which may be any text; the value has lost its quotes and
    /// escapes.
    Option { key: &'a str, value: Option<String> },
}

/// Reads `line`, which has no line end.
pub(super) fn parse(line: &str) -> Result<Line<'_>, Fault> {
    let line = line.trim_matches(is_space);
    match line.chars().next() {
        None | Some('#' | ';') => Ok(Line::Blank),
        Some('!') => directive(line[1..].trim_start_matches(is_space)),
        Some('[') => {
            let (name, _) = line[1..]
                .split_once(']')
                .ok_or("this group has no closing ]")?;
            Ok(Line::Group(name.trim_end_matches(is_space)))
        }
        Some(_) => Ok(option(without_comment(line))),
    }
}

/// The white space of C, which has the vertical tab that Rust's ASCII white space lacks.
fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

fn directive(text: &str) -> Result<Line<'_>, Fault> {
    // The rest of the line is the path: no quotes, no comment after it.
    let (word, path) = text.split_once(is_space).unwrap_or((text, ""));
    let path = path.trim_start_matches(is_space);
    match word {
        "include" | "includedir" if path.is_empty() => Err("this directive names nothing"),
        "include" => Ok(Line::Include(path)),
        "includedir" => Ok(Line::IncludeFolder(path)),
        // The servers skip it in silence; here a typo shall not be silent.
        _ => Err("this is neither !include FILE nor !includedir FOLDER"),
    }
}

fn option(text: &str) -> Line<'_> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(unquoted(value.trim_matches(is_space)))),
        None => (text, None),
    };
    let key = key.trim_end_matches(is_space);
    Line::Option { key, value }
}

/// `line` up to the first `#` outside quotes. A backslash hides a quote only within quotes; a quote
/// that is never closed hides every `#` after it.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            ('\'' | '"', Some(open)) if open == c && !escaped => quote = None,
            ('#', None) => return &line[..at],
            _ => {}
        }
        escaped = quote.is_some() && c == '\\' && !escaped;
    }
    line
}

/// `text` without the pair of quotes around it, if any, and with its escapes replaced; those hold
/// outside quotes too.
fn unquoted(text: &str) -> String {
    let inner = ['"', '\'']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(text);
    let mut plain = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('b') => plain.push('\x08'),
            Some('s') => plain.push(' '),
            Some(same @ ('"' | '\'' | '\\')) => plain.push(same),
            // Unknown, or the last character: the backslash stands for itself.
            other => {
                plain.push('\\');
                plain.extend(other);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{Line, parse};

    fn option<'a>(key: &'a str, value: &str) -> Line<'a> {
        Line::Option {
            key,
            value: Some(value.to_owned()),
        }
    }

    /// What a careful person would write for `value`.
    fn rendered(value: &str) -> String {
        let mut text = String::from("\"");
        for c in value.chars() {
            match c {
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                '\x08' => text.push_str("\\b"),
                '"' | '\'' | '\\' => text.extend(['\\', c]),
                _ => text.push(c),
            }
        }
        text + "\""
    }

    #[test]
    fn lines_are_read_as_the_mysql_client_reads_them() {
        for (line, wanted) in [
            ("", Line::Blank),
            (" \t\r", Line::Blank),
            ("# user = x", Line::Blank),
            ("  ; user = x", Line::Blank),
            ("[client]", Line::Group("client")),
            (" [dlock ] # ours", Line::Group("dlock")),
            ("[ dlock]", Line::Group(" dlock")),
            ("!include /etc/a b.cnf ", Line::Include("/etc/a b.cnf")),
            (
                "! includedir\t/etc/my.cnf.d\r",
                Line::IncludeFolder("/etc/my.cnf.d"),
            ),
            (
                "user",
                Line::Option {
                    key: "user",
                    value: None,
                },
            ),
            (
                "user # x",
                Line::Option {
                    key: "user",
                    value: None,
                },
            ),
            ("user=", option("user", "")),
            ("user=me", option("user", "me")),
            ("  user \t= me too\r", option("user", "me too")),
            ("user=me # comment", option("user", "me")),
            ("user=me#comment", option("user", "me")),
            ("user=me ; no comment", option("user", "me ; no comment")),
            ("user='me # too' # comment", option("user", "me # too")),
            ("user=\"me\\\"#\" # comment", option("user", "me\"#")),
            (
                "user=it's # no comment",
                option("user", "it's # no comment"),
            ),
            ("user=a=b", option("user", "a=b")),
            ("user=' me '", option("user", " me ")),
            ("user='me\"", option("user", "'me\"")),
            ("user='", option("user", "'")),
            ("user=''", option("user", "")),
            ("user=\"'me'\"", option("user", "'me'")),
            (
                r"user=a\sb\tc\nd\re\bf\\g",
                option("user", "a b\tc\nd\re\x08f\\g"),
            ),
            (r#"user=\"a\'"#, option("user", "\"a'")),
            (r"user=C:\Data\", option("user", r"C:\Data\")),
            (r"user='C:\'", option("user", r"C:\")),
            ("loose-user_name=ü", option("loose-user_name", "ü")),
            ("user name = me", option("user name", "me")),
            ("= me", option("", "me")),
        ] {
            assert_eq!(parse(line), Ok(wanted), "{line:?}");
        }
    }

    #[test]
    fn lines_that_say_nothing_are_refused() {
        for (line, wanted) in [
            ("[client", "this group has no closing ]"),
            ("!include", "this directive names nothing"),
            ("!includedir  ", "this directive names nothing"),
            (
                "!inlcude /x",
                "this is neither !include FILE nor !includedir FOLDER",
            ),
            (
                "!includes /x",
                "this is neither !include FILE nor !includedir FOLDER",
            ),
        ] {
            assert_eq!(parse(line), Err(wanted), "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_rendered_comes_back(value in any::<String>()) {
            let line = format!("password = {} # a comment", rendered(&value));
            prop_assert_eq!(parse(&line), Ok(option("password", &value)));
        }

        #[test]
        fn quoting_characters_in_any_order_come_back(value in "[\"'\\\\# sntrb=;]{0,12}") {
            let line = format!("password={}", rendered(&value));
            prop_assert_eq!(parse(&line), Ok(option("password", &value)));
        }

        #[test]
        fn no_line_makes_it_panic(line in any::<String>()) {
            let _ = parse(&line);
        }
    }
}
