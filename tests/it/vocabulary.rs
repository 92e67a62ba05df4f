//! Checks that nonstandard words of the first version of dlock do not return to the sources and documents.

use std::fs;
use std::path::{Path, PathBuf};

/// Words that no source file, document, example or completion may contain, in upper or lower case.
///
/// Some words of the first version are not in this list, because they are also ordinary English: `line`, `place`,
/// `front`, `number`, `kept`.
const WORDS: [&str; 32] = [
    "lapse",
    "lapsed",
    "lapses",
    "lapses_in_ms",
    "gate",
    "gated",
    "sighting",
    "keeper",
    "parting",
    "wish",
    "stranger",
    "deed",
    "mend",
    "mended",
    "anew",
    "meanwhile",
    "thereby",
    "hence",
    "teller",
    "clerk",
    "desk",
    "twin",
    "undertaker",
    "weather",
    "takeable",
    "garbled",
    "vanished",
    "unchecked",
    "reopen",
    "hold-off",
    "db-wait",
    "dlock_done",
];

#[test]
fn words_of_the_first_version_are_not_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for name in ["src", "tests", "benches", "man", "examples", "completions"] {
        collect(&root.join(name), &mut files);
    }
    for entry in fs::read_dir(root).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        let is_document = path.extension().is_some_and(|end| end == "md");
        if is_document || path.ends_with("Makefile") {
            files.push(path);
        }
    }
    assert!(files.len() > 300, "only {} files found", files.len());
    let mut found = Vec::new();
    for path in files.iter().filter(|path| !path.ends_with(file!())) {
        let text = fs::read_to_string(path).expect("all files are UTF-8");
        for (number, line) in text.lines().enumerate() {
            let line = line.replace("\\-", "-").to_lowercase();
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
            for word in line.split(|c| !is_part(c)) {
                if WORDS.contains(&word) {
                    found.push(format!("{}:{}: {word}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        match path.is_dir() {
            true => collect(&path, files),
            false => files.push(path),
        }
    }
}
