//! Tests that dlock never reveals a password, and that hostile strings from other programs cannot control a terminal or
//! forge a line of output.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use mysql::prelude::Queryable;
use mysql::{Row, Value};
use testkit::cli_runner::{Dlock, Outcome};
use testkit::command::Stage;
use testkit::each_server::everywhere;
use testkit::holder::Holder;
use testkit::network::{local, refusing};
use testkit::proxy::Port;
use testkit::servers::{Database, Flavour, shared};

use crate::connection::private;
use crate::faults::on_each;

/// The password. Every incorrect password in these tests also contains this string. No other string in these tests
/// contains it.
const SENTINEL: &str = "S3NT1NEL";

/// A source of the password: a variable and its value.
type Source = (&'static str, String);

/// Returns all sources of a password for `user`. `address` has the form `HOST:PORT/DATABASE`.
#[track_caller]
fn sources(stage: &Stage, user: &str, address: &str) -> [Source; 5] {
    let file = |name: &str, text: &str| private(stage, name, text).display().to_string();
    let url = format!("mysql://{user}:{SENTINEL}@{address}");
    let password = file("password", SENTINEL);
    let options = format!("[client]\nuser={user}\npassword={SENTINEL}\n");
    let options = file("options", &options);
    [
        ("DLOCK_URL_FILE", file("url", &url)),
        ("DLOCK_URL", url),
        ("DLOCK_PASSWORD_FILE", password),
        ("DLOCK_PASSWORD", SENTINEL.to_owned()),
        ("DLOCK_DEFAULTS_FILE", options),
    ]
}

/// Returns `dlock` that connects to `address` as `user`, with the password from `source`.
fn with(dlock: Dlock, (name, value): &Source, user: &str, address: &str) -> Dlock {
    let dlock = match *name {
        "DLOCK_URL_FILE" => dlock,
        _ => dlock.env("DLOCK_URL", format!("mysql://{user}@{address}")),
    };
    dlock.env(name, value)
}

/// Asserts that `outcome` has `status` and some output, and that the output does not contain [`SENTINEL`].
#[track_caller]
fn assert_no_secret(outcome: &Outcome, status: i32, what: &str) {
    assert_eq!(outcome.status, Some(status), "{what}: {outcome:#?}");
    let text = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(!text.contains(SENTINEL), "{what}: {outcome:#?}");
    assert!(!text.is_empty(), "{what}: {outcome:#?}");
}

/// Creates a database whose account has the password [`SENTINEL`].
#[track_caller]
fn database(flavour: Flavour) -> Database {
    let database = shared(flavour).database("secrets");
    let user = &database.user;
    database.run(format!(
        "ALTER USER '{user}'@'%' IDENTIFIED BY '{SENTINEL}'"
    ));
    database
}

/// Returns the command lines of the process `pid` and of all its descendants.
fn command_lines(pid: u32) -> Vec<String> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
    // A descendant, such as a hook, may end at any time.
    let mut all = vec![read("cmdline").unwrap_or_default()];
    let children = read(&format!("task/{pid}/children")).unwrap_or_default();
    for child in children.split_whitespace() {
        let child = child.parse().expect("the string is a number");
        all.extend(command_lines(child));
    }
    all
}

