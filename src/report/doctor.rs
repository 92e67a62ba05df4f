//! The two forms of `dlock doctor`: lines for people and JSON for programs.
//!
//! The JSON form is documented in dlock-doctor(1) and stable: fields are added, never renamed or
//! removed.

use std::fmt::Write as _;

use serde::Serialize;

use super::escape::printable;
use super::form::json_line;
use crate::exit::Status;
use crate::store::finding::{Advice, Check, Finding, Verdict};

/// A line a finding; below it, where something is to be done, why it matters and what to do. The
/// last line counts.
#[must_use]
pub fn text(findings: &[Finding]) -> String {
    let width = Check::ALL.map(|check| check.name().len());
    let width = width.into_iter().max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let fact = match (&finding.verdict, finding.fact.as_str()) {
            (Verdict::Unchecked, "") => "not checked".to_owned(),
            (Verdict::Unchecked, fact) => format!("not checked: {fact}"),
            (_, fact) => fact.to_owned(),
        };
        let mark = match word(&finding.verdict) {
            "unchecked" => "-",
            word => word,
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{mark:<4}  {:<width$}  {}",
            finding.check.name(),
            printable(&fact)
        );
        if let Some(Advice { why, remedy }) = advice(&finding.verdict) {
            let (why, remedy) = (printable(why), printable(remedy));
            let _ = writeln!(text, "{:8}why: {why}\n{:8}do:  {remedy}", "", "");
        }
    }
    let count = |wanted| {
        let verdicts = findings.iter().map(|finding| word(&finding.verdict));
        verdicts.filter(|word| *word == wanted).count()
    };
    let _ = writeln!(
        text,
        "{} to mend, {} to note, {} ok, {} not checked",
        count("mend"),
        count("note"),
        count("ok"),
        count("unchecked")
    );
    text
}

#[derive(Serialize)]
struct Document<'a> {
    status: u8,
    checks: Vec<Line<'a>>,
}

/// One finding in JSON.
#[derive(Serialize)]
struct Line<'a> {
    check: &'static str,
    verdict: &'static str,
    fact: &'a str,
    why: Option<&'a str>,
    remedy: Option<&'a str>,
}

/// The JSON document, one line.
///
/// # Errors
/// Never for what is in a [`Finding`]; the serializer's type demands it.
pub fn json(findings: &[Finding], status: Status) -> serde_json::Result<String> {
    json_line(&Document {
        status: status.code(),
        checks: findings.iter().map(line).collect(),
    })
}

fn line(finding: &Finding) -> Line<'_> {
    let advice = advice(&finding.verdict);
    Line {
        check: finding.check.name(),
        verdict: word(&finding.verdict),
        fact: &finding.fact,
        why: advice.map(|advice| advice.why.as_str()),
        remedy: advice.map(|advice| advice.remedy.as_str()),
    }
}

const fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Note(_) => "note",
        Verdict::Mend(_) => "mend",
        Verdict::Unchecked => "unchecked",
    }
}

const fn advice(verdict: &Verdict) -> Option<&Advice> {
    match verdict {
        Verdict::Note(advice) | Verdict::Mend(advice) => Some(advice),
        Verdict::Ok | Verdict::Unchecked => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{json, text};
    use crate::exit::Status;
    use crate::report::escape::is_harmful;
    use crate::store::finding::{Check, Finding};

    #[test]
    fn each_verdict_has_its_word_and_what_is_wrong_its_advice() {
        let findings = [
            Finding::ok(Check::Address, "here"),
            Finding::note(Check::Tls, "none", "somebody reads", "turn it on"),
            Finding::mend(Check::Grants, "missing", "no lease", "GRANT"),
            Finding::unchecked(Check::Gate, ""),
            Finding::unchecked(Check::Clock, "no answer"),
        ];
        assert_eq!(
            text(&findings),
            "ok    address      here\n\
             note  tls          none\n\
             \x20       why: somebody reads\n\
             \x20       do:  turn it on\n\
             mend  grants       missing\n\
             \x20       why: no lease\n\
             \x20       do:  GRANT\n\
             -     gate         not checked\n\
             -     clock        not checked: no answer\n\
             1 to mend, 1 to note, 1 ok, 2 not checked\n"
        );
    }

    #[test]
    fn text_of_the_server_cannot_act_on_a_terminal_in_either_form() {
        let hostile = "a\x1b[2J\nb\u{9b}\u{202e}";
        let findings = [Finding::mend(Check::Login, hostile, hostile, hostile)];
        let json = json(&findings, Status::CONFIG).expect("it can be written");
        for text in [text(&findings), json.clone()] {
            let found = text.chars().find(|&c| c != '\n' && is_harmful(c));
            assert_eq!(found, None, "{text}");
        }
        let document: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        assert_eq!(document["checks"][0]["fact"], hostile);
        assert_eq!(document["status"], 78);
    }
}
