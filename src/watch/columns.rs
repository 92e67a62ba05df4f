//! A table on a screen: which columns there is room for, and how wide they are.
//!
//! Columns take what their texts need. When that is more than there is, those that can be cut are;
//! when they are cut to the least, whole columns go, the least important first.

use super::frame::{Line, Paint, width};
use crate::report::escape::printable;

/// Space between two columns.
const GAP: usize = 2;

/// One column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// What stands above it.
    pub heading: &'static str,
    /// To how many characters it may be cut.
    pub least: usize,
    /// The column with the highest rank goes first.
    pub rank: u8,
}

impl Column {
    /// A column that is shown whole or not at all.
    #[must_use]
    pub const fn whole(heading: &'static str, rank: u8) -> Self {
        Self {
            heading,
            least: usize::MAX,
            rank,
        }
    }

    /// A column that may be cut to `least` characters.
    #[must_use]
    pub const fn cut(heading: &'static str, rank: u8, least: usize) -> Self {
        Self {
            heading,
            least,
            rank,
        }
    }
}

/// A text and what it is.
pub type Painted = (String, Paint);

/// The widths of the columns on a screen; none for one that there is no room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Widths<const N: usize>([Option<usize>; N]);

impl<const N: usize> Widths<N> {
    /// Divides `room` among `columns` by what `rows` need.
    #[must_use]
    pub fn new<'a>(
        columns: &[Column; N],
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
        // What is left goes to the narrowest of those that need more, so that one long name does not
        // leave the others without.
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

    /// The line of headings, from `column` on.
    #[must_use]
    pub fn headings(&self, columns: &[Column; N], column: usize) -> Line {
        let cells = columns.map(|column| (column.heading.to_owned(), Paint::Strong));
        self.line(Line::default(), &cells, column)
    }

    /// `line` with the `cells` of a row, from `column` on.
    #[must_use]
    pub fn line(&self, mut line: Line, cells: &[Painted; N], mut column: usize) -> Line {
        for (width, (text, paint)) in self.0.iter().zip(cells) {
            if let Some(width) = width {
                line = line.with(column, *width, text, *paint);
                column += width + GAP;
            }
        }
        line
    }
}
