//! Checks that nonstandard words of the first version of dlock do not return to the sources and documents.

use std::path::Path;
use std::process::Command;

/// Words that no source file, document, example or completion may contain, in upper or lower case.
///
/// Some words of the first version are not in this list, because they are also ordinary English or terms of other
/// fields: `line`, `place`, `front`, `number`, `kept`, `given`, `note`, `watch`, `judge`, `silent`.
const WORDS: &str = "
    abating adopt_orphans anew asitis atgate bad_ends bad_lives bad_rounds began_at broken_ago broken_at claim claims
    clerk clock_step closed_until db-wait deed desk dlock-notice dlock-twin dlock_done dlock_other dlock_run doubts
    first_for forbid_threads forget_past fork_uncounted furthest garbled gate gate_allowance gated gated_here
    goneplace hasten heard hence hold-off hungup inbox intervene intervention is_deadly is_out kept_until lapse
    lapsed lapses lapses_in_ms last_ending last_number left_behind lying_free mangle meanwhile mend mended no-gate
    nobodylistens notadmitted notours or_over outlook overran parting poise poised poll_from_now_on poller_life
    raging readied releasedonly remedy reopen reply ripe seen_at sighting spared stand_apart startable stop_job
    stranger take_orders takeable takeable_in_ms taken_away teller thereby turnedaway twin unasked unchecked
    undecided undertaker unguarded unprepared vanished was_ours weather wish wishes
";

#[test]
fn words_of_the_first_version_are_not_used() {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    // grep finds the few lines that may contain a word. `-w` accepts a part of a word with a hyphen.
    let mut grep = Command::new("sh");
    grep.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
    grep.args(["-c", r#"grep -rnaiwF "$@" *.md Makefile"#, "sh"]);
    grep.args(["--exclude-dir=node_modules", "--exclude-dir=__pycache__"]);
    for word in &words {
        grep.args(["-e", word]);
        if word.contains('-') {
            grep.args(["-e", &word.replace('-', "\\-")]);
        }
    }
    grep.args(["src", "tests", "benches", "man", "examples", "completions"]);
    let output = grep.output().expect("grep runs");
    assert!(
        output.status.code().is_some_and(|status| status < 2),
        "{output:?}"
    );
    let text = String::from_utf8(output.stdout).expect("all files are UTF-8");
    // grep finds the words in this file.
    let (own, others): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with(file!()));
    assert!(own.len() > 8, "the search is incomplete: {own:?}");
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let is_used = |line: &&str| {
        let line = line.replace("\\-", "-").to_lowercase();
        line.split(|c| !is_part(c))
            .any(|word| words.contains(&word))
    };
    let found: Vec<&str> = others.into_iter().filter(is_used).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
