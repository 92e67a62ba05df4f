//! The page, as Markdown: on standard output and in a file, section by section.

use std::fmt::{Display, Write};
use std::fs;
use std::path::PathBuf;

/// What has been written so far.
pub(crate) struct Page {
    file: PathBuf,
    text: String,
    /// How much of it has been published.
    published: usize,
}

impl Page {
    pub(crate) fn new(title: &str, file: PathBuf) -> Self {
        Self {
            file,
            text: format!("# {title}\n\n"),
            published: 0,
        }
    }

    /// Makes public what has been written, so that a section that fails does not take the others with it.
    pub(crate) fn publish(&mut self) {
        print!("{}", &self.text[self.published..]);
        self.published = self.text.len();
        fs::write(&self.file, &self.text).expect("the target folder takes a file");
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
