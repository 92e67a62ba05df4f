//! Hints that the parser of clap cannot give: the words of similar programs, the place of the command, and values that
//! must follow `=`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::watch;

/// Words that users of similar programs type as a subcommand, with the command lines to suggest.
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

/// Options that users of similar programs type, for each subcommand, with the answers. The suggestions of clap for them
/// would be none or wrong.
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
        "write: dlock exec NAME -- sh -c 'COMMAND'",
    ),
    ("exec", "--lease", "--ttl sets the length of the lease"),
];

/// Options whose value must follow `=`, because a word after the option may be an argument.
const SEPARABLE: [&str; 3] = ["--once", "--done", "--watch"];

/// Returns the hint for `word`, which is not a subcommand.
#[must_use]
pub fn similar_subcommand(word: &str) -> Option<String> {
    let mut similar = SIMILAR.iter();
    let (_, line) = similar.find(|(words, _)| words.split(' ').any(|known| known == word))?;
    Some(format!("did you mean {line}?"))
}

/// Adds a hint to the usage error `error` about the command line `arguments`, if there is one.
pub(super) fn with_hint(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let invalid = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => word.as_str(),
        _ => "",
    };
    let invalid_argument = invalid(ContextKind::InvalidArg);
    let is_word = match error.kind() {
        ErrorKind::UnknownArgument => !invalid_argument.starts_with('-'),
        kind => kind == ErrorKind::ArgumentConflict,
    };
    if is_word && let Some((option, value)) = separated(arguments) {
        return separated_value(option, value);
    }
    let has_command = arguments.get(1).is_some_and(|word| word == "exec");
    let is_unmarked = has_command && !arguments.iter().any(|word| word == "--");
    let marker = is_unmarked.then_some("the command must come after --");
    let hint = match error.kind() {
        ErrorKind::InvalidSubcommand => similar_subcommand(invalid(ContextKind::InvalidSubcommand)),
        ErrorKind::UnknownArgument
        | ErrorKind::ArgumentConflict
        | ErrorKind::MissingRequiredArgument => {
            let answer = similar_option(arguments, invalid_argument);
            answer.or(marker).map(str::to_owned)
        }
        _ => None,
    };
    if let Some(hint) = hint {
        let hint = ContextValue::StyledStrs(vec![hint.into()]);
        error.insert(ContextKind::Suggested, hint);
        for kind in [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand] {
            error.remove(kind);
        }
    }
    error
}

/// Returns the answer to the option `typed`, if users of similar programs type it.
fn similar_option(arguments: &[OsString], typed: &str) -> Option<&'static str> {
    let mut similar = SIMILAR_OPTIONS.iter();
    let (.., answer) = similar.find(|(subcommand, options, _)| {
        arguments.get(1).is_some_and(|word| word == subcommand)
            && options.split(' ').any(|option| option == typed)
    })?;
    Some(answer)
}

/// Checks the word that directly follows `--once`, `--done` or `--watch`. The word is an argument of the subcommand. It
/// is refused if it probably is the value of the option: if the variable `DLOCK_OPT_ACTION` already contains the name, or
/// if the word is an interval.
///
/// # Errors
/// Returns the usage error.
pub(super) fn check_separated_value(arguments: &[OsString]) -> Result<(), clap::Error> {
    let has_name = || std::env::var_os("DLOCK_OPT_ACTION").is_some_and(|name| !name.is_empty());
    let is_interval = |value: &OsStr| watch::interval(value.to_str().unwrap_or_default()).is_ok();
    match separated(arguments) {
        Some((option, value)) if has_name() || option == "--watch" && is_interval(value) => {
            Err(separated_value(option, value))
        }
        _ => Ok(()),
    }
}

/// Returns the first option whose value must follow `=`, but is followed by a word; and this word.
fn separated(arguments: &[OsString]) -> Option<(&OsStr, &OsStr)> {
    let end = arguments.iter().position(|word| word == "--");
    let mut pairs = arguments[..end.unwrap_or(arguments.len())].windows(2);
    let pair = pairs.find(|pair| {
        SEPARABLE.iter().any(|option| pair[0] == *option) && !pair[1].as_bytes().starts_with(b"-")
    })?;
    Some((&pair[0], &pair[1]))
}

fn separated_value(option: &OsStr, value: &OsStr) -> clap::Error {
    let (option, value) = (option.to_string_lossy(), quoted(value));
    let why = format!("{value} after {option} is not its value\n\nwrite: {option}={value}\n");
    clap::Error::raw(ErrorKind::UnknownArgument, why)
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
    use std::ffi::OsString;

    use super::super::parse::parse;

    #[test]
    fn usage_errors_say_what_to_write() {
        let message = |line: &&str| {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let error = parse(&words, &[]).expect_err("the command line is not valid");
            format!("$ {line}\n{error}\n")
        };
        let lines = [
            "dlock -v",
            "dlock lock",
            "dlock unlock",
            "dlock statsu",
            "dlock frobnicate",
            "dlock exec",
            "dlock exec ./migrate.sh",
            "dlock exec ./migrate.sh -x",
            "dlock exec -a init ls",
            "dlock exec init ls -l",
            "dlock exec -- ls -l",
            "dlock exec init --wait",
            "dlock exec init --timeout 5s -- ls",
            "dlock exec init --lease 5s -- ls",
            "dlock exec init --leash 5s -- ls",
            "dlock exec init -c ls",
            "dlock exec init --once v42 -- ls",
            "dlock wait init --done v42",
            "dlock wait init -n",
            "dlock status --watch 2s",
            "dlock history --since",
        ];
        insta::assert_snapshot!(lines.iter().map(message).collect::<String>());
    }
}
