//! The grammar of `history`.

use crate::lease::action::Action;

/// Options of `history`.
#[derive(Debug, clap::Args)]
#[command(after_help = super::MORE, after_long_help = super::more())]
pub struct HistoryArgs {
    /// Only these actions; without any, all.
    #[arg(value_name = "ACTION")]
    pub actions: Vec<Action>,

    /// Only this action; may be given several times.
    #[arg(short, long = "action", value_name = "NAME")]
    pub action: Vec<Action>,

    /// How many runs to show, the last ones.
    #[arg(
        short,
        long,
        env = "DLOCK_OPT_NUMBER",
        value_name = "N",
        default_value_t = 20
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub number: u32,

    /// JSON instead of a table; dlock-history(1) documents its form.
    #[arg(long, env = "DLOCK_OPT_JSON")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub json: bool,
}
