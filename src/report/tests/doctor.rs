//! The output of `dlock doctor`: the lines and the JSON.

use insta::assert_snapshot;

use super::records::{HOSTILE, LONG};
use super::{by_field, whole_lines};
use crate::exit::Status;
use crate::report::doctor::{json, text};
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
    (0..).zip(Check::ALL).map(finding).collect()
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

fn document(findings: &[Finding], status: Status) -> String {
    by_field(&json(findings, status).expect("the document serializes"))
}

#[test]
fn lines_of_no_findings_are_the_counts() {
    assert_snapshot!(whole_lines(text(&[])));
}

#[test]
fn lines_of_every_check_and_status() {
    assert_snapshot!(whole_lines(text(&findings())));
}

#[test]
fn lines_with_long_and_hostile_text() {
    assert_snapshot!(whole_lines(text(&texts())));
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
