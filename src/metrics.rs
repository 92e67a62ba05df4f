//! The facts of a run for the metrics file and the hooks, and the representation of these facts in the Prometheus text
//! format. Pure. [`writer`] writes the metrics file.
//!
//! The metric names are a stable interface, which dlock-operations(7) documents. Metrics may be added, but an existing
//! metric is never changed.

pub mod writer;

use std::fmt::Write as _;
use std::time::Duration;

use strum::{IntoStaticStr, VariantArray};

use crate::exit::Status;
use crate::lease::Token;
use crate::lease::action::Action;

/// The result of a run, for the metrics label `result` and the hook variable `DLOCK_RESULT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum MetricsResult {
    /// The command exited with 0.
    Succeeded,
    /// The command exited with another status, was killed by a signal, or could not be started.
    Failed,
    /// The command ran for longer than `--max-runtime`.
    TimedOut,
    /// The lease was lost or could not be renewed, a required success could not be recorded, or
    /// dlock left a process of the command behind.
    Lost,
    /// No command was run, because a success is already recorded.
    Done,
    /// No command was run, because the action was held or paused until the wait limit expired.
    Held,
    /// No command was run, because a signal ended the wait.
    Interrupted,
    /// No command was run, because an error occurred.
    Error,
}

impl MetricsResult {
    /// All results, in the order in which the metrics file lists them.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Returns the name of the result in the metrics file and in hook variables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The facts of a run, for the metrics file and the hooks.
#[derive(Debug, Clone, Default)]
pub struct RunMetrics {
    /// The names of the locks.
    pub actions: Vec<Action>,
    /// The holder label of this process.
    pub holder: String,
    /// Time from the start of dlock to the grant. Before the grant, the time since the start of
    /// dlock.
    pub wait: Duration,
    /// Time from the grant to the latest update of the facts. Zero before the grant.
    pub hold: Duration,
    /// True if this process holds the leases, as far as this process can determine.
    pub held: bool,
    /// The token of each lease, in the order of the names. Empty before the grant.
    pub tokens: Vec<Token>,
    /// Number of the slot of the first lease. None before the grants.
    pub slot: Option<u32>,
    /// Number of renewals that succeeded.
    pub renewals: u64,
    /// Number of renewals that failed.
    pub failures: u64,
    /// The result of the run. None until the result is known.
    pub outcome: Option<MetricsResult>,
    /// One line that explains the result to users.
    pub reason: String,
    /// Label of the process or operator that caused the result: the holder, the process that has already succeeded, the
    /// process that took over the lease, or the operator that revoked the lease. Empty if the cause is a different one
    /// or is unknown.
    pub other: String,
    /// Time until which the lease stays held for `--min-hold`, as a duration since 1970 by this machine's clock. None
    /// before the release, and if the release has freed the lease.
    pub min_hold_until: Option<Duration>,
    /// Exit status of dlock. None until the status is known.
    pub status: Option<Status>,
    /// Time at which the run ended, as a duration since 1970 by this machine's clock. None before the end of the run.
    pub ended_at: Option<Duration>,
}

/// What the metrics file contains from an earlier run of the same action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierMetrics {
    /// Time of the latest success, as the file contains it. None if there was no success.
    succeeded_at: Option<String>,
}

impl EarlierMetrics {
    /// Reads the content of the metrics file. None if it contains no run of `action`.
    #[must_use]
    pub fn read(text: &str, action: &Action) -> Option<Self> {
        let value = |name: &str| {
            let start = format!("dlock_{name}{{action=\"{}\"}} ", escaped(action.as_str()));
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(&start))
        };
        value("held")?;
        let is_number = |text: &&str| text.parse::<f64>().is_ok();
        let succeeded_at = value(LATEST_SUCCESS).filter(is_number).map(str::to_owned);
        Some(Self { succeeded_at })
    }
}

/// The name of the metric with the time of the latest success.
const LATEST_SUCCESS: &str = "success_timestamp_seconds";

impl RunMetrics {
    /// Creates the facts of a run that has just started: `holder` is about to acquire `actions`.
    #[must_use]
    pub fn new(actions: Vec<Action>, holder: String) -> Self {
        Self {
            actions,
            holder,
            ..Self::default()
        }
    }

    /// Returns true if no command was run because the action has already succeeded, or was held or paused.
    #[must_use]
    pub const fn is_skipped(&self) -> bool {
        matches!(
            self.outcome,
            Some(MetricsResult::Done | MetricsResult::Held)
        )
    }

    /// Returns the content of the metrics file. `earlier` is what the file contains from an earlier run.
    #[must_use]
    pub fn text(&self, earlier: Option<&EarlierMetrics>) -> String {
        let mut metrics = MetricsText {
            actions: self.actions.iter().map(|it| escaped(it.as_str())).collect(),
            text: String::new(),
        };
        metrics.gauge(
            "wait_seconds",
            "Time from the start of dlock to the grant of the lease, or to the end of a failed wait.",
            seconds(self.wait),
        );
        metrics.gauge(
            "hold_seconds",
            "Time since the grant of the lease, up to the end of the run.",
            seconds(self.hold),
        );
        metrics.gauge(
            "held",
            "1 while dlock holds the lease, 0 otherwise.",
            u8::from(self.held),
        );
        metrics.counter(
            "renewals_total",
            "Renewals of the lease that succeeded.",
            self.renewals,
        );
        metrics.counter(
            "renewal_failures_total",
            "Renewals of the lease that failed and were retried.",
            self.failures,
        );
        if !self.tokens.is_empty() {
            metrics.head("token", "Fencing token of the grant.", "gauge");
            for (action, token) in metrics.actions.iter().zip(&self.tokens) {
                let _ = writeln!(metrics.text, "dlock_token{{action=\"{action}\"}} {token}");
            }
        }
        let is_success = self.outcome == Some(MetricsResult::Succeeded);
        let success = match self.ended_at.filter(|_| is_success) {
            Some(ended_at) => Some(seconds(ended_at)),
            None => earlier.and_then(|earlier| earlier.succeeded_at.clone()),
        };
        if let Some(success) = success {
            metrics.gauge(
                LATEST_SUCCESS,
                "Time of the latest success, in seconds since 1970 by this machine's clock.",
                success,
            );
        }
        if let (Some(outcome), Some(status), Some(at)) = (self.outcome, self.status, self.ended_at)
        {
            metrics.gauge(
                "skipped",
                "1 if no command was run because it has already succeeded or another process held the lease.",
                u8::from(self.is_skipped()),
            );
            metrics.gauge("exit_status", "Exit status of dlock.", status);
            metrics.gauge(
                "end_timestamp_seconds",
                "Time at which dlock ended, in seconds since 1970 by this machine's clock.",
                seconds(at),
            );
            metrics.outcome(outcome);
        }
        metrics.text
    }
}

