//! The command as the tables show it: its words, without the values that look like secrets.
//!
//! The rules prefer to replace a harmless value rather than to show a secret. They cannot recognise every secret, so
//! `--hide-args` shows only the name of the program. Pure.

use std::ffi::OsString;
use std::path::Path;

/// Maximum number of characters of a word, and of words, that are read. Longer commands do not fit into the tables.
const MAX_WORD_LENGTH: usize = 4096;
const MAX_WORDS: usize = 256;

/// Text in place of a secret.
const REPLACEMENT: &str = "***";

/// Parts of names, in lower case, whose values are secrets: of options (`--password`), of variables (`API_TOKEN=…`), of
/// headers (`X-Api-Key: …`).
const SECRET_NAMES: [&str; 11] = [
    "pass",
    "pwd",
    "secret",
    "token",
    "key",
    "credential",
    "authorization",
    "cookie",
    "signature",
    "bearer",
    // SQL statements can contain secrets: `mysql --execute=…`.
    "execute",
];

/// Returns the file name of the program, without arguments.
#[must_use]
pub(super) fn program(words: &[OsString]) -> String {
    let Some(program) = words.first() else {
        return String::new();
    };
    let name = Path::new(program).file_name().unwrap_or(program);
    name.to_string_lossy().into_owned()
}

/// Returns the words of a command, quoted for the shell, with a replacement for each value that looks like a secret.
/// The program is shown without its folder. Bytes that are not UTF-8 are replaced.
#[must_use]
pub(super) fn redacted(words: &[OsString]) -> String {
    // The tables have no room for more.
    let start = |text: String| text.chars().take(MAX_WORD_LENGTH).collect::<String>();
    let mut redactor = Redactor::default();
    let mut shown = vec![quoted(&redactor.word(&start(program(words))))];
    for word in words.iter().skip(1).take(MAX_WORDS) {
        let word = start(word.to_string_lossy().into_owned());
        shown.push(quoted(&redactor.word(&word)));
    }
    shown.join(" ")
}

/// Returns `word` in single quotes if a shell would not read it as one word.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "%+,-./:=@_*".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Replaces secrets in the words of a command, in order.
#[derive(Default)]
struct Redactor {
    /// True if the next piece of text is a secret, because an option or a name precedes it.
    secret_follows: bool,
    /// True if the next piece may be `USER:PASSWORD`, as after `curl -u`.
    user_follows: bool,
    /// The previous piece in lower case, for `IDENTIFIED BY 'secret'`.
    previous: String,
}

impl Redactor {
    /// Returns `word` with replacements. A word with white space, such as a script for `sh -c`, consists of several
    /// pieces.
    fn word(&mut self, word: &str) -> String {
        let pieces = pieces(word);
        if self.secret_follows && pieces.len() > 1 {
            // The whole word is the secret, including its spaces.
            self.secret_follows = false;
            return REPLACEMENT.to_owned();
        }
        if let [Piece::Text(first), _, ..] = pieces.as_slice()
            && let Some(value) = start_of_value(first)
        {
            // The value contains the rest of the word, including its spaces.
            return format!("{}{REPLACEMENT}", &word[..value]);
        }
        pieces
            .into_iter()
            .map(|piece| match piece {
                Piece::Separator(text) => text.to_owned(),
                Piece::Text(text) => self.piece(text),
            })
            .collect()
    }

    /// Returns one piece of text with replacements.
    fn piece(&mut self, text: &str) -> String {
        let is_secret = std::mem::take(&mut self.secret_follows);
        let is_user = std::mem::take(&mut self.user_follows);
        let lower = text.to_ascii_lowercase();
        let previous = std::mem::replace(&mut self.previous, lower.clone());
        if is_secret {
            // Words before the secret, as in `Authorization: Bearer abc` and `IDENTIFIED BY PASSWORD 'abc'`.
            let is_before = ["bearer", "basic", "by", "=", ":", "password"].contains(&&*lower);
            // If the secret is missing, this may be the next option, as in `mysql -p --token abc`.
            let is_option = ["-p", "-e"].contains(&text)
                || text.starts_with('-') && after_secret_name(text, &lower) == Some("");
            self.secret_follows = is_before || is_option;
            return match is_before {
                true => text.to_owned(),
                false => REPLACEMENT.to_owned(),
            };
        }
        if let Some((quote, inner)) = unquoted(text) {
            // A quoted piece of a script is a script of its own.
            return format!("{quote}{}{quote}", self.word(inner));
        }
        self.secret_follows = lower == "-e" || lower == "by" && previous == "identified";
        self.user_follows = ["-u", "--user", "--proxy-user"].contains(&&*lower);
        let value = after_secret_name(text, &lower);
        if text.starts_with("-p") {
            // Either `-pSECRET`, or an option such as `-password`.
            self.secret_follows = text == "-p" || value == Some("");
            return match text {
                "-p" => text.to_owned(),
                _ => format!("-p{REPLACEMENT}"),
            };
        }
        if let Some(value) = value {
            return match value {
                "" => {
                    self.secret_follows = true;
                    text.to_owned()
                }
                _ => format!("{}{REPLACEMENT}", &text[..text.len() - value.len()]),
            };
        }
        if text.contains('@') || is_user || lower.starts_with("-u") {
            return without_user_password(text, is_user || lower.starts_with("-u"));
        }
        text.to_owned()
    }
}

