//! The grammar of `note`.

use crate::lease::action::Action;

/// The examples in the help text.
const EXAMPLES: &str = "\
dlock note 'copying table 3 of 12'    # in a command that runs under dlock exec\n\
dlock note '10.0.0.7:5432 accepts writes'";

/// Options of `note`.
#[derive(Debug, clap::Args)]
#[command(after_help = super::footer::footer(EXAMPLES), after_long_help = super::footer::long_footer("note", EXAMPLES))]
pub struct NoteArgs {
    /// New note, at most 1023 bytes; an empty text removes the note.
    #[arg(value_name = "TEXT", value_parser = super::value::note)]
    pub text: String,

    /// Name of the lock; under dlock exec, the default is each lock of the current run.
    #[arg(short, long, env = "DLOCK_ACTION", value_name = "NAME")]
    pub action: Action,

    /// Fencing token of the lease; under dlock exec, the default is the token of the current run.
    #[arg(long, env = "DLOCK_TOKEN", value_name = "TOKEN")]
    pub token: u64,
}
