//! Tests of the screen without a terminal: the effect of each key, and the content of screens of several sizes.

mod release;
mod scene;
mod screens;
mod stale;

use std::time::Duration;

use proptest::prelude::*;

use self::scene::*;
use super::frame::Size;
use super::key::Key;
use super::state::{KeyEffect, Page, ScreenState};
use crate::lease::Token;
use crate::locks::selection::ActionSelection;
use crate::report::columns::{TableColumn, Widths};
use crate::report::escape::printable;
use crate::report::line::{StyledLine, width};
use crate::report::style::Style;
use crate::store::{HistoryEntry, HistoryOutcome, LastRun, Renewed};

#[test]
fn snapshot_is_in_natural_order_and_contains_unknown_names() {
    let named = ["job-10", "unknown", "job-2"].map(action);
    let mut snapshot = snapshot(vec![held("job-10", "a", 1), held("job-2", "b", 1)], vec![]);
    ActionSelection::new(named, false).complete(&mut snapshot.snapshot);
    let locks = snapshot.snapshot.locks.iter();
    let shown: Vec<_> = locks
        .map(|lock| (lock.action.as_str(), lock.is_known))
        .collect();
    assert_eq!(
        shown,
        [("job-2", true), ("job-10", true), ("unknown", false)]
    );
}

#[test]
fn arrow_letter_and_page_keys_select_an_action() {
    let mut state = five(LOW);
    assert_eq!(marked(&state), "a");
    for (key, selected) in [
        (Key::Up, "a"),
        (Key::Down, "b"),
        (Key::Text('j'), "c"),
        (Key::Text('k'), "b"),
        (Key::PageDown, "e"),
        (Key::Down, "e"),
        (Key::PageUp, "b"),
        (Key::End, "e"),
        (Key::Home, "a"),
        (Key::Text('G'), "e"),
        (Key::Text('g'), "a"),
    ] {
        press(&mut state, &[key]);
        assert_eq!(marked(&state), selected, "{key:?}");
    }
}

#[test]
fn selection_stays_with_its_action() {
    let mut state = five(LOW);
    press(&mut state, &[Key::Down, Key::Down]);
    let others = ["0", "1", "2", "c", "x"].map(|name| held(name, "web-9/1", 5));
    state.set_snapshot(snapshot(others.to_vec(), Vec::new()));
    assert_eq!(marked(&state), "c");
    // When the selected action disappears, the next action is selected.
    state.set_snapshot(snapshot(
        vec![held("0", "", 1), held("x", "", 1)],
        Vec::new(),
    ));
    assert_eq!(marked(&state), "x");
    state.set_snapshot(snapshot(Vec::new(), Vec::new()));
    assert!(
        screen(&state).contains("nothing is held"),
        "{}",
        screen(&state)
    );
    press(&mut state, &[Key::Down, Key::End, Key::Enter, Key::PageUp]);
    state.set_snapshot(snapshot(vec![held("y", "", 1)], Vec::new()));
    assert_eq!(marked(&state), "y");
}

#[test]
fn filter_matches_action_holder_and_host() {
    let mut state = five(USUAL);
    typed(&mut state, "/WEB-50");
    assert_eq!(marked(&state), "c");
    assert!(!screen(&state).contains("web-30"), "{}", screen(&state));
    // While the user types the filter, letters are not commands.
    assert!(screen(&state).contains("/WEB-50_"));
    press(&mut state, &[Key::Enter]);
    assert!(screen(&state).contains("1 matching \"WEB-50\""));
    press(&mut state, &[Key::Escape]);
    assert!(screen(&state).contains("web-30"));
    typed(&mut state, "/zzz");
    assert!(screen(&state).contains("no action, holder or host matches"));
    press(&mut state, &[Key::Erase, Key::Backspace]);
    assert_eq!(
        marked(&state),
        "c",
        "clearing the filter keeps the selection"
    );
    typed(&mut state, "j");
    assert_eq!(marked(&state), "d");
}

