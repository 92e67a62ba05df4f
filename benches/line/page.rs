//! The page, as Markdown.

use std::fmt::{Display, Write};

/// What has been written so far.
pub(crate) struct Page {
    text: String,
}

impl Page {
    pub(crate) fn new(title: &str) -> Self {
        Self {
            text: format!("# {title}\n\n"),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Begins a section with a paragraph that says what was done.
    pub(crate) fn section(&mut self, title: &str, what: &str) {
        self.line(&format_args!("\n## {title}\n\n{what}\n"));
    }

    /// One item of a list.
    pub(crate) fn item(&mut self, text: impl Display) {
        self.line(&format_args!("- {text}"));
    }

    /// Writes a whole table; the first column is text, the others are numbers.
    pub(crate) fn table(&mut self, head: &[&str], rows: &[Vec<String>]) {
        self.line(&format_args!("| {} |", head.join(" | ")));
        let rest = " ---: |".repeat(head.len() - 1);
        self.line(&format_args!("| --- |{rest}"));
        for row in rows {
            self.line(&format_args!("| {} |", row.join(" | ")));
        }
        self.line(&"");
    }

    fn line(&mut self, line: &dyn Display) {
        writeln!(self.text, "{line}").expect("a String takes all");
    }
}

/// Whether a target was reached, in words.
pub(crate) fn verdict(met: bool) -> &'static str {
    match met {
        true => "met",
        false => "**missed**",
    }
}
