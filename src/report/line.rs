//! Lines of text in columns, with a style for each cell.
//!
//! Control characters are escaped when a cell is created. The terminal may draw a character, such as an emoji, with a
//! different width than this code expects. Each cell therefore has a fixed column, so that an incorrect width does not
//! shift other cells of a screen.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::escape::printable;
use super::style::{Colors, RESET, Style};

/// Text at a column of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// First column of the text. The leftmost column is 0.
    pub column: usize,
    /// The text, with escaped control characters, cut to the available width.
    pub text: String,
    /// The style of the text.
    pub paint: Style,
}

/// A line of a table or of the screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StyledLine {
    /// The cells from left to right.
    pub cells: Vec<Cell>,
    /// True if this is the selected line.
    pub is_marked: bool,
}

impl StyledLine {
    /// Creates a line with one cell, which begins at column 0.
    #[must_use]
    pub fn of(text: &str, paint: Style) -> Self {
        Self::default().with(0, usize::MAX, text, paint)
    }

    /// Adds a cell with `text` at `column` to the line. The text is cut to `width` columns.
    #[must_use]
    pub fn with(mut self, column: usize, width: usize, text: &str, paint: Style) -> Self {
        let text = fit(&printable(text), width);
        if !text.is_empty() {
            self.cells.push(Cell {
                column,
                text,
                paint,
            });
        }
        self
    }

    /// Returns lines with `text`, which follows this line. The text is wrapped to `width` columns, and each part begins at
    /// `column`.
    #[must_use]
    pub fn paragraph(self, column: usize, width: usize, text: &str, paint: Style) -> Vec<Self> {
        let mut before = self;
        let parts = folded(&printable(text), width.max(1));
        let line =
            |part: &String| std::mem::take(&mut before).with(column, usize::MAX, part, paint);
        parts.iter().map(line).collect()
    }

    /// Adds a cell with `text` that ends at column `columns`. Adds nothing if the cell would touch an existing cell.
    #[must_use]
    pub fn ending(self, columns: usize, text: &str, paint: Style) -> Self {
        let column = columns.saturating_sub(width(&printable(text)));
        match self.end() < column {
            true => self.with(column, usize::MAX, text, paint),
            false => self,
        }
    }

    /// Returns the first column to the right of all cells.
    #[must_use]
    pub fn end(&self) -> usize {
        self.cells.iter().map(Cell::end).max().unwrap_or(0)
    }

    /// Returns the line cut to `columns` columns.
    #[must_use]
    pub fn clipped(mut self, columns: usize) -> Self {
        self.cells.retain(|cell| cell.column < columns);
        for cell in &mut self.cells {
            cell.text = fit(&cell.text, columns - cell.column);
        }
        self
    }

    /// Returns the line for a terminal, with escape sequences if `colors` is [`Colors::Shown`].
    #[must_use]
    pub fn printed(&self, colors: Colors) -> String {
        if colors == Colors::Left {
            return self.text();
        }
        let (mut text, mut end) = (String::new(), 0);
        for cell in &self.cells {
            text.extend(std::iter::repeat_n(' ', cell.column.saturating_sub(end)));
            let sequence = cell.paint.sequence(colors);
            text.push_str(sequence);
            text.push_str(&cell.text);
            if !sequence.is_empty() {
                text.push_str(RESET);
            }
            end = cell.end().max(end);
        }
        text
    }

    /// Returns the line as plain text.
    #[must_use]
    pub fn text(&self) -> String {
        let (mut text, mut end) = (String::new(), 0);
        for cell in &self.cells {
            text.extend(std::iter::repeat_n(' ', cell.column.saturating_sub(end)));
            text.push_str(&cell.text);
            end = cell.end().max(end);
        }
        text
    }
}

impl Cell {
    fn end(&self) -> usize {
        self.column + width(&self.text)
    }
}

/// Returns the width of `text` in columns.
#[must_use]
pub fn width(text: &str) -> usize {
    text.width()
}

/// Returns `text` cut to `width` columns. An ellipsis replaces the removed part.
#[must_use]
pub fn fit(text: &str, width: usize) -> String {
    if self::width(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for character in text.chars() {
        let wider = self::width(&kept) + character.width().unwrap_or(0);
        if wider + 1 > width {
            break;
        }
        kept.push(character);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// Wraps `text` into lines of at most `width` columns, at spaces if possible.
#[must_use]
pub fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for mut word in text.split(' ') {
        if !line.is_empty() && self::width(&line) + 1 + self::width(word) > width {
            lines.push(std::mem::take(&mut line));
        }
        while self::width(word) > width {
            let (now, later) = word.split_at(cut(word, width));
            lines.push(now.to_owned());
            word = later;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// Returns the length in bytes of the longest prefix of `text` that fits into `width` columns. The prefix has at least
/// one character.
fn cut(text: &str, width: usize) -> usize {
    let mut end = 0;
    for (at, character) in text.char_indices() {
        let next = at + character.len_utf8();
        if end > 0 && self::width(&text[..next]) > width {
            break;
        }
        end = next;
    }
    end
}
