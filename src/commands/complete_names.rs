//! `dlock complete-names`: prints names of locks for the shell completions.
//!
//! The completions run this subcommand while a user waits for the reaction to a key, so it ends within `LIMIT`. It
//! prints no errors: a user who presses the Tab key has not asked for a diagnosis.

use std::sync::mpsc;
use std::time::Duration;

use crate::cli::complete_names::CompleteNamesArgs;
use crate::config;
use crate::exit::Status;
use crate::lease::action::Action;
use crate::report;
use crate::store::mysql::{Database, worker};

/// Maximum time to find the names. It includes reading the option files, name resolution and the connection. A user
/// accepts 300 ms, and the start of dlock and the work of the shell take part of this time. A shorter limit would find
/// no names on a distant server with TLS, where connecting takes six or seven round trips.
const LIMIT: Duration = Duration::from_millis(250);

/// Maximum number of names. Nobody reads a longer list, and shells become slow.
const MAX_NAMES: u32 = 1000;

/// Prints the names of the locks that begin with the prefix, one on each line. Prints nothing if the names cannot be
/// read in time.
#[must_use]
pub fn run(args: CompleteNamesArgs) -> Status {
    let (sender, receiver) = mpsc::sync_channel(1);
    // The thread is not joined. It may be stuck in the resolver or in a file, and ends with the process.
    let thread = worker::spawn(move || {
        // The send fails only if the limit has passed.
        let _ = sender.send(names(&args));
    });
    if thread.is_ok()
        && let Ok(Some(names)) = receiver.recv_timeout(LIMIT)
    {
        let mut lines = String::new();
        for name in names {
            lines += name.as_str();
            lines.push('\n');
        }
        // A failed write cannot be reported anywhere.
        let _ = report::result(&lines);
    }
    Status::OK
}

/// Reads the names from the server. None if a setting is missing, or if the server cannot be reached or refuses the
/// query.
fn names(args: &CompleteNamesArgs) -> Option<Vec<Action>> {
    let environment = |name: &str| std::env::var_os(name);
    let settings = config::connection_settings(&args.connection()?, environment).ok()?;
    let mut database = Database::new(settings.targets().ok()?, LIMIT, LIMIT);
    database.names(&args.prefix, MAX_NAMES).ok()
}