#[test]
fn s_cycles_through_the_sort_orders() {
    let first = |state: &mut ScreenState| {
        press(state, &[Key::Text('s'), Key::Home]);
        marked(state)
    };
    let mut state = five(USUAL);
    let mut locks = state.latest.snapshot.locks.clone();
    locks[3].lease.renewed = Renewed::Ago(Duration::from_secs(12));
    state.set_snapshot(snapshot(locks, vec![waiter("b", "web-2/1")]));
    assert_eq!(first(&mut state), "d");
    assert!(screen(&state).contains("sorted by diagnosis"));
    assert_eq!(first(&mut state), "c");
    assert!(screen(&state).contains("sorted by time held"));
    assert_eq!(first(&mut state), "b");
    // By name, but the action with a problem comes first.
    assert_eq!(first(&mut state), "d");
    typed(&mut state, "j");
    assert_eq!(marked(&state), "a");
}

#[test]
fn enter_opens_an_action_with_its_queue_and_history() {
    let mut state = five(USUAL);
    assert_eq!(state.history_request(), None);
    press(&mut state, &[Key::Down, Key::Enter]);
    assert_eq!(state.history_request(), Some(&action("b")));
    state.set_history(&action("b"), vec![entry("b", 16)]);
    assert_eq!(state.history_request(), None);
    let text = screen(&state);
    // The history of another action is not shown.
    state.set_history(&action("c"), vec![entry("c", 99), entry("c", 98)]);
    assert_eq!(screen(&state), text);
    for back in [Key::Escape, Key::Backspace, Key::Text('q')] {
        press(&mut state, &[back]);
        assert_eq!(marked(&state), "b");
        press(&mut state, &[Key::Enter]);
    }
}

#[test]
fn history_is_requested_again_when_a_run_has_ended() {
    let mut state = five(USUAL);
    press(&mut state, &[Key::Enter]);
    state.set_history(&action("a"), vec![entry("a", 16)]);
    state.set_snapshot(snapshot(vec![held("a", "web-30/1", 31)], Vec::new()));
    assert_eq!(state.history_request(), None);
    let mut next = held("a", "web-31/1", 1);
    next.last = Some(LastRun {
        token: Token(17),
        outcome: HistoryOutcome::Exited(0),
        dlock_status: None,
        ago: Duration::from_secs(1),
    });
    state.set_snapshot(snapshot(vec![next], Vec::new()));
    assert_eq!(state.history_request(), Some(&action("a")));
    assert!(
        screen(&state).contains("exit 0"),
        "the old history is still shown"
    );
    // The action is no longer held, so the response does not contain it.
    state.set_history(&action("a"), vec![entry("a", 17)]);
    state.set_snapshot(snapshot(Vec::new(), Vec::new()));
    assert_eq!(state.history_request(), Some(&action("a")));
    assert!(screen(&state).contains("free, no waiters"));
}

#[test]
fn details_scroll_to_their_last_line() {
    let mut state = five(LOW);
    press(&mut state, &[Key::Enter]);
    let entries: Vec<HistoryEntry> = (1..=30).map(|token| entry("a", token)).collect();
    state.set_history(&action("a"), entries);
    assert!(!screen(&state).contains(" 30 "));
    press(&mut state, &[Key::End]);
    let last = screen(&state);
    assert!(last.contains("1m"), "{last}");
    assert!(last.trim_end().ends_with("end"), "{last}");
    press(&mut state, &[Key::PageDown, Key::Down]);
    assert_eq!(screen(&state), last);
    press(&mut state, &[Key::Home]);
    assert!(screen(&state).contains("a: held"));
    // On a larger screen, the page scrolls back until the screen is full.
    press(&mut state, &[Key::End]);
    state.resize(Size {
        columns: 80,
        rows: 100,
    });
    assert!(screen(&state).contains("a: held"));
}

