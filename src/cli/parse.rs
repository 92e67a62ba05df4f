//! Parses the command line and the environment variables of the options. An option on the command line overrides the
//! variables of all options that it contradicts.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::builder::{OsStr, Resettable};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches, Id};

use super::check::CheckArgs;
use super::exec::ExecArgs;
use super::help::VersionArgs;
use super::hold::HoldArgs;
use super::leader::LeaderArgs;
use super::note::NoteArgs;
use super::status::StatusArgs;
use super::wait::WaitArgs;
use super::{Cli, Command as Cmd, CommonArgs, Format, built, environment, words};

/// Pairs of options that contradict each other. If one of them is on the command line, dlock ignores the variable of
/// the other. The connection options need no pair, because the configuration prefers the command line anyway.
const CONTRADICTIONS: [(&str, &str); 16] = [
    ("name", "action"),
    ("wait", "nonblock"),
    ("once", "once_per"),
    ("wait", "follow"),
    ("slots", "shared"),
    ("slots", "fence"),
    ("shared", "fence"),
    ("pause", "resume"),
    ("slot", "pause"),
    ("slot", "resume"),
    ("all", "pause"),
    ("all", "resume"),
    ("pid", "json"),
    ("check", "watch"),
    ("statements", "watch"),
    ("quiet", "verbose"),
];

/// Adds the options of a subcommand to it.
type AddOptions = fn(Command) -> Command;

/// The subcommands that scripts run often.
const FREQUENT: [(&str, AddOptions); 8] = [
    ("exec", ExecArgs::augment_args),
    ("hold", HoldArgs::augment_args),
    ("status", StatusArgs::augment_args),
    ("wait", WaitArgs::augment_args),
    ("check", CheckArgs::augment_args),
    ("leader", LeaderArgs::augment_args),
    ("note", NoteArgs::augment_args),
    ("version", VersionArgs::augment_args),
];

/// Parses `arguments`, which begin with the name of the program, and the environment variables of the options. `others`
/// are the variables of dlock that belong to no option.
///
/// # Errors
/// Returns the help, the version or the usage error to print.
pub fn parse(arguments: &[OsString], others: &[&str]) -> Result<Cli, clap::Error> {
    if arguments.len() <= 1 {
        // A variable of an option must not hide the help.
        let help = Cli::command().mut_args(without_variable);
        help.try_get_matches_from(["dlock"])?;
    }
    let (cli, used) = match parse_quickly(arguments) {
        Some(found) => found,
        None => (parse_thoroughly(arguments)?, Cli::command()),
    };
    if !matches!(
        cli.command,
        Cmd::Explain(_) | Cmd::CopyTo(_) | Cmd::Version(_) | Cmd::Help(_) | Cmd::CompleteNames(_)
    ) {
        environment::check(std::env::vars_os(), others, &used)?;
    }
    Ok(cli)
}

/// Does the same as [`parse`], and ignores unknown variables of dlock.
pub(super) fn parse_options(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    match parse_quickly(arguments) {
        Some((cli, _)) => Ok(cli),
        None => parse_thoroughly(arguments),
    }
}

/// Does the same as [`parse_options`] for a valid command line that begins with one of the [`FREQUENT`] subcommands, and
/// also returns this subcommand with its options. Builds no other options, to save time. None in all other cases, and if
/// a variable contradicts the command line.
fn parse_quickly(arguments: &[OsString]) -> Option<(Cli, Command)> {
    let word = arguments.get(1)?;
    let (name, add_options) = *FREQUENT.iter().find(|(name, _)| word == name)?;
    let root = CommonArgs::augment_args(Command::new("dlock").args_override_self(true));
    let subcommand = add_options(Command::new(name));
    let mut command = root.subcommand(subcommand.mut_args(without_empty_variable));
    let matches = command.try_get_matches_from_mut(arguments).ok()?;
    let typed = Typed::from(&matches);
    let mut variables = names(&matches, ValueSource::EnvVariable);
    let has_contradiction = variables.any(|name| typed.overrides(name));
    if has_contradiction || words::check_separated_value(arguments).is_err() {
        return None;
    }
    Some((cli(&matches).ok()?, command))
}

fn cli(matches: &ArgMatches) -> Result<Cli, clap::Error> {
    let mut cli = Cli::from_arg_matches(matches)?;
    cli.common.connection.note_command_line(matches);
    if let (Cmd::Exec(args), Some((_, matches))) = (&mut cli.command, matches.subcommand()) {
        args.note_given(matches);
    }
    Ok(cli)
}

