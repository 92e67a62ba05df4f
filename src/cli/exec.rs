//! The grammar of `exec`.

use std::ffi::OsString;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

use super::once::OnceArgs;
use super::run::RunArgs;

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

    /// Options of every run.
    #[command(flatten)]
    pub run: RunArgs,

    /// Options that skip a run or hold the lock after it.
    #[command(flatten)]
    pub once: OnceArgs,

    /// Time between the stop signal and SIGKILL when dlock stops the command [default: a sixth of the ttl, at most 10s].
    #[arg(long, env = "DLOCK_OPT_GRACE", value_name = "DURATION")]
    #[arg(value_parser = humantime::parse_duration)]
    #[arg(help_heading = "Limits")]
    pub grace: Option<Duration>,

    /// Keep the connection variables, such as DLOCK_URL, from the command.
    ///
    /// This applies to the variables of all options below Connection and to DLOCK_PASSWORD. Hooks do not get these
    /// variables either. A dlock that the command runs needs its own connection settings, for example a configuration
    /// file.
    #[arg(long, env = "DLOCK_OPT_HIDE_CREDENTIALS")]
    #[arg(value_parser = super::value::switch)]
    #[arg(help_heading = "Connection")]
    pub hide_credentials: bool,

    /// Store only the name of the command in the tables, not its arguments.
    ///
    /// dlock always replaces values that look like secrets, such as --password=… and passwords in URLs. It stores no
    /// arguments with --history=0.
    #[arg(long, env = "DLOCK_OPT_HIDE_ARGS")]
    #[arg(value_parser = super::value::switch)]
    #[arg(help_heading = "Observing")]
    pub hide_args: bool,

    /// The command and its arguments, always after --.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    #[arg(value_hint = clap::ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

impl ExecArgs {
    /// Notes which options in `matches` are given on the command line or by a variable.
    pub fn note_given(&mut self, matches: &ArgMatches) {
        let is_default = |source| source == ValueSource::DefaultValue;
        let is_given = |id| matches.value_source(id).is_some_and(|it| !is_default(it));
        let given = UNKEPT_INSIDE.into_iter().filter(|(id, _)| is_given(id));
        self.unkept_inside = given.map(|(_, name)| name).collect();
    }
}
