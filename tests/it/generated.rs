//! The man pages of the commands and the shell completions are what the grammar says, byte for
//! byte.
//!
//! A page is rendered from the grammar, the table of exit statuses and `man/parts/PAGE.man`, where
//! a person writes what the grammar cannot know. With `DLOCK_UPDATE=1` in the environment the test
//! writes the files instead of comparing them. Nothing in them depends on the machine or the date.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use dlock::cli::Cli;
use dlock::exit;

/// What writes the files anew.
const UPDATE: &str = "DLOCK_UPDATE=1 cargo test --locked --test it generated";

#[test]
fn man_pages_and_completions_are_what_the_grammar_says() {
    let rendered = rendered();
    if std::env::var_os("DLOCK_UPDATE").is_some_and(|value| value == "1") {
        for (path, text) in &rendered {
            fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
    let stale: Vec<String> = rendered
        .iter()
        .filter(|(path, text)| fs::read(path).ok().as_deref() != Some(text.as_bytes()))
        .map(|(path, _)| path.strip_prefix(root()).unwrap_or(path))
        .map(|path| path.display().to_string())
        .collect();
    assert!(
        stale.is_empty(),
        "not what the grammar says:\n  {}\nwrite them anew with:\n  {UPDATE}",
        stale.join("\n  ")
    );
}

#[test]
fn no_page_or_completion_is_left_over_from_a_command_that_is_gone() {
    let rendered: Vec<PathBuf> = rendered().into_iter().map(|(path, _)| path).collect();
    for folder in ["man", "completions"] {
        for entry in fs::read_dir(root().join(folder)).expect("the folder is there") {
            let path = entry.expect("the folder can be read").path();
            let is_generated = path.is_file() && path.extension().is_none_or(|end| end != "7");
            assert!(
                !is_generated || rendered.contains(&path),
                "{} belongs to nothing in the grammar: delete it",
                path.display()
            );
        }
    }
}

#[test]
fn every_option_is_named_in_the_page_of_its_command() {
    for command in commands() {
        let page = page(&command).replace("\\-", "-");
        for argument in command.get_arguments() {
            let long = argument.get_long().map(|long| format!("--{long}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            let variable = argument.get_env().map(|name| name.display().to_string());
            for name in [long, short, variable].into_iter().flatten() {
                assert!(page.contains(&name), "{name} in {}", command.get_name());
            }
        }
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files with what belongs into them.
fn rendered() -> Vec<(PathBuf, String)> {
    pages().into_iter().chain(completions()).collect()
}

/// `dlock` and its subcommands, complete with the options that all of them share.
fn commands() -> Vec<Command> {
    let mut cli = Cli::command();
    cli.build();
    let subcommands: Vec<Command> = cli.get_subcommands().cloned().collect();
    std::iter::once(cli).chain(subcommands).collect()
}

/// `dlock` or `dlock-exec`.
fn title(command: &Command) -> String {
    let name = command.get_display_name().unwrap_or(command.get_name());
    name.to_owned()
}

fn pages() -> Vec<(PathBuf, String)> {
    let path = |command: &Command| root().join(format!("man/{}.1", title(command)));
    let pages = commands();
    pages.iter().map(|one| (path(one), page(one))).collect()
}

/// The page of `command`.
fn page(command: &Command) -> String {
    let version = command.get_version().expect("the version is propagated");
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let man = Man::new(command.clone().override_usage(usage))
        // Two quotes, because the renderer leaves an empty argument out.
        .date("\"\"")
        .source(format!("dlock {version}"))
        .manual("dlock manual");
    let (description, rest) = written(&title(command));
    let subcommands = match command.has_subcommands() {
        true => section(|text| man.render_subcommands_section(text)),
        false => String::new(),
    };
    let text = [
        format!(
            ".\\\" Rendered from the grammar and man/parts/{}.man by:\n.\\\" {UPDATE}\n",
            title(command)
        ),
        Roff::new().render(),
        section(|text| man.render_title(text)),
        section(|text| man.render_name_section(text)),
        section(|text| man.render_synopsis_section(text)),
        description,
        section(|text| man.render_options_section(text)),
        subcommands,
        section(|text| exit_statuses().to_writer(text)),
        rest,
    ]
    .concat();
    // The renderer leaves blanks at the ends of some lines.
    text.lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n")
        + "\n"
}

/// One section without the definitions that the renderer writes in front of each.
fn section(render: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
    let mut text = Vec::new();
    render(&mut text).expect("a Vec takes everything");
    let text = String::from_utf8(text).expect("the renderer writes UTF-8");
    text.replacen(&Roff::new().render(), "", 1)
}

/// What a person wrote for `page`: its DESCRIPTION, and the sections that follow the options.
fn written(page: &str) -> (String, String) {
    let path = root().join(format!("man/parts/{page}.man"));
    let text = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; every page has one", path.display()));
    let second = text.find("\n.SH ").map_or(text.len(), |at| at + 1);
    let (description, rest) = text.split_at(second);
    assert!(
        description.starts_with(".SH DESCRIPTION\n"),
        "{} begins with the section DESCRIPTION",
        path.display()
    );
    (description.to_owned(), rest.to_owned())
}

fn exit_statuses() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (status, meaning) in exit::TABLE {
        roff.control("TP", []);
        roff.text([bold(*status)]);
        roff.text([roman(*meaning)]);
    }
    roff
}

fn completions() -> Vec<(PathBuf, String)> {
    [
        (Shell::Bash, "dlock.bash"),
        (Shell::Zsh, "_dlock"),
        (Shell::Fish, "dlock.fish"),
    ]
    .map(|(shell, name)| {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "dlock", &mut text);
        let text = String::from_utf8(text).expect("the renderer writes UTF-8");
        (root().join("completions").join(name), text)
    })
    .into()
}
