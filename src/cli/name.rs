//! The name of one lock, which several subcommands accept as an argument and as an option.

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
