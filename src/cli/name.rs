//! The names of locks, which subcommands accept as an argument and as an option.

use crate::lease::action::Action;

/// The name of one lock, either as the argument NAME or as the option `--action`.
#[derive(Debug, Clone, clap::Args)]
#[group(required = true, multiple = false)]
pub struct NameArgs {
    /// Name of the lock: 1 to 255 bytes of UTF-8 without control characters.
    #[arg(value_name = "NAME")]
    name: Option<Action>,

    /// Name of the lock, instead of NAME.
    #[arg(short, long, env = "DLOCK_OPT_ACTION", value_name = "NAME")]
    action: Option<Action>,
}

impl NameArgs {
    /// Returns the name.
    ///
    /// # Panics
    /// Panics if neither NAME nor `--action` is set. The parser of the command line rejects this case.
    #[must_use]
    pub fn action(&self) -> &Action {
        let name = self.name.as_ref().or(self.action.as_ref());
        name.expect("the group of NAME and --action is required")
    }
}

/// The names of the locks of `exec`: one as the argument NAME, or each with the option `--action`.
#[derive(Debug, Clone, clap::Args)]
#[group(required = true, multiple = false)]
pub struct NamesArgs {
    /// Name of the lock: 1 to 255 bytes of UTF-8 without control characters.
    #[arg(value_name = "NAME")]
    name: Option<Action>,

    /// Name of the lock, instead of NAME; give the option again for each further lock.
    ///
    /// With several names, the command runs when all locks are held, and is stopped when one of them is lost. dlock always
    /// acquires them in the order of the bytes of the names, so that two dlock processes never wait for each other.
    #[arg(short, long, env = "DLOCK_OPT_ACTION", value_name = "NAME")]
    action: Vec<Action>,
}

impl NamesArgs {
    /// Returns the names as typed.
    #[must_use]
    pub fn actions(&self) -> Vec<Action> {
        self.name.iter().chain(&self.action).cloned().collect()
    }
}