#[test]
fn q_quits_only_the_list_and_ctrl_c_quits_every_page() {
    let mut state = five(USUAL);
    typed(&mut state, "?");
    assert!(matches!(state.page, Page::Help));
    press(&mut state, &[Key::Text('q'), Key::Enter, Key::Text('q')]);
    typed(&mut state, "/q");
    press(&mut state, &[Key::Escape]);
    assert_eq!(state.press(Key::Text('q')), KeyEffect::Quit);
    for page in ["?", "/", "\n"] {
        let mut state = five(USUAL);
        match page {
            "\n" => press(&mut state, &[Key::Enter]),
            text => typed(&mut state, text),
        }
        assert_eq!(state.press(Key::Suspend), KeyEffect::Suspend);
        assert_eq!(state.press(Key::Redraw), KeyEffect::Redraw);
        assert_eq!(state.press(Key::Interrupt), KeyEffect::Quit);
    }
}

#[test]
fn selected_action_stays_visible_until_requests_succeed_again() {
    let mut state = five(LOW);
    press(&mut state, &[Key::End]);
    state.set_failure("cannot reach db: refused".to_owned());
    let text = screen(&state);
    assert!(
        text.contains("no response") && text.contains("> e "),
        "{text}"
    );
    state.set_snapshot(snapshot(vec![held("e", "", 1)], Vec::new()));
    assert!(!screen(&state).contains("no response"));
}

#[test]
fn columns_shrink_and_are_then_removed_by_rank() {
    let columns = [
        TableColumn::cut("ONE", 0, 4),
        TableColumn::whole("TWO", 1),
        TableColumn::cut("THREE", 2, 5),
    ];
    let row = ["a".repeat(50), "22".to_owned(), "c".repeat(20)];
    let row = row.map(|text| (text, Style::Plain));
    let text = |room| {
        let widths = Widths::new(&columns, std::iter::once(&row), room);
        widths.line(StyledLine::default(), &row, 0).text()
    };
    assert_eq!(text(100), format!("{}  22   {}", row[0].0, row[2].0));
    assert_eq!(text(28), "aaaaaaaaaa…  22   ccccccccc…");
    assert_eq!(text(16), "aaa…  22   cccc…");
    assert_eq!(text(15), "aaaaaaaaa…  22");
    assert_eq!(text(8), "aaaaaaa…");
}

/// Generates strings of any characters. The default generator of `String` omits control characters.
fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(any::<char>(), 0..20).prop_map(String::from_iter)
}

proptest! {
    #[test]
    fn the_screen_is_valid_for_any_label_size_and_keys(
        labels in prop::collection::vec(text(), 0..6),
        columns in 1_usize..100,
        rows in 1_usize..30,
        keys in prop::collection::vec(0_usize..18, 0..12),
        why in text(),
        seconds in 1_000_u64..1_010,
    ) {
        let records = labels.iter().enumerate().map(|(at, label)| {
            let mut record = held(&format!("action-{at}"), label, at as u64);
            record.lease.holder.note.clone_from(label);
            record.lease.holder.host.clone_from(label);
            record
        });
        let mut state = state(records.collect(), Size { columns, rows });
        let all = [
            Key::Up, Key::Down, Key::PageUp, Key::PageDown, Key::Home, Key::End, Key::Enter,
            Key::Escape, Key::Backspace, Key::Text('/'), Key::Text('e'), Key::Text('s'),
            Key::Text('?'), Key::Erase, Key::Text('日'), Key::Down,
            Key::Text('r'), Key::Text('y'),
        ];
        for key in keys {
            state.press(all[key]);
        }
        state.set_history(&action("action-0"), vec![entry("action-0", 1)]);
        if !why.is_empty() {
            state.set_failure(why);
        }
        state.set_time(at(seconds));
        let frame = state.frame();
        prop_assert_eq!(frame.lines.len(), rows);
        for line in &frame.lines {
            let text = line.text();
            prop_assert_eq!(printable(&text), text.as_str());
            for cell in &line.cells {
                prop_assert!(cell.column + width(&cell.text) <= columns, "{}", text);
            }
        }
    }
}
