//! Where the blocks stand in the documents: below a comment with their name, each in the document's own
//! form of a text that is left as it is.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Block;
use super::shape::shapes;

/// A document with all blocks in it.
pub(super) struct Document {
    pub(super) path: &'static str,
    /// What stands before and after the name of a block, and after its text.
    marks: [&'static str; 3],
    /// What some characters are written as; the first one is what escapes the others.
    escapes: &'static [(&'static str, &'static str)],
}

/// The documents.
pub(super) const DOCUMENTS: [Document; 2] = [
    Document {
        path: "README.md",
        marks: ["<!-- walkthrough: ", " -->\n```\n", "```\n"],
        escapes: &[],
    },
    Document {
        path: "man/dlock.7",
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
    /// The names of its blocks, sorted.
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

    /// What is not as it should be: `blocks`, whose shapes are `wanted`.
    pub(super) fn stale(&self, blocks: &[Block], wanted: &[String]) -> Vec<String> {
        let text = self.text();
        let found: Vec<String> = blocks
            .iter()
            .map(|block| self.plain(&text[self.range(&text, block.name)]))
            .collect();
        let found = shapes(found.iter().map(String::as_str));
        let pairs = blocks.iter().zip(wanted.iter().zip(&found));
        pairs
            .filter(|(_, (wanted, found))| wanted != found)
            .map(|(block, (wanted, found))| {
                let Block { name, .. } = block;
                format!("{name} in {}:\n{found}\nhappens:\n{wanted}\n", self.path)
            })
            .collect()
    }

    /// Writes `blocks` in the places of those that it has.
    pub(super) fn write(&self, blocks: &[Block]) {
        let mut text = self.text();
        for Block { name, text: block } in blocks {
            let range = self.range(&text, name);
            text.replace_range(range, &self.escaped(block));
        }
        fs::write(self.file(), text).expect("the document can be written");
    }

    /// Where the text of the block `name` is.
    #[track_caller]
    fn range(&self, text: &str, name: &str) -> Range<usize> {
        let [before, after, end] = self.marks;
        let mark = format!("{before}{name}{after}");
        let start = text
            .find(&mark)
            .unwrap_or_else(|| panic!("{} has no {mark:?}", self.path))
            + mark.len();
        let length = text[start..].find(end).expect("the block ends");
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