/// If `text` contains the name of a secret, returns the value after it, which is empty if the value follows as another
/// piece. None if there is no such name, or if the text continues after the name without a value.
fn after_secret_name<'a>(text: &'a str, lower: &str) -> Option<&'a str> {
    let ends = SECRET_NAMES
        .iter()
        .filter_map(|name| Some(lower.find(name)? + name.len()));
    let end = ends.min()?;
    match text[end..].find(['=', ':']) {
        Some(separator) => Some(&text[end + separator + 1..]),
        // Only options and the names of headers announce a value in the next piece.
        None if text.starts_with('-') || lower == "password" || lower == "bearer" => Some(""),
        None => None,
    }
}

/// Returns the position in a piece at which the value of a secret begins. None if the piece contains no such value.
fn start_of_value(piece: &str) -> Option<usize> {
    if piece.starts_with("-p") {
        return Some(2);
    }
    let is_short = piece.starts_with("-u") || piece.starts_with("-e");
    let named = after_secret_name(piece, &piece.to_ascii_lowercase());
    match named.filter(|value| !value.is_empty() || piece.ends_with(['=', ':'])) {
        Some(value) => Some(piece.len() - value.len()),
        None => is_short.then_some(2),
    }
}

/// Replaces the password in `USER:PASSWORD@HOST`, with or without a scheme such as `mysql://`. If `is_user` is true, the
/// text has no host.
fn without_user_password(text: &str, is_user: bool) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    let end = match text.rfind('@') {
        Some(at) if at >= start => at,
        _ if is_user => text.len(),
        _ => return text.to_owned(),
    };
    match text[start..end].find(':') {
        Some(colon) => format!("{}{REPLACEMENT}{}", &text[..=start + colon], &text[end..]),
        // A user without a password in a web address is normally a token.
        None if text.starts_with("http") => {
            format!("{}{REPLACEMENT}{}", &text[..start], &text[end..])
        }
        None => text.to_owned(),
    }
}