/// Parses with the options of all subcommands, so that an error can name any of them.
fn parse_thoroughly(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let typed = Typed::new(arguments);
    let command = each_command(Cli::command(), &|command| {
        command.mut_args(
            |argument| match typed.overrides(argument.get_id().as_str()) {
                true => without_variable(argument),
                false => without_empty_variable(argument),
            },
        )
    });
    let found = command.try_get_matches_from(arguments);
    let matches = found.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp => help(arguments).unwrap_or(error),
        _ => words::with_hint(name_variable(error, &typed), arguments),
    })?;
    words::check_separated_value(arguments)?;
    cli(&matches)
}

/// Returns the help that a command line asks for. The short help contains no connection options and no variables.
fn help(arguments: &[OsString]) -> Option<clap::Error> {
    let mut words = arguments.iter().take_while(|word| *word != "--");
    let command = match words.any(|word| word == "--help") {
        true => built(),
        false => each_command(Cli::command(), &|command| command.mut_args(shortened)),
    };
    command.try_get_matches_from(arguments).err()
}

/// Returns the format of the usage error of a command line, whose other options may be invalid.
#[must_use]
pub fn format(arguments: &[OsString]) -> Format {
    let words = arguments.iter().take_while(|word| *word != "--");
    let words: Vec<&OsString> = words.collect();
    let is_json = words.iter().any(|word| *word == "--log-format=json")
        || (words.windows(2)).any(|pair| pair[0] == "--log-format" && pair[1] == "json");
    let is_given = words
        .iter()
        .any(|word| word.as_bytes().starts_with(b"--log-format"));
    match is_json
        || !is_given && std::env::var_os("DLOCK_OPT_LOG_FORMAT").is_some_and(|it| it == "json")
    {
        true => Format::Json,
        false => Format::Text,
    }
}

/// Returns true if a shell runs the output of a command line, whose options may be invalid.
#[must_use]
pub fn is_for_shell(arguments: &[OsString]) -> bool {
    let is_pid = |word: &OsString| word.as_bytes().starts_with(b"--pid");
    let options = || arguments.iter().take_while(|word| *word != "--");
    options().any(|word| word == "hold") && options().any(is_pid)
}

/// Returns `argument` as the short help shows it: without its variable, and hidden if it is a connection option.
fn shortened(argument: clap::Arg) -> clap::Arg {
    let is_hidden = argument.get_help_heading() == Some("Connection");
    argument.hide_env(true).hide_short_help(is_hidden)
}

/// Adds the name of the variable to `error` if a variable has an invalid value.
fn name_variable(mut error: clap::Error, typed: &Typed) -> clap::Error {
    if let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
        && [ErrorKind::ValueValidation, ErrorKind::InvalidValue].contains(&error.kind())
        && let Some(variable) = variable(&built(), option, typed)
    {
        let both = format!("{variable} ({option})");
        error.insert(ContextKind::InvalidArg, ContextValue::String(both));
    }
    error
}

/// Returns the variable of `option`, as clap names it, if the variable is set and the option is not on the command line.
fn variable(command: &Command, option: &str, typed: &Typed) -> Option<String> {
    let commands = std::iter::once(command).chain(command.get_subcommands());
    let invalid = commands
        .flat_map(Command::get_arguments)
        .filter(|it| it.to_string() == option && !typed.has(it.get_id().as_str()));
    let mut variables = invalid.filter_map(clap::Arg::get_env);
    let found = variables.find(|name| std::env::var_os(name).is_some());
    found.map(|name| name.to_string_lossy().into_owned())
}

/// The options and arguments on the command line, without those that are set by a variable or by default.
struct Typed(Vec<String>);

impl Typed {
    fn new(arguments: &[OsString]) -> Self {
        let command = each_command(Cli::command(), &|command| {
            command.mut_args(without_variable)
        });
        // The parser that also reads the variables reports the errors.
        let matches = command.ignore_errors(true).try_get_matches_from(arguments);
        Self::from(&matches.unwrap_or_default())
    }

    fn from(matches: &ArgMatches) -> Self {
        let typed = names(matches, ValueSource::CommandLine);
        Self(typed.map(str::to_owned).collect())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|typed| typed == name)
    }

    /// Returns true if the option `name` or one that contradicts it is on the command line.
    fn overrides(&self, name: &str) -> bool {
        let is_contradicted = |&(one, other): &(&str, &str)| {
            one == name && self.has(other) || other == name && self.has(one)
        };
        self.has(name) || CONTRADICTIONS.iter().any(is_contradicted)
    }
}

/// Returns the names of the options of the program and of its subcommand whose values come from `source`.
fn names(matches: &ArgMatches, source: ValueSource) -> impl Iterator<Item = &str> {
    let levels = std::iter::successors(Some(matches), |matches| {
        matches.subcommand().map(|(_, matches)| matches)
    });
    levels.flat_map(move |level| {
        let ids = level.ids().map(Id::as_str);
        ids.filter(move |id| level.value_source(id) == Some(source))
    })
}

