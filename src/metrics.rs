//! The facts of a run that others are told, and their text in Prometheus' format. Pure; [`writer`] puts
//! it into a file.
//!
//! The names are an interface, documented in dlock(7): metrics may be added, none may change.

pub mod writer;

use std::fmt::Write as _;
use std::time::Duration;

use crate::exit::Status;
use crate::lease::Token;
use crate::lease::action::Action;

/// How a run ended, in one word: the label `result`, and what hooks are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The command ended with 0.
    Succeeded,
    /// It ended otherwise, or could not be started.
    Failed,
    /// It ran for longer than it may.
    TimedOut,
    /// The lease was lost or could not be kept, or a success that had to be recorded was not.
    Lost,
    /// Nothing was run: it is done already.
    Done,
    /// Nothing was run: another held it, and time ran out.
    Held,
    /// Nothing was run: a signal ended the waiting.
    Interrupted,
    /// Nothing was run: something is wrong.
    Error,
}

impl Outcome {
    /// All there are, in the order in which they are written.
    pub const ALL: [Self; 8] = [
        Self::Succeeded,
        Self::Failed,
        Self::TimedOut,
        Self::Lost,
        Self::Done,
        Self::Held,
        Self::Interrupted,
        Self::Error,
    ];

    /// The word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed-out",
            Self::Lost => "lost",
            Self::Done => "done",
            Self::Held => "held",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
        }
    }
}

/// A run as it stands, for metrics and hooks.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The lock.
    pub action: Action,
    /// Who we are: the label.
    pub holder: String,
    /// From dlock's start to the grant, or until now.
    pub wait: Duration,
    /// Since the grant.
    pub hold: Duration,
    /// Whether the lease is ours, as far as we know.
    pub held: bool,
    /// The token, once there is one.
    pub token: Option<Token>,
    /// Renewals that succeeded.
    pub renewals: u64,
    /// Renewals that failed.
    pub failures: u64,
    /// How it ended, once that is known.
    pub outcome: Option<Outcome>,
    /// One line about that, for people.
    pub reason: String,
    /// The other who has it, has done it or has taken it; empty if that is nobody.
    pub other: String,
    /// What dlock ends with.
    pub status: Option<Status>,
    /// When it ended, since 1970 by this machine's clock. None before.
    pub ended_at: Option<Duration>,
}

impl Facts {
    /// A run of `action` by `holder` that begins.
    #[must_use]
    pub const fn new(action: Action, holder: String) -> Self {
        Self {
            action,
            holder,
            wait: Duration::ZERO,
            hold: Duration::ZERO,
            held: false,
            token: None,
            renewals: 0,
            failures: 0,
            outcome: None,
            reason: String::new(),
            other: String::new(),
            status: None,
            ended_at: None,
        }
    }

    /// The whole file of metrics.
    #[must_use]
    pub fn text(&self) -> String {
        let mut page = Page {
            action: escaped(self.action.as_str()),
            text: String::new(),
        };
        page.gauge(
            "wait_seconds",
            "Time from the start of dlock to the grant of the lease, or to giving up.",
            seconds(self.wait),
        );
        page.gauge(
            "hold_seconds",
            "Time since the grant of the lease, up to the end of the run.",
            seconds(self.hold),
        );
        page.gauge(
            "held",
            "Whether this dlock has the lease, as far as it knows.",
            u8::from(self.held),
        );
        page.counter(
            "renewals_total",
            "Renewals of the lease that succeeded.",
            self.renewals,
        );
        page.counter(
            "renewal_failures_total",
            "Renewals of the lease that failed and were tried again.",
            self.failures,
        );
        if let Some(token) = self.token {
            page.gauge("token", "Fencing token of the grant.", token);
        }
        if let (Some(outcome), Some(status), Some(at)) = (self.outcome, self.status, self.ended_at)
        {
            let skipped = matches!(outcome, Outcome::Done | Outcome::Held);
            page.gauge(
                "skipped",
                "Whether nothing was run, since it is done already or another held it.",
                u8::from(skipped),
            );
            page.gauge("exit_status", "Status that dlock ended with.", status);
            page.gauge(
                "end_timestamp_seconds",
                "When dlock ended, since 1970 by this machine's clock.",
                seconds(at),
            );
            page.outcome(outcome);
        }
        page.text
    }
}

