//! Reads and updates the blocks in the documents. A block is literal text that follows a comment with the name of the
//! block.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Block;
use super::normalize::normalized;

/// A document that contains some or all blocks.
pub(super) struct Document {
    pub(super) path: &'static str,
    /// The strings before the name of a block, between its name and its text, and after its text.
    marks: [&'static str; 3],
    /// Plain strings and their escapes. The first entry is the character that starts all escapes.
    escapes: &'static [(&'static str, &'static str)],
}

/// The documents with blocks: docs/operations.md and dlock-operations(7).
pub(super) const DOCUMENTS: [Document; 2] = [
    Document {
        path: "docs/operations.md",
        marks: ["<!-- walkthrough: ", " -->\n```\n", "```\n"],
        escapes: &[],
    },
    Document {
        path: "man/dlock-operations.7",
        marks: [".\\\" walkthrough: ", "\n.Bd -literal\n", ".Ed\n"],
        escapes: &[
            ("\\", "\\e"),
            ("-", "\\-"),
            ("'", "\\(aq"),
            ("^", "\\(ha"),
            ("\n.", "\n\\&."),
        ],
    },
];

impl Document {
    pub(super) fn names(&self) -> Vec<String> {
        let text = self.text();
        let [before, after, _] = self.marks;
        let rests = text.split(before).skip(1);
        let mut names: Vec<String> = rests
            .filter_map(|rest| Some(rest.split_once(after)?.0.to_owned()))
            .collect();
        names.sort();
        names
    }

    /// Compares each block in the document with the block of the same name in `blocks`. Returns a description of each
    /// difference.
    pub(super) fn stale(&self, blocks: &[Block]) -> Vec<String> {
        let text = self.text();
        let shown: Vec<&Block> = self.shown(blocks).collect();
        let found = shown.iter().map(|block| self.range(&text, block.name));
        let found: Vec<String> = found.map(|range| self.plain(&text[range])).collect();
        let found = normalized(found.iter().map(String::as_str));
        let wanted = normalized(shown.iter().map(|block| block.text.as_str()));
        let pairs = wanted.iter().zip(&found);
        let differences = shown
            .iter()
            .zip(pairs)
            .filter(|(_, (one, other))| one != other);
        let describe = |(block, (wanted, found)): (&&Block, (&String, &String))| {
            let Block { name, .. } = block;
            format!("{name} in {}:\n{found}\nin the run:\n{wanted}\n", self.path)
        };
        differences.map(describe).collect()
    }

    /// Returns the entries of `blocks` whose names occur in the document.
    fn shown<'a>(&self, blocks: &'a [Block]) -> impl Iterator<Item = &'a Block> {
        let names = self.names();
        let is_shown = move |block: &&Block| names.iter().any(|name| name == block.name);
        blocks.iter().filter(is_shown)
    }

    pub(super) fn write(&self, blocks: &[Block]) {
        let mut text = self.text();
        for Block { name, text: block } in self.shown(blocks) {
            let range = self.range(&text, name);
            text.replace_range(range, &self.escaped(block));
        }
        fs::write(self.file(), text).expect("the document can be written");
    }

    /// Returns the range of the text of the block `name` within the document `text`.
    #[track_caller]
    fn range(&self, text: &str, name: &str) -> Range<usize> {
        let [before, after, end] = self.marks;
        let mark = format!("{before}{name}{after}");
        let start = text
            .find(&mark)
            .unwrap_or_else(|| panic!("{} has no {mark:?}", self.path))
            + mark.len();
        let length = text[start..].find(end).expect("the block has an end mark");
        start..start + length
    }

    fn escaped(&self, text: &str) -> String {
        let escapes = self.escapes.iter();
        escapes.fold(text.to_owned(), |text, (plain, escape)| {
            text.replace(plain, escape)
        })
    }

    fn plain(&self, text: &str) -> String {
        let escapes = self.escapes.iter().rev();
        escapes.fold(text.to_owned(), |text, (plain, escape)| {
            text.replace(escape, plain)
        })
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap_or_else(|error| panic!("{}: {error}", self.path))
    }

    fn file(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(self.path)
    }
}
