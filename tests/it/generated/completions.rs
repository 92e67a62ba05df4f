//! Renders the shell completions from the command-line grammar and the handwritten `completions/parts/FILE`.
//!
//! `clap_complete` renders the options for zsh and fish. Its script for bash offers files where a name or free text is
//! expected, so this file renders the tables of the bash script. The type of a value decides what completes it: names
//! of locks for an `Action`, files for a path, and nothing for all other types without a list of values.

use std::fs;
use std::path::PathBuf;

use clap::builder::{PossibleValue, ValueParser};
use clap::{Arg, Command, CommandFactory, ValueHint, value_parser};
use clap_complete::Shell;

use testkit::repository;

use super::UPDATE;
use dlock::cli::Cli;
use dlock::lease::action::Action;

/// The hint that marks names of locks until the script is rendered. clap has no hint for them, and dlock has no option
/// for a user of the machine.
const NAME_HINT: ValueHint = ValueHint::Username;

pub(super) fn rendered() -> Vec<(PathBuf, String)> {
    vec![
        (path("dlock.bash"), bash()),
        (path("_dlock"), zsh()),
        (path("dlock.fish"), fish()),
    ]
}

fn path(name: &str) -> PathBuf {
    repository().join("completions").join(name)
}

fn origin(name: &str) -> String {
    format!("# Rendered from the grammar and completions/parts/{name} by:\n# {UPDATE}\n")
}

fn part(name: &str) -> String {
    let path = repository().join("completions/parts").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the grammar without hidden subcommands, and with a hint for the value of each argument.
fn grammar() -> Command {
    let cli = Cli::command();
    let visible = cli.get_subcommands().filter(|one| !one.is_hide_set());
    let hinted = |arg: &Arg| match hint(arg) {
        Some(hint) => arg.clone().value_hint(hint),
        None => arg.clone(),
    };
    Command::new("dlock")
        .version("")
        .propagate_version(true)
        .disable_help_subcommand(true)
        .args(cli.get_arguments().map(hinted))
        .subcommands(visible.map(|one| one.clone().mut_args(|arg| hinted(&arg))))
}

/// Returns the hint for the value of `arg`. None if the argument has no value or a list of values.
fn hint(arg: &Arg) -> Option<ValueHint> {
    let has_list = !arg.get_possible_values().is_empty();
    if !takes_value(arg) || has_list {
        return None;
    }
    if arg.get_value_parser().type_id() == ValueParser::from(value_parser!(Action)).type_id() {
        return Some(NAME_HINT);
    }
    match arg.get_value_hint() {
        ValueHint::Unknown => Some(ValueHint::Other),
        hint => Some(hint),
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.is_positional() || arg.get_action().takes_values()
}

fn generated(shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut grammar(), "dlock", &mut text);
    String::from_utf8(text).expect("the renderer writes UTF-8")
}

/// Replaces `old`, which must occur.
fn replaced(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "clap_complete does not write {old:?}");
    text.replace(old, new)
}

fn zsh() -> String {
    let text = generated(Shell::Zsh);
    let text = replaced(&text, ":_users'", ":_dlock_lock_names'");
    // The handwritten part completes the command of exec. In this line, zsh would offer it before the --.
    let is_command = |line: &&str| line.ends_with(":_cmdambivalent' \\");
    assert_eq!(text.lines().filter(is_command).count(), 1);
    let lines: Vec<&str> = text.lines().filter(|line| !is_command(line)).collect();
    let text = lines.join("\n") + "\n";
    let start = "#compdef dlock\n";
    let text = replaced(&text, start, &format!("{start}{}", origin("_dlock")));
    let start = "\n_dlock() {\n";
    let remember = "    local -a dlock_words\n    _dlock_before_cursor\n";
    let extended = format!("\n{}{}{remember}", part("_dlock"), &start[1..]);
    let text = replaced(&text, start, &extended);
    let start = "(exec)\n";
    let extended = format!("{start}_dlock_wrapped_command && return\n");
    replaced(&text, start, &extended)
}

