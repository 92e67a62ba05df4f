//! Tests that dlock never reveals a password, and that hostile strings from other programs cannot control a terminal or
//! forge a line of output.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mysql::prelude::Queryable;
use mysql::{Row, Value};
use testkit::cli_runner::{Dlock, Outcome};
use testkit::command::{Stage, read_message, write_message};
use testkit::network::{local, refusing};
use testkit::on_each_flavour;
use testkit::proxy::Port;
use testkit::servers::{Database, Flavour, shared};

/// The password. Every incorrect password in these tests also contains this string. No other string in these tests
/// contains it.
const SENTINEL: &str = "S3NT1NEL";

/// The name of a source of the password, and the environment variables that configure this source.
type Source = (&'static str, Vec<(&'static str, String)>);

/// Returns all sources of a password for `user`. `address` has the form `HOST:PORT/DATABASE`.
#[track_caller]
fn sources(stage: &Stage, user: &str, address: &str) -> [Source; 5] {
    let file = |name: &str, text: String| {
        let path = stage.path(name);
        fs::write(&path, text).expect("the folder is writable");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("this user owns the file");
        path.to_str().expect("the path is UTF-8").to_owned()
    };
    let full = format!("mysql://{user}:{SENTINEL}@{address}");
    let bare = ("DLOCK_URL", format!("mysql://{user}@{address}"));
    let options = format!("[client]\nuser={user}\npassword={SENTINEL}\n");
    [
        ("url", vec![("DLOCK_URL", full.clone())]),
        ("url file", vec![("DLOCK_URL_FILE", file("url", full))]),
        (
            "password file",
            vec![
                bare.clone(),
                ("DLOCK_PASSWORD_FILE", file("password", SENTINEL.to_owned())),
            ],
        ),
        (
            "variable",
            vec![bare.clone(), ("DLOCK_PASSWORD", SENTINEL.to_owned())],
        ),
        (
            "option file",
            vec![bare, ("DLOCK_DEFAULTS_FILE", file("options", options))],
        ),
    ]
}

/// Returns `dlock` with the password from `source`.
fn with(dlock: Dlock, source: &Source) -> Dlock {
    let (_, settings) = source;
    settings
        .iter()
        .fold(dlock, |dlock, (name, value)| dlock.env(name, value))
}

/// Asserts that `outcome` has `status` and some output, and that the output does not contain [`SENTINEL`].
#[track_caller]
fn assert_no_secret(outcome: &Outcome, status: i32, what: &str) {
    assert_eq!(outcome.status, Some(status), "{what}: {outcome:#?}");
    for text in [&outcome.stdout, &outcome.stderr] {
        assert!(!text.contains(SENTINEL), "{what}: {outcome:#?}");
    }
    assert!(
        !outcome.stdout.is_empty() || !outcome.stderr.is_empty(),
        "{what}: {outcome:#?}"
    );
}

/// Creates a database whose account has the password [`SENTINEL`].
#[track_caller]
fn database(flavour: Flavour) -> Database {
    let database = shared(flavour).database("secrets");
    let alter = format!(
        "ALTER USER '{}'@'%' IDENTIFIED BY '{SENTINEL}'",
        database.user
    );
    database
        .admin_conn()
        .query_drop(alter)
        .expect("root has all privileges");
    database
}

/// Returns the command lines of the process `pid` and of all its descendants.
fn command_lines(pid: u32) -> Vec<String> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
    let own = read("cmdline").expect("the process is alive");
    let children = read(&format!("task/{pid}/children")).unwrap_or_default();
    let mut all = vec![own];
    for child in children.split_whitespace() {
        all.extend(command_lines(
            child.parse().expect("the string is a number"),
        ));
    }
    all
}

