//! Tests that the handwritten documents match the program: README, `docs`, changelog, the pages of section 7 and the
//! handwritten parts of the other man pages.
//!
//! The tests read the documents as plain text, with roff escapes and character macros replaced. If a document lists all
//! items of a kind, the test compares the whole list.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::CommandFactory;
use serde_json::Value;
use testkit::{files_below, repository};

use dlock::cli::Cli;
use dlock::cli::environment::option_variables;
use dlock::exit;
use dlock::lease::Token;
use dlock::lease::action::Action;
use dlock::lease::instant::BootInstant;
use dlock::lease::timing::Timing;
use dlock::metrics::{EarlierMetrics, MetricsResult, RunMetrics};
use dlock::process::hook::{self, HookTrigger};
use dlock::report::history;
use dlock::report::layout::Layout;
use dlock::report::log::EventKind;
use dlock::report::status::{Connections, json, table};
use dlock::store::mysql::schema::printout;
use dlock::store::session::SessionNote;
use dlock::store::session_states::SessionStates;
use dlock::store::takeover::{CLOCK_SKEW_ALLOWANCE, QUEUE_LOCK_ALLOWANCE};
use dlock::store::{
    HistoryEntry, HistoryOutcome, Holder, LockRecord, POLLER_TIMEOUT, ServerTime, Snapshot, Waiter,
};

const GUARANTEES: &str = "docs/guarantees.md";
const OVERVIEW: &str = "man/dlock.7";
const EXEC: &str = "man/parts/dlock-exec.man";
const STATUS: &str = "man/parts/dlock-status.man";
const HISTORY: &str = "man/parts/dlock-history.man";
const PROTOCOL: &str = "man/dlock-protocol.7";
const OPERATIONS: &str = "man/dlock-operations.7";

#[test]
fn every_list_of_exit_statuses_is_complete() {
    let rows = exit::rows(None);
    let rows = rows.iter();
    let table: Vec<(&str, &str)> = rows.map(|row| (row.0, row.1.as_str())).collect();
    let guarantees = document("docs/guarantees.md");
    let lines = section(&guarantees, "## Exit statuses").lines();
    let cells = lines.filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows = cells.filter_map(|row| row.split_once(" | "));
    let rows: Vec<_> = rows.filter(|row| *row != ("status", "meaning")).collect();
    assert_eq!(rows, table, "docs/guarantees.md");

    let page = document(OPERATIONS);
    let lines = section(&page, ".Sh EXIT STATUS").lines();
    let pairs = lines.clone().zip(lines.skip(1));
    let rows = pairs.filter_map(|(item, meaning)| Some((item.strip_prefix(".It Sy ")?, meaning)));
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows, table, "{OPERATIONS}");
}

#[test]
fn every_option_and_variable_that_a_document_names_exists() {
    let mut cli = Cli::command();
    cli.build();
    let commands = cli.get_subcommands().chain([&cli]);
    let arguments = commands.flat_map(clap::Command::get_arguments);
    let options = arguments.filter_map(|argument| Some(format!("--{}", argument.get_long()?)));
    let others = dlock::variables_without_option().into_iter();
    let known: BTreeSet<String> = options
        .chain(option_variables())
        .chain(others.map(str::to_owned))
        // An option of `cargo install`, and the prefix of the variables of options.
        .chain(["--path", "DLOCK_OPT"].map(str::to_owned))
        .collect();
    let options = words("--", |c| c.is_ascii_lowercase() || c == '-');
    let variables = words("DLOCK_", |c| c.is_ascii_uppercase() || c == '_');
    for (named, number) in [(options, 15), (variables, 5)] {
        assert!(named.len() > number, "the test reads too little: {named:?}");
        let unknown: Vec<_> = named.difference(&known).collect();
        assert!(unknown.is_empty(), "these do not exist: {unknown:?}");
    }
}

#[test]
fn the_grants_in_the_documents_are_those_that_setup_prints() {
    let grants = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.trim_start_matches("-- "));
        let lines = lines.filter(|line| line.starts_with("GRANT ") && line.contains("`dlock`."));
        lines.map(str::to_owned).collect()
    };
    let wanted = grants(&printout(Some("dlock"), "dlock"));
    assert_eq!(wanted.len(), 11, "{wanted:?}");
    assert_eq!(grants(&document(PROTOCOL)), wanted, "{PROTOCOL}");
}