#[test]
fn run_never_prints_or_stores_its_password() {
    let database = database(Flavour::of_this_test());
    let address = format!("127.0.0.1:{}/{}", database.port, database.name);
    let stage = Stage::new();
    let sources = sources(&stage, &database.user, &address);
    for source in &sources {
        let name = source.0;
        let with = |dlock| with(dlock, source, &database.user, &address);
        let stage = Stage::new();
        let (metrics, hook) = (stage.path("metrics"), stage.path("hook"));
        // The hook inherits the environment of dlock, as the command does. Only the two variables that the hook filters out
        // may contain the password.
        let filter = "env | grep -v -e ^DLOCK_URL= -e ^DLOCK_PASSWORD=";
        let filter = format!("{filter} >> {}", hook.display());
        let dlock = Dlock::new(["exec", "-v", "--log-format=json"])
            .env("DLOCK_OPT_METRICS_FILE", &metrics)
            .env("DLOCK_OPT_ON_EVENT", filter);
        let holder = Holder::start(with(dlock), &[]);
        let lines = command_lines(holder.running.pid());
        let is_complete = lines.len() > 1 && lines[0].contains("exec");
        assert!(is_complete, "{name}: {lines:?}");
        let is_shown = lines.iter().any(|line| line.contains(SENTINEL));
        assert!(!is_shown, "{name}: {lines:?}");
        // Other processes run while the command runs.
        for (words, status) in [
            ("status -v", 0),
            ("release -v -a init --yes --token=1", 76),
            ("exec -v -n -a init -- true", 75),
            ("setup -v", 0),
            ("doctor -v", 0),
        ] {
            let dlock = with(Dlock::new(words.split(' ')));
            assert_no_secret(&dlock.run(), status, name);
        }
        assert_no_secret(&holder.end(), 3, name);
        for (file, has) in [(metrics, "dlock_result"), (hook, "DLOCK_EVENT=released")] {
            let text = fs::read_to_string(&file).expect("the file is written");
            assert!(text.contains(has), "{name}: {text}");
            assert!(!text.contains(SENTINEL), "{name}: {text}");
        }
    }
    // All sources give these subcommands the same settings.
    let with = |dlock| with(dlock, &sources[1], &database.user, &address);
    let script = r#"set -o pipefail; "$0" status -v --watch=100ms | head -n 4"#;
    let watch = ["-c", script, env!("CARGO_BIN_EXE_dlock")];
    for dlock in [
        Dlock::of(Path::new("bash"), watch),
        Dlock::new(["doctor", "--json"]),
        Dlock::new(["setup", "--print"]),
    ] {
        assert_no_secret(&with(dlock).run(), 0, "url");
    }
    for table in ["dlock_lock", "dlock_schema", "dlock_history"] {
        let rows: Vec<Row> = database.rows(format!("SELECT * FROM {table}"));
        assert!(!rows.is_empty(), "{table}");
        let mut text = String::new();
        for value in rows.into_iter().flat_map(Row::unwrap) {
            if let Value::Bytes(bytes) = value {
                text += &String::from_utf8_lossy(&bytes);
            }
        }
        assert!(!text.contains(SENTINEL), "{table}: {text}");
    }
}

#[test]
fn failure_does_not_print_the_password() {
    let flavour = Flavour::of_this_test();
    let unused = Port::reserve(local(0)).expect("127.0.0.1 has a free port");
    let port = unused.number();
    // The password of this account is not the sentinel.
    let other = shared(flavour).database("other");
    let known = database(flavour);
    let server = other.port;
    let Database { name, user, .. } = &other;
    let there = format!("127.0.0.1:{server}/{name}");
    let no_server = format!("127.0.0.1:{port}/{name}");
    let no_name = format!("unknown.invalid:{server}/{name}?ssl-mode=disabled");
    let no_tls = format!("{there}?ssl-mode=verify_ca");
    let no_socket = format!("localhost/{name}?socket=/no/such/socket");
    let bad_query = format!("{there}?sokcet=/no/such/socket");
    for (what, user, address, status) in [
        ("wrong password", user, &there, 77),
        ("no grant", &known.user, &there, 77),
        ("no server", user, &no_server, 69),
        ("no name", user, &no_name, 69),
        ("no tls", &known.user, &no_tls, 78),
        ("no socket", user, &no_socket, 69),
        ("bad query", user, &bad_query, 64),
    ] {
        let stage = Stage::new();
        let sources = sources(&stage, user, address);
        let fails = |words: &str, source: &Source| {
            // An invalid URL in a file is a configuration error, not a usage error.
            let status = match (what, source.0) {
                ("bad query", "DLOCK_URL_FILE") => 78,
                _ => status,
            };
            let dlock = with(Dlock::new(words.split(' ')), source, user, address);
            let what = format!("{what} by {}: {words}", source.0);
            assert_no_secret(&dlock.run(), status, &what);
        };
        for source in &sources {
            fails("exec -v -a init --connect-timeout 0 -- true", source);
        }
        for words in [
            "exec -v -a init --log-format=json --connect-timeout 0 -- true",
            "status -v",
            "setup -v",
            "doctor -v",
            "doctor --json",
        ] {
            fails(words, &sources[1]);
        }
    }
}

