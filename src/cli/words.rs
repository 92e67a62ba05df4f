//! Usage errors that show what to write instead, if a word of the command line is at the wrong place.
//!
//! The parser of clap reports such a word, but cannot know what the user meant.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory};

use super::{Cli, watch};

/// Words that users of similar programs type, with the command lines to suggest.
const SIMILAR: &[(&str, &str)] = &[
    ("lock run acquire flock do", "dlock exec NAME -- COMMAND"),
    ("unlock free revoke break kill", "dlock release NAME"),
    ("pause", "dlock release NAME --pause 1h"),
    ("resume unpause", "dlock release NAME --resume"),
    ("top watch monitor", "dlock status --watch"),
    ("ps show info stat who holder", "dlock status"),
    ("log logs runs", "dlock history"),
    ("init install create migrate upgrade", "dlock setup"),
    ("test ping diagnose config", "dlock doctor"),
    ("reset clear", "dlock forget NAME --once"),
    (
        "delete remove rm gc clean cleanup purge",
        "dlock prune NAME --older-than 30d",
    ),
];

/// Options that users of similar programs type, for each subcommand, with the answers.
const SIMILAR_OPTIONS: &[(&str, &str, &str)] = &[
    (
        "wait",
        "-w --wait -n --nonblock",
        "--timeout limits the wait, and --timeout 0 checks once",
    ),
    (
        "exec",
        "--timeout",
        "--wait limits the wait for the lock, and --max-runtime the command",
    ),
    (
        "exec",
        "-c --command",
        "usage: dlock exec NAME -- sh -c 'COMMAND'",
    ),
    (
        "exec",
        "-x --exclusive",
        "a lock is exclusive without an option",
    ),
    (
        "exec",
        "-F --no-fork -o --close -u --unlock",
        "dlock has no such option of flock",
    ),
    ("exec", "-s", "did you mean --shared?"),
    (
        "exec",
        "--limit --permits --semaphore --concurrency",
        "did you mean --slots?",
    ),
    ("exec", "--lease", "--ttl sets the length of the lease"),
    ("forget", "--note", "did you mean --reason?"),
    ("release", "--note", "did you mean --reason?"),
    ("release", "-f --force", "--yes asks for no confirmation"),
    ("history", "-n --limit --lines", "did you mean --number?"),
];

/// Returns the message for a subcommand that does not exist.
#[must_use]
pub(super) fn unknown_subcommand(word: &str) -> String {
    let similar = SIMILAR
        .iter()
        .find(|(words, _)| words.split(' ').any(|known| known == word));
    let advice = similar.map_or_else(
        || nearest_subcommand(word).unwrap_or_else(|| "dlock -h lists the subcommands".to_owned()),
        |(_, line)| format!("did you mean {line}?"),
    );
    format!(
        "there is no subcommand {}; {advice}",
        quoted(OsStr::new(word))
    )
}

/// Returns a suggestion if at most two letters of `word` differ from a subcommand.
fn nearest_subcommand(word: &str) -> Option<String> {
    let root = Cli::command();
    let names = root.get_subcommands().map(Command::get_name);
    let distance = |name: &&str| strsim::damerau_levenshtein(word, name);
    let nearest = names.min_by_key(distance)?;
    (distance(&nearest) <= 2).then(|| format!("did you mean dlock {nearest}?"))
}

/// Returns the usage error `error`, or a clearer one if a word of `arguments` is at the wrong place.
pub(super) fn correct(error: clap::Error, arguments: &[OsString]) -> clap::Error {
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
    {
        return clap::Error::raw(
            ErrorKind::InvalidSubcommand,
            unknown_subcommand(word) + "\n",
        );
    }
    if error.kind() == ErrorKind::MissingSubcommand {
        let why = "the subcommand is missing; dlock -h lists the subcommands\n";
        return clap::Error::raw(ErrorKind::MissingSubcommand, why);
    }
    let is_word = match error.kind() {
        ErrorKind::UnknownArgument => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(word)) => !word.starts_with('-'),
            _ => false,
        },
        ErrorKind::ArgumentConflict => true,
        _ => false,
    };
    let is_option = error.kind() == ErrorKind::UnknownArgument && !is_word;
    let mut root = Cli::command();
    root.build();
    let Some(line) = Line::new(&root, arguments) else {
        return error;
    };
    let why = match (is_word, is_option) {
        (false, false) => None,
        (_, true) => line
            .unmarked_command()
            .or_else(|| line.similar_option(&error)),
        (true, _) => line.unmarked_command().or_else(|| line.separated_value()),
    };
    why.map_or(error, usage)
}