#[test]
fn every_table_and_column_is_described() {
    let page = document(PROTOCOL);
    let text = section(&page, ".Sh TABLES AND GRANTS");
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let described: BTreeSet<&str> = words.collect();
    let definition = printout(None, "dlock");
    let names = definition.lines().filter_map(|line| {
        let table = line.strip_prefix("CREATE TABLE IF NOT EXISTS ");
        // The second word in the definition of a column is its type.
        let is_type = |word: &str| word.starts_with(['V', 'B', 'I', 'T', 'D']);
        let is_column = line.split_whitespace().nth(1).is_some_and(is_type);
        let column = line.strip_prefix("  ").filter(|_| is_column);
        table.or(column)?.split_whitespace().next()
    });
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 30, "the test reads too little: {names:?}");
    let missing: Vec<_> = names.iter().filter(|it| !described.contains(*it)).collect();
    assert!(missing.is_empty(), "{missing:?} are not in {PROTOCOL}");
}

#[test]
fn every_field_and_column_of_status_and_history_is_documented() {
    let note = r#"{"server":"db","started":1,"token":1,"policy":"kill","sessions":[{"id":1,"account":"","client":""}]}"#;
    let action: Action = "init".parse().expect("a name");
    let survey = Snapshot {
        server_time: ServerTime(0),
        locks: vec![LockRecord {
            sessions: SessionNote::from_text(note.as_bytes()).map(Box::new),
            ..LockRecord::never_held(action.clone())
        }],
        waiters: vec![Waiter {
            action: action.clone(),
            holder: Holder::default(),
            waiting_for: Duration::ZERO,
            alive: None,
        }],
        sessions: SessionStates::NotQueried,
        is_read_only: false,
        server: "db:3306".to_owned(),
        skipped: Vec::new(),
    };
    let runs = [HistoryEntry {
        action,
        key: None,
        token: Token(1),
        slot: None,
        holder: Holder::default(),
        started_at: "then".to_owned(),
        ended_at: "now".to_owned(),
        waited: None,
        duration: Duration::ZERO,
        ago: Duration::ZERO,
        outcome: HistoryOutcome::Lost,
        sessions_ended: 0,
        processes_killed: 0,
        dlock_status: None,
        revoked_by: None,
    }];
    let status_json = json(&survey, Duration::ZERO, Connections::Shown);
    let [status, history] = [status_json, history::json(&runs, false)].map(|text| -> Value {
        let text = text.expect("the JSON can be written");
        serde_json::from_str(&text).expect("the output is JSON")
    });
    let lock = &status["locks"][0];
    for (page, heading, object) in [
        (STATUS, ".SS JSON", lock),
        (STATUS, ".SS \"JSON: a waiter\"", &lock["waiters"][0]),
        (STATUS, ".SS \"JSON: a session\"", &lock["sessions"][0]),
        (HISTORY, ".SS JSON", &history["runs"][0]),
    ] {
        fields_are_documented(page, heading, object);
    }
    let text = table(&survey, Layout::FULL);
    let runs_table = history::table(&runs, Layout::FULL);
    let (locks, waiters) = text.split_once("\n\n").expect("two tables");
    for (page, heading, table) in [
        (STATUS, ".SS \"The table\"", locks),
        (STATUS, ".SS \"The queue\"", waiters),
        (HISTORY, ".SS \"The table\"", &runs_table),
    ] {
        let columns = table.lines().next().expect("a heading").split("  ");
        let columns = columns.map(str::trim).filter(|column| !column.is_empty());
        let text = document(page);
        let documented = tags(section(&text, heading));
        assert_eq!(documented, columns.collect::<Vec<_>>(), "{page}: {heading}");
    }
}

/// Asserts that the section of `page` after `heading` describes exactly the fields of `object`.
#[track_caller]
pub(crate) fn fields_are_documented(page: &str, heading: &str, object: &Value) {
    let text = document(page);
    let lines = section(&text, heading).lines();
    let fields = lines.filter_map(|line| line.strip_suffix(')')?.split_once(" ("));
    let documented: BTreeSet<&str> = fields.map(|(field, _)| field).collect();
    let fields = object.as_object().expect("an object").keys();
    let fields: BTreeSet<&str> = fields.map(String::as_str).collect();
    assert_eq!(documented, fields, "{page}: {heading}");
}