/// The content of the metrics file while it is being built. Each metric has a sample for each lock. Writing to a String
/// cannot fail.
struct MetricsText {
    actions: Vec<String>,
    text: String,
}

impl MetricsText {
    fn gauge(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.metric(name, help, "gauge", value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.metric(name, help, "counter", value);
    }

    fn metric(&mut self, name: &str, help: &str, kind: &str, value: impl std::fmt::Display) {
        self.head(name, help, kind);
        for action in &self.actions {
            let _ = writeln!(self.text, "dlock_{name}{{action=\"{action}\"}} {value}");
        }
    }

    /// Writes one sample for each possible result, so that the time series of a result continues
    /// when the next run has a different result.
    fn outcome(&mut self, outcome: MetricsResult) {
        self.head(
            "result",
            "Result of the run: 1 for the actual result, 0 for all other results.",
            "gauge",
        );
        for action in &self.actions {
            for each in MetricsResult::ALL.iter().copied() {
                let (name, value) = (each.as_str(), u8::from(each == outcome));
                let _ = writeln!(
                    self.text,
                    "dlock_result{{action=\"{action}\",result=\"{name}\"}} {value}"
                );
            }
        }
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.text, "# HELP dlock_{name} {help}");
        let _ = writeln!(self.text, "# TYPE dlock_{name} {kind}");
    }
}

/// Escapes `value` for use between the quotes of a label.
pub(crate) fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('"', "\\\"")
}

/// Formats a duration in seconds with six decimals, because the protocol measures times in
/// microseconds.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{}.{:06}", duration.as_secs(), duration.subsec_micros())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use openmetrics_parser::prometheus::parse_prometheus;
    use proptest::prelude::*;

    use super::{MetricsResult, RunMetrics, escaped, seconds};
    use crate::exit::Status;
    use crate::lease::Token;
    use crate::lease::action::Action;

    proptest! {
        #[test]
        fn every_action_name_round_trips_through_the_metrics(
            name in any::<String>(),
            micros in any::<u64>(),
        ) {
            let Ok(action) = name.parse::<Action>() else {
                return Ok(());
            };
            let mut facts = RunMetrics::new(vec![action], String::new());
            facts.hold = Duration::from_micros(micros);
            facts.tokens = vec![Token(micros)];
            facts.outcome = Some(MetricsResult::Lost);
            facts.status = Some(Status::LOST);
            facts.ended_at = Some(Duration::MAX);
            let metrics = parse_prometheus(&facts.text(None)).expect("valid metrics");
            prop_assert_eq!(metrics.families.len(), 10);
            for family in metrics.families.values() {
                for sample in family.iter_samples() {
                    let labels = sample.get_labelset().expect("the sample has labels");
                    prop_assert_eq!(labels.get_label_value("action"), Some(name.as_str()));
                }
            }
            prop_assert_eq!(metrics.families["dlock_result"].iter_samples().count(), 8);
        }
    }

    #[test]
    fn a_run_with_several_locks_has_each_sample_for_each_lock() {
        let actions = ["api", "web"].map(|name| name.parse().expect("a name"));
        let mut facts = RunMetrics::new(actions.to_vec(), String::new());
        facts.tokens = vec![Token(5), Token(6)];
        facts.outcome = Some(MetricsResult::Succeeded);
        facts.status = Some(Status::OK);
        facts.ended_at = Some(Duration::MAX);
        let text = facts.text(None);
        assert!(text.contains("token{action=\"api\"} 5\ndlock_token{action=\"web\"} 6\n"));
        let metrics = parse_prometheus(&text).expect("valid metrics");
        for (name, family) in &metrics.families {
            let samples = if name == "dlock_result" { 16 } else { 2 };
            assert_eq!(family.iter_samples().count(), samples, "{name}");
        }
    }

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(escaped("a\"} 1\nb\\"), r#"a\"} 1\nb\\"#);
    }

    #[test]
    fn microseconds_keep_leading_zeros() {
        assert_eq!(seconds(Duration::new(12, 34_000)), "12.000034");
    }

    #[test]
    fn result_is_not_written_before_the_run_has_ended() {
        let mut facts = RunMetrics::new(
            vec!["init".parse().expect("a valid action name")],
            String::new(),
        );
        facts.outcome = Some(MetricsResult::Lost);
        facts.status = Some(Status::LOST);
        let text = facts.text(None);
        assert!(text.contains("dlock_held{action=\"init\"} 0\n"), "{text}");
        for absent in ["result", "skipped", "status", "timestamp", "token"] {
            assert!(!text.contains(absent), "{absent} in {text}");
        }
    }
}
