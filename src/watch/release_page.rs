//! The page of the release dialog: the facts about the action, the effect of the release, and the question.

use super::details::fact_lines;
use super::frame::Frame;
use super::list::{header, text_room};
use super::release_dialog::{DialogStep, ReleaseDialog};
use super::state::ScreenState;
use crate::report::line::StyledLine;
use crate::report::messages::holders;
use crate::report::release::prompt;
use crate::report::status;
use crate::report::style::Style;
use crate::store::LockRecord;
use crate::store::operator::OperatorAction;
use crate::store::session_states::SessionStates;

/// Screen column at which the texts begin.
const INDENT: usize = 2;

/// Renders the page of the dialog: the facts that `dlock release` also shows, the effect, and the question. If the
/// screen has too few rows, facts are omitted.
pub(super) fn frame(state: &ScreenState, dialog: &ReleaseDialog) -> Frame {
    let room = text_room(state).max(1);
    let mut question = question(state, dialog);
    question.drain(..question.len().saturating_sub(room));
    let mut body = facts(state, dialog);
    body.truncate(room - question.len());
    body.extend(question);
    let keys = match dialog.step {
        DialogStep::Reason => "Enter: continue  Ctrl-U: clear  Esc: cancel",
        DialogStep::Confirmation => "y: release  n, Esc: cancel",
    };
    let footer = StyledLine::of(keys, Style::Faint);
    Frame::new(state.size, header(state), body, vec![footer])
}

fn facts(state: &ScreenState, dialog: &ReleaseDialog) -> Vec<StyledLine> {
    let mut lines = vec![StyledLine::default()];
    // The ages are current as long as the action has the same token.
    let shown = &dialog.record;
    let latest = state.latest.record(&shown.action);
    let latest = latest.filter(|latest| is_unchanged(latest, shown));
    let record = latest.unwrap_or(shown);
    let facts = status::facts(record, &SessionStates::NotQueried);
    for (name, text) in state.without_remaining_time(record, facts) {
        lines.extend(fact_lines(state, name, &text, Style::Plain));
    }
    lines
}

fn question(state: &ScreenState, dialog: &ReleaseDialog) -> Vec<StyledLine> {
    let ReleaseDialog { record, reason, .. } = dialog;
    let room = state.size.columns.saturating_sub(INDENT);
    let mut lines = vec![StyledLine::default()];
    let mut add = |text: &str, style| {
        lines.extend(StyledLine::default().paragraph(INDENT, room, text, style));
    };
    let effect = format!(
        "{} revokes {}. {} The reason and the name of the operator are shown to the holders and the waiters.",
        state.operator.label,
        leases(record),
        match record.slots.len() {
            0 | 1 => "The holder stops its command.",
            _ => "The holders stop their commands.",
        }
    );
    add(&effect, Style::Plain);
    let latest = state.latest.record(&record.action);
    if latest.is_none_or(|latest| !is_unchanged(latest, record)) {
        let changed = "The action has changed since then: nothing will be done.";
        add(changed, Style::Bad);
    }
    match dialog.step {
        DialogStep::Reason => add(&format!("reason (optional): {reason}_"), Style::Strong),
        DialogStep::Confirmation => {
            let reason = if reason.is_empty() { "none" } else { reason };
            add(&format!("reason: {reason}"), Style::Plain);
            let question = prompt(record, OperatorAction::Release);
            add(&format!("{question} [y/N]"), Style::Strong);
        }
    }
    lines
}

/// Returns true if the leases in `latest` are those in `shown`.
fn is_unchanged(latest: &LockRecord, shown: &LockRecord) -> bool {
    match shown.slots.is_empty() {
        true => latest.lease.version.token == shown.lease.version.token,
        false => latest.slot_tokens() == shown.slot_tokens(),
    }
}

/// Names the leases in `record`.
fn leases(record: &LockRecord) -> String {
    let lease = record.main_lease();
    match record.slots.len() {
        0 | 1 => format!(
            "the lease of {} with token {}",
            lease.holder.label, lease.version.token
        ),
        _ => format!("the leases of {}", holders(record)),
    }
}