/// `config::precedence` and `config::option_file` test which text is refused and that no message of theirs contains it.
#[test]
fn misplaced_password_is_not_printed_and_no_option_takes_a_password() {
    let stage = Stage::new();
    let file = |text: &str| private(&stage, "file", text);
    let run = |words: &str, value: &OsStr| {
        let dlock = Dlock::new(words.split(' ')).arg(value);
        dlock.args(["exec", "-v", "-a", "init", "--", "true"]).run()
    };
    for url in [
        "mysql://u:S3NT1NEL@x@host/db",
        "mysql://u:S3NT1NEL/w@host/db",
        "mysql://u:S3NT1NEL@host:S3NT1NEL/db",
        "mysql://u@host/db?password=S3NT1NEL",
        "u:S3NT1NEL@host/db",
    ] {
        let variable = Dlock::new(["status"]).env("DLOCK_URL", url).run();
        assert_no_secret(&variable, 64, url);
        for option in ["--url", "--host"] {
            assert_no_secret(&run(option, url.as_ref()), 64, url);
        }
        let from_file = run("--url-file", file(url).as_os_str());
        assert_no_secret(&from_file, 78, url);
    }
    for text in ["[client]\npassword: S3NT1NEL\n", "[dlock]\nport=S3NT1NEL\n"] {
        let from_file = run("--defaults-file", file(text).as_os_str());
        assert_no_secret(&from_file, 78, text);
    }

    // No option takes a password.
    let run = |words: &str| {
        let dlock = Dlock::new(words.split(' ')).env("DLOCK_PASSWORD", SENTINEL);
        let dlock = dlock.env("DLOCK_URL", "mysql://u:S3NT1NEL@127.0.0.1/db");
        dlock.run()
    };
    for words in [
        "exec --password=S3NT1NEL -a init -- true",
        "--password=S3NT1NEL exec -a init -- true",
        "exec --password S3NT1NEL -a init -- true",
        "exec -pS3NT1NEL -a init -- true",
        "status -p S3NT1NEL",
    ] {
        let outcome = run(words);
        assert_no_secret(&outcome, 64, words);
        outcome.expect(64, "", "unexpected argument '-");
    }
    for words in ["--help", "exec --help", "exec -h", "--version"] {
        assert_no_secret(&run(words), 0, words);
    }
}

/// Asserts that `text` contains no control characters except line feeds, no characters that change the reading
/// direction, and no Unicode line separators.
#[track_caller]
pub(crate) fn assert_harmless(text: &str) {
    let harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let found = text.chars().find(|&c| c != '\n' && harmful(c));
    assert_eq!(found, None, "{text:?}");
}

/// A string that clears the screen, sets the title of the terminal, changes the reading direction and forges a line of
/// output.
const HOSTILE: &str =
    "\u{1b}[2J\u{1b}]0;pwned\u{7}\u{9b}2J\u{7f}\u{202e}txt\u{2066}\u{2028}\r\ndlock: forged";

