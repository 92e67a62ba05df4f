//! The command-line grammar: options with their environment variables, defaults and help texts. It does no I/O and does
//! not decide what an option does.
//!
//! A test renders `man/*.1` and `completions/` from this module, so users read its doc comments. No default depends on
//! the machine.

// Doc comments on options and subcommands are help texts, so they are plain text without Markdown.
#![allow(clippy::doc_markdown, rustdoc::broken_intra_doc_links)]

pub mod check;
pub mod complete_names;
pub mod connection;
pub mod copy_to;
pub mod doctor;
pub mod environment;
pub mod exec;
pub mod explain;
mod footer;
pub mod forget;
pub mod help;
pub mod history;
pub mod hold;
pub mod leader;
pub mod list;
pub mod name;
pub mod note;
pub mod observe;
pub mod once;
pub mod parse;
pub mod prune;
pub mod release;
pub mod run;
#[cfg(feature = "serve")]
pub mod serve;
pub mod setup;
pub mod status;
pub mod table;
pub mod value;
pub mod wait;
pub mod watch;
pub mod words;

use clap::{Args, CommandFactory, Parser, Subcommand};

use self::check::CheckArgs;
use self::complete_names::CompleteNamesArgs;
use self::connection::ConnectionArgs;
use self::copy_to::CopyToArgs;
use self::doctor::DoctorArgs;
use self::exec::ExecArgs;
use self::explain::ExplainArgs;
use self::footer::SEE_ALSO;
use self::forget::ForgetArgs;
use self::help::{HelpArgs, VersionArgs};
use self::history::HistoryArgs;
use self::hold::HoldArgs;
use self::leader::LeaderArgs;
use self::list::ListArgs;
use self::note::NoteArgs;
use self::prune::PruneArgs;
use self::release::ReleaseArgs;
#[cfg(feature = "serve")]
use self::serve::ServeArgs;
use self::setup::SetupArgs;
use self::status::StatusArgs;
use self::wait::WaitArgs;
use crate::exit;

/// Run a command on one machine at a time, with a lease in your MySQL or MariaDB database.
#[derive(Debug, Parser)]
#[command(name = "dlock", version, about, long_about = None, max_term_width = 100)]
#[command(after_help = SEE_ALSO, after_long_help = footer::all_statuses())]
#[command(propagate_version = true, disable_help_subcommand = true)]
#[command(args_override_self = true)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,

    /// Options of all subcommands.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Options of all subcommands.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// Print only the reason if dlock fails; overrides --verbose.
    #[arg(
        short,
        long,
        global = true,
        env = "DLOCK_OPT_QUIET",
        display_order = 100
    )]
    #[arg(value_parser = value::switch)]
    pub quiet: bool,

    /// Print a message for each step.
    #[arg(
        short,
        long,
        global = true,
        env = "DLOCK_OPT_VERBOSE",
        display_order = 100
    )]
    #[arg(value_parser = value::switch)]
    pub verbose: bool,

    /// Format of messages on stderr.
    ///
    /// With json, each message is one JSON object on one line; see dlock-operations(7) for the fields.
    #[arg(long, global = true, env = "DLOCK_OPT_LOG_FORMAT", display_order = 100)]
    #[arg(value_enum, value_name = "FORMAT", default_value_t)]
    pub log_format: Format,

    /// Connection options.
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command while holding the lock.
    Exec(Box<ExecArgs>),
    /// Hold the lock for a program that dlock has not started.
    Hold(Box<HoldArgs>),
    /// Show holders and waiters.
    Status(StatusArgs),
    /// List all locks.
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Wait until a lock is free, or until a run with --once has succeeded.
    Wait(WaitArgs),
    /// Check whether a token is current.
    Check(CheckArgs),
    /// Print the leader: the holder of a lock.
    Leader(LeaderArgs),
    /// Change the note of the run under which this command runs.
    Note(NoteArgs),
    /// Show the most recent runs and their outcomes.
    History(HistoryArgs),
    /// Delete the recorded success of exec --once.
    Forget(ForgetArgs),
    /// Revoke a lease, or pause or resume a lock.
    Release(ReleaseArgs),
    /// Remove locks that nobody has used for a long time.
    Prune(PruneArgs),
    /// Explain an exit status, and what to do next.
    Explain(ExplainArgs),
    /// Create or upgrade the tables, or print the SQL statements.
    Setup(SetupArgs),
    /// Serve a page with all locks, and metrics for monitoring.
    #[cfg(feature = "serve")]
    Serve(ServeArgs),
    /// Check the server, the account, the tables and the settings.
    Doctor(DoctorArgs),
    /// Copy this program to a path, for images without a shell.
    CopyTo(CopyToArgs),
    /// Print the versions of the program and the schema.
    Version(VersionArgs),
    /// Print the long help of dlock or of a subcommand.
    Help(HelpArgs),
    /// Print the names of locks that begin with a prefix, for the shell completions.
    #[command(hide = true)]
    CompleteNames(CompleteNamesArgs),
}

/// Returns the command line with the shared options in each subcommand. The help of a subcommand that never connects to a
/// server does not contain the connection options.
#[must_use]
pub fn built() -> clap::Command {
    let mut root = Cli::command();
    root.build();
    root.mut_subcommands(
        |command| match exit::OFFLINE.contains(&command.get_name()) {
            true => command.mut_args(|argument| match argument.get_help_heading() {
                Some("Connection") => argument.hide(true),
                _ => argument,
            }),
            false => command,
        },
    )
}

/// Format of the messages on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// One line of text for each message, for users.
    #[default]
    Text,
    /// One JSON object on one line for each message, for programs.
    Json,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Cli;

    #[test]
    fn clap_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_after_the_command_belong_to_the_command() {
        let args = ["dlock", "exec", "-a", "x", "--", "ls", "-a", "--ttl", "1"];
        let cli = Cli::try_parse_from(args).expect("the command line is valid");
        let super::Command::Exec(exec) = cli.command else {
            panic!("the subcommand is not exec");
        };
        assert_eq!(exec.command, ["ls", "-a", "--ttl", "1"]);
    }
}
