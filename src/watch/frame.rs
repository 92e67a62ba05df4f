//! The content of the screen at one instant, as lines of cells.

use crate::report::line::StyledLine;

/// Size of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Number of characters in a line.
    pub columns: usize,
    /// Number of lines.
    pub rows: usize,
}

/// The content of the whole screen. The frame has one line per row, and no line is wider than the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Width of the screen.
    pub columns: usize,
    /// The lines from top to bottom.
    pub lines: Vec<StyledLine>,
}

impl Frame {
    /// Creates a frame with `header` at the top, `footer` at the bottom, and the part of `body` that fits between
    /// them. If the screen has too few rows, the last lines of the header are removed, and the body keeps one line.
    #[must_use]
    pub fn new(
        size: Size,
        mut header: Vec<StyledLine>,
        body: Vec<StyledLine>,
        mut footer: Vec<StyledLine>,
    ) -> Self {
        footer.truncate(size.rows.saturating_sub(1));
        let below = footer.len();
        header.truncate(size.rows.saturating_sub(below + 1));
        let mut lines = header;
        lines.extend(body);
        lines.resize_with(size.rows - below, StyledLine::default);
        lines.extend(footer);
        lines.truncate(size.rows);
        Self {
            columns: size.columns,
            lines: lines
                .into_iter()
                .map(|line| line.clipped(size.columns))
                .collect(),
        }
    }

    /// Returns the screen as plain text, with one line per row.
    #[must_use]
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| line.text() + "\n").collect()
    }
}
