//! The styles of text, and their escape sequences on a terminal.

use crate::cli::table::Color;

/// The meaning of a cell. [`Style::sequence`] defines how each style is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Normal text.
    Plain,
    /// A heading.
    Strong,
    /// Less important text.
    Faint,
    /// A healthy state.
    Good,
    /// A state that deserves attention.
    Doubtful,
    /// A problem.
    Bad,
}

/// Use of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colors {
    /// Text is coloured.
    Shown,
    /// Text is not coloured. The screen of `status --watch` still uses bold, faint and reverse text.
    Left,
}

impl Colors {
    /// Returns the use of colours for the option `--color`. `on_terminal` is true if the output is a terminal that
    /// understands escape sequences.
    #[must_use]
    pub fn chosen(color: Color, on_terminal: bool) -> Self {
        let is_unwanted = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match color {
            Color::Never => Self::Left,
            Color::Auto if !on_terminal || is_unwanted() => Self::Left,
            Color::Always | Color::Auto => Self::Shown,
        }
    }
}

/// The escape sequence that ends each style.
pub const RESET: &str = "\u{1b}[0m";

impl Style {
    /// Returns the escape sequence that begins this style. The sequence is empty for plain text. [`RESET`] ends the
    /// style.
    #[must_use]
    pub const fn sequence(self, colors: Colors) -> &'static str {
        // Only the eight standard colours are used, because users normally configure their terminals so that these
        // colours are readable.
        match (self, colors) {
            (Self::Plain, _) | (Self::Good | Self::Doubtful, Colors::Left) => "",
            (Self::Strong, _) | (Self::Bad, Colors::Left) => "\u{1b}[1m",
            (Self::Faint, _) => "\u{1b}[2m",
            (Self::Good, Colors::Shown) => "\u{1b}[32m",
            (Self::Doubtful, Colors::Shown) => "\u{1b}[33m",
            (Self::Bad, Colors::Shown) => "\u{1b}[31;1m",
        }
    }
}