/// Returns the names in the lists of `text`.
pub(crate) fn tags(text: &str) -> Vec<&str> {
    let tags = text.split("\n.TP\n").skip(1);
    let tags = tags.filter_map(|item| item.lines().next());
    tags.flat_map(|tag| tag.split(", ")).collect()
}

#[test]
fn every_name_in_logs_metrics_and_hooks_is_documented() {
    let page = document(OPERATIONS);
    let lists = |heading: &str| -> Vec<Vec<&str>> {
        let lists = section(&page, heading).split(".Bl -tag").skip(1);
        let lists = lists.filter_map(|list| list.split("\n.El").next());
        let item = |line| str::strip_prefix(line, ".It Li ").or(line.strip_prefix(".It Ev "));
        lists
            .map(|list| list.lines().filter_map(item).collect())
            .collect()
    };
    let [fields, events] = &lists(".Ss Messages as JSON")[..] else {
        panic!("expected two lists");
    };
    let all = "time level event action token holder status ahead waited_ms expires_in_ms holder_token min_hold_until \
               message";
    let all: Vec<&str> = all.split(' ').collect();
    assert_eq!(fields, &all);
    let kinds = EventKind::ALL.iter().map(|kind| kind.as_str());
    assert_eq!(events, &kinds.collect::<Vec<_>>());

    let [metrics, results] = &lists(".Ss Metrics")[..] else {
        panic!("expected two lists");
    };
    let mut run = RunMetrics::new(vec!["init".parse().expect("a name")], String::new());
    run.tokens = vec![Token(1)];
    run.outcome = Some(MetricsResult::Lost);
    run.status = Some(exit::Status::LOST);
    run.ended_at = Some(Duration::ZERO);
    let earlier = run.text(None) + "dlock_success_timestamp_seconds{action=\"init\"} 1\n";
    let text = run.text(EarlierMetrics::read(&earlier, &run.actions[0]).as_ref());
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names: Vec<&str> = types.filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(metrics, &names);
    let all = MetricsResult::ALL.iter().map(|result| result.as_str());
    assert_eq!(results, &all.collect::<Vec<_>>());

    assert_eq!(lists(".Ss Hooks"), [hook::VARIABLES]);
    for event in HookTrigger::ALL.iter().map(|trigger| trigger.as_str()) {
        assert!(events.contains(&event), "{event}");
        let item = format!("\n.Li {event}");
        assert!(section(&page, ".Ss Hooks").contains(&item), "{event}");
    }
}

#[test]
fn documented_durations_match_the_code() {
    let timing = Timing::new(Duration::from_secs(30), None).expect("the default ttl is accepted");
    let sent = BootInstant::new(Duration::ZERO);
    let deadline = timing.deadline(sent);
    let [term, kill] = [deadline.term, deadline.kill].map(|end| end.since(sent).as_secs());
    let allowance = CLOCK_SKEW_ALLOWANCE.as_secs();
    let queue_lock_allowance = QUEUE_LOCK_ALLOWANCE.as_secs_f32();
    let silence = POLLER_TIMEOUT.as_secs();
    let at_end = (hook::AT_END + hook::TO_DIE).as_secs();
    let limit = hook::LIMIT.as_secs();
    let kill = format!("{term} seconds and SIGKILL {kill} seconds after");
    let late = format!("more than {queue_lock_allowance} seconds ago");
    let expired = format!("expired more than {allowance} seconds ago");
    let silent = format!("updated its queue entry for {silence} seconds");
    let alive = format!("updated its queue entry in the last {silence} seconds");
    let waits = format!("waits up to {at_end} second for");
    let limited = format!("A hook may run for at most {limit} seconds");
    let overview = format!("SIGTERM follows {kill} dlock began to send");
    for (path, statement) in [
        (GUARANTEES, &*format!("sends SIGTERM {kill} that moment")),
        (OVERVIEW, &overview),
        (EXEC, &format!("SIGTERM {kill} it began sending")),
        (EXEC, "anything below 1500ms"),
        (EXEC, "at most 24h"),
        (GUARANTEES, &late),
        (GUARANTEES, &expired),
        (PROTOCOL, &format!("expired {late}")),
        (PROTOCOL, &expired),
        (PROTOCOL, &format!("not {silent}")),
        (PROTOCOL, &format!("At most ttl + {allowance} seconds")),
        (OPERATIONS, &format!("this is {} seconds", 25 + allowance)),
        (OPERATIONS, &limited),
        (OPERATIONS, &format!("{waits} the metrics file")),
        (OPERATIONS, &format!("{waits} hooks")),
        (STATUS, &alive),
    ] {
        let text = one_line(&document(path));
        assert!(text.contains(statement), "no {statement:?} in {path}");
    }
    let shortest = |millis| Timing::new(Duration::from_millis(millis), None);
    assert!(shortest(1_500).is_ok() && shortest(1_499).is_err());
    assert!(shortest(86_400_000).is_ok() && shortest(86_400_001).is_err());
}

