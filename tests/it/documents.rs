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

use dlock::cli::Cli;
use dlock::cli::environment::option_variables;
use dlock::exit;
use dlock::lease::Token;
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

const PROTOCOL: &str = "man/dlock-protocol.7";
const OPERATIONS: &str = "man/dlock-operations.7";

#[test]
fn every_list_of_exit_statuses_is_complete() {
    let table = exit::rows(None);
    let table: Vec<(&str, &str)> = table
        .iter()
        .map(|(status, meaning)| (*status, meaning.as_str()))
        .collect();
    let guarantees = document("docs/guarantees.md");
    let rows: Vec<(&str, &str)> = section(&guarantees, "## Exit statuses")
        .lines()
        .filter_map(|line| {
            line.strip_prefix("| ")?
                .strip_suffix(" |")?
                .split_once(" | ")
        })
        .filter(|row| *row != ("status", "meaning"))
        .collect();
    assert_eq!(rows, table, "docs/guarantees.md");

    let page = document(OPERATIONS);
    let text = section(&page, ".Sh EXIT STATUS");
    let rows: Vec<(&str, &str)> = text
        .lines()
        .zip(text.lines().skip(1))
        .filter_map(|(item, meaning)| Some((item.strip_prefix(".It Sy ")?, meaning)))
        .collect();
    assert_eq!(rows, table, "{OPERATIONS}");
}

#[test]
fn every_option_that_a_document_names_exists() {
    let mut cli = Cli::command();
    cli.build();
    let known: BTreeSet<String> = cli
        .get_subcommands()
        .chain([&cli])
        .flat_map(clap::Command::get_arguments)
        .filter_map(|argument| Some(format!("--{}", argument.get_long()?)))
        // An option of `cargo install`.
        .chain(["--path".to_owned()])
        .collect();
    let named = words("--", |c| c.is_ascii_lowercase() || c == '-');
    assert!(
        named.len() > 15,
        "only {named:?} found: the test reads too little"
    );
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "no such options: {unknown:?}");
}

#[test]
fn every_variable_that_a_document_names_exists() {
    let others = dlock::variables_without_option();
    let known: BTreeSet<String> = option_variables()
        .into_iter()
        .chain(others.into_iter().map(str::to_owned))
        // The prefix of the variables of options.
        .chain(["DLOCK_OPT".to_owned()])
        .collect();
    let named = words("DLOCK_", |c| c.is_ascii_uppercase() || c == '_');
    assert!(
        named.len() > 5,
        "only {named:?} found: the test reads too little"
    );
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "no such variables: {unknown:?}");
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
    let described: BTreeSet<&str> = text
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .collect();
    let definition = printout(None, "dlock");
    let columns: Vec<&str> = definition
        .lines()
        .filter_map(|line| {
            line.strip_prefix("CREATE TABLE IF NOT EXISTS ")
                .or(column(line))
        })
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(
        columns.len() > 30,
        "only {columns:?}: the test reads too little"
    );
    for column in columns {
        assert!(described.contains(column), "{column} is not in {PROTOCOL}");
    }
}

/// Returns `line` without its indent if the line defines a column, and None otherwise.
fn column(line: &str) -> Option<&str> {
    let line = line.strip_prefix("  ")?;
    line.split_whitespace()
        .nth(1)?
        .starts_with(['V', 'B', 'I', 'T', 'D'])
        .then_some(line)
}

#[test]
fn every_field_and_column_of_status_is_documented() {
    let page = document("man/parts/dlock-status.man");
    let note = r#"{"server":"db","started":1,"token":1,"policy":"kill","sessions":[{"id":1,"account":"","client":""}]}"#;
    let records = [LockRecord {
        sessions: SessionNote::from_text(note.as_bytes()).map(Box::new),
        ..LockRecord::never_held("init".parse().expect("a name"))
    }];
    let queue = [Waiter {
        action: records[0].action.clone(),
        holder: Holder::default(),
        waiting_for: Duration::ZERO,
        alive: None,
    }];

    let survey = Snapshot {
        server_time: ServerTime(0),
        locks: records.to_vec(),
        waiters: queue.to_vec(),
        sessions: SessionStates::NotQueried,
        is_read_only: false,
        server: "db:3306".to_owned(),
        skipped: Vec::new(),
    };
    let text = json(&survey, Duration::ZERO, Connections::Shown).expect("the JSON can be written");
    let value: serde_json::Value = serde_json::from_str(&text).expect("the output is JSON");
    let lock = &value["locks"][0];
    for (heading, object) in [
        (".SS JSON", lock),
        (".SS \"JSON: a waiter\"", &lock["waiters"][0]),
        (".SS \"JSON: a session\"", &lock["sessions"][0]),
    ] {
        compare_fields(&page, heading, object);
    }
    let text = table(&survey, Layout::FULL);
    let (locks, waiters) = text.split_once("\n\n").expect("two tables");
    for (heading, table) in [(".SS \"The table\"", locks), (".SS \"The queue\"", waiters)] {
        compare_columns(&page, heading, table);
    }
}

