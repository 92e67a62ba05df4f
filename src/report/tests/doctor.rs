//! The output of `dlock doctor`: the lines and the JSON.

use insta::assert_snapshot;

use super::records::{HOSTILE, LONG};
use super::{by_field, whole_lines};
use crate::exit::Status;
use crate::report::doctor::{ConfigFileLine, SettingLine, SettingsReport, json, text};
use crate::store::check::{Check, Finding};

/// Returns a finding for each check, with all statuses.
fn findings() -> Vec<Finding> {
    let finding = |(at, check)| match at % 4 {
        0 => Finding::ok(check, "a fact"),
        1 => Finding::warn(check, "a fact", "its consequence", "the advice"),
        2 => Finding::fail(check, "a fact", "its consequence", "the advice"),
        _ => Finding::skip(
            check,
            if check == Check::Login {
                ""
            } else {
                "the reason"
            },
        ),
    };
    (0..).zip(Check::ALL.iter().copied()).map(finding).collect()
}

/// Returns findings with long text and with text that is hostile to a terminal.
fn texts() -> [Finding; 4] {
    [
        Finding::ok(Check::Address, LONG),
        Finding::fail(Check::Connect, LONG, LONG, LONG),
        Finding::ok(Check::Login, HOSTILE),
        Finding::warn(Check::Server, HOSTILE, HOSTILE, HOSTILE),
    ]
}

/// Returns settings from all kinds of origins, and configuration files in both states.
fn settings() -> SettingsReport {
    let line = |name, value: &str, origin: &str| SettingLine {
        name,
        value: Some(value.to_owned()).filter(|value| !value.is_empty()),
        origin: Some(origin.to_owned()).filter(|origin| !origin.is_empty()),
    };
    let file = |path: &str, ignored_because_of: Option<&str>| ConfigFileLine {
        path: path.to_owned(),
        ignored_because_of: ignored_because_of.map(str::to_owned),
    };
    SettingsReport {
        settings: vec![
            line("host", "db.example.org", "--host"),
            line("port", "3306", ""),
            line("user", "app", "DLOCK_USER"),
            line("password", "", "/home/alice/.config/dlock/dlock.cnf:4"),
            line("database", "app", "/run/secrets/url"),
            line("ssl-mode", "verify_identity", ""),
            line("ssl-ca", LONG, LONG),
            line("ssl-key", HOSTILE, HOSTILE),
        ],
        files: vec![
            file("/home/alice/.config/dlock/dlock.cnf", None),
            file("/etc/dlock.cnf", Some("--host")),
            file(HOSTILE, Some(HOSTILE)),
        ],
    }
}

#[test]
fn lines_of_settings_from_every_origin() {
    assert_snapshot!(whole_lines(text(&settings(), &[])));
}

#[test]
fn lines_of_a_login_without_a_password() {
    let password = SettingLine {
        name: "password",
        value: None,
        origin: None,
    };
    let shown = SettingsReport {
        settings: vec![password],
        files: Vec::new(),
    };
    assert_snapshot!(whole_lines(text(&shown, &[])));
}

#[test]
fn json_of_settings_from_every_origin() {
    let document = json(&settings(), &[], Status::OK).expect("the document serializes");
    assert_snapshot!(by_field(&document));
}

fn document(findings: &[Finding], status: Status) -> String {
    by_field(&json(&SettingsReport::default(), findings, status).expect("the document serializes"))
}

#[test]
fn lines_of_no_findings_are_the_counts() {
    assert_snapshot!(whole_lines(text(&SettingsReport::default(), &[])));
}

#[test]
fn lines_of_every_check_and_status() {
    assert_snapshot!(whole_lines(text(&SettingsReport::default(), &findings())));
}

#[test]
fn lines_with_long_and_hostile_text() {
    assert_snapshot!(whole_lines(text(&SettingsReport::default(), &texts())));
}

#[test]
fn json_of_no_findings() {
    assert_snapshot!(document(&[], Status::OK));
}

#[test]
fn json_of_every_check_and_status() {
    assert_snapshot!(document(&findings(), Status::CONFIG));
}

#[test]
fn json_with_long_and_hostile_text() {
    assert_snapshot!(document(&texts(), Status::UNAVAILABLE));
}
