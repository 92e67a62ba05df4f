//! The options of the subcommands that print tables.

use clap::ValueEnum;

/// Use of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// Use colours on a terminal, unless NO_COLOR is set and not empty.
    Auto,
    /// Always use colours.
    Always,
    /// Never use colours.
    Never,
}

/// Options of tables.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct TableArgs {
    /// Show all columns in full, also on a terminal that is too narrow for them.
    ///
    /// Without this option, a table on a terminal fits its width: dlock cuts texts and omits columns. If standard
    /// output is not a terminal, dlock always shows all columns in full.
    #[arg(long, env = "DLOCK_OPT_WIDE")]
    #[arg(value_parser = super::value::switch)]
    pub wide: bool,

    /// Use of colours; auto uses colours on a terminal, unless NO_COLOR is set and not empty.
    #[arg(long, env = "DLOCK_OPT_COLOR", value_name = "WHEN", value_enum)]
    #[arg(default_value_t = Color::Auto)]
    pub color: Color,
}