/// mandb(8) reads the name and the description of a page from its section NAME, and finds a page only if the name there is
/// also the name of the file. lexgrog(1) prints what mandb reads.
#[test]
fn man_k_finds_every_page() {
    let pages = [files("man", "1"), files("man", "7")].concat();
    assert!(pages.len() > 20, "only {pages:?}");
    for page in pages {
        let text = document(&page);
        let (_, name) = page.split_once('/').expect("a folder and a file");
        let (name, number) = name.split_once('.').expect("a name and a section");
        let mut lines = text.lines();
        let heading = lines.find(|line| line.to_uppercase() == ".SH NAME");
        assert!(heading.is_some(), "{page} has no section NAME");
        let lines: Vec<&str> = lines.take_while(|line| !is_heading(line)).collect();
        let start = match number {
            "7" => format!(".Nm {name}\n.Nd "),
            _ => format!("{name} - "),
        };
        let lines = lines.join("\n");
        let is_plain = |text: &str| !text.is_empty() && !text.contains(['\\', '\n']);
        let is_found = lines.strip_prefix(&start).is_some_and(is_plain);
        assert!(is_found, "{page}: {lines}");
    }
}

#[test]
fn each_handwritten_page_has_the_version_and_names_the_others_and_the_overview_is_short() {
    let pages = files("man", "7");
    assert_eq!(pages.len(), 5, "{pages:?}");
    let version = format!("\n.Os dlock {}\n", env!("CARGO_PKG_VERSION"));
    // mdoc(7) takes these words in a heading for macros, and does not print them.
    let macros: Vec<&str> = "An Ap At Do Em In Li No Ns So Op".split(' ').collect();
    for page in &pages {
        let text = document(page);
        assert!(text.contains(&version), "{page}: {version}");
        let see_also = section(&text, ".Sh SEE ALSO").lines();
        let named: Vec<&str> = see_also.map(|line| line.trim_end_matches(" ,")).collect();
        for other in pages.iter().filter(|other| *other != page) {
            let name = other.trim_start_matches("man/").trim_end_matches(".7");
            let wanted = format!(".Xr {name} 7");
            assert!(named.contains(&&*wanted), "{page} does not name {other}");
        }
        let headings = text.lines().filter(|line| is_heading(line));
        let mut words = headings.flat_map(|heading| heading.split(' ').skip(1));
        let found = words.find(|word| macros.contains(word));
        assert_eq!(found, None, "{page}: write \\& before the word");
    }
    let words = document(OVERVIEW).split_whitespace().count();
    assert!(words <= 2_000, "the overview has {words} words");
}

/// A reference to a section is `.Sx HEADING` within a page. To a section of another page, it is `.Dq HEADING`, `in` and
/// `.Xr PAGE`, or `HEADING in PAGE(7)` in the handwritten parts, with quotation marks unless the heading is in capitals.
#[test]
fn every_page_and_section_to_which_a_page_refers_exists() {
    let headings = |page: &str| -> Vec<String> {
        assert!(repository().join(page).exists(), "{page} does not exist");
        let text = document(page);
        let lines = text.lines().filter(|line| is_heading(line));
        lines.map(|line| line[4..].replace("\\&", "")).collect()
    };
    let mut references = 0;
    for page in files("man", "7") {
        let text = document(&page);
        let plain = |line| str::trim_end_matches(line, [' ', '.', ',', ';']);
        let lines: Vec<&str> = text.lines().map(plain).collect();
        for (at, line) in lines.iter().enumerate() {
            let mut is_known = true;
            if let Some(heading) = line.strip_prefix(".Sx ") {
                is_known = headings(&page).iter().any(|one| one == heading);
            } else if let Some(name) = line.strip_prefix(".Xr dlock") {
                let known = headings(&format!("man/dlock{}", name.replace(' ', ".")));
                if at > 1 && lines[at - 1] == "in" && name.ends_with('7') {
                    let heading = lines[at - 2].strip_prefix(".Dq ").unwrap_or(lines[at - 2]);
                    is_known = known.iter().any(|one| one == heading);
                    references += 1;
                }
            }
            let before = &lines[at.saturating_sub(2)..at];
            assert!(is_known, "{page}: {line}, after {before:?}");
        }
    }
    let documents = documents().into_iter();
    for (path, text) in documents.filter(|(path, _)| path.starts_with("man/parts/")) {
        let text = one_line(&text);
        for (at, _) in text.match_indices("(7)") {
            let (before, name) = text[..at].rsplit_once(' ').expect("a text before the name");
            let known = headings(&format!("man/{name}.7"));
            let Some(before) = before.strip_suffix(" in") else {
                continue;
            };
            let before = before.trim_end_matches('"');
            let is_known = known.iter().any(|it| before.ends_with(it.as_str()));
            assert!(is_known, "{path}: {before} in {name}");
            references += 1;
        }
    }
    assert!(references > 30, "the test reads too little: {references}");
}