/// Checks the word that directly follows `--once`, `--done` or `--watch`. The word is an argument of the subcommand. It
/// is refused if it probably is the value of the option: if the variable `DLOCK_OPT_ACTION` already contains the name, or
/// if the word is an interval. `root` is the command line with the options of at least this subcommand.
///
/// # Errors
/// Returns the usage error.
pub(super) fn check_separated_value(
    root: &Command,
    arguments: &[OsString],
) -> Result<(), clap::Error> {
    let why = Line::new(root, arguments)
        .filter(|line| line.has_name_in_environment() || line.has_separated_interval())
        .and_then(|line| line.separated_value());
    why.map_or(Ok(()), |why| Err(usage(why)))
}

/// Returns the line to write, or the usage if `line` contains a placeholder, which is a word in capitals.
pub(super) fn hint(line: &str) -> String {
    let is_placeholder = |word: &str| {
        word.len() > 1
            && word
                .chars()
                .all(|c| c.is_ascii_uppercase() || "[]".contains(c))
    };
    match line.split(' ').any(is_placeholder) {
        true => format!("usage: {line}"),
        false => format!("write: {line}"),
    }
}

fn usage(why: String) -> clap::Error {
    clap::Error::raw(ErrorKind::UnknownArgument, why + "\n")
}

/// The words of a command line after the subcommand.
pub(super) struct Line<'a> {
    subcommand: &'a Command,
    /// The words up to `--`.
    words: &'a [OsString],
    /// The words after `--`.
    command: &'a [OsString],
    /// True if `--` follows the words.
    has_marker: bool,
}

impl<'a> Line<'a> {
    /// Splits `arguments`. None if there is no subcommand.
    pub(super) fn new(root: &'a Command, arguments: &'a [OsString]) -> Option<Self> {
        let arguments = arguments.get(1..)?;
        let at = next_word(root, arguments, 0)?;
        let subcommand = root.find_subcommand(&arguments[at])?;
        let rest = &arguments[at + 1..];
        let end = rest.iter().position(|word| word == "--");
        Some(Self {
            subcommand,
            words: &rest[..end.unwrap_or(rest.len())],
            command: end.map_or(&[], |end| &rest[end + 1..]),
            has_marker: end.is_some(),
        })
    }

    pub(super) fn subcommand_name(&self) -> &str {
        self.subcommand.get_name()
    }

    /// Returns the words after `--`.
    pub(super) fn command(&self) -> &[OsString] {
        self.command
    }

    /// Returns the first word that is neither an option nor the value of an option.
    fn name(&self) -> Option<&OsStr> {
        let at = next_word(self.subcommand, self.words, 0)?;
        Some(&self.words[at])
    }

    /// Returns the words before `--` as a user may write them again. A placeholder replaces all options if one of them
    /// is a connection option, which may contain a password.
    pub(super) fn typed(&self) -> Vec<String> {
        let is_connection_option = |word: &OsString| {
            let found = option(self.subcommand, word);
            found.is_some_and(|(option, _)| option.get_help_heading() == Some("Connection"))
        };
        match self.words.iter().any(is_connection_option) {
            true => ["[OPTIONS]".to_owned()]
                .into_iter()
                .chain(self.name().map(quoted))
                .collect(),
            false => self.words.iter().map(|word| quoted(word)).collect(),
        }
    }

    /// Returns the option that clap displays as `text`. None if the subcommand has no such option.
    pub(super) fn option_displayed_as(&self, text: &str) -> Option<&Arg> {
        let mut arguments = self.subcommand.get_arguments();
        arguments.find(|argument| argument.get_long().is_some() && argument.to_string() == text)
    }

