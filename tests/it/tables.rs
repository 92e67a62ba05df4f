//! Tests of the tables of `status` and `history` on a terminal and on a pipe, and of the words in place of an empty
//! table.

use testkit::cli_runner::Dlock;
use testkit::servers::{Database, Flavour, shared};
use testkit::terminal::Terminal;

/// A note that is too long for a table of 80 columns.
const NOTE: &str = "the release with the long name that no terminal shows in full";

/// Returns a database in which `job-10` and `job-2` are held, with a note and a run each.
fn two_jobs(flavour: Flavour) -> Database {
    let database = shared(flavour).database("tables");
    for action in ["job-10", "job-2"] {
        let exec = Dlock::on(&database, ["exec", "-a", action, "--note", NOTE]);
        exec.args(["--", "sh", "-c", "exit 3"]).expect(3, "", "");
    }
    let hold = "UPDATE dlock_lock SET owner_id=REPEAT('x',16),server='elsewhere',\
                renewed_at=UTC_TIMESTAMP(6),expires_at=UTC_TIMESTAMP(6)+INTERVAL 1 HOUR";
    database.run(hold);
    database
}

/// Runs `script` on a terminal of `columns` columns that understands colours, and returns the output. In the script,
/// `$dlock` is the path of dlock.
fn on_terminal(database: &Database, columns: u16, script: &str) -> String {
    let script = format!("read go; stty -echo cols {columns}; unset NO_COLOR; {script}");
    let words = ["env", "TERM=xterm-256color", "sh", "-c", &script];
    let mut terminal = Terminal::with(database, words);
    terminal.enters("go");
    assert_eq!(terminal.ends(), Some(0), "{}", terminal.screen());
    let screen = terminal.screen();
    let (_, output) = screen.split_once("go\r\n").expect("the terminal echoes");
    output.replace("\r\n", "\n")
}

/// Returns the text without escape sequences of colours.
fn without_colours(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once('m').map_or("", |(_, text)| text));
    rest.fold(first, |text, part| text + part)
}

/// Returns the words of the heading. The widths of the columns depend on the time of the request.
fn headings(output: &str) -> String {
    let heading = output.lines().next().unwrap_or_default();
    heading.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn tables_fit_the_terminal_and_are_complete_on_a_pipe_and_with_wide() {
    let database = two_jobs(Flavour::of_this_test());
    for table in ["status", "history"] {
        let narrow = on_terminal(&database, 80, &format!("\"$dlock\" {table}"));
        assert!(narrow.contains('\u{1b}'), "{narrow}");
        let narrow = without_colours(&narrow);
        for line in narrow.lines() {
            assert!(line.chars().count() <= 80, "{line:?}");
        }
        assert!(!narrow.contains(NOTE), "{narrow}");
        assert!(narrow.contains("job-10"), "{narrow}");
        assert!(!headings(&narrow).contains("TOKEN"), "{narrow}");

        let piped = Dlock::on(&database, [table]).run().stdout;
        let wide = on_terminal(&database, 80, &format!("\"$dlock\" {table} --wide"));
        for full in [&piped, &without_colours(&wide)] {
            assert!(full.contains(NOTE), "{full}");
            assert_eq!(headings(full), headings(&piped));
            assert!(headings(full).contains("TOKEN"), "{full}");
        }
        assert!(!piped.contains('\u{1b}'), "{piped}");

        let plain = format!("\"$dlock\" {table} --color=never; NO_COLOR=1 \"$dlock\" {table}");
        let plain = on_terminal(&database, 80, &plain);
        assert!(!plain.contains('\u{1b}'), "{plain}");
        let always = Dlock::on(&database, [table, "--color=always"]).run();
        assert!(always.stdout.contains("\u{1b}["), "{}", always.stdout);
    }

    // Names are in natural order.
    let names = |words: &[&str]| -> Vec<String> {
        let table = Dlock::on(&database, words).run().stdout;
        let names = table.lines().filter_map(|line| line.split(' ').next());
        let names = names.filter(|name| name.starts_with("job-"));
        names.map(str::to_owned).collect()
    };
    assert_eq!(names(&["status"]), ["job-2", "job-10"]);
    let some = names(&["status", "job-10", "job-9", "job-2"]);
    assert_eq!(some, ["job-2", "job-9", "job-10"]);
}

#[test]
fn empty_tables_unused_actions_and_unknown_names_are_described() {
    let database = shared(Flavour::of_this_test()).database("words");
    let dlock = |words: &[&str]| Dlock::on(&database, words).run();
    dlock(&["setup", "-q"]).expect(0, "", "");
    let nothing = "nothing is held, and there are no waiters\n";
    dlock(&["status"]).expect(0, nothing, "");
    dlock(&["status", "--all"]).expect(0, nothing, "");
    dlock(&["history"]).expect(0, "no runs are recorded\n", "");

    let pause = dlock(&["release", "-a", "early", "--yes", "--pause=1h", "--create"]);
    pause.expect(0, "", "early is paused");
    dlock(&["exec", "-a", "init", "--history=0", "--", "true"]).expect(0, "", "");
    let early = dlock(&["status", "early"]).stdout;
    assert!(early.contains("last run   never used\n"), "{early}");
    assert!(!dlock(&["status", "init"]).stdout.contains("never used"));

    let unknown = "this database has no action with this name";
    let inti = format!("inti: unknown\n  diagnosis  {unknown}\n");
    dlock(&["status", "inti"]).expect(0, &inti, "");
    let both = dlock(&["status", "init", "inti"]).stdout;
    assert!(both.contains("inti    unknown  "), "{both}");
    dlock(&["status", "--check", "inti"]).expect(0, "", "");
    let json = dlock(&["status", "--json", "early", "inti"]).json();
    let known = [0, 1].map(|lock| json["locks"][lock]["known"].as_bool());
    assert_eq!(known, [Some(true), Some(false)]);
    let words = format!("init has no recorded runs\ninti is unknown: {unknown}\n");
    dlock(&["history", "init", "inti"]).expect(0, &words, "");

    let warning = format!("dlock: inti is unknown: {unknown}\n");
    dlock(&["wait", "inti"]).expect(0, "", &warning);
    dlock(&["wait", "inti", "--done", "--timeout=1ms"]).expect(75, "", &warning);
    assert_eq!(dlock(&["wait", "init"]).stderr, "");
}