#[test]
fn documents_refer_to_no_other_files_and_the_changelog_begins_with_unreleased_changes() {
    let changelog = document("CHANGELOG.md");
    let first = changelog.lines().find(|line| line.starts_with("## "));
    assert_eq!(first, Some("## Unreleased"));
    for (path, text) in documents() {
        for word in ["shared/", "DESIGN", "STYLE", "/home", "/root"] {
            assert!(!text.contains(word), "{word} is in {path}");
        }
    }
}

/// Returns every word in the documents that starts with `prefix` and continues with characters that `allowed` accepts.
fn words(prefix: &str, allowed: impl Fn(char) -> bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, text) in documents() {
        for after in text.split(prefix).skip(1) {
            let end = after.find(|c| !allowed(c)).unwrap_or(after.len());
            let word = after[..end].trim_end_matches(['-', '_']);
            if !word.is_empty() {
                found.insert(format!("{prefix}{word}"));
            }
        }
    }
    found
}

/// Returns the path and the plain text of every handwritten document. The pages of section 7 are not generated.
fn documents() -> Vec<(String, String)> {
    let mut paths = ["README.md", "CHANGELOG.md"].map(str::to_owned).to_vec();
    for (folder, extension) in [("man", "7"), ("man/parts", "man"), ("docs", "md")] {
        paths.extend(files(folder, extension));
    }
    let read = |path: String| (path.clone(), document(&path));
    paths.into_iter().map(read).collect()
}

/// Returns the paths of the files below `folder` whose names end with `extension`, sorted.
fn files(folder: &str, extension: &str) -> Vec<String> {
    let files = files_below(&repository().join(folder), extension).into_iter();
    let below = |file: PathBuf| Some(file.strip_prefix(repository()).ok()?.to_str()?.to_owned());
    let mut files: Vec<String> = files.filter_map(below).collect();
    files.sort();
    files
}

fn is_heading(line: &str) -> bool {
    let ranks = [".Sh ", ".Ss ", ".SH ", ".SS "];
    ranks.iter().any(|rank| line.starts_with(rank))
}

/// Returns the content of the document at `path` below the project folder, without roff escapes.
#[track_caller]
pub(crate) fn document(path: &str) -> String {
    let text = fs::read_to_string(repository().join(path))
        .unwrap_or_else(|error| panic!("{path} cannot be read: {error}"));
    if Path::new(path).extension().is_some_and(|end| end == "md") {
        return text;
    }
    [
        ("\\-", "-"),
        ("\\(aq", "'"),
        ("\\(dq", "\""),
        ("\\fB", ""),
        ("\\fI", ""),
        ("\\fR", ""),
        ("\\e", "\\"),
        ("Fl -", "--"),
    ]
    .iter()
    .fold(text, |text, (escape, plain)| text.replace(escape, plain))
}

/// Returns the text after the line `heading`, up to the next heading of the same or a higher rank.
#[track_caller]
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let (rank, _) = heading.split_once(' ').expect("a rank and a name");
    let (_, text) = document
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("no section {heading}"));
    let ends = [&format!("\n{rank} "), "\n.SH ", "\n.Sh "];
    let end = ends.iter().filter_map(|end| text.find(*end)).min();
    &text[..end.unwrap_or(text.len())]
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
