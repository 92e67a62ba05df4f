//! The grammar of one line of a MySQL option file, as in `mysys/my_default` of both servers.
//!
//! INI crates do not support all of `!include`, keys without a value, and MySQL's escapes. If a password is not parsed
//! exactly as in the `mysql` client, the login fails. Therefore dlock has its own parser, which handles one line at a
//! time and does not interpret keys.

use super::value::InvalidValue;

/// The content of one line.
#[cfg_attr(test, derive(Debug, PartialEq))]
pub(super) enum OptionLine<'a> {
    /// An empty line or a comment.
    Blank,
    /// `[group]`, to which the following options belong.
    Group(&'a str),
    /// `!include FILE`.
    Include(&'a str),
    /// `!includedir FOLDER`.
    IncludeFolder(&'a str),
    /// `key = value`, or `key` alone. The key may be any string. The quotes around the value are removed, and the
    /// escapes in the value are replaced. A `value` of None means that the line has no `=`.
    Option { key: &'a str, value: Option<String> },
}

/// Parses `line`, which contains no newline.
///
/// # Errors
/// Fails if a group has no closing `]`, or if a directive is unknown or has no path.
pub(super) fn parse(line: &str) -> Result<OptionLine<'_>, InvalidValue> {
    let line = line.trim_matches(is_space);
    match line.chars().next() {
        None | Some('#' | ';') => Ok(OptionLine::Blank),
        Some('!') => directive(line[1..].trim_start_matches(is_space)),
        Some('[') => {
            let (name, _) = line[1..]
                .split_once(']')
                .ok_or("the group has no closing ]")?;
            Ok(OptionLine::Group(name.trim_end_matches(is_space)))
        }
        Some(_) => Ok(option(without_comment(line))),
    }
}

/// Returns true for white space as defined by C. In contrast to Rust's ASCII white space, it includes the vertical tab.
fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

fn directive(text: &str) -> Result<OptionLine<'_>, InvalidValue> {
    // The path extends to the end of the line. Quotes and comments have no special meaning in the path.
    let (word, path) = text.split_once(is_space).unwrap_or((text, ""));
    let path = path.trim_start_matches(is_space);
    match word {
        "include" | "includedir" if path.is_empty() => Err("the directive has no path"),
        "include" => Ok(OptionLine::Include(path)),
        "includedir" => Ok(OptionLine::IncludeFolder(path)),
        // The `mysql` client ignores an unknown directive. dlock refuses it, because it may be a typing error.
        _ => Err("the directive is unknown; write !include FILE or !includedir FOLDER"),
    }
}

fn option(text: &str) -> OptionLine<'_> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(unquoted(value.trim_matches(is_space)))),
        None => (text, None),
    };
    let key = key.trim_end_matches(is_space);
    OptionLine::Option { key, value }
}

/// Returns the part of `line` before the first `#` outside quotes, or the whole line. A backslash escapes a quote only
/// inside quotes. After an unclosed quote, `#` does not start a comment.
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

/// Removes the pair of quotes around `text`, if there is one, and replaces the escapes. Escapes are also replaced in
/// text without quotes.
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
            // The backslash is literal if the escape is unknown or the backslash is the last character.
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

    use super::{OptionLine, parse};

    fn option<'a>(key: &'a str, value: &str) -> OptionLine<'a> {
        OptionLine::Option {
            key,
            value: Some(value.to_owned()),
        }
    }

    /// Returns `value` in quotes, with all escapes.
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
    fn lines_are_parsed_as_in_the_mysql_client() {
        for (line, wanted) in [
            ("", OptionLine::Blank),
            (" \t\r", OptionLine::Blank),
            ("# user = x", OptionLine::Blank),
            ("  ; user = x", OptionLine::Blank),
            ("[client]", OptionLine::Group("client")),
            (" [dlock ] # ours", OptionLine::Group("dlock")),
            ("[ dlock]", OptionLine::Group(" dlock")),
            (
                "!include /etc/a b.cnf ",
                OptionLine::Include("/etc/a b.cnf"),
            ),
            (
                "! includedir\t/etc/my.cnf.d\r",
                OptionLine::IncludeFolder("/etc/my.cnf.d"),
            ),
            (
                "user",
                OptionLine::Option {
                    key: "user",
                    value: None,
                },
            ),
            (
                "user # x",
                OptionLine::Option {
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
    fn malformed_lines_are_refused() {
        for (line, wanted) in [
            ("[client", "the group has no closing ]"),
            ("!include", "the directive has no path"),
            ("!includedir  ", "the directive has no path"),
            (
                "!inlcude /x",
                "the directive is unknown; write !include FILE or !includedir FOLDER",
            ),
            (
                "!includes /x",
                "the directive is unknown; write !include FILE or !includedir FOLDER",
            ),
        ] {
            assert_eq!(parse(line), Err(wanted), "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn quoted_value_round_trips(value in any::<String>()) {
            let line = format!("password = {} # a comment", rendered(&value));
            prop_assert_eq!(parse(&line), Ok(option("password", &value)));
        }

        #[test]
        fn quoting_characters_in_any_order_round_trip(value in "[\"'\\\\# sntrb=;]{0,12}") {
            let line = format!("password={}", rendered(&value));
            prop_assert_eq!(parse(&line), Ok(option("password", &value)));
        }

        #[test]
        fn parse_never_panics(line in any::<String>()) {
            let _ = parse(&line);
        }
    }
}
