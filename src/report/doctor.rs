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

/// The connection settings that `dlock doctor` shows, without any password.
#[derive(Debug, Default)]
pub struct SettingsReport {
    /// The settings that dlock uses.
    pub settings: Vec<SettingLine>,
    /// The configuration files that exist.
    pub files: Vec<ConfigFileLine>,
}

/// A connection setting.
#[derive(Debug, Serialize)]
pub struct SettingLine {
    /// Name of the setting, as in option files.
    pub name: &'static str,
    /// Value of the setting. None for a password, and for a setting that has no value.
    pub value: Option<String>,
    /// Where the setting is set: an option, an environment variable, a path, or a path and a line. None for a default.
    pub origin: Option<String>,
}

/// A configuration file.
#[derive(Debug, Serialize)]
pub struct ConfigFileLine {
    /// Path of the file.
    pub path: String,
    /// Origin of the server if the file was ignored, because a source with higher precedence sets the server. None if
    /// the file was read.
    pub ignored_because_of: Option<String>,
}

/// Formats one line per setting, per configuration file and per finding. The reason and the fix follow each warning and
/// each failure. The last line contains the number of findings per status.
#[must_use]
pub fn text(shown: &SettingsReport, findings: &[Finding]) -> String {
    let widths = Check::ALL.iter().map(|check| check.name().len());
    let width = widths.max().unwrap_or(0);
    let mut text = String::new();
    for (name, fact) in shown.facts() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "set   {name:<width$}  {}", printable(&fact));
    }
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

impl SettingsReport {
    /// Returns the name and the text of each line.
    fn facts(&self) -> impl Iterator<Item = (&str, String)> {
        let settings = self.settings.iter().map(|line| {
            let fact = match (&line.value, &line.origin) {
                (Some(value), Some(origin)) => format!("{value}, from {origin}"),
                (Some(value), None) => format!("{value}, the default"),
                (None, Some(origin)) => format!("from {origin}"),
                (None, None) => "not set".to_owned(),
            };
            (line.name, fact)
        });
        let files = self.files.iter().map(|file| {
            let fact = match &file.ignored_because_of {
                Some(origin) => {
                    format!("{} is ignored, because {origin} sets the server", file.path)
                }
                None => format!("{} is read", file.path),
            };
            ("config-file", fact)
        });
        settings.chain(files)
    }
}

#[derive(Serialize)]
struct DoctorDocument<'a> {
    status: u8,
    settings: &'a [SettingLine],
    config_files: &'a [ConfigFileLine],
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
pub fn json(
    shown: &SettingsReport,
    findings: &[Finding],
    status: Status,
) -> serde_json::Result<String> {
    json_line(&DoctorDocument {
        status: status.code(),
        settings: &shown.settings,
        config_files: &shown.files,
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
    use super::{ConfigFileLine, SettingLine, SettingsReport, json, text};
    use crate::exit::Status;
    use crate::report::escape::is_harmful;
    use crate::store::check::{Check, Finding};

    #[test]
    fn server_text_is_escaped_in_both_formats() {
        let hostile = "a\x1b[2J\nb\u{9b}\u{202e}";
        let findings = [Finding::fail(Check::Login, hostile, hostile, hostile)];
        let shown = SettingsReport {
            settings: vec![SettingLine {
                name: "host",
                value: Some(hostile.to_owned()),
                origin: Some(hostile.to_owned()),
            }],
            files: vec![ConfigFileLine {
                path: hostile.to_owned(),
                ignored_because_of: Some(hostile.to_owned()),
            }],
        };
        let json = json(&shown, &findings, Status::CONFIG).expect("the findings serialize");
        for text in [text(&shown, &findings), json.clone()] {
            let found = text.chars().find(|&c| c != '\n' && is_harmful(c));
            assert_eq!(found, None, "{text}");
        }
        let document: serde_json::Value = serde_json::from_str(&json).expect("valid JSON");
        assert_eq!(document["checks"][0]["fact"], hostile);
        assert_eq!(document["status"], 78);
    }
}
