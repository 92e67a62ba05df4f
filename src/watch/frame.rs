//! What a screen shows at one instant: lines of cells, each at its own column.
//!
//! Every text is made harmless here, when it becomes a cell. Nobody counts on how wide a terminal
//! draws it: each cell is put at its column, so that an emoji which the terminal and we measure
//! differently moves nothing but itself.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::report::escape::printable;

/// Columns and rows of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Characters in a line.
    pub columns: usize,
    /// Lines.
    pub rows: usize,
}

/// What a text is to the reader; the terminal decides how that looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Nothing special.
    Plain,
    /// A heading.
    Strong,
    /// What need not be read.
    Faint,
    /// All is well.
    Good,
    /// Worth a look.
    Doubtful,
    /// Something is wrong.
    Bad,
}

/// A text at its place in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// First column that it takes, from 0.
    pub column: usize,
    /// Harmless, and no wider than there is room for.
    pub text: String,
    /// What it is.
    pub paint: Paint,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// From left to right.
    pub cells: Vec<Cell>,
    /// Whether it is the selected one.
    pub is_marked: bool,
}

impl Line {
    /// A line of one text.
    #[must_use]
    pub fn of(text: &str, paint: Paint) -> Self {
        Self::default().with(0, usize::MAX, text, paint)
    }

    /// With `text` at `column`, at most `width` wide.
    #[must_use]
    pub fn with(mut self, column: usize, width: usize, text: &str, paint: Paint) -> Self {
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

    /// With `text` so that it ends at `columns`, unless something stands there already.
    #[must_use]
    pub fn ending(self, columns: usize, text: &str, paint: Paint) -> Self {
        let column = columns.saturating_sub(width(&printable(text)));
        match self.end() < column {
            true => self.with(column, usize::MAX, text, paint),
            false => self,
        }
    }

    /// The first column that nothing stands in, nor behind it.
    #[must_use]
    pub fn end(&self) -> usize {
        self.cells.iter().map(Cell::end).max().unwrap_or(0)
    }

    /// Cut to what a screen has room for.
    fn clipped(mut self, columns: usize) -> Self {
        self.cells.retain(|cell| cell.column < columns);
        for cell in &mut self.cells {
            cell.text = fit(&cell.text, columns - cell.column);
        }
        self
    }

    /// The line as characters.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for cell in &self.cells {
            let gap = cell.column.saturating_sub(width(&text));
            text.extend(std::iter::repeat_n(' ', gap));
            text.push_str(&cell.text);
        }
        text
    }
}

impl Cell {
    fn end(&self) -> usize {
        self.column + width(&self.text)
    }
}

/// The whole screen: as many lines as it has rows, none wider than its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// How wide the screen is.
    pub columns: usize,
    /// From the top.
    pub lines: Vec<Line>,
}

impl Frame {
    /// `head` at the top, `foot` at the bottom, and in between as much of `body` as there is room for.
    /// On a screen that is too low the body keeps a line, and the head loses its last ones.
    #[must_use]
    pub fn new(size: Size, mut head: Vec<Line>, body: Vec<Line>, foot: Line) -> Self {
        let foot = Some(foot).filter(|_| size.rows > 1);
        let below = foot.iter().len();
        head.truncate(size.rows.saturating_sub(below + 1));
        let mut lines = head;
        lines.extend(body);
        lines.resize_with(size.rows - below, Line::default);
        lines.extend(foot);
        lines.truncate(size.rows);
        Self {
            columns: size.columns,
            lines: lines
                .into_iter()
                .map(|line| line.clipped(size.columns))
                .collect(),
        }
    }

    /// The screen as characters, a line a row.
    #[must_use]
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| line.text() + "\n").collect()
    }
}

/// How many columns `text` takes.
#[must_use]
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text` cut to `width` columns, with an ellipsis for what is lost.
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

/// `text` in lines of at most `width` columns, broken at spaces where there are any.
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

/// How many bytes of `text` fit into `width` columns; at least one character.
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