on_each_flavour!(run_never_prints_or_stores_its_password);
fn run_never_prints_or_stores_its_password(flavour: Flavour) {
    let database = database(flavour);
    let stage = Stage::new();
    let address = format!("127.0.0.1:{}/{}", shared(flavour).port(), database.name);
    for source in sources(&stage, &database.user, &address) {
        let name = source.0;
        let stage = Stage::new();
        let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
        let command = format!("echo up >{}; read -r _ <{}", ready.display(), go.display());
        let (metrics, hook) = (stage.path("metrics"), stage.path("hook"));
        let dlock = Dlock::new(["exec", "-v", "-a", "init", "--log-format=json"])
            .env("DLOCK_OPT_METRICS_FILE", &metrics)
            // The hook inherits the environment of dlock, as the command does. Only the two variables that the hook
            // filters out may contain the password.
            .env(
                "DLOCK_OPT_ON_EVENT",
                format!(
                    "env | grep -v -e ^DLOCK_URL= -e ^DLOCK_PASSWORD= >> {}",
                    hook.display()
                ),
            );
        let dlock = dlock.args(["--", "sh", "-c", &command]);
        let run = with(dlock, &source).start();
        assert_eq!(read_message(&ready), "up");
        let lines = command_lines(run.pid());
        assert!(
            lines.len() > 1 && lines[0].contains("exec"),
            "{flavour}, {name}: {lines:?}"
        );
        assert!(
            lines.iter().all(|line| !line.contains(SENTINEL)),
            "{flavour}, {name}: {lines:?}"
        );
        // While the command runs, other processes run `status`, `release` and another `exec`.
        assert_no_secret(&with(Dlock::new(["status", "-v"]), &source).run(), 0, name);
        let script = r#"set -o pipefail; "$0" status -v --watch=100ms | head -n 4"#;
        let program = env!("CARGO_BIN_EXE_dlock");
        let watch = Dlock::of(Path::new("bash"), ["-c", script, program]);
        assert_no_secret(&with(watch, &source).run(), 0, name);
        let release = ["release", "-v", "-a", "init", "--yes", "--token=1"];
        assert_no_secret(&with(Dlock::new(release), &source).run(), 76, name);
        let waiter = with(
            Dlock::new(["exec", "-v", "-n", "-a", "init", "--", "true"]),
            &source,
        );
        assert_no_secret(&waiter.run(), 75, name);
        write_message(&go, "on");
        assert_no_secret(&run.wait(), 0, name);
        for (file, has) in [(metrics, "dlock_result"), (hook, "DLOCK_EVENT=released")] {
            let text = fs::read_to_string(&file).expect("the file is written");
            assert!(text.contains(has), "{flavour}, {name}: {text}");
            assert!(!text.contains(SENTINEL), "{flavour}, {name}: {text}");
        }
        assert_no_secret(&with(Dlock::new(["setup", "-v"]), &source).run(), 0, name);
        for form in [&["doctor", "-v"][..], &["doctor", "--json"]] {
            assert_no_secret(&with(Dlock::new(form), &source).run(), 0, name);
        }
        assert_no_secret(
            &with(Dlock::new(["setup", "--print"]), &source).run(),
            0,
            name,
        );
    }
    for table in ["dlock_lock", "dlock_schema"] {
        let rows: Vec<Row> = database
            .admin_conn()
            .query(format!("SELECT * FROM {table}"))
            .expect("root has all privileges");
        assert_eq!(rows.len(), 1, "{flavour}, {table}");
        for value in rows.into_iter().flat_map(Row::unwrap) {
            if let Value::Bytes(bytes) = value {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                assert!(!text.contains(SENTINEL), "{flavour}, {table}: {text}");
            }
        }
    }
}

