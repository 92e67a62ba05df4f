//! Tests that README.zh-CN.md says the same as README.md, as far as a program can compare them.

use std::collections::BTreeSet;
use std::fs;

use testkit::repository;

use crate::pages::prose_and_code;

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

/// Returns the lengths of the runs of `#` at the start of the headings.
fn headings(prose: &str) -> Vec<usize> {
    let lines = prose.lines().filter(|line| line.starts_with('#'));
    lines
        .map(|line| line.len() - line.trim_start_matches('#').len())
        .collect()
}

#[test]
fn the_chinese_readme_has_the_sections_commands_options_numbers_and_links_of_the_english_one() {
    let [english, chinese] = ["README.md", "README.zh-CN.md"].map(|name| {
        let page = fs::read_to_string(repository().join(name));
        prose_and_code(&page.expect("the page exists"))
    });
    assert_eq!(chinese.1, english.1, "the blocks of code");
    let [english, chinese] = [english.0, chinese.0];
    assert!(headings(&english).len() > 10, "{:?}", headings(&english));
    assert_eq!(headings(&chinese), headings(&english));
    assert!(code(&english).len() > 25, "{:?}", code(&english));
    assert_eq!(code(&chinese), code(&english));
    assert!(options(&english).len() > 5, "{:?}", options(&english));
    assert_eq!(options(&chinese), options(&english));
    assert!(numbers(&english).len() > 20, "{:?}", numbers(&english));
    assert_eq!(numbers(&chinese), numbers(&english));
    assert_eq!(links(&chinese), links(&english));
}
