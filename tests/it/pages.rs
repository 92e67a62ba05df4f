//! Tests of the pages that a user reads first: the READMEs and the files in `docs`. Their links lead to files and
//! sections that exist, their commands are valid, and the README stays short.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;

use dlock::cli::Cli;
use testkit::cli_runner::Dlock;
use testkit::repository;

/// The most words in README.md, as `wc -w` counts them.
const MAX_WORDS: usize = 1_600;

/// Returns the Markdown files in the project folder and in `docs`, with their paths below the project folder.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut pages = BTreeMap::new();
    for folder in ["", "docs"] {
        for entry in fs::read_dir(repository().join(folder)).expect("the folder exists") {
            let name = entry.expect("the folder can be read").file_name();
            let path = Path::new(folder).join(name);
            if path.extension().is_some_and(|end| end == "md") {
                let text = fs::read_to_string(repository().join(&path)).expect("the page is UTF-8");
                pages.insert(path, text);
            }
        }
    }
    pages
}

/// Returns the text of a page outside and inside its blocks of code.
pub(crate) fn prose_and_code(page: &str) -> (String, String) {
    let pieces: Vec<&str> = page.split("\n```").collect();
    let every_other = |first: usize| -> String {
        let pieces: Vec<&str> = pieces.iter().skip(first).step_by(2).copied().collect();
        pieces.join("\n")
    };
    (every_other(0), every_other(1))
}

/// Returns the anchors of the headings of a page, as GitHub derives them.
fn anchors(page: &str) -> Vec<String> {
    let (prose, _) = prose_and_code(page);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let is_kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
        let kept = text.chars().filter(is_kept);
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_section_that_exist() {
    let pages = pages();
    let mut found = 0;
    for (path, text) in &pages {
        let (prose, _) = prose_and_code(text);
        let rests = prose.split("](").skip(1);
        let targets = rests.filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let folder = path.parent().expect("a file is in a folder");
            let wanted = match file {
                "" => path.clone(),
                _ => folder.join(file),
            };
            let wanted = repository().join(wanted);
            let has_anchor = |page: String| anchors(&page).iter().any(|one| one == anchor);
            let is_there = match anchor {
                "" => wanted.exists(),
                _ => fs::read_to_string(&wanted).is_ok_and(has_anchor),
            };
            assert!(is_there, "{}: {target}", path.display());
            found += 1;
        }
    }
    assert!(found > 100, "only {found} links: the test reads too little");
}

#[test]
fn the_readme_leads_to_each_page_in_docs_and_is_short_and_no_page_installs_a_foreign_crate() {
    let pages = pages();
    let readme = &pages[Path::new("README.md")];
    for page in pages.keys().filter(|page| page.starts_with("docs")) {
        let link = format!("]({})", page.display());
        assert!(readme.contains(&link), "{}", page.display());
    }
    let words = readme.split_whitespace().count();
    assert!(words <= MAX_WORDS, "README.md has {words} words");
    // Another project owns the name `dlock` in the registry of Rust crates.
    for (path, text) in pages {
        for rest in text.split("cargo install").skip(1) {
            let safe = ["`", " --path ", " --git "];
            let is_safe = safe.iter().any(|next| rest.starts_with(next));
            assert!(is_safe, "{}: cargo install{rest:.40}", path.display());
        }
    }
}

/// Returns the command lines of dlock in a page: in its blocks of code, and in the text that is marked as code. The
/// lines do not contain the prompt, the comment and what follows in a pipeline.
fn command_lines(page: &str) -> Vec<String> {
    let (prose, code) = prose_and_code(page);
    let spans = prose.split('`').skip(1).step_by(2);
    let spans = spans.map(|span| span.replace('\n', " "));
    let lines = code.lines().map(str::to_owned).chain(spans);
    let command = |line: String| -> Option<String> {
        let line = line.trim();
        let (_, line) = line.rsplit_once("$ ").unwrap_or(("", line));
        let line = line.trim_start_matches("exec ");
        let is_command = line.starts_with("dlock ") && !line.contains('…');
        let end = [" # ", " | ", " &"].iter().filter_map(|end| line.find(end));
        let end = end.min().unwrap_or(line.len());
        is_command.then(|| line[..end].to_owned())
    };
    lines.filter_map(command).collect()
}

/// Returns the words of a shell command, with values for the variables of the recipes.
#[track_caller]
pub(crate) fn words(command: &str) -> Vec<OsString> {
    let values = "RELEASE=v1 TAG=v1 POD_IP=192.0.2.1 DB_URL=mysql://url";
    let script = format!("{values}\nset -- {command}\nprintf '%s\\n' \"$@\"");
    let outcome = Dlock::of(Path::new("sh"), ["-euc", &script]).run();
    assert_eq!(outcome.status, Some(0), "{command}: {outcome:?}");
    outcome.stdout.lines().map(OsString::from).collect()
}

#[test]
fn every_command_line_in_a_page_is_one_that_dlock_accepts() {
    let mut found = 0;
    for (path, text) in pages() {
        let is_for_users = path.starts_with("README.md") || path.starts_with("docs");
        for line in command_lines(&text).iter().filter(|_| is_for_users) {
            let line = line.replace("SUBCOMMAND", "exec").replace("STATUS", "76");
            // A sentence may name only the subcommand and an option, as in `dlock exec --fence`.
            if let Err(error) = Cli::try_parse_from(words(&line)) {
                let of_name = [ErrorKind::MissingRequiredArgument, ErrorKind::DisplayHelp];
                let is_name = of_name.contains(&error.kind());
                assert!(is_name, "{}: {line}: {error}", path.display());
            }
            found += 1;
        }
    }
    assert!(found > 60, "only {found} lines: the test reads too little");
}