on_each_flavour!(failure_does_not_print_the_password);
fn failure_does_not_print_the_password(flavour: Flavour) {
    let unused = Port::reserve(local(0)).expect("127.0.0.1 has a free port");
    let port = unused.number();
    // The password of this account is not the sentinel.
    let other = shared(flavour).database("other");
    let known = database(flavour);
    let server = shared(flavour).port();
    let Database { name, user, .. } = &other;
    for (what, user, address, status) in [
        (
            "wrong password",
            user,
            format!("127.0.0.1:{server}/{name}"),
            77,
        ),
        (
            "no grant",
            &known.user,
            format!("127.0.0.1:{server}/{name}"),
            77,
        ),
        ("no server", user, format!("127.0.0.1:{port}/{name}"), 69),
        (
            "no name",
            user,
            format!("unknown.invalid:{server}/{name}?ssl-mode=disabled"),
            69,
        ),
        (
            "no tls",
            &known.user,
            format!("127.0.0.1:{server}/{name}?ssl-mode=verify_ca"),
            78,
        ),
        (
            "no socket",
            user,
            format!("localhost/{name}?socket=/no/such/socket"),
            69,
        ),
        (
            "bad query",
            user,
            format!("127.0.0.1:{server}/{name}?sokcet=/no/such/socket"),
            64,
        ),
    ] {
        let stage = Stage::new();
        for source in sources(&stage, user, &address) {
            // An invalid URL in a file is a configuration error, not a usage error.
            let status = if what == "bad query" && source.0 == "url file" {
                78
            } else {
                status
            };
            let what = format!("{flavour}, {what} by {}", source.0);
            let exec = [
                "exec",
                "-v",
                "-a",
                "init",
                "--ttl",
                "3s",
                "--connect-timeout",
                "0",
                "--",
                "true",
            ];
            assert_no_secret(&with(Dlock::new(exec), &source).run(), status, &what);
            let json = with(Dlock::new(exec), &source).env("DLOCK_OPT_LOG_FORMAT", "json");
            assert_no_secret(&json.run(), status, &what);
            assert_no_secret(
                &with(Dlock::new(["status", "-v"]), &source).run(),
                status,
                &what,
            );
            assert_no_secret(
                &with(Dlock::new(["setup", "-v"]), &source).run(),
                status,
                &what,
            );
            for form in [&["doctor", "-v"][..], &["doctor", "--json"]] {
                assert_no_secret(&with(Dlock::new(form), &source).run(), status, &what);
            }
        }
    }
}

#[test]
fn misplaced_password_is_not_printed() {
    let stage = Stage::new();
    let file = stage.path("file");
    for url in [
        "mysql://u:S3NT1NEL@x@host/db",
        "mysql://u:x@S3NT1NEL@host/db",
        "mysql://u:S3NT1NEL/w@host/db",
        "mysql://u:w/S3NT1NEL@host/db",
        "mysql://u:S3NT1NEL?w@host/db",
        "mysql://u:S3NT1NEL#w@host/db",
        "mysql://u:S3NT1NEL%zz@host/db",
        "mysql://u:S3NT1NEL w@host/db",
        "mysql://u:S3NT1NEL@host:S3NT1NEL/db",
        "mysql://u:S3NT1NEL@[::1/db",
        "mysql://u:S3NT1NEL@/db",
        "mysql://u:S3NT1NEL@host/db/S3NT1NEL",
        "mysql://u@host/db?password=S3NT1NEL",
        "mysql://u@host/db#S3NT1NEL",
        "mysql://host:S3NT1NEL/db",
        "mysql:u:S3NT1NEL@host/db",
        "mysql:/u:S3NT1NEL@host/db",
        "postgres://u:S3NT1NEL@host/db",
        "u:S3NT1NEL@host/db",
        "S3NT1NEL",
    ] {
        fs::write(&file, url).expect("the folder is writable");
        let exec = || Dlock::new(["exec", "-v", "-a", "init", "--connect-timeout", "0"]);
        let ends = |dlock: Dlock| dlock.arg("--").arg("true").run();
        assert_no_secret(&ends(exec().env("DLOCK_URL", url)), 64, url);
        assert_no_secret(&ends(exec().arg("--url").arg(url)), 64, url);
        assert_no_secret(&ends(exec().arg("--host").arg(url)), 64, url);
        assert_no_secret(&ends(exec().arg("--url-file").arg(&file)), 78, url);
    }

    for text in [
        "[client]\npassword S3NT1NEL\n",
        "[client]\npassword: S3NT1NEL\n",
        "[dlock]\npasword=S3NT1NEL\n",
        "[dlock]\nS3NT1NEL\n",
        "[dlock]\nuser=me\nport=S3NT1NEL\n",
        "[dlock]\nssl-mode=S3NT1NEL\n",
        "password=S3NT1NEL\n",
        "[S3NT1NEL\n",
        "!S3NT1NEL\n",
        "!include\n[dlock]\npassword=S3NT1NEL\n",
    ] {
        fs::write(&file, text).expect("the folder is writable");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("this user owns the file");
        let dlock = Dlock::new(["exec", "-v", "-a", "init", "--defaults-file"]).arg(&file);
        assert_no_secret(&dlock.arg("--").arg("true").run(), 78, text);
    }
}