    /// Returns the correction if the words contain a command, which must follow `--`.
    fn unmarked_command(&self) -> Option<String> {
        if self.has_marker || self.subcommand.get_name() != "exec" {
            return None;
        }
        let first = next_word(self.subcommand, self.words, 0)?;
        let (name, start) = match self.name_option(first) {
            true => (None, first),
            false => (
                Some(&self.words[first]),
                next_word(self.subcommand, self.words, first + 1)?,
            ),
        };
        let has_options = start > usize::from(name.is_some());
        let options = has_options.then_some("[OPTIONS]".to_owned());
        let command = self.words[start..].iter().map(|word| quoted(word));
        let line: Vec<String> = ["dlock exec".to_owned()]
            .into_iter()
            .chain(options)
            .chain(name.map(|name| quoted(name)))
            .chain(["--".to_owned()])
            .chain(command)
            .collect();
        Some(format!(
            "the command must come after --\n\n{}",
            hint(&line.join(" "))
        ))
    }

    /// Returns the message for the option in `error`, if users of similar programs type it.
    fn similar_option(&self, error: &clap::Error) -> Option<String> {
        let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else {
            return None;
        };
        let name = self.subcommand_name();
        let mut similar = SIMILAR_OPTIONS.iter();
        let (.., advice) = similar.find(|(subcommand, options, _)| {
            *subcommand == name && options.split(' ').any(|option| option == typed)
        })?;
        Some(format!("dlock {name} has no option {typed}; {advice}"))
    }

    /// Returns true if `--action` is among the first `end` words.
    fn name_option(&self, end: usize) -> bool {
        self.words[..end].iter().any(|word| {
            matches!(option(self.subcommand, word), Some((argument, _)) if argument.get_id() == "action")
        })
    }

    /// Returns the correction if a word directly follows an option whose value must follow `=`.
    fn separated_value(&self) -> Option<String> {
        let (option, value) = self.separated()?;
        let (option, value) = (option.to_string_lossy(), quoted(value));
        Some(format!(
            "{value} after {option} is not its value\n\nwrite: {option}={value}"
        ))
    }

    /// Returns the first option whose value must follow `=`, but is followed by a word; and this word.
    fn separated(&self) -> Option<(&OsStr, &OsStr)> {
        let pairs = self.words.iter().zip(self.words.iter().skip(1));
        let mut separated = pairs.filter(|(option_word, value)| {
            let argument = option(self.subcommand, option_word);
            matches!(argument, Some((argument, None)) if argument.is_require_equals_set())
                && !value.as_bytes().starts_with(b"-")
        });
        let (option, value) = separated.next()?;
        Some((option, value))
    }

    fn has_name_in_environment(&self) -> bool {
        let mut arguments = self.subcommand.get_arguments();
        arguments.any(|argument| {
            argument.get_env() == Some(OsStr::new("DLOCK_OPT_ACTION"))
                && std::env::var_os("DLOCK_OPT_ACTION").is_some_and(|name| !name.is_empty())
        })
    }

    fn has_separated_interval(&self) -> bool {
        self.separated().is_some_and(|(option, value)| {
            let value = value.to_str().unwrap_or_default();
            option == "--watch" && watch::interval(value).is_ok()
        })
    }
}

/// Returns the index of the first of the `words` from `from` that is neither an option of `command` nor the value of an
/// option. None if there is no such word, or if an unknown option comes before it.
fn next_word(command: &Command, words: &[OsString], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(word) = words.get(at) {
        if !word.as_bytes().starts_with(b"-") || word == "-" {
            return Some(at);
        }
        let (argument, value) = option(command, word)?;
        let has_next = value.is_none()
            && argument.get_action().takes_values()
            && !argument.is_require_equals_set();
        at += 1 + usize::from(has_next);
    }
    None
}

/// Returns the option of `command` in `word`, and its value if `word` contains one. For a word with several short options,
/// returns the last one. None if `command` has no such option.
fn option<'a>(command: &'a Command, word: &OsStr) -> Option<(&'a Arg, Option<String>)> {
    let word = word.to_str()?;
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        let mut arguments = command.get_arguments();
        let argument = arguments.find(|argument| argument.get_long() == Some(name))?;
        return Some((argument, value));
    }
    let mut last = None;
    let letters = word.strip_prefix('-')?;
    for (at, letter) in letters.char_indices() {
        let mut arguments = command.get_arguments();
        let argument = arguments.find(|argument| argument.get_short() == Some(letter))?;
        let rest = &letters[at + letter.len_utf8()..];
        if argument.get_action().takes_values() {
            return Some((argument, (!rest.is_empty()).then(|| rest.to_owned())));
        }
        last = Some((argument, None));
    }
    last
}

