//! Tests that the man pages of the commands and the shell completions match the command-line grammar byte for byte.
//!
//! A page is rendered from the grammar, the table of exit statuses and the handwritten `man/parts/PAGE.man`. If
//! `DLOCK_UPDATE=1` is in the environment, the test writes the files before it compares the files. The content of the
//! files does not depend on the machine or the date.

mod completions;

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use testkit::repository;

use dlock::cli::built;
use dlock::exit;
use dlock::protocol::keeper::transitions::TRANSITIONS;

/// Shell command that regenerates the files.
const UPDATE: &str = "DLOCK_UPDATE=1 cargo test --locked --test it generated";

#[test]
fn man_pages_and_completions_match_the_grammar() {
    let path = |command: &Command| repository().join(format!("man/{}.1", title(command)));
    let pages = commands().into_iter().map(|one| (path(&one), page(&one)));
    let rendered: Vec<(PathBuf, String)> = pages.chain(completions::rendered()).collect();
    if std::env::var_os("DLOCK_UPDATE").is_some_and(|value| value == "1") {
        for (path, text) in &rendered {
            fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
    let is_stale =
        |(path, text): &&(PathBuf, String)| fs::read_to_string(path).ok().as_ref() != Some(text);
    let stale: Vec<&PathBuf> = rendered.iter().filter(is_stale).map(|it| &it.0).collect();
    assert!(stale.is_empty(), "regenerate {stale:#?} with:\n  {UPDATE}");
    for folder in ["man", "completions"] {
        for entry in fs::read_dir(repository().join(folder)).expect("the folder exists") {
            let path = entry.expect("the folder can be read").path();
            let is_generated = path.is_file() && path.extension().is_none_or(|end| end != "7");
            let is_current = rendered.iter().any(|(current, _)| *current == path);
            // A file that belongs to no command of the grammar must be deleted.
            assert!(!is_generated || is_current, "{}", path.display());
        }
    }
}

/// The marks around the table of the keeper's phases in ARCHITECTURE.md.
const MARKS: [&str; 2] = ["<!-- transitions -->\n", "<!-- end of transitions -->"];

#[test]
fn architecture_shows_the_phases_of_a_lease() {
    let path = repository().join("ARCHITECTURE.md");
    let mut text = fs::read_to_string(&path).expect("the page exists");
    let mut table = "| phase | event | next phase | notices |\n|---|---|---|---|\n".to_owned();
    table.extend(TRANSITIONS.map(|row| {
        let (from, to) = (row.from, row.to);
        format!("| {from:?} | {} | {to:?} | {} |\n", row.cause, row.notices)
    }));
    let [start, end] = MARKS.map(|mark| text.find(mark).expect("the mark exists"));
    let shown = start + MARKS[0].len()..end;
    if std::env::var_os("DLOCK_UPDATE").is_some_and(|value| value == "1") {
        text.replace_range(shown, &table);
        fs::write(&path, text).expect("the page can be written");
        return;
    }
    assert_eq!(text[shown], table, "regenerate it with: {UPDATE}");
}

#[test]
fn every_option_is_named_in_the_page_of_its_command() {
    for command in commands() {
        let page = page(&command).replace("\\-", "-");
        let shown = command.get_arguments().filter(|one| !one.is_hide_set());
        for argument in shown {
            let long = argument.get_long().map(|long| format!("--{long}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            let variable = argument.get_env().map(|name| name.display().to_string());
            for name in [long, short, variable].into_iter().flatten() {
                assert!(page.contains(&name), "{}: {name}", command.get_name());
            }
        }
    }
}

/// Returns `dlock` and its subcommands, with their shared options.
fn commands() -> Vec<Command> {
    let cli = built();
    let visible = cli.get_subcommands().filter(|one| !one.is_hide_set());
    let subcommands: Vec<Command> = visible.cloned().collect();
    std::iter::once(cli).chain(subcommands).collect()
}

/// Returns the title of a page, for example `dlock` or `dlock-exec`.
fn title(command: &Command) -> String {
    let name = command.get_display_name().unwrap_or(command.get_name());
    name.to_owned()
}

fn page(command: &Command) -> String {
    let version = command.get_version().expect("the version is propagated");
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let man = Man::new(command.clone().override_usage(usage))
        // Sets the date to two quotes, since the renderer would omit an empty argument.
        .date("\"\"")
        .source(format!("dlock {version}"))
        .manual("dlock manual");
    let (description, rest) = written(&title(command));
    let subcommands = match command.has_subcommands() {
        true => section(|text| man.render_subcommands_section(text)),
        false => String::new(),
    };
    let title = title(command);
    let text = [
        format!(".\\\" Rendered from the grammar and man/parts/{title}.man by:\n.\\\" {UPDATE}\n"),
        Roff::new().render(),
        section(|text| man.render_title(text)),
        section(|text| man.render_name_section(text)),
        section(|text| man.render_synopsis_section(text)),
        description,
        section(|text| man.render_options_section(text)),
        subcommands,
        section(|text| exit_statuses(command).to_writer(text)),
        rest,
    ]
    .concat();
    // Removes the blanks that the renderer writes at the end of some lines.
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

/// Returns one rendered section without the roff definitions that the renderer writes before each section.
fn section(render: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
    let mut text = Vec::new();
    render(&mut text).expect("writing to a Vec cannot fail");
    let text = String::from_utf8(text).expect("the renderer writes UTF-8");
    text.replacen(&Roff::new().render(), "", 1)
}

/// Returns the two handwritten parts of `page`: the section DESCRIPTION, and the sections after the exit statuses.
fn written(page: &str) -> (String, String) {
    let path = repository().join(format!("man/parts/{page}.man"));
    let text = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; every page needs this file", path.display()));
    let second = text.find("\n.SH ").map_or(text.len(), |at| at + 1);
    let (description, rest) = text.split_at(second);
    let has_description = description.starts_with(".SH DESCRIPTION\n");
    assert!(has_description, "{}", path.display());
    (description.to_owned(), rest.to_owned())
}

/// Returns the exit statuses of `command`. The page of `dlock` lists all of them.
fn exit_statuses(command: &Command) -> Roff {
    let subcommand = (!command.has_subcommands()).then_some(command.get_name());
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (status, meaning) in exit::rows(subcommand) {
        roff.control("TP", []);
        roff.text([bold(status)]);
        roff.text([roman(meaning)]);
    }
    roff
}