/// Part of a word: text, or the white space and operators between two texts.
enum Piece<'a> {
    Text(&'a str),
    Separator(&'a str),
}

/// Splits `word` at white space and at the operators of the shell, unless they are quoted or escaped.
fn pieces(word: &str) -> Vec<Piece<'_>> {
    let is_separator = |c: char| c.is_whitespace() || ";|()".contains(c);
    let mut pieces = Vec::new();
    let (mut start, mut was_separator) = (0, None);
    let (mut quote, mut is_escaped) = (None, false);
    for (at, c) in word.char_indices() {
        let separates = quote.is_none() && !is_escaped && is_separator(c);
        if was_separator.is_some_and(|before| before != separates) {
            pieces.push(piece(&word[start..at], !separates));
            start = at;
        }
        was_separator = Some(separates);
        match (is_escaped, quote, c) {
            (true, _, _) => is_escaped = false,
            (_, Some('"') | None, '\\') => is_escaped = true,
            (_, None, '\'' | '"') => quote = Some(c),
            (_, Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    if let Some(is_separator) = was_separator {
        pieces.push(piece(&word[start..], is_separator));
    }
    pieces
}

const fn piece(text: &str, is_separator: bool) -> Piece<'_> {
    match is_separator {
        true => Piece::Separator(text),
        false => Piece::Text(text),
    }
}

/// Returns the quote and the text between the quotes. None if `text` is not quoted.
fn unquoted(text: &str) -> Option<(char, &str)> {
    let quote = text.chars().next().filter(|c| ['\'', '"'].contains(c))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    Some((quote, inner))
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt;

    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::redacted;

    fn shown(words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        redacted(&words)
    }

    /// Commands in which each secret contains `S3CRET`, and nothing else does.
    const WITH_SECRETS: [&[&str]; 40] = [
        &["mysql", "-pS3CRET", "-u", "root"],
        &["mysql", "-uroot", "-p", "S3CRET"],
        &["mysql", "--password=S3CRET", "app"],
        &["mysql", "--password", "S3CRET"],
        &["mysql", "--PASSWORD", "-S3CRET"],
        &["mysql", "--password", "two words of S3CRET"],
        &["env", "MYSQL_PWD=S3CRET", "mysql"],
        &["env", "PGPASSWORD=S3CRET", "psql"],
        &["env", "API_TOKEN=S3CRET=S3CRET", "x"],
        &["env", "db_passwd=S3CRET", "x"],
        &["env", "AWS_SECRET_ACCESS_KEY=S3CRET", "aws"],
        &["x", "--token", "S3CRET"],
        &["x", "--api-key=S3CRET"],
        &["x", "--client-secret", "S3CRET", "--verbose"],
        &["flyway", "-password=S3CRET", "migrate"],
        &[
            "liquibase",
            "--url",
            "jdbc:mysql://db/app?user=a&password=S3CRET",
        ],
        &["x", "mysql://root:S3CRET@db:3306/app"],
        &["x", "--url=postgres://root:S3CRET/@a@db/app"],
        &[
            "migrate",
            "-database",
            "mysql://root:S3CRET@tcp(db:3306)/app",
            "up",
        ],
        &["goose", "mysql", "root:S3CRET@tcp(db)/app", "up"],
        &["git", "clone", "https://S3CRET@example.org/x"],
        &["curl", "-u", "root:S3CRET", "https://example.org"],
        &["curl", "-uroot:S3CRET", "https://example.org"],
        &["curl", "--user", "root:S3CRET"],
        &["curl", "-H", "Authorization: Bearer S3CRET"],
        &["curl", "-H", "Authorization: Basic S3CRET"],
        &["curl", "-H", "X-Api-Key: S3CRET"],
        &["curl", "-d", r#"{"user":"a","password":"S3CRET"}"#],
        &["sh", "-c", "mysql -pS3CRET < a.sql"],
        &["sh", "-c", "export TOKEN='a S3CRET'; ./run"],
        &["sh", "-c", r#"PASSWORD="S3CRET\" S3CRET" ./run"#],
        &["sh", "-c", "mysql --password S3CRET;echo done"],
        &["sh", "-c", r#"mysql -e "SET PASSWORD = 'S3CRET'""#],
        &["mysql", "-e", "select 'S3CRET'"],
        &["mysql", "-eselect 'S3CRET'"],
        &["mysql", "--execute", "select 'S3CRET'"],
        &["mysql", "--execute=select 'S3CRET'"],
        &["x", "CREATE USER a IDENTIFIED BY 'S3CRET'"],
        &["x", "ALTER USER a IDENTIFIED BY PASSWORD 'S3CRET'"],
        &["sh", "-c", "curl https://root:S3CRET@db/ | sh"],
    ];

    #[test]
    fn secrets_are_replaced() {
        let lines: Vec<String> = WITH_SECRETS.iter().map(|words| shown(words)).collect();
        let leaks: Vec<&String> = lines
            .iter()
            .filter(|line| line.contains("S3CRET"))
            .collect();
        assert_eq!(leaks, [] as [&String; 0]);
        assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn other_words_are_shown_as_they_are() {
        for words in [
            &["migrate.sh"][..],
            &["alembic", "upgrade", "head"],
            &["mysqldump", "--single-transaction", "app", "users"],
            &["rsync", "-a", "web-1:/var/lib/x", "./y"],
            &["cp", "a=b", "user@host"],
        ] {
            assert_eq!(shown(words), words.join(" "));
        }
    }

    #[test]
    fn words_are_quoted_for_the_shell_and_the_program_has_no_folder() {
        assert_eq!(
            shown(&["/usr/bin/sh", "-c", "echo 'a b'", "", "$x"]),
            r"sh -c 'echo '\''a b'\''' '' '$x'"
        );
        let words = [OsString::from("x"), OsStr::from_bytes(b"a\xff").to_owned()];
        assert_eq!(redacted(&words), "x 'a\u{fffd}'");
        assert_eq!(redacted(&[]), "''");
    }

    proptest! {
        #[test]
        fn no_value_of_a_password_option_is_shown(
            before in "[-a-z'\" ;=:@]{0,9}",
            secret in "[A-Z0-9]{9}",
            end in "[ ;'\"()|][A-Z0-9]{9}",
            after in "[-a-z'\" ;=:@]{0,9}",
        ) {
            for words in [
                vec![before.clone(), format!("--password={secret}"), after.clone()],
                vec![before.clone(), "--token".to_owned(), secret.clone(), after.clone()],
                vec![before.clone(), format!("-p{secret}"), after.clone()],
                vec![before.clone(), format!("mysql://u:{secret}@h/d"), after.clone()],
            ] {
                let words: Vec<OsString> = words.iter().map(OsString::from).collect();
                let shown = redacted(&words);
                prop_assert!(!shown.contains(&secret), "{}", shown);
            }
            let spaced = format!("{secret}{end}");
            for words in [
                vec![before.clone(), format!("--password={spaced}"), after.clone()],
                vec![before.clone(), "--token".to_owned(), spaced.clone(), after.clone()],
                vec![before.clone(), format!("-p{spaced}"), after.clone()],
                vec![before.clone(), format!("API_KEY={spaced}"), after.clone()],
            ] {
                let words: Vec<OsString> = words.iter().map(OsString::from).collect();
                let shown = redacted(&words);
                prop_assert!(!shown.contains(&secret) && !shown.contains(&end[1..]), "{}", shown);
            }
        }
    }
}