/// The file as it grows. Writing to a String cannot fail.
struct Page {
    action: String,
    text: String,
}

impl Page {
    fn gauge(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.head(name, help, "gauge");
        let _ = writeln!(
            self.text,
            "dlock_{name}{{action=\"{}\"}} {value}",
            self.action
        );
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "counter");
        let _ = writeln!(
            self.text,
            "dlock_{name}{{action=\"{}\"}} {value}",
            self.action
        );
    }

    /// One sample for each outcome that there may be: an alert on one is not lost with the next.
    fn outcome(&mut self, outcome: Outcome) {
        self.head(
            "result",
            "How the run ended: 1 for what it is, 0 for what it is not.",
            "gauge",
        );
        for each in Outcome::ALL {
            let (word, value) = (each.word(), u8::from(each == outcome));
            let action = &self.action;
            let _ = writeln!(
                self.text,
                "dlock_result{{action=\"{action}\",result=\"{word}\"}} {value}"
            );
        }
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.text, "# HELP dlock_{name} {help}");
        let _ = writeln!(self.text, "# TYPE dlock_{name} {kind}");
    }
}

/// `value` as it stands between the quotes of a label.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('"', "\\\"")
}

/// Microseconds are as fine as the protocol's own times.
fn seconds(duration: Duration) -> String {
    format!("{}.{:06}", duration.as_secs(), duration.subsec_micros())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use openmetrics_parser::prometheus::parse_prometheus;
    use proptest::prelude::*;

    use super::{Facts, Outcome, escaped, seconds};
    use crate::exit::Status;
    use crate::lease::Token;
    use crate::lease::action::Action;

    proptest! {
        #[test]
        fn whatever_the_action_is_called_the_page_says_just_that(
            name in any::<String>(),
            micros in any::<u64>(),
        ) {
            let Ok(action) = name.parse::<Action>() else {
                return Ok(());
            };
            let mut facts = Facts::new(action, String::new());
            facts.hold = Duration::from_micros(micros);
            facts.token = Some(Token(micros));
            facts.outcome = Some(Outcome::Lost);
            facts.status = Some(Status::LOST);
            facts.ended_at = Some(Duration::MAX);
            let page = parse_prometheus(&facts.text()).expect("it is sound");
            prop_assert_eq!(page.families.len(), 10);
            for family in page.families.values() {
                for sample in family.iter_samples() {
                    let labels = sample.get_labelset().expect("it has labels");
                    prop_assert_eq!(labels.get_label_value("action"), Some(name.as_str()));
                }
            }
            prop_assert_eq!(page.families["dlock_result"].iter_samples().count(), 8);
        }
    }

    #[test]
    fn a_label_cannot_end_before_its_end() {
        assert_eq!(escaped("a\"} 1\nb\\"), r#"a\"} 1\nb\\"#);
    }

    #[test]
    fn seconds_have_all_their_zeros() {
        assert_eq!(seconds(Duration::new(12, 34_000)), "12.000034");
    }

    #[test]
    fn before_the_end_nothing_is_said_of_it() {
        let mut facts = Facts::new("init".parse().expect("a name"), String::new());
        facts.outcome = Some(Outcome::Lost);
        facts.status = Some(Status::LOST);
        let text = facts.text();
        assert!(text.contains("dlock_held{action=\"init\"} 0\n"), "{text}");
        for absent in ["result", "skipped", "status", "timestamp", "token"] {
            assert!(!text.contains(absent), "{absent} in {text}");
        }
    }
}