#[test]
fn every_field_and_column_of_history_is_documented() {
    let page = document("man/parts/dlock-history.man");
    let runs = [HistoryEntry {
        action: "init".parse().expect("a name"),
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
    let text = history::json(&runs, false).expect("the JSON can be written");
    let value: serde_json::Value = serde_json::from_str(&text).expect("the output is JSON");
    compare_fields(&page, ".SS JSON", &value["runs"][0]);
    compare_columns(
        &page,
        ".SS \"The table\"",
        &history::table(&runs, Layout::FULL),
    );
}

#[test]
fn every_name_in_logs_metrics_and_hooks_is_documented() {
    let page = document(OPERATIONS);
    let lists = |heading: &str| -> Vec<Vec<&str>> {
        let lists = section(&page, heading).split(".Bl -tag").skip(1);
        let items = lists.map(|list| {
            list.split("\n.El")
                .next()
                .expect("the list has items")
                .lines()
        });
        items
            .map(|lines| {
                lines
                    .filter_map(|line| {
                        line.strip_prefix(".It Li ")
                            .or(line.strip_prefix(".It Ev "))
                    })
                    .collect()
            })
            .collect()
    };
    let [fields, events] = &lists(".Ss Messages as JSON")[..] else {
        panic!("expected two lists");
    };
    let all = [
        "time",
        "level",
        "event",
        "action",
        "token",
        "holder",
        "status",
        "ahead",
        "waited_ms",
        "expires_in_ms",
        "holder_token",
        "min_hold_until",
        "message",
    ];
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
        assert!(
            EventKind::ALL.iter().any(|kind| kind.as_str() == event),
            "{event}"
        );
        let item = format!("\n.Li {event}");
        assert!(section(&page, ".Ss Hooks").contains(&item), "{event}");
    }
}

/// Asserts that `page` documents exactly the fields of `object` under `heading`.
#[track_caller]
fn compare_fields(page: &str, heading: &str, object: &serde_json::Value) {
    let documented: BTreeSet<&str> = section(page, heading)
        .lines()
        .filter_map(|line| line.strip_suffix(')')?.split_once(" ("))
        .map(|(field, _)| field)
        .collect();
    let object = object.as_object().expect("an object");
    let fields: BTreeSet<&str> = object.keys().map(String::as_str).collect();
    assert_eq!(documented, fields, "{heading}");
}

/// Asserts that `page` documents exactly the columns of `table` under `heading`, in order.
#[track_caller]
fn compare_columns(page: &str, heading: &str, table: &str) {
    let columns: Vec<&str> = table
        .lines()
        .next()
        .expect("a heading")
        .split("  ")
        .map(str::trim)
        .filter(|column| !column.is_empty())
        .collect();
    let documented: Vec<&str> = section(page, heading)
        .split("\n.TP\n")
        .skip(1)
        .filter_map(|item| item.lines().next())
        .flat_map(|tag| tag.split(", "))
        .collect();
    assert_eq!(documented, columns, "{heading}");
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
    for (path, statements) in [
        (
            "docs/guarantees.md",
            vec![
                format!(
                    "sends SIGTERM {term} seconds and SIGKILL {kill} seconds after that moment"
                ),
                format!("more than {queue_lock_allowance} seconds ago"),
                format!("expired more than {allowance} seconds ago"),
            ],
        ),
        (
            "man/dlock.7",
            vec![format!(
                "SIGTERM follows {term} seconds and SIGKILL {kill} seconds after dlock began to send"
            )],
        ),
        (
            PROTOCOL,
            vec![
                format!("expired more than {queue_lock_allowance} seconds ago"),
                format!("expired more than {allowance} seconds ago"),
                format!("not updated its queue entry for {silence} seconds"),
                format!("At most ttl + {allowance} seconds"),
            ],
        ),
        (
            OPERATIONS,
            vec![
                format!("this is {} seconds", 25 + allowance),
                format!(
                    "A hook may run for at most {} seconds",
                    hook::LIMIT.as_secs()
                ),
                format!("waits up to {at_end} second for the metrics file"),
                format!("waits up to {at_end} second for hooks"),
            ],
        ),
        (
            "man/parts/dlock-exec.man",
            vec![
                format!("SIGTERM {term} seconds and SIGKILL {kill} seconds after it began sending"),
                "anything below 1500ms".to_owned(),
                "at most 24h".to_owned(),
            ],
        ),
        (
            "man/parts/dlock-status.man",
            vec![format!(
                "updated its queue entry in the last {silence} seconds"
            )],
        ),
    ] {
        let text = document(path);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for statement in statements {
            assert!(
                text.contains(&statement),
                "{path} does not contain: {statement}"
            );
        }
    }
    let shortest = |millis| Timing::new(Duration::from_millis(millis), None);
    assert!(shortest(1_500).is_ok() && shortest(1_499).is_err());
    assert!(shortest(86_400_000).is_ok() && shortest(86_400_001).is_err());
}

#[test]
fn each_handwritten_page_has_the_version_of_the_program() {
    let wanted = format!("\n.Os dlock {}\n", env!("CARGO_PKG_VERSION"));
    for page in handwritten_pages() {
        assert!(document(&page).contains(&wanted), "{page}: {wanted}");
    }
}

/// mandb(8) reads the name and the description of a page from its section NAME, and finds a page only if the name there is
/// also the name of the file. lexgrog(1) prints what mandb reads.
#[test]
fn man_k_finds_every_page() {
    let pages = pages_of_sections("17");
    assert!(pages.len() > 20, "only {pages:?}");
    for page in pages {
        let text = document(&page);
        let (_, name) = page.split_once('/').expect("a folder and a file");
        let (name, number) = name.split_once('.').expect("a name and a section");
        let mut lines = text.lines();
        let heading = lines.find(|line| line.to_uppercase() == ".SH NAME");
        assert!(heading.is_some(), "{page} has no section NAME");
        let lines: Vec<&str> = lines.take_while(|line| !is_heading(line)).collect();
        let description = match (number, &lines[..]) {
            ("7", [first, second]) => {
                assert_eq!(*first, format!(".Nm {name}"), "{page}");
                second.strip_prefix(".Nd ")
            }
            ("1", [line]) => line.strip_prefix(&format!("{name} - ")),
            _ => None,
        };
        let is_plain = |text: &&str| !text.is_empty() && !text.contains('\\');
        assert!(
            description.is_some_and(|text| is_plain(&text)),
            "{page}: {lines:?}"
        );
    }
}

#[test]
fn each_handwritten_page_names_the_others_and_the_overview_is_short() {
    let pages = handwritten_pages();
    assert_eq!(pages.len(), 5, "{pages:?}");
    for page in &pages {
        let text = document(page);
        let see_also = section(&text, ".Sh SEE ALSO");
        for other in pages.iter().filter(|other| *other != page) {
            let name = other.trim_start_matches("man/").trim_end_matches(".7");
            let wanted = format!(".Xr {name} 7");
            let is_named = see_also
                .lines()
                .any(|line| line.trim_end_matches(" ,") == wanted);
            assert!(is_named, "{page} does not name {other}");
        }
    }
    let words = document("man/dlock.7").split_whitespace().count();
    assert!(words <= 2_000, "the overview has {words} words");
}

/// A reference to a section is `.Sx HEADING` within a page. To a section of another page, it is `.Dq HEADING`, `in` and
/// `.Xr PAGE`, or `HEADING in PAGE(7)` in the handwritten parts, with quotation marks unless the heading is in capitals.
#[test]
fn every_page_and_section_to_which_a_page_refers_exists() {
    let headings = |page: &str| -> Vec<String> {
        let text = document(page);
        let lines = text.lines().filter(|line| is_heading(line));
        lines.map(|line| line[4..].replace("\\&", "")).collect()
    };
    let mut references = 0;
    for page in handwritten_pages() {
        let text = document(&page);
        let lines: Vec<&str> = text
            .lines()
            .map(|line| line.trim_end_matches([' ', '.', ',', ';']))
            .collect();
        for (at, line) in lines.iter().enumerate() {
            if let Some(heading) = line.strip_prefix(".Sx ") {
                assert!(
                    headings(&page).iter().any(|one| one == heading),
                    "{page}: {line}"
                );
            }
            let Some(name) = line.strip_prefix(".Xr dlock") else {
                continue;
            };
            let other = format!("man/dlock{}", name.replace(' ', "."));
            assert!(root().join(&other).exists(), "{page}: {line}");
            if at > 1 && lines[at - 1] == "in" && other.ends_with(".7") {
                let heading = lines[at - 2].strip_prefix(".Dq ").unwrap_or(lines[at - 2]);
                assert!(
                    headings(&other).iter().any(|one| one == heading),
                    "{page}: {heading}"
                );
                references += 1;
            }
        }
    }
    for (path, text) in documents() {
        if path.extension().is_none_or(|end| end != "man") {
            continue;
        }
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (at, _) in text.match_indices("(7)") {
            let before = &text[..at];
            let (before, name) = before.rsplit_once(' ').expect("a text before the name");
            let other = format!("man/{name}.7");
            assert!(root().join(&other).exists(), "{}: {name}", path.display());
            let Some(before) = before.strip_suffix(" in") else {
                continue;
            };
            let before = before.trim_end_matches('"');
            let known = headings(&other);
            let is_known = known
                .iter()
                .any(|heading| before.ends_with(heading.as_str()));
            assert!(is_known, "{}: {before} in {other}", path.display());
            references += 1;
        }
    }
    assert!(
        references > 30,
        "only {references} found: the test reads too little"
    );
}

#[test]
fn the_changelog_begins_with_unreleased_changes() {
    let changelog = document("CHANGELOG.md");
    let first = changelog.lines().find(|line| line.starts_with("## "));
    assert_eq!(first, Some("## Unreleased"));
}

#[test]
fn no_document_refers_to_files_outside_the_project() {
    for (path, text) in documents() {
        for word in ["shared/", "DESIGN", "STYLE", "/home", "/root"] {
            assert!(!text.contains(word), "{word} is in {}", path.display());
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

/// Returns the path and the plain text of every handwritten document.
fn documents() -> Vec<(PathBuf, String)> {
    let mut paths = ["README.md", "CHANGELOG.md"].map(PathBuf::from).to_vec();
    paths.extend(handwritten_pages().into_iter().map(PathBuf::from));
    for entry in fs::read_dir(root().join("man/parts")).expect("the folder exists") {
        let name = entry.expect("the folder can be read").file_name();
        paths.push(Path::new("man/parts").join(name));
    }
    for entry in fs::read_dir(root().join("docs")).expect("the folder exists") {
        let path = Path::new("docs").join(entry.expect("the folder can be read").file_name());
        if path.extension().is_some_and(|end| end == "md") {
            paths.push(path);
        }
    }
    let read = |path: PathBuf| {
        let text = document(path.to_str().expect("the names are ASCII"));
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// Returns the paths of the man pages that are not generated, sorted.
fn handwritten_pages() -> Vec<String> {
    pages_of_sections("7")
}

/// Returns the paths of the man pages in the sections whose numbers `sections` contains, sorted.
fn pages_of_sections(sections: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join("man")).expect("the folder exists");
    let names = entries.map(|entry| {
        let name = entry.expect("the folder can be read").file_name();
        name.into_string().expect("the names are ASCII")
    });
    let is_page = |name: &String| {
        name.rsplit_once('.')
            .is_some_and(|(_, end)| sections.contains(end))
    };
    let mut pages: Vec<String> = names
        .filter(is_page)
        .map(|name| format!("man/{name}"))
        .collect();
    pages.sort();
    pages
}

fn is_heading(line: &str) -> bool {
    [".Sh ", ".Ss ", ".SH ", ".SS "]
        .iter()
        .any(|rank| line.starts_with(rank))
}

/// Returns the content of the document at `path` below the project folder, without roff escapes.
#[track_caller]
fn document(path: &str) -> String {
    let text = fs::read_to_string(root().join(path))
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

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// mdoc(7) takes some words in a heading for macros, and does not print them.
#[test]
fn no_heading_of_a_handwritten_page_contains_a_macro() {
    let pages: Vec<String> = handwritten_pages()
        .iter()
        .map(|page| document(page))
        .collect();
    let lines = pages.iter().flat_map(|page| page.lines());
    let headings = lines.filter(|line| is_heading(line));
    let words = headings.flat_map(|heading| heading.split(' ').skip(1));
    let macros = [
        "An", "Ap", "At", "Do", "Em", "In", "Li", "No", "Ns", "So", "Op",
    ];
    let found: Vec<&str> = words.filter(|word| macros.contains(word)).collect();
    assert_eq!(found, [""; 0], "write \\& before the word");
}
