//! Tests that README.zh-CN.md says the same as README.md, as far as a program can compare them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The English and the Chinese README.
fn both() -> [String; 2] {
    ["README.md", "README.zh-CN.md"].map(|name| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"))
    })
}

/// Returns the code blocks of a document, and its other text.
fn parts(document: &str) -> (Vec<&str>, String) {
    let pieces: Vec<&str> = document.split("\n```").collect();
    let blocks = pieces.iter().skip(1).step_by(2).copied().collect();
    let prose: Vec<&str> = pieces.iter().step_by(2).copied().collect();
    (blocks, prose.join("\n"))
}

/// Returns the text that is marked as code: commands, options, variables, files and SQL.
fn code(prose: &str) -> BTreeSet<String> {
    let spans = prose.split('`').skip(1).step_by(2);
    spans.map(|span| span.replace('\n', " ")).collect()
}

/// Returns the options, whether they are marked as code or not.
fn options(prose: &str) -> BTreeSet<&str> {
    let words = prose.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let options = words.filter(|word| word.starts_with("--") && word.len() > 2);
    options.collect()
}

/// Returns the first cells of the table of exit statuses that are numbers.
fn statuses(prose: &str) -> Vec<&str> {
    let cells = prose
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let first = cells.map(|(first, _)| first);
    first
        .filter(|cell| cell.starts_with(|c: char| c.is_ascii_digit()))
        .collect()
}

/// Returns all numbers, sorted. A sentence may end after a number.
fn numbers(prose: &str) -> Vec<&str> {
    let words = prose.split(|c: char| !c.is_ascii_digit() && c != '.');
    let numbers = words.map(|word| word.trim_matches('.'));
    let mut numbers: Vec<&str> = numbers.filter(|number| !number.is_empty()).collect();
    numbers.sort_unstable();
    numbers
}

/// Returns the files and addresses to which the document has links, without the READMEs.
fn links(prose: &str) -> BTreeSet<&str> {
    let targets = prose.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split(')').next());
    let others = targets.filter(|target| !target.starts_with('#') && !target.starts_with("README"));
    others.collect()
}

#[test]
fn the_chinese_readme_has_the_commands_options_and_statuses_of_the_english_one() {
    let documents = both();
    let [english, chinese] = [&documents[0], &documents[1]].map(|document| parts(document));
    assert_eq!(chinese.0, english.0, "the blocks of code");
    let [english, chinese] = [english.1, chinese.1];
    assert!(code(&english).len() > 80, "{:?}", code(&english));
    assert_eq!(code(&chinese), code(&english));
    assert!(options(&english).len() > 20, "{:?}", options(&english));
    assert_eq!(options(&chinese), options(&english));
    assert!(statuses(&english).len() > 10, "{:?}", statuses(&english));
    assert_eq!(statuses(&chinese), statuses(&english));
    assert_eq!(numbers(&chinese), numbers(&english));
    assert_eq!(links(&chinese), links(&english));
}

#[test]
fn every_file_to_which_a_readme_has_a_link_exists() {
    for document in both() {
        let files: Vec<&str> = links(&document)
            .into_iter()
            .filter(|target| !target.contains("://"))
            .collect();
        assert!(files.len() > 10, "{files:?}");
        for file in files {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            assert!(path.exists(), "{file}");
        }
    }
}

#[test]
fn every_section_of_a_readme_is_in_its_table_of_contents() {
    for document in both() {
        let sections = document.lines().filter_map(|line| line.strip_prefix("## "));
        for section in sections {
            let anchor = section.to_lowercase().replace(' ', "-");
            assert!(
                document.contains(&format!("](#{anchor})")),
                "no link to {section}"
            );
        }
    }
}