fn without_variable(argument: clap::Arg) -> clap::Arg {
    argument.env(Resettable::<OsStr>::Reset)
}

/// Removes the variable of `argument` if it is an empty variable of an option, which counts as not set. An empty variable
/// of a connection setting stays an error, because it may be a secret that is missing.
fn without_empty_variable(argument: clap::Arg) -> clap::Arg {
    let is_empty = argument.get_env().is_some_and(|name| {
        environment::is_option(name) && std::env::var_os(name).is_some_and(|it| it.is_empty())
    });
    match is_empty {
        true => without_variable(argument),
        false => argument,
    }
}

/// Applies `change` to `command` and to its subcommands.
fn each_command(command: Command, change: &dyn Fn(Command) -> Command) -> Command {
    change(command).mut_subcommands(change)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::{Cli, Command};
    use super::{CONTRADICTIONS, parse, parse_quickly, parse_thoroughly};
    use crate::store::session::SessionPolicy;
    use clap::CommandFactory;

    fn parsed(line: &str) -> Command {
        let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
        parse(&words, &[])
            .expect("the command line is valid")
            .command
    }

    #[test]
    fn name_is_an_argument_or_an_option() {
        for line in [
            "dlock exec init -- ls -a",
            "dlock exec -a init -- ls -a",
            "dlock exec --once init -- ls -a",
            "dlock exec --ttl 5s init -n -- ls -a",
        ] {
            let Command::Exec(exec) = parsed(line) else {
                panic!("the subcommand is not exec");
            };
            assert_eq!(
                exec.run.names.actions(),
                ["init".parse().expect("a name")],
                "{line}"
            );
            assert_eq!(exec.command, ["ls", "-a"], "{line}");
            assert_eq!(exec.run.server_sessions, SessionPolicy::Kill);
        }
        for line in ["dlock release init", "dlock wait init"] {
            parsed(line);
        }
        for line in ["dlock forget init --once", "dlock check init --token 1"] {
            parsed(line);
        }
    }

    #[test]
    fn quick_and_thorough_parsing_have_the_same_result() {
        for line in [
            "dlock exec init -- ls -a",
            "dlock exec -q -t 5s -a init --wait 1m --url mysql://db/x -- ls --once -q",
            "dlock exec --once init -- ls",
            "dlock exec --once=v1 init -- ls",
            "dlock exec init --ttl 1s --ttl 5s --history 0 --host a --host b -- true",
            "dlock hold init --json --grace 2s --wait 1m",
            "dlock leader init --json --wait 1m",
            "dlock note text -a init --token 7",
            "dlock version",
            "dlock status --all --wide --log-format json",
            "dlock wait init --timeout 5s -v",
            "dlock check init --token 7",
        ] {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let (quick, _) = parse_quickly(&words).expect(line);
            let thorough = parse_thoroughly(&words).expect(line);
            assert_eq!(format!("{quick:?}"), format!("{thorough:?}"), "{line}");
        }
        for line in ["dlock status --watch 2s", "dlock list", "dlock exec"] {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            assert!(parse_quickly(&words).is_none(), "{line}");
        }
    }

    #[test]
    fn two_names_are_an_error() {
        for line in [
            "dlock exec init -a init -- ls",
            "dlock wait init -a other",
            "dlock check init -a init --token 1",
        ] {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            parse(&words, &[]).expect_err("two names");
        }
    }

    /// Otherwise a variable would make a command line invalid.
    #[test]
    fn every_conflict_with_a_variable_is_a_contradiction() {
        let mut cli = Cli::command();
        cli.build();
        for command in cli.get_subcommands() {
            for one in command.get_arguments() {
                for other in command.get_arg_conflicts_with(one) {
                    let pair = (one.get_id().as_str(), other.get_id().as_str());
                    let is_listed = CONTRADICTIONS.contains(&pair)
                        || CONTRADICTIONS.contains(&(pair.1, pair.0));
                    let has_variable = [one, other].iter().any(|it| it.get_env().is_some());
                    assert!(
                        is_listed || !has_variable,
                        "{}: {pair:?}",
                        command.get_name()
                    );
                }
            }
        }
    }

    #[test]
    fn every_contradiction_names_existing_options() {
        let mut cli = Cli::command();
        cli.build();
        for name in CONTRADICTIONS.iter().flat_map(|(one, other)| [one, other]) {
            let mut commands = cli.get_subcommands();
            assert!(
                commands.any(|command| command.get_arguments().any(|a| a.get_id() == name)),
                "{name}"
            );
        }
    }
}
