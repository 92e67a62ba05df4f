//! The options that `exec` and `hold` have in common.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::name::NamesArgs;
use super::observe::ObserveArgs;
use super::value::{Wait, label, note, positive_duration};
use crate::exit;
use crate::lease::limit::Limit;
use crate::store::session::SessionPolicy;
use crate::sys::stop_signal;

/// Options of a run that holds locks.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Names of the locks.
    #[command(flatten)]
    pub names: NamesArgs,

    /// Length of the lease.
    ///
    /// dlock renews the lease while it is needed. If the holder crashes, other contenders wait for about
    /// this long.
    #[arg(
        short,
        long,
        env = "DLOCK_OPT_TTL",
        value_name = "DURATION",
        default_value = "30s"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    #[arg(help_heading = "Lock")]
    pub ttl: Duration,

    /// Maximum time to wait for the lock; 0 makes one attempt.
    ///
    /// The time is measured from the server's first response. If the network is slow, the take-over of an expired
    /// lease may exceed a short limit, by at most 2 seconds.
    #[arg(short, long, env = "DLOCK_OPT_WAIT", value_name = "DURATION|forever")]
    #[arg(default_value = "forever")]
    #[arg(help_heading = "Waiting")]
    pub wait: Wait,

    /// Do not wait for the lock; overrides --wait.
    #[arg(short, long, env = "DLOCK_OPT_NONBLOCK")]
    #[arg(value_parser = super::value::switch)]
    #[arg(help_heading = "Waiting")]
    pub nonblock: bool,

    /// Exit status if the lock was held or paused until the waiting time ran out, or sessions of an earlier run did not end.
    ///
    /// If N is 0, dlock does not report this case as a failure.
    #[arg(
        short = 'E',
        long,
        env = "DLOCK_OPT_CONFLICT_EXIT_CODE",
        value_name = "N"
    )]
    #[arg(default_value_t = exit::Status::HELD.code())]
    #[arg(help_heading = "Waiting")]
    pub conflict_exit_code: u8,

    /// Maximum time to wait for the server's first response; 0 makes one attempt.
    #[arg(
        long,
        env = "DLOCK_OPT_CONNECT_TIMEOUT",
        value_name = "DURATION",
        default_value = "1m"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    #[arg(help_heading = "Waiting")]
    pub connect_timeout: Duration,

    /// Maximum runtime; a longer run must stop, and dlock exits with 124.
    #[arg(long, env = "DLOCK_OPT_MAX_RUNTIME", value_name = "DURATION")]
    #[arg(value_parser = positive_duration)]
    #[arg(help_heading = "Limits")]
    pub max_runtime: Option<Duration>,

    /// First signal when dlock stops the command, or PID, and all descendants.
    ///
    /// SIGNAL is a name or a number. SIGKILL follows after the grace period. dlock exec forwards the signals that it receives
    /// unchanged.
    #[arg(
        long,
        env = "DLOCK_OPT_STOP_SIGNAL",
        value_name = "SIGNAL",
        default_value = "TERM"
    )]
    #[arg(value_parser = stop_signal::parse)]
    #[arg(help_heading = "Limits")]
    pub stop_signal: i32,

    /// Treatment of sessions that a killed or failed command leaves on the server.
    ///
    /// The server continues the statement of a killed client. With kill, dlock kills the sessions and waits until they
    /// are gone, before another command starts. With wait, dlock only waits until they execute no statement. With
    /// ignore, the next command may start while such a statement is still executed.
    #[arg(
        long,
        env = "DLOCK_OPT_SERVER_SESSIONS",
        value_name = "kill|wait|ignore",
        default_value = "kill",
        hide_possible_values = true
    )]
    #[arg(help_heading = "Limits")]
    pub server_sessions: SessionPolicy,

    /// File that must change regularly to keep the lease.
    #[arg(long, env = "DLOCK_OPT_HEARTBEAT_FILE", value_name = "FILE")]
    #[arg(value_hint = clap::ValueHint::FilePath)]
    #[arg(help_heading = "Limits")]
    pub heartbeat_file: Option<PathBuf>,

    /// Name of this holder, as shown by dlock status [default: HOST/PID].
    #[arg(long, env = "DLOCK_OPT_HOLDER", value_name = "TEXT", value_parser = label)]
    #[arg(help_heading = "Lock")]
    pub holder: Option<String>,

    /// Note in dlock status, for example the reason for the run.
    #[arg(long, env = "DLOCK_OPT_NOTE", value_name = "TEXT", value_parser = note)]
    #[arg(help_heading = "Lock")]
    pub note: Option<String>,

    /// Let up to N holders have the lock at once, including this one.
    ///
    /// Each holder gets the smallest free slot, whose number is in DLOCK_SLOT. If the holders use different numbers, the
    /// smallest one counts. A dlock without this option waits until all slots are free.
    #[arg(long, env = "DLOCK_OPT_SLOTS", value_name = "N", conflicts_with_all = ["shared", "fence"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[arg(help_heading = "Lock")]
    pub slots: Option<u32>,

    /// Hold the lock together with any number of others that use --shared.
    ///
    /// A dlock without this option waits until no other process holds the lock.
    #[arg(long, env = "DLOCK_OPT_SHARED", conflicts_with = "fence")]
    #[arg(value_parser = super::value::switch)]
    #[arg(help_heading = "Lock")]
    pub shared: bool,

    /// Write the token to the action's fence, for dlock check --sql.
    ///
    /// The fence is a row that the command can lock in its own transaction.
    #[arg(long, env = "DLOCK_OPT_FENCE")]
    #[arg(value_parser = super::value::switch)]
    #[arg(help_heading = "Lock")]
    pub fence: bool,

    /// Keep at least the latest N runs in the history; 0 does not record this run.
    #[arg(
        long,
        env = "DLOCK_OPT_HISTORY",
        value_name = "N",
        default_value_t = 100
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    #[arg(help_heading = "Observing")]
    pub history: u32,

    /// Options for metrics and hooks.
    #[command(flatten)]
    pub observe: ObserveArgs,
}

impl RunArgs {
    /// Returns the limit of the leases.
    #[must_use]
    pub fn limit(&self) -> Limit {
        match self.slots.and_then(NonZeroU32::new) {
            _ if self.shared => Limit::NONE,
            Some(count) => Limit::new(count),
            None => Limit::ONE,
        }
    }
}
