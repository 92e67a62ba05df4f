//! Normalizes the output of a scenario, so that the outputs of two runs can be compared. Process ids, tokens, times,
//! durations, the number of renewals, ports and the widths of table columns may differ between runs.
//!
//! Each token and each process id is replaced by its rank in the order of first appearance in all blocks. Numbers that
//! are equal in one run must therefore be equal in the other run. Typed lines are not changed.

use std::collections::BTreeMap;

const UNITS: [&str; 8] = ["us", "ms", "s", "m", "h", "day", "days", "ns"];

/// Number of digits of a token. A token is a number of microseconds since 1970.
const TOKEN: usize = 16;

pub(super) fn normalized<'a>(blocks: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let mut replacements = Replacements::default();
    for text in blocks.clone() {
        replacements.collect(text);
    }
    blocks
        .map(|text| replacements.normalized_block(text))
        .collect()
}

#[derive(Default)]
struct Replacements(BTreeMap<String, String>);

impl Replacements {
    /// Adds the tokens and the process ids in `text`. A process id follows a `/` in a label.
    fn collect(&mut self, text: &str) {
        for (before, word) in words(text) {
            let is_token = word.len() == TOKEN;
            if is_number(word) && (is_token || before.ends_with('/')) {
                let index = self.0.len() + 1;
                let kind = if is_token { "token" } else { "pid" };
                let name = || format!("<{kind} {index}>");
                self.0.entry(word.to_owned()).or_insert_with(name);
            }
        }
    }

    fn normalized_block(&self, text: &str) -> String {
        let mut result: Vec<String> = Vec::new();
        for line in text.lines() {
            let line = match is_typed(line) {
                true => line.to_owned(),
                false => self.line(line),
            };
            // The number of repeated reminders depends on the duration of the run.
            let is_repeated = (line.ends_with("you are next") || line.ends_with("ahead of you"))
                && result.last() == Some(&line);
            if !is_repeated && !line.contains("still waiting after") {
                result.push(line);
            }
        }
        result.join("\n")
    }

    fn line(&self, line: &str) -> String {
        let mut result = String::new();
        let mut end = "";
        let all: Vec<_> = words(line).collect();
        for (at, (before, word)) in all.iter().enumerate() {
            let next = all.get(at + 1).map_or("", |(_, next)| *next);
            let (word, dot) = match word.strip_suffix('.') {
                Some(duration) if is_duration(duration) => (duration, "."),
                _ => (*word, ""),
            };
            let is_longer = is_duration(word) && *before == " " && end == "<duration>";
            if is_longer {
                result.push_str(dot);
                continue;
            }
            let is_gap = before.len() > 2 && before.bytes().all(|byte| byte == b' ');
            result.push_str(if is_gap { "  " } else { before });
            let name = self.0.get(word).map(String::as_str);
            end = match word.split_once(':') {
                _ if name.is_some() => name.unwrap_or_default(),
                _ if is_time(word) => "<time>",
                _ if is_duration(word) => "<duration>",
                _ if is_number(word) && next == "times" => "<number>",
                Some((duration, "")) if is_duration(duration) => "<duration>:",
                Some(("127.0.0.1", _)) => "127.0.0.1:<port>:",
                _ => word,
            };
            result.push_str(end);
            result.push_str(dot);
        }
        result
    }
}

/// Returns the words of `text`. Each word is preceded by the text between the previous word and this word.
fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || ":.-".contains(c);
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (before, after) = rest.split_at(rest.find(is_part).unwrap_or(rest.len()));
        let (word, after) = after.split_at(after.find(|c| !is_part(c)).unwrap_or(after.len()));
        rest = after;
        Some((before, word))
    })
}

fn is_typed(line: &str) -> bool {
    let typed = line.split_once("$ ");
    typed.is_some_and(|(host, _)| !host.contains(' '))
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_duration(word: &str) -> bool {
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < word.len() && UNITS.contains(&unit)
}

/// Returns true if `word` is an RFC 3339 time with microseconds.
fn is_time(word: &str) -> bool {
    let form: String = word
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    form == "0000-00-00T00:00:00.000000Z"
}

#[test]
fn runs_are_equal_after_normalization_if_only_their_times_and_numbers_differ() {
    let is_equal = |one: &str, other: &str| {
        let [one, other] = [one, other].map(|text| normalized([text].into_iter()));
        one == other
    };
    assert!(is_equal(
        "$ dlock status init --wait 5s\n\
         init  web-1/4711  web-1  4711  12m 34s  1795192806096429  2026-11-20T16:40:06.096429Z\n\
         renewed    151 times, 3s ago\n\
         not renewed for 5s: frozen",
        "$ dlock status init --wait 5s\n\
         init  web-1/97    web-1  97    996ms    1895192806096429  2029-11-20T16:40:06.000000Z\n\
         renewed    9 times, 1h 2s ago\n\
         not renewed for 6s: frozen"
    ));
    let one = "web-1/4711 web-2/4712 after 3s: 76\nlost\nx is held; you are next";
    for (from, to) in [
        ("76", "75"),
        ("web-1", "web-3"),
        ("4712", "4711"),
        ("after 3s", "after 3"),
        ("lost", "lost\nlost"),
    ] {
        assert!(!is_equal(one, &one.replacen(from, to, 1)), "{from}, {to}");
    }
    let reminded = one.replace("x is", "x is held; you are next\nx is");
    assert!(is_equal(one, &reminded));
}
