//! The layout of tables and of facts: the width, the colours, and whether texts are cut.

use super::columns::{Painted, TableColumn, Widths};
use super::line::StyledLine;
use super::style::{Colors, Style};
use crate::cli::table::TableArgs;
use crate::sys::terminal;

/// The layout of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Width of the output in columns. Tables omit columns and cut texts to fit the width. None shows all columns in
    /// full, with exact times.
    pub width: Option<usize>,
    /// Use of colours.
    pub colors: Colors,
}

impl Layout {
    /// All columns in full, without colours.
    pub const FULL: Self = Self {
        width: None,
        colors: Colors::Left,
    };

    /// Returns the layout for stdout. Only on a terminal, and without `--wide`, does the layout have a width: other
    /// programs that read the output, such as grep, need the full texts.
    #[must_use]
    pub fn for_stdout(args: TableArgs) -> Self {
        let width = terminal::stdout_width();
        let understands_escapes = width.is_some() && !terminal::is_dumb();
        Self {
            width: width.filter(|_| !args.wide),
            colors: Colors::chosen(args.color, understands_escapes),
        }
    }

    /// Returns true if all columns are shown in full.
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.width.is_none()
    }

    /// Divides the width among `columns` according to the cells in `rows`.
    #[must_use]
    pub fn widths<const N: usize>(
        self,
        columns: &[TableColumn; N],
        rows: &[[Painted; N]],
    ) -> Widths<N> {
        Widths::new(columns, rows.iter(), self.width.unwrap_or(usize::MAX))
    }

    /// Formats `rows` as lines of the given widths. In full, a dash replaces each empty cell, so that each line has the
    /// same number of columns for programs.
    #[must_use]
    pub fn rows<const N: usize>(self, widths: &Widths<N>, rows: &[[Painted; N]]) -> String {
        let mut text = String::new();
        for cells in rows {
            let line = match self.is_full() {
                true => widths.line(StyledLine::default(), &cells.clone().map(or_dash), 0),
                false => widths.line(StyledLine::default(), cells, 0),
            };
            text.push_str(&self.line(&line));
        }
        text
    }

    /// Formats a table with a heading and one line per row.
    #[must_use]
    pub fn table<const N: usize>(
        self,
        columns: &[TableColumn; N],
        widths: &Widths<N>,
        rows: &[[Painted; N]],
    ) -> String {
        let heading = self.line(&widths.headings(columns, 0));
        heading + &self.rows(widths, rows)
    }

    /// Formats `line`, including the newline.
    #[must_use]
    pub fn line(self, line: &StyledLine) -> String {
        line.printed(self.colors) + "\n"
    }

    /// Formats `text`, which follows `before` on its first line. If the layout has a width, wraps the text and indents
    /// the other lines to the end of `before`. Includes the newline.
    #[must_use]
    pub fn paragraph(self, before: &StyledLine, indent: usize, text: &str, paint: Style) -> String {
        let room = self
            .width
            .map_or(usize::MAX, |width| width.saturating_sub(indent));
        let lines = before.clone().paragraph(indent, room, text, paint);
        lines.iter().map(|line| self.line(line)).collect()
    }
}

/// Returns a dash in place of an empty cell.
fn or_dash((text, paint): Painted) -> Painted {
    match text.as_str() {
        "" => ("-".to_owned(), Style::Plain),
        _ => (text, paint),
    }
}
