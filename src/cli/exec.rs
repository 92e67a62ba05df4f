//! The grammar of `exec`.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

use super::name::NamesArgs;
use super::observe::ObserveArgs;
use super::once::OnceArgs;
use super::value::{Wait, label, note, positive_duration};
use crate::exit;
use crate::lease::limit::Limit;
use crate::store::session::SessionPolicy;
use crate::sys::stop_signal;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock exec init -- ./migrate.sh\n\
dlock exec report --nonblock -- ./report.sh      # skip if it runs\n\
dlock exec reboot --slots 2 -- ./reboot.sh       # at most 2 hosts at a time\n\
dlock exec init --once=v42 -- ./migrate.sh       # once for each release\n\
dlock exec report --once-per 1h -- ./report.sh   # cron on several hosts";

/// Options that an inner dlock cannot keep under the lease of an outer one, as ids of arguments.
const UNKEPT_INSIDE: [(&str, &str); 5] = [
    ("once", "--once"),
    ("once_per", "--once-per"),
    ("min_hold", "--min-hold"),
    ("max_runtime", "--max-runtime"),
    ("fence", "--fence"),
];

/// Options of `exec`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each of them is a separate option"
)]
#[command(
    override_usage = "dlock exec [OPTIONS] <NAME> -- <COMMAND> [ARG]...",
    after_help = super::footer::footer(EXAMPLES),
    after_long_help = super::footer::long_footer("exec", EXAMPLES)
)]
pub struct ExecArgs {
    /// The options in `UNKEPT_INSIDE` that are given. None of them is meant for an outer dlock, because `exec` removes the
    /// variables of options from the environment of its command.
    #[arg(skip)]
    pub unkept_inside: Vec<&'static str>,

    /// Names of the locks.
    #[command(flatten)]
    pub names: NamesArgs,

    /// Length of the lease.
    ///
    /// dlock renews the lease while the command runs. If the holder crashes, other contenders wait for
    /// about this long.
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
    /// The time is measured from the server's first response.
    #[arg(short, long, env = "DLOCK_OPT_WAIT", value_name = "DURATION|forever")]
    #[arg(default_value = "forever")]
    #[arg(help_heading = "Waiting")]
    pub wait: Wait,

    /// Do not wait for the lock; overrides --wait.
    #[arg(short, long, env = "DLOCK_OPT_NONBLOCK")]
    #[arg(value_parser = super::value::switch)]
    #[arg(help_heading = "Waiting")]
    pub nonblock: bool,

    /// Exit status if the lock was held or paused until the waiting time ran out.
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

    /// Options that skip a run or hold the lock after it.
    #[command(flatten)]
    pub once: OnceArgs,

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

    /// Time between the stop signal and SIGKILL when dlock stops the command [default: a sixth of the ttl, at most 10s].
    #[arg(long, env = "DLOCK_OPT_GRACE", value_name = "DURATION")]
    #[arg(value_parser = humantime::parse_duration)]
    #[arg(help_heading = "Limits")]
    pub grace: Option<Duration>,

    /// First signal when dlock stops the command and its descendants.
    ///
    /// SIGNAL is a name or a number. SIGKILL follows after the grace period. Signals that dlock receives are forwarded unchanged.
    #[arg(
        long,
        env = "DLOCK_OPT_STOP_SIGNAL",
        value_name = "SIGNAL",
        default_value = "TERM"
    )]
    #[arg(value_parser = stop_signal::parse)]
    #[arg(help_heading = "Limits")]
    pub stop_signal: i32,

    /// Maximum runtime; a longer run is stopped, and dlock exits with 124.
    #[arg(long, env = "DLOCK_OPT_MAX_RUNTIME", value_name = "DURATION")]
    #[arg(value_parser = positive_duration)]
    #[arg(help_heading = "Limits")]
    pub max_runtime: Option<Duration>,

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

    /// File that the command must change regularly to keep the lease.
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

    /// Let up to N commands hold the lock at once, this one included.
    ///
    /// Each holder gets the smallest free slot, whose number is in DLOCK_SLOT. If the holders use different numbers, the
    /// smallest one counts. A dlock without this option waits until all slots are free.
    #[arg(long, env = "DLOCK_OPT_SLOTS", value_name = "N", conflicts_with_all = ["shared", "fence"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[arg(help_heading = "Lock")]
    pub slots: Option<u32>,

    /// Hold the lock together with any number of others that use --shared.
    ///
    /// A dlock without this option waits until nobody holds the lock.
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

    /// Keep the connection variables, such as DLOCK_URL, from the command.
    ///
    /// This applies to the variables of all options below Connection and to DLOCK_PASSWORD. Hooks do not get these
    /// variables either. A dlock that the command runs needs its own connection settings, for example a configuration
    /// file.
    #[arg(long, env = "DLOCK_OPT_HIDE_CREDENTIALS")]
    #[arg(value_parser = super::value::switch)]
    #[arg(help_heading = "Connection")]
    pub hide_credentials: bool,

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

    /// Store only the name of the command in the tables, not its arguments.
    ///
    /// dlock always replaces values that look like secrets, such as --password=… and passwords in URLs. It stores no
    /// arguments with --history=0.
    #[arg(long, env = "DLOCK_OPT_HIDE_ARGS")]
    #[arg(value_parser = super::value::switch)]
    #[arg(help_heading = "Observing")]
    pub hide_args: bool,

    /// Options for metrics and hooks.
    #[command(flatten)]
    pub observe: ObserveArgs,

    /// The command and its arguments, always after --.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    #[arg(value_hint = clap::ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

impl ExecArgs {
    /// Returns the limit of the leases.
    #[must_use]
    pub fn limit(&self) -> Limit {
        match self.slots.and_then(NonZeroU32::new) {
            _ if self.shared => Limit::NONE,
            Some(count) => Limit::new(count),
            None => Limit::ONE,
        }
    }

    /// Notes which options in `matches` are given on the command line or by a variable.
    pub fn note_given(&mut self, matches: &ArgMatches) {
        let is_default = |source| source == ValueSource::DefaultValue;
        let is_given = |id| matches.value_source(id).is_some_and(|it| !is_default(it));
        let given = UNKEPT_INSIDE.into_iter().filter(|(id, _)| is_given(id));
        self.unkept_inside = given.map(|(_, name)| name).collect();
    }
}