#[test]
fn password_option_does_not_exist_and_its_value_is_not_printed() {
    let url = format!("mysql://u:{SENTINEL}@127.0.0.1/db");
    let equals = format!("--password={SENTINEL}");
    let short = format!("-p{SENTINEL}");
    for line in [
        vec!["exec", &equals, "-a", "init", "--", "true"],
        vec![&equals, "exec", "-a", "init", "--", "true"],
        vec!["exec", "--password", SENTINEL, "-a", "init", "--", "true"],
        vec!["exec", &short, "-a", "init", "--", "true"],
        vec!["exec", "-p", SENTINEL, "-a", "init", "--", "true"],
        vec!["status", &equals],
        vec!["setup", &equals],
        vec!["doctor", &equals],
        vec!["release", "-a", "init", "--yes", &equals],
    ] {
        let outcome = Dlock::new(&line).env("DLOCK_URL", &url).run();
        assert_no_secret(&outcome, 64, "password option");
        outcome.expect(64, "", "unexpected argument '-");
    }
    for line in [
        &["--help"][..],
        &["-h"],
        &["exec", "--help"],
        &["exec", "-h"],
        &["status", "--help"],
        &["--version"],
    ] {
        let help = Dlock::new(line)
            .env("DLOCK_URL", &url)
            .env("DLOCK_PASSWORD", SENTINEL);
        assert_no_secret(&help.run(), 0, "help");
    }
}

/// Asserts that `text` contains no control characters except line feeds, no characters that change the reading
/// direction, and no Unicode line separators.
#[track_caller]
fn assert_harmless(text: &str) {
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
fn labels_of_other_holders_are_escaped_by_status_and_waiters() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("labels");
    let stage = Stage::new();
    let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
    let (holder, note) = (format!("web{HOSTILE}"), format!("why{HOSTILE}"));
    let command = format!("echo up >{}; read -r _ <{}", ready.display(), go.display());
    let exec = ["exec", "-a", "init", "--holder", &holder, "--note", &note];
    let run = Dlock::on(
        &database,
        exec.into_iter().chain(["--", "sh", "-c", &command]),
    )
    .start();
    assert_eq!(read_message(&ready), "up");
    assert_labels_escaped(&database, &holder, &note, flavour);
    write_message(&go, "on");
    run.wait().expect(0, "", "");
}

#[test]
fn text_that_another_program_wrote_to_the_tables_is_escaped() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("foreign");
        Dlock::on(&database, ["exec", "-a", "init", "--", "true"])
            .run()
            .expect(0, "", "");
        let (holder, note) = (format!("web{HOSTILE}"), format!("why{HOSTILE}"));
        database
            .admin_conn()
            .exec_drop(
                "UPDATE dlock_lock SET owner_id = REPEAT('x', 16), holder = ?, note = ?, host = ?, user = ?, \
                 expires_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR",
                (holder.as_bytes(), note.as_bytes(), HOSTILE.as_bytes(), b"\xff\xfe\x1b[2J\n"),
            )
            .expect("root has all privileges");
        assert_labels_escaped(&database, &holder, &note, flavour);
        let columns = "revoked_at=UTC_TIMESTAMP(6),\
                       paused_until=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR";
        let texts = ["operator", "reason", "pod", "namespace", "command"];
        for (at, row) in [
            (columns, "dlock_lock"),
            ("started_at=ended_at", "dlock_history"),
        ] {
            let texts: Vec<String> = texts
                .iter()
                .skip(if row == "dlock_history" { 2 } else { 0 })
                .chain(&["holder", "host", "user", "note"])
                .map(|column| format!("{column}=?"))
                .collect();
            database
                .admin_conn()
                .exec_drop(
                    format!("UPDATE {row} SET {at},{}", texts.join(",")),
                    vec![HOSTILE.as_bytes(); texts.len()],
                )
                .expect("root has all privileges");
        }
        assert_record_escaped(&database, flavour);
    }
}

/// Asserts that all subcommands escape the strings in the tables.
#[track_caller]
fn assert_record_escaped(database: &Database, flavour: Flavour) {
    for (line, status) in [
        (&["status", "init"][..], 0),
        (&["status"], 0),
        (&["status", "--json"], 0),
        (&["history"], 0),
        (&["history", "--json", "init"], 0),
        (&["exec", "-n", "-a", "init", "--", "true"], 75),
        (&["wait", "--timeout", "1ms", "init"], 75),
        (&["release", "-a", "init", "--yes"], 0),
        (&["release", "-a", "init", "--yes", "--resume"], 0),
    ] {
        let outcome = Dlock::on(database, line).run();
        assert_eq!(outcome.status, Some(status), "{flavour}: {outcome:#?}");
        assert_harmless(&outcome.stdout);
        assert_harmless(&outcome.stderr);
        let text = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(text.contains("pwned"), "{flavour}, {line:?}: {text}");
        assert!(
            !text.lines().any(|line| line.starts_with("dlock: forged")),
            "{flavour}, {line:?}: {text}"
        );
    }
}

