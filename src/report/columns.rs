//! The layout of a table: the columns that fit, and their widths.
//!
//! Each column is as wide as its widest cell. If the columns do not fit, cells are cut in the columns that allow
//! cutting. If the columns do not fit at their minimum widths, whole columns are removed, the least important first.

use super::escape::printable;
use super::line::{StyledLine, width};
use super::style::Style;

/// Number of spaces between two columns.
const GAP: usize = 2;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct TableColumn {
    /// The heading of the column.
    pub heading: &'static str,
    /// Minimum width, in characters, to which the column may be cut.
    pub least: usize,
    /// Rank of the column. The column with the highest rank is the least important and is removed first.
    pub rank: u8,
}

impl TableColumn {
    /// Creates a column that is shown at full width or not at all.
    #[must_use]
    pub const fn whole(heading: &'static str, rank: u8) -> Self {
        Self {
            heading,
            least: usize::MAX,
            rank,
        }
    }

    /// Creates a column that may be cut to `least` characters.
    #[must_use]
    pub const fn cut(heading: &'static str, rank: u8, least: usize) -> Self {
        Self {
            heading,
            least,
            rank,
        }
    }
}

/// The text of a cell and its style.
pub type Painted = (String, Style);

/// The widths of the columns on a screen. The width of a column that is not shown is None.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Widths<const N: usize>([Option<usize>; N]);

impl<const N: usize> Widths<N> {
    /// Divides `room` characters among `columns` according to the cells in `rows`.
    #[must_use]
    pub fn new<'a>(
        columns: &[TableColumn; N],
        rows: impl Iterator<Item = &'a [Painted; N]>,
        room: usize,
    ) -> Self {
        let mut needs = columns.map(|column| width(column.heading));
        for row in rows {
            for (need, (text, _)) in needs.iter_mut().zip(row) {
                *need = width(&printable(text)).max(*need);
            }
        }
        let mut by_rank: Vec<usize> = (0..N).collect();
        by_rank.sort_by_key(|&at| columns[at].rank);
        let least = |at: usize| columns[at].least.min(needs[at]);
        let cost = |shown: &[usize]| -> usize {
            let gaps = shown.len().saturating_sub(1) * GAP;
            shown.iter().map(|&at| least(at)).sum::<usize>() + gaps
        };
        while by_rank.len() > 1 && cost(&by_rank) > room {
            by_rank.pop();
        }
        let mut spare = room.saturating_sub(cost(&by_rank));
        let mut widths = [None; N];
        for &at in &by_rank {
            widths[at] = Some(least(at).min(room));
        }
        // The remaining room goes to the narrowest columns that need more room, so that one long name does not use
        // the room of the other columns.
        while spare > 0
            && let Some(at) = (0..N)
                .filter(|&at| widths[at].is_some_and(|width| width < needs[at]))
                .min_by_key(|&at| widths[at])
        {
            widths[at] = widths[at].map(|width| width + 1);
            spare -= 1;
        }
        Self(widths)
    }

    /// Returns true if the column with this index is shown.
    #[must_use]
    pub const fn shows(&self, column: usize) -> bool {
        self.0[column].is_some()
    }

    /// Returns the line of headings. The first heading begins at `column`.
    #[must_use]
    pub fn headings(&self, columns: &[TableColumn; N], column: usize) -> StyledLine {
        let cells = columns.map(|column| (column.heading.to_owned(), Style::Strong));
        self.line(StyledLine::default(), &cells, column)
    }

    /// Adds the `cells` of a row to `line`. The first cell begins at `column`.
    #[must_use]
    pub fn line(
        &self,
        mut line: StyledLine,
        cells: &[Painted; N],
        mut column: usize,
    ) -> StyledLine {
        for (width, (text, paint)) in self.0.iter().zip(cells) {
            if let Some(width) = width {
                line = line.with(column, *width, text, *paint);
                column += width + GAP;
            }
        }
        line
    }
}
