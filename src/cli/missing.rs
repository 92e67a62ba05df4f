//! Usage errors that name only what is missing on the command line, and show a line to write instead.
//!
//! The parser of clap also prints the usage and a reference to the help.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, CommandFactory};

use super::Cli;
use super::words::{Line, hint, quoted};

/// Returns the usage error `error`, or a shorter one if an argument or the value of an option is missing.
pub(super) fn shorten(error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let mut root = Cli::command();
    root.build();
    let Some(line) = Line::new(&root, arguments) else {
        return error;
    };
    let context = |kind| error.get(kind);
    let why = match (error.kind(), context(ContextKind::InvalidArg)) {
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) => {
            missing_arguments(&line, missing)
        }
        (ErrorKind::InvalidValue, Some(ContextValue::String(option)))
            if context(ContextKind::InvalidValue) == Some(&ContextValue::String(String::new())) =>
        {
            missing_value(&line, option)
        }
        _ => None,
    };
    why.map_or(error, |why| {
        clap::Error::raw(ErrorKind::MissingRequiredArgument, why + "\n")
    })
}

/// Returns the message for the arguments that clap calls `missing`. None if one of them has no name for users.
fn missing_arguments(line: &Line, missing: &[String]) -> Option<String> {
    let is_missing = |prefix: &str| missing.iter().any(|argument| argument.starts_with(prefix));
    let (has_no_name, has_no_command) = (is_missing("<NAME"), is_missing("<COMMAND"));
    let options: Vec<&Arg> = missing
        .iter()
        .filter(|argument| argument.starts_with("--"))
        .map(|argument| line.option_displayed_as(argument))
        .collect::<Option<_>>()?;
    let arguments = [
        (has_no_name, "the name of the lock"),
        (has_no_command, "the command"),
    ];
    let names: Vec<String> = arguments
        .into_iter()
        .filter(|(is_missing, _)| *is_missing)
        .map(|(_, name)| name.to_owned())
        .chain(options.iter().map(|option| long(option)))
        .collect();
    if names.len() != missing.len() {
        return None;
    }
    let verb = match names.len() {
        1 => "is",
        _ => "are",
    };
    let mut words = vec!["dlock".to_owned(), line.subcommand_name().to_owned()];
    words.extend(line.typed());
    if has_no_name {
        words.push("NAME".to_owned());
    }
    words.extend(options.iter().map(|option| with_value(option)));
    match (has_no_command, line.command()) {
        (true, _) => words.push("-- COMMAND".to_owned()),
        (false, []) => {}
        (false, command) => {
            words.push("--".to_owned());
            words.extend(command.iter().map(|word| quoted(word)));
        }
    }
    Some(format!(
        "{} {verb} missing\n\n{}",
        names.join(" and "),
        hint(&words.join(" "))
    ))
}

/// Returns the message for the option that clap displays as `option`, if the option has no value. None if the
/// subcommand has no such option.
fn missing_value(line: &Line, option: &str) -> Option<String> {
    let option = line.option_displayed_as(option)?;
    Some(format!(
        "{} needs a value\n\n{}",
        long(option),
        hint(&with_value(option))
    ))
}

/// Returns the long form of `option`.
fn long(option: &Arg) -> String {
    format!("--{}", option.get_long().unwrap_or_default())
}

/// Returns `option` with an example of its value, if its value is not optional.
fn with_value(option: &Arg) -> String {
    if option.is_require_equals_set() {
        return long(option);
    }
    let possible = option.get_possible_values();
    let placeholder = option.get_value_names().and_then(<[_]>::first);
    let placeholder = placeholder.map_or("VALUE", |name| name.as_str());
    let value = match (possible.first(), placeholder) {
        (Some(value), _) => value.get_name(),
        (None, name) if name.starts_with("DURATION") => "30s",
        (None, name) => name.split('|').next().unwrap_or_default(),
    };
    format!("{} {value}", long(option))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::parse::parse;

    #[test]
    fn missing_arguments_are_named_with_a_line_to_write() {
        insta::assert_snapshot!(messages(&[
            "dlock exec",
            "dlock exec --",
            "dlock exec -- ls -l",
            "dlock exec init",
            "dlock exec init --",
            "dlock exec -a init",
            "dlock -v exec --ttl 5s init",
            "dlock exec --url mysql://u:secret@h/d",
            "dlock exec --host db --note 'x",
            "dlock release",
            "dlock release --pause 2h",
            "dlock wait",
            "dlock forget",
            "dlock forget init",
            "dlock forget --once",
            "dlock check init",
            "dlock check -a init",
            "dlock check",
        ]));
    }

    #[test]
    fn missing_values_of_options_are_named_with_an_example() {
        insta::assert_snapshot!(messages(&[
            "dlock history --since",
            "dlock history --number",
            "dlock exec init -t",
            "dlock exec init --wait",
            "dlock exec init --server-sessions",
            "dlock exec init --heartbeat-file",
            "dlock check init --token",
            "dlock wait --timeout",
            "dlock status --color",
            "dlock status --ssl-mode",
            "dlock status --log-format",
            "dlock release init --reason",
        ]));
    }

    /// Returns the messages for command lines whose words are separated by single blanks.
    fn messages(lines: &[&str]) -> String {
        let message = |line: &&str| {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let error = parse(&words, &[]).expect_err("the command line is not complete");
            format!("$ {line}\n{error}\n")
        };
        lines.iter().map(message).collect()
    }
}
