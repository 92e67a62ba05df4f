//! The two output formats of `dlock doctor`: text for users and JSON for programs.
//!
//! The JSON format is documented in dlock-doctor(1) and is stable: fields may be added, but are never
//! renamed or removed.

use std::fmt::Write as _;

use serde::Serialize;

use super::escape::printable;
use super::format::json_line;
use crate::exit::Status;
use crate::store::check::{Advice, Check, CheckStatus, Finding};

/// Formats one line per finding. The reason and the fix follow each warning and each failure. The last
/// line contains the number of findings per status.
#[must_use]
pub fn text(findings: &[Finding]) -> String {
    let width = Check::ALL.map(|check| check.name().len());
    let width = width.into_iter().max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let fact = match (&finding.status, finding.fact.as_str()) {
            (CheckStatus::Skipped, "") => "not checked".to_owned(),
            (_, fact) => fact.to_owned(),
        };
        let status_name = status_name(&finding.status);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{status_name:<4}  {:<width$}  {}",
            finding.check.name(),
            printable(&fact)
        );
        if let Some(Advice { why, fix }) = advice(&finding.status) {
            let (why, fix) = (printable(why), printable(fix));
            let _ = writeln!(text, "{:8}why: {why}\n{:8}fix: {fix}", "", "");
        }
    }
    let count = |wanted| {
        let statuses = findings.iter().map(|finding| status_name(&finding.status));
        statuses
            .filter(|status_name| *status_name == wanted)
            .count()
    };
    let _ = writeln!(
        text,
        "{} failed, {} warned, {} ok, {} skipped",
        count("fail"),
        count("warn"),
        count("ok"),
        count("skip")
    );
    text
}

#[derive(Serialize)]
struct DoctorDocument<'a> {
    status: u8,
    checks: Vec<CheckLine<'a>>,
}

/// A finding in the JSON document.
#[derive(Serialize)]
struct CheckLine<'a> {
    check: &'static str,
    status: &'static str,
    fact: &'a str,
    why: Option<&'a str>,
    fix: Option<&'a str>,
}

/// Returns the JSON document on one line.
///
/// # Errors
/// Never fails for a [`Finding`]. The `Result` type comes from the serializer.
pub fn json(findings: &[Finding], status: Status) -> serde_json::Result<String> {
    json_line(&DoctorDocument {
        status: status.code(),
        checks: findings.iter().map(line).collect(),
    })
}

fn line(finding: &Finding) -> CheckLine<'_> {
    let advice = advice(&finding.status);
    CheckLine {
        check: finding.check.name(),
        status: status_name(&finding.status),
        fact: &finding.fact,
        why: advice.map(|advice| advice.why.as_str()),
        fix: advice.map(|advice| advice.fix.as_str()),
    }
}

const fn status_name(status: &CheckStatus) -> &'static str {
    match status {
        CheckStatus::Ok => "ok",
        CheckStatus::Warn(_) => "warn",
        CheckStatus::Fail(_) => "fail",
        CheckStatus::Skipped => "skip",
    }
}

const fn advice(status: &CheckStatus) -> Option<&Advice> {
    match status {
        CheckStatus::Warn(advice) | CheckStatus::Fail(advice) => Some(advice),
        CheckStatus::Ok | CheckStatus::Skipped => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{json, text};
    use crate::exit::Status;
    use crate::report::escape::is_harmful;
    use crate::store::check::{Check, Finding};

    #[test]
    fn server_text_is_escaped_in_both_formats() {
        let hostile = "a\x1b[2J\nb\u{9b}\u{202e}";
        let findings = [Finding::fail(Check::Login, hostile, hostile, hostile)];
        let json = json(&findings, Status::CONFIG).expect("the findings serialize");
        for text in [text(&findings), json.clone()] {
            let found = text.chars().find(|&c| c != '\n' && is_harmful(c));
            assert_eq!(found, None, "{text}");
        }
        let document: serde_json::Value = serde_json::from_str(&json).expect("valid JSON");
        assert_eq!(document["checks"][0]["fact"], hostile);
        assert_eq!(document["status"], 78);
    }
}
