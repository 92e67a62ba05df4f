//! Writes the results as Markdown to standard output and to a file, one section at a time.

use std::fmt::{Display, Write};
use std::fs;
use std::path::PathBuf;

pub struct Page {
    file: PathBuf,
    text: String,
    /// Number of bytes of `text` that have been printed.
    published: usize,
}

impl Page {
    /// Starts the page `bench/NAME.md` in the target folder.
    pub fn new(title: &str, name: &str) -> Self {
        let folder = crate::target_tmp().with_file_name("bench");
        fs::create_dir_all(&folder).expect("the target folder is writable");
        Self {
            file: folder.join(format!("{name}.md")),
            text: format!("# {title}\n\n"),
            published: 0,
        }
    }

    /// Prints the new text and writes the file. If a later section fails, the earlier sections are not lost.
    pub fn publish(&mut self) {
        print!("{}", &self.text[self.published..]);
        self.published = self.text.len();
        fs::write(&self.file, &self.text).expect("the page can be written to the target folder");
    }

    /// Begins a section with the paragraph `what`, which describes the measurement.
    pub fn section(&mut self, title: &str, what: &str) {
        self.line(&format_args!("\n## {title}\n\n{what}\n"));
    }

    pub fn item(&mut self, text: impl Display) {
        self.line(&format_args!("- {text}"));
    }

    /// Writes a table. ` | ` separates the titles of the columns. The first column contains text, and the others contain
    /// numbers.
    pub fn table(&mut self, head: &str, rows: &[Vec<String>]) {
        self.line(&format_args!("| {head} |"));
        let rest = " ---: |".repeat(head.matches(" | ").count());
        self.line(&format_args!("| --- |{rest}"));
        for row in rows {
            self.line(&format_args!("| {} |", row.join(" | ")));
        }
        self.line(&"");
    }

    fn line(&mut self, line: &dyn Display) {
        writeln!(self.text, "{line}").expect("writing to a String cannot fail");
    }
}

/// Returns the text for a target that was met or missed.
pub fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "**missed**" }
}