/// Returns `word` as a shell reads it as one word.
#[must_use]
pub fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "_-./=:@%+,".contains(c);
    // zsh replaces `=ls` by the path of ls.
    match !word.is_empty() && !word.starts_with('=') && word.chars().all(is_plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn unknown_subcommand_is_a_usage_error_that_suggests_a_line() {
        for (word, advice) in [
            ("lock", "did you mean dlock exec NAME -- COMMAND?"),
            ("run", "did you mean dlock exec NAME -- COMMAND?"),
            ("unlock", "did you mean dlock release NAME?"),
            ("top", "did you mean dlock status --watch?"),
            ("statsu", "did you mean dlock status?"),
            ("frobnicate", "dlock -h lists the subcommands"),
        ] {
            assert_eq!(
                message(&format!("dlock {word}")),
                format!("error: there is no subcommand {word}; {advice}\n")
            );
        }
    }

    use std::ffi::OsString;

    use clap::CommandFactory;

    use super::super::parse::parse;
    use super::{Cli, SIMILAR_OPTIONS, hint, option};

    /// Returns the message for the command line `line`, whose words are separated by single blanks.
    fn message(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
        parse(&words, &[])
            .expect_err("the command line is not valid")
            .to_string()
    }

    #[test]
    fn command_without_marker_is_a_usage_error_that_shows_the_valid_line() {
        for (line, valid) in [
            ("dlock exec x ls", "dlock exec x -- ls"),
            ("dlock exec x ls -l", "dlock exec x -- ls -l"),
            ("dlock exec -a x ls", "dlock exec [OPTIONS] -- ls"),
            ("dlock exec -nax ls -la", "dlock exec [OPTIONS] -- ls -la"),
            (
                "dlock -v exec x -w 10s ls -n",
                "dlock exec [OPTIONS] x -- ls -n",
            ),
            (
                "dlock exec x sh -c $HOME/a",
                "dlock exec x -- sh -c '$HOME/a'",
            ),
        ] {
            assert_eq!(
                message(line),
                format!("error: the command must come after --\n\n{}\n", hint(valid)),
                "{line}"
            );
        }
    }

    #[test]
    fn value_that_is_separated_from_its_option_is_a_usage_error_that_shows_the_valid_option() {
        for (line, valid) in [
            ("dlock exec init --once v42 -- ls", "--once=v42"),
            ("dlock exec --once v42 init -- ls", "--once=v42"),
            ("dlock exec -a init --once v42 -- ls", "--once=v42"),
            ("dlock wait init --done v42", "--done=v42"),
            ("dlock forget init --once v42", "--once=v42"),
            ("dlock status --watch 2s", "--watch=2s"),
        ] {
            let message = message(line);
            assert!(
                message.ends_with(&format!("\n\nwrite: {valid}\n")),
                "{line}: {message}"
            );
        }
    }

    #[test]
    fn unknown_option_is_not_called_a_command() {
        let message = message("dlock exec --once x --leash 3s -- ls");
        assert!(
            message.contains("unexpected argument '--leash'"),
            "{message}"
        );
    }

    #[test]
    fn missing_subcommand_is_a_usage_error_without_hidden_names() {
        assert_eq!(
            message("dlock -v"),
            "error: the subcommand is missing; dlock -h lists the subcommands\n"
        );
    }

    #[test]
    fn option_of_a_similar_program_is_answered() {
        for (line, advice) in [
            ("dlock wait init -w 5s", "-w; --timeout limits the wait"),
            ("dlock wait init -n", "-n; --timeout limits the wait"),
            (
                "dlock exec init --timeout 5s -- ls",
                "--timeout; --wait limits the wait",
            ),
            (
                "dlock exec init -c ls",
                "-c; usage: dlock exec NAME -- sh -c 'COMMAND'",
            ),
            (
                "dlock forget init --once --note x",
                "--note; did you mean --reason?",
            ),
        ] {
            let text = message(line);
            assert!(text.contains(&format!(" has no option {advice}")), "{text}");
        }
    }

    #[test]
    fn each_answered_option_does_not_exist() {
        let mut root = Cli::command();
        root.build();
        for (subcommand, options, _) in SIMILAR_OPTIONS {
            let subcommand = root.find_subcommand(subcommand).expect("it exists");
            for word in options.split(' ') {
                assert!(option(subcommand, word.as_ref()).is_none(), "{word}");
            }
        }
    }
}
