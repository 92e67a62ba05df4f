//! Tests of the release dialog: the effect of each key, and snapshots of its pages.

use insta::assert_snapshot;

use super::scene::*;
use crate::lease::Token;
use crate::store::operator::{OperatorAction, OperatorResult};
use crate::store::{Failure, FailureKind, LockRecord};
use crate::watch::frame::Size;
use crate::watch::key::Key;
use crate::watch::state::{KeyEffect, ScreenState};

const WIDE: Size = Size {
    columns: 200,
    rows: 24,
};

const NARROW: Size = Size {
    columns: 30,
    rows: 16,
};

const HOSTILE: &str = "x\u{1b}[2J\r\ny\u{202e}z";

/// Returns a screen on which the user has typed `r` and `text`.
fn dialog(size: Size, text: &str) -> ScreenState {
    let mut state = five(size);
    typed(&mut state, "r");
    typed(&mut state, text);
    state
}

/// Returns a screen on which the user has confirmed the release of `a`.
fn confirmed(reason: &str) -> ScreenState {
    let mut state = dialog(USUAL, reason);
    press(&mut state, &[Key::Enter, Key::Text('y')]);
    state
}

#[test]
fn confirmed_release_requires_the_token_that_was_shown() {
    let mut state = dialog(USUAL, "it hxx");
    press(&mut state, &[Key::Backspace, Key::Backspace]);
    typed(&mut state, "angs");
    // The action gets a new token while the dialog is open.
    let next = held("a", "web-7/1", 1).with_lease(|lease| {
        lease.version = crate::store::Version {
            token: Token(99),
            renewals: 0,
        }
    });
    state.set_snapshot(snapshot(vec![next], Vec::new()));
    assert!(screen(&state).contains("has changed since then: nothing will be done"));
    press(&mut state, &[Key::Enter, Key::Text('y')]);
    let release = state.take_confirmed().expect("the release is confirmed");
    let request = &release.request;
    assert_eq!((&request.action, request.token), (&action("a"), Token(17)));
    assert_eq!(request.kind, OperatorAction::Release);
    assert_eq!(request.by.label, "alice@admin-1");
    assert_eq!(request.by.note, "it hangs");
    assert!(
        state.take_confirmed().is_none(),
        "the request is sent only once"
    );
}

#[test]
fn only_y_confirms_and_escape_cancels_each_step() {
    for keys in [
        &[Key::Escape][..],
        &[Key::Enter, Key::Escape],
        &[Key::Enter, Key::Text('n')],
        &[Key::Text('y'), Key::Enter, Key::Enter, Key::Escape],
        &[Key::Enter, Key::Text('q'), Key::Backspace, Key::Escape],
    ] {
        let mut state = dialog(USUAL, "");
        press(&mut state, keys);
        assert!(state.take_confirmed().is_none(), "{keys:?}");
        assert!(screen(&state).contains("a is unchanged"), "{keys:?}");
        press(&mut state, &[Key::Down]);
        assert_eq!(marked(&state), "b", "{keys:?}");
    }
    let mut state = dialog(USUAL, "q?/");
    assert!(screen(&state).contains("reason (optional): q?/_"));
    assert_eq!(state.press(Key::Interrupt), KeyEffect::Quit);
}

#[test]
fn dialog_opens_on_the_details_page_and_returns_to_it() {
    let mut state = five(USUAL);
    press(&mut state, &[Key::Down, Key::Enter, Key::Text('r')]);
    assert!(screen(&state).contains("reason (optional)"));
    press(&mut state, &[Key::Escape]);
    assert!(screen(&state).contains("b: held"), "{}", screen(&state));
}

#[test]
fn action_that_is_not_held_has_nothing_to_release() {
    let mut state = state(vec![LockRecord::never_held(action("a"))], USUAL);
    typed(&mut state, "r");
    assert!(screen(&state).contains("a is unknown: no process has held it, or it was removed"));
    typed(&mut state, "y");
    assert!(state.take_confirmed().is_none());
}

#[test]
fn reason_has_at_most_1023_bytes() {
    let mut state = dialog(USUAL, &"é".repeat(600));
    press(&mut state, &[Key::Enter, Key::Text('y')]);
    let release = state.take_confirmed().expect("the release is confirmed");
    assert_eq!(release.request.by.note.len(), 1022);
}

#[test]
fn release_page_before_the_reason() {
    assert_snapshot!(screen(&dialog(USUAL, "")));
}

#[test]
fn release_page_with_the_question() {
    let mut state = dialog(USUAL, "it hangs");
    press(&mut state, &[Key::Enter]);
    assert_snapshot!(screen(&state));
}

#[test]
fn wide_release_page() {
    let mut state = dialog(WIDE, "");
    press(&mut state, &[Key::Enter]);
    assert_snapshot!(screen(&state));
}

#[test]
fn narrow_release_page_omits_facts_and_keeps_the_question() {
    let mut state = dialog(NARROW, "it hangs");
    press(&mut state, &[Key::Enter]);
    assert_snapshot!(screen(&state));
}

#[test]
fn release_page_with_hostile_text_and_stale_data() {
    let mut record = held("a", HOSTILE, 5);
    record.lease.holder.note = HOSTILE.to_owned();
    let mut state = state(vec![record], USUAL);
    typed(&mut state, "r\u{202e}x");
    state.set_time(at(1_004));
    assert_snapshot!(screen(&state));
}

#[test]
fn results_of_a_release_are_in_the_footer() {
    let failure = Failure::new(FailureKind::Unknown, format!("lost db: {HOSTILE}"));
    let outcomes = [
        Ok(OperatorResult::Applied { woken: true }),
        Ok(OperatorResult::Applied { woken: false }),
        Ok(OperatorResult::Conflict),
        Err(failure),
    ];
    let mut texts = Vec::new();
    for outcome in outcomes {
        let mut state = confirmed("");
        // The message stays, and neither q nor r has an effect, until the result arrives.
        press(&mut state, &[Key::Text('q'), Key::Text('r')]);
        assert!(screen(&state).contains("releasing a"));
        let release = state.take_confirmed().expect("the release is confirmed");
        state.set_released(&release, outcome);
        let shown = screen(&state);
        let lines: Vec<&str> = shown.lines().skip(21).collect();
        texts.push(lines.join("\n"));
        // The next key brings the keys back.
        press(&mut state, &[Key::Down]);
        assert!(screen(&state).contains("r: release"));
    }
    assert_snapshot!(texts.join("\n\n"));
}