/// Asserts that `status` and waiters escape the strings of the holder of `init`, which has the label `holder` and the
/// note `note`.
#[track_caller]
fn assert_labels_escaped(database: &Database, holder: &str, note: &str, flavour: Flavour) {
    let table = Dlock::on(database, ["status"]).run();
    assert_eq!(
        (table.status, table.stdout.lines().count()),
        (Some(0), 2),
        "{flavour}: {table:#?}"
    );
    assert_harmless(&table.stdout);
    assert!(
        table.stdout.contains(r"web\u{1b}[2J\u{1b}]0;pwned\u{7}"),
        "{flavour}: {table:#?}"
    );

    let json = Dlock::on(database, ["status", "--json"]).run();
    assert_eq!(
        (json.status, json.stdout.lines().count()),
        (Some(0), 1),
        "{flavour}: {json:#?}"
    );
    assert_harmless(&json.stdout);
    let document: serde_json::Value =
        serde_json::from_str(&json.stdout).expect("the output is JSON");
    // A JSON parser returns the original strings.
    assert_eq!(document["locks"][0]["holder"], holder, "{flavour}");
    assert_eq!(document["locks"][0]["note"], note, "{flavour}");

    for line in [
        &["exec", "-n", "-a", "init", "--", "true"][..],
        &["exec", "-v", "-w", "1ms", "-a", "init", "--", "true"],
    ] {
        let waiter = Dlock::on(database, line).run();
        waiter.expect(75, "", r"init is held by web\u{1b}[2J");
        assert_harmless(&waiter.stderr);
        assert!(
            waiter
                .stderr
                .lines()
                .all(|line| !line.starts_with("dlock: forged")),
            "{flavour}: {waiter:#?}"
        );
    }
}

#[test]
fn server_error_messages_are_escaped() {
    let port = refusing(1045, HOSTILE);
    let url = format!("mysql://u:{SENTINEL}@127.0.0.1:{port}/db");
    for line in [
        &["exec", "-v", "-a", "init", "--", "true"][..],
        &["status"],
        &["setup"],
        &["release", "-a", "init", "--yes"],
    ] {
        let outcome = Dlock::new(line).env("DLOCK_URL", &url).run();
        outcome.expect(77, "", r"\u{1b}[2J\u{1b}]0;pwned\u{7}");
        assert_harmless(&outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
        assert_no_secret(&outcome, 77, "server text");
    }
    // `dlock doctor` prints its report to stdout.
    for form in [&["doctor"][..], &["doctor", "--json"]] {
        let outcome = Dlock::new(form).env("DLOCK_URL", &url).run();
        assert_harmless(&outcome.stdout);
        assert!(outcome.stdout.contains("pwned"), "{outcome:#?}");
        assert_no_secret(&outcome, 77, "server text");
    }
    // A real server includes the name of the account in its error message.
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("text");
        let outcome = Dlock::on(&database, ["status", "--user", "\u{202e}toor"]).run();
        outcome.expect(77, "", r"\u{202e}toor");
        assert_harmless(&outcome.stderr);
    }
}

#[test]
fn quoted_paths_and_names_are_escaped() {
    let url = format!("mysql://u:{SENTINEL}@127.0.0.1/db");
    let hostile = Path::new("/\u{1b}[2J\n");
    let run = |line: &[&str]| Dlock::new(line).env("DLOCK_URL", &url);
    for outcome in [
        run(&["status", "--defaults-file"]).arg(hostile).run(),
        run(&["status", "--socket"]).arg(hostile).run(),
        run(&["exec", "-a", "init", "--"]).arg(hostile).run(),
    ] {
        assert_harmless(&outcome.stderr);
        assert!(outcome.stderr.contains(r"\u{1b}[2J\u{a}"), "{outcome:#?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    }
}