#[test]
fn text_of_holders_and_of_other_programs_is_escaped() {
    on_each(|flavour| {
        let database = shared(flavour).database("foreign");
        let (label, note) = (format!("web{HOSTILE}"), format!("why{HOSTILE}"));
        let holder = Holder::on(&database, &["--holder", &label, "--note", &note]);
        let document = Dlock::on(&database, ["status", "--json"]).run().json();
        // A JSON parser returns the original strings.
        assert_eq!(document["locks"][0]["holder"], label, "{flavour}");
        assert_eq!(document["locks"][0]["note"], note, "{flavour}");
        are_harmless(&database, r"web\u{1b}[2J\u{1b}]0;pwned\u{7}");
        assert_eq!(holder.end().status, Some(3));

        // Another program can write every text, also text that is not UTF-8.
        let lock = "owner_id=REPEAT('x',16),expires_at=UTC_TIMESTAMP(6)+INTERVAL 1 HOUR,\
                    revoked_at=UTC_TIMESTAMP(6),paused_until=UTC_TIMESTAMP(6)+INTERVAL 1 HOUR,operator=?,reason=?";
        let run = "started_at=ended_at";
        for (table, columns) in [("dlock_lock", lock), ("dlock_history", run)] {
            let texts = "holder=?,host=?,note=?,pod=?,namespace=?,command=?";
            let statement = format!("UPDATE {table} SET {columns},{texts},user=?");
            let mut values = vec![HOSTILE.as_bytes(); statement.matches('?').count() - 1];
            values.push(b"\xff\xfe\x1b[2J\n");
            let updated = database.admin_conn().exec_drop(statement, values);
            updated.expect("root has all privileges");
        }
        are_harmless(&database, "pwned");
        for words in [
            "history",
            "history --json init",
            "wait --timeout 1ms init",
            "release -a init --yes",
            "release -a init --yes --resume",
        ] {
            is_harmless(&Dlock::typed(&database, words).run(), "pwned");
        }
    });
}

/// Asserts that `status` and contenders escape the strings of the holder of `init`, and print `shown`.
#[track_caller]
fn are_harmless(database: &Database, shown: &str) {
    for (words, status, lines) in [
        ("status init", 0, None),
        ("status", 0, Some(2)),
        ("status --json", 0, Some(1)),
        ("exec -n -a init -- true", 75, None),
        ("exec -v -w 1ms -a init -- true", 75, None),
    ] {
        let outcome = Dlock::typed(database, words).run();
        assert_eq!(outcome.status, Some(status), "{words}: {outcome:#?}");
        // JSON has other escapes.
        let is_json = words.ends_with("json");
        is_harmless(&outcome, if is_json { "pwned" } else { shown });
        // A contender that gives up may leave its queue entry, and then another table follows an empty line.
        let table = outcome.stdout.lines().take_while(|line| !line.is_empty());
        let count = table.count();
        assert!(lines.is_none_or(|lines| lines == count), "{outcome:#?}");
    }
}

/// Asserts that the output contains `shown`, and neither a control character nor a forged line.
#[track_caller]
fn is_harmless(outcome: &Outcome, shown: &str) {
    let text = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(text.contains(shown), "{outcome:#?}");
    assert_harmless(&text);
    let is_forged = text.lines().any(|line| line.starts_with("dlock: forged"));
    assert!(!is_forged, "{outcome:#?}");
}

#[test]
fn messages_of_servers_and_quoted_paths_and_names_are_escaped() {
    let port = refusing(1045, HOSTILE);
    let url = format!("mysql://u:{SENTINEL}@127.0.0.1:{port}/db");
    for words in ["exec -v -a init -- true", "status", "setup"] {
        let outcome = Dlock::new(words.split(' ')).env("DLOCK_URL", &url).run();
        outcome.expect(77, "", r"\u{1b}[2J\u{1b}]0;pwned\u{7}");
        assert_harmless(&outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
        assert_no_secret(&outcome, 77, "server text");
    }
    // `dlock doctor` prints its report to stdout.
    for form in [&["doctor"][..], &["doctor", "--json"]] {
        let outcome = Dlock::new(form).env("DLOCK_URL", &url).run();
        is_harmless(&outcome, "pwned");
        assert_no_secret(&outcome, 77, "server text");
    }
    // Paths and names on the command line are escaped too.
    for words in ["status --defaults-file", "status --socket", "exec init --"] {
        let dlock = Dlock::new(words.split(' ')).arg("/\u{1b}[2J\n");
        let outcome = dlock.env("DLOCK_URL", "mysql://u@127.0.0.1/db").run();
        is_harmless(&outcome, r"\u{1b}[2J\u{a}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    }
    // A real server includes the name of the account in its error message.
    everywhere(|database| {
        let outcome = Dlock::on(database, ["status", "--user", "\u{202e}toor"]).run();
        outcome.expect(77, "", r"\u{202e}toor");
        assert_harmless(&outcome.stderr);
    });
}
