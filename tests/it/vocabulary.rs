//! Checks that nonstandard words of the first version of dlock do not return to the sources and documents.

use std::fs;
use std::path::{Path, PathBuf};

/// Words that no source file, document, example or completion may contain, in upper or lower case.
///
/// Some words of the first version are not in this list, because they are also ordinary English or terms of other
/// fields: `line`, `place`, `front`, `number`, `kept`, `given`, `note`, `watch`, `judge`, `silent`.
const WORDS: [&str; 104] = [
    "abating",
    "adopt_orphans",
    "anew",
    "asitis",
    "atgate",
    "bad_ends",
    "bad_lives",
    "bad_rounds",
    "began_at",
    "broken_ago",
    "broken_at",
    "claim",
    "claims",
    "clerk",
    "clock_step",
    "closed_until",
    "db-wait",
    "deed",
    "desk",
    "dlock-notice",
    "dlock-twin",
    "dlock_done",
    "dlock_other",
    "dlock_run",
    "doubts",
    "first_for",
    "forbid_threads",
    "forget_past",
    "fork_uncounted",
    "furthest",
    "garbled",
    "gate",
    "gate_allowance",
    "gated",
    "gated_here",
    "goneplace",
    "hasten",
    "heard",
    "hence",
    "hold-off",
    "hungup",
    "inbox",
    "intervene",
    "intervention",
    "is_deadly",
    "is_out",
    "kept_until",
    "lapse",
    "lapsed",
    "lapses",
    "lapses_in_ms",
    "last_ending",
    "last_number",
    "left_behind",
    "lying_free",
    "mangle",
    "meanwhile",
    "mend",
    "mended",
    "no-gate",
    "nobodylistens",
    "notadmitted",
    "notours",
    "or_over",
    "outlook",
    "overran",
    "parting",
    "poise",
    "poised",
    "poll_from_now_on",
    "poller_life",
    "raging",
    "readied",
    "releasedonly",
    "remedy",
    "reopen",
    "reply",
    "ripe",
    "seen_at",
    "sighting",
    "spared",
    "stand_apart",
    "startable",
    "stop_job",
    "stranger",
    "take_orders",
    "takeable",
    "takeable_in_ms",
    "taken_away",
    "teller",
    "thereby",
    "turnedaway",
    "twin",
    "unasked",
    "unchecked",
    "undecided",
    "undertaker",
    "unguarded",
    "unprepared",
    "vanished",
    "was_ours",
    "weather",
    "wish",
    "wishes",
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
        // Packages and caches that a person has created while trying an example.
        if path.ends_with("node_modules") || path.ends_with("__pycache__") {
            continue;
        }
        match path.is_dir() {
            true => collect(&path, files),
            false => files.push(path),
        }
    }
}