fn fish() -> String {
    let text = generated(Shell::Fish);
    let text = replaced(&text, "__fish_complete_users", "__fish_dlock_lock_names");
    // Without this line, the value of an option before the subcommand does not complete.
    let parse =
        "    argparse -s (__fish_dlock_global_optspecs) -- $cmd 2>/dev/null\n    or return\n";
    let retry = parse.replace("argparse", "or argparse");
    let retry = retry.replace("$cmd", "$cmd ''");
    let text = replaced(&text, parse, &parse.replace("    or return\n", &retry));
    let mut text = format!("{}{text}\n{}", origin("dlock.fish"), part("dlock.fish"));
    // clap_complete renders no positional arguments for fish.
    for command in grammar().get_subcommands() {
        let mut arguments = command.get_positionals();
        if arguments.any(|arg| hint(arg) == Some(NAME_HINT)) {
            let name = command.get_name();
            text.extend([format!(
                "complete -c dlock -n \"__fish_dlock_using_subcommand {name}; \
                 and not contains -- -- (commandline -opc)\" -f -a \"(__fish_dlock_lock_names)\"\n"
            )]);
        }
    }
    text
}

fn bash() -> String {
    let mut cli = grammar();
    cli.build();
    let mut text = origin("dlock.bash");
    text += "\n# Sets `options` to the options of the subcommand $1, `arguments` to the kinds of its arguments, `kind` \
             to the kind of\n# the value of its option $2, and `subcommands` to all subcommands.\n_dlock_option() {\n";
    let names: Vec<&str> = cli.get_subcommands().map(Command::get_name).collect();
    text.extend([format!("    subcommands='{}'\n", names.join(" "))]);
    text += "    options='' arguments='' kind=''\n    case $1 in\n";
    for command in std::iter::once(&cli).chain(cli.get_subcommands()) {
        let name = match command.get_name() {
            "dlock" => "''",
            name => name,
        };
        let options = bash_options(command);
        text.extend([format!("        {name})\n{options}            ;;\n")]);
    }
    text += "    esac\n}\n";
    text + &part("dlock.bash")
}

/// Renders the branch of `command` in the tables of the bash script.
fn bash_options(command: &Command) -> String {
    let spellings = |arg: &Arg| {
        let short = arg.get_short().map(|short| format!("-{short}"));
        let long = arg.get_long().map(|long| format!("--{long}"));
        short.into_iter().chain(long).collect::<Vec<_>>()
    };
    let options = command.get_arguments().filter(|arg| !arg.is_positional());
    let options: Vec<&Arg> = options.collect();
    let all: Vec<String> = options.iter().flat_map(|arg| spellings(arg)).collect();
    let mut text = format!("            options='{}'\n", all.join(" "));
    // The argument after -- is completed without this table.
    let positionals = command.get_positionals().filter(|arg| !arg.is_last_set());
    let argument = |arg: &Arg| {
        let repeats = arg.get_num_args().is_some_and(|it| it.max_values() > 1);
        kind(arg) + if repeats { "..." } else { "" }
    };
    let arguments: Vec<String> = positionals.map(argument).collect();
    if !arguments.is_empty() {
        text.extend([format!("            arguments='{}'\n", arguments.join(" "))]);
    }
    let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
    // An option with an optional value has its value in the same word.
    let is_apart = |arg: &&&Arg| takes_value(arg) && !arg.is_require_equals_set();
    for arg in options.iter().filter(is_apart) {
        let kind = kind(arg);
        match kinds.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, names)) => names.extend(spellings(arg)),
            None => kinds.push((kind, spellings(arg))),
        }
    }
    if !kinds.is_empty() {
        text += "            case $2 in\n";
        for (kind, names) in kinds {
            let names = names.join(" | ");
            text.extend([format!("                {names}) kind='{kind}' ;;\n")]);
        }
        text += "            esac\n";
    }
    text
}

/// Returns the kind of a value for the bash script: name, file, command, text, or the values themselves.
fn kind(arg: &Arg) -> String {
    match hint(arg) {
        None => {
            let values = arg.get_possible_values();
            let names = values.iter().map(PossibleValue::get_name);
            names.collect::<Vec<_>>().join(" ")
        }
        Some(NAME_HINT) => "name".to_owned(),
        Some(ValueHint::AnyPath | ValueHint::FilePath) => "file".to_owned(),
        Some(ValueHint::CommandString | ValueHint::CommandWithArguments) => "command".to_owned(),
        Some(_) => "text".to_owned(),
    }
}
