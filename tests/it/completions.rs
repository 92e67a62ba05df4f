//! Tests of the shell completions, in the shells.
//!
//! A test types the start of a command line and the Tab key on a terminal, and checks the words that the shell would
//! pass to dlock.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, eventually};
use testkit::network::{local, resolving};
use testkit::servers::{Database, Flavour, shared};
use testkit::shell::{Kind, Shell};

/// Names with characters that have a special meaning in a shell. The first letter of each name is unique.
const HOSTILE: [&str; 12] = [
    "a$(touch pwned)",
    "b`touch pwned`",
    "c two  words",
    "d:one:two",
    "e=one=two",
    "f'single",
    "g\"double",
    "h\\back",
    "i;touch pwned",
    "j*?[a-z]{1,2}",
    "k#!&|<>~",
    "lümlaut数",
];

/// Returns a database in which all locks with a name in `names` were used.
fn database_with(flavour: Flavour, names: &[&str]) -> Database {
    let database = shared(flavour).database("completions");
    Dlock::on(&database, ["setup", "-q"])
        .run()
        .expect(0, "", "");
    let mut conn = database.admin_conn();
    for name in names {
        conn.exec_drop("INSERT INTO dlock_lock (action) VALUES (?)", (*name,))
            .expect("the row is inserted");
    }
    database
}

/// Returns the names that `dlock complete-names` prints.
fn names(database: &Database, arguments: &[&str]) -> String {
    let outcome = Dlock::on(database, ["complete-names"])
        .args(arguments)
        .run();
    outcome.expect(0, &outcome.stdout, "");
    outcome.stdout
}

/// Returns the names that begin with `prefix`. Tries again if there are none, because on a busy machine, dlock may not
/// read the names in time.
#[track_caller]
fn names_in_time(database: &Database, prefix: &str) -> String {
    let mut found = String::new();
    eventually("the names are read in time", || {
        found = names(database, &[prefix]);
        !found.is_empty()
    });
    found
}

#[test]
fn names_come_from_the_server_and_are_never_executed() {
    let database = database_with(Flavour::of_this_test(), &HOSTILE);
    for kind in Kind::ALL {
        let mut shell = Shell::on(&database, kind);
        for name in HOSTILE {
            let first = &name[..1];
            shell.completes(
                &format!("dlock exec -a {first}"),
                &["dlock", "exec", "-a", name],
            );
        }
        assert!(!shell.home.path().join("pwned").exists(), "{kind:?}");
    }
}

#[test]
fn names_complete_in_quotes_after_an_equals_sign_and_in_the_middle() {
    let database = database_with(Flavour::MariaDb, &HOSTILE);
    for kind in Kind::ALL {
        let mut shell = Shell::on(&database, kind);
        for (typed, name) in [
            ("'a", "a$(touch pwned)"),
            ("\"a", "a$(touch pwned)"),
            ("\"b", "b`touch pwned`"),
            ("'f", "f'single"),
            ("\"g", "g\"double"),
            ("\"h", "h\\back"),
            ("a\\$\\(to", "a$(touch pwned)"),
            ("c\\ tw", "c two  words"),
            ("d:o", "d:one:two"),
            ("d:one:", "d:one:two"),
            ("e=one=t", "e=one=two"),
        ] {
            let words = ["dlock", "exec", "-a", name];
            shell.completes(&format!("dlock exec -a {typed}"), &words);
        }
        for (typed, name) in [
            ("c", "c two  words"),
            ("d:one:", "d:one:two"),
            ("e", "e=one=two"),
        ] {
            let word = format!("--action={name}");
            shell.completes(
                &format!("dlock exec --action={typed}"),
                &["dlock", "exec", &word],
            );
        }
        assert!(!shell.home.path().join("pwned").exists(), "{kind:?}");
    }
}

#[test]
fn each_argument_and_option_for_a_name_completes_names() {
    let database = database_with(Flavour::MySql, &["migrate"]);
    for kind in Kind::ALL {
        let mut shell = Shell::on(&database, kind);
        for line in [
            "dlock exec -a",
            "dlock exec -n --ttl 5s --once -a",
            "dlock exec",
            "dlock exec --note text",
            "dlock check",
            "dlock forget",
            "dlock release -y",
            "dlock status",
            "dlock status -a",
            "dlock history migrate",
            "dlock wait",
            "dlock release --reason test -a",
            "dlock forget -a",
            "dlock check -a",
        ] {
            let words: Vec<&str> = line.split(' ').chain(["migrate"]).collect();
            shell.completes(&format!("{line} mi"), &words);
        }
        if kind != Kind::Fish {
            // fish completes no value after several short options in one word.
            let words = ["dlock", "exec", "-na", "migrate"];
            shell.completes("dlock exec -na mi", &words);
        }
    }
}

#[test]
fn connection_options_on_the_command_line_select_the_server() {
    let database = database_with(Flavour::MariaDb, &["migrate"]);
    for kind in Kind::ALL {
        let mut shell = Shell::with(&database, kind, &["DLOCK_URL=mysql://u@127.0.0.1:1/x"]);
        let file = shell.home.path().join("url file");
        fs::write(&file, database.url()).expect("the file can be written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("the file exists");
        let absolute = file.display().to_string();
        let (before, after) = (["dlock", "exec", "-a", "mi"], ["migrate"]);
        shell.keeps("dlock exec -a mi", &before);
        let words = ["dlock", "--url-file", "url file", "exec", "-a", after[0]];
        shell.completes("dlock --url-file 'url file' exec -a mi", &words);
        shell.completes("dlock --url-file url\\ file exec -a mi", &words);
        let words = ["dlock", "exec", "--url-file", &absolute, "-a", after[0]];
        shell.completes("dlock exec --url-file ~/url\\ file -a mi", &words);
        let word = format!("--url-file={absolute}");
        let words = ["dlock", "exec", &word, "-a", after[0]];
        shell.completes(&format!("dlock exec '{word}' -a mi"), &words);
    }
}

#[test]
fn nothing_appears_when_the_names_cannot_be_read() {
    let database = database_with(Flavour::MariaDb, &["migrate"]);
    let empty = shared(Flavour::MariaDb).database("completions");
    // The kernel completes the connections, and nobody sends a greeting.
    let silent = TcpListener::bind(local(0)).expect("127.0.0.1 has a free port");
    let silent_port = silent.local_addr().expect("the listener is bound").port();
    let free = TcpListener::bind(local(0)).expect("127.0.0.1 has a free port");
    let refused_port = free.local_addr().expect("the listener is bound").port();
    drop(free);
    let silent_url = database.url_through(silent_port);
    let refused_url = database.url_through(refused_port);
    for kind in Kind::ALL {
        for url in [
            "",
            "nonsense",
            &silent_url,
            &refused_url,
            &empty.url(),
            &database.url().replace(&database.password, "wrong"),
        ] {
            let mut shell = Shell::with(&database, kind, &[&format!("DLOCK_URL={url}")]);
            shell.keeps("dlock exec -a mi", &["dlock", "exec", "-a", "mi"]);
            let screen = shell.screen().to_lowercase();
            assert!(
                !screen.contains("error") && !screen.contains("dlock:"),
                "{screen}"
            );
        }
    }
}

#[test]
fn files_are_offered_only_for_paths_and_nothing_for_text() {
    let database = database_with(Flavour::MariaDb, &[]);
    for kind in Kind::ALL {
        let mut shell = Shell::on(&database, kind);
        fs::write(shell.home.path().join("path to it"), "").expect("the file can be written");
        let file = "path to it";
        for option in [
            "--url-file",
            "--password-file",
            "--ssl-ca",
            "--heartbeat-file",
        ] {
            let words = ["dlock", "exec", option, file];
            shell.completes(&format!("dlock exec {option} pa"), &words);
        }
        for option in ["-a", "--note", "--ttl", "--host", "--database", "--history"] {
            let words = ["dlock", "exec", option, "pa"];
            shell.keeps(&format!("dlock exec {option} pa"), &words);
        }
        shell.keeps("dlock status pa", &["dlock", "status", "pa"]);
        shell.keeps("dlock setup pa", &["dlock", "setup", "pa"]);
        // fish also offers a subcommand that contains the letters of the word in this order.
        shell.keeps("dlock pat", &["dlock", "pat"]);
    }
}

#[test]
fn subcommands_options_and_lists_of_values_complete() {
    let database = database_with(Flavour::MariaDb, &[]);
    for kind in Kind::ALL {
        let mut shell = Shell::on(&database, kind);
        shell.completes("dlock hist", &["dlock", "history"]);
        shell.keeps("dlock complete-n", &["dlock", "complete-n"]);
        shell.completes("dlock exec --max-r", &["dlock", "exec", "--max-runtime"]);
        let words = ["dlock", "--log-format", "json", "doctor"];
        shell.completes("dlock --log-format json doc", &words);
        shell.completes("dlock --log-format j", &["dlock", "--log-format", "json"]);
        let words = ["dlock", "exec", "--ssl-mode", "required"];
        shell.completes("dlock exec --ssl-mode req", &words);
    }
}

#[test]
fn words_after_two_dashes_complete_as_without_dlock() {
    let database = database_with(Flavour::MariaDb, &["too", "alphabet"]);
    for kind in Kind::ALL {
        let mut shell = Shell::on(&database, kind);
        for name in ["-a x", "x"] {
            let line = format!("dlock exec {name} -- too");
            let words: Vec<&str> = line.split(' ').collect();
            shell.completes(&line, &[&words[..words.len() - 1], &["tool"]].concat());
        }
        fs::write(shell.home.path().join("alone here"), "").expect("the file can be written");
        let argument = match kind {
            Kind::BareBash => "alone here",
            _ => "alpha",
        };
        let words = [
            "dlock",
            "exec",
            "--note=a b",
            "-a",
            "x",
            "--",
            "tool",
            "--x=y z",
            argument,
        ];
        shell.completes("dlock exec --note='a b' -a x -- tool '--x=y z' al", &words);
    }
}

#[test]
fn names_have_the_prefix_and_their_number_is_limited() {
    for flavour in Flavour::ALL {
        let database = database_with(flavour, &["a%b", "aab", "a_b", "A", "b", "a\u{10ffff}"]);
        for (prefix, wanted) in [
            ("a", "a%b\na_b\naab\na\u{10ffff}\n"),
            ("a%", "a%b\n"),
            ("a\u{10ffff}", "a\u{10ffff}\n"),
        ] {
            assert_eq!(names_in_time(&database, prefix), wanted);
        }
        assert_eq!(names(&database, &["-a"]), "");
        let mut conn = database.admin_conn();
        // A row of another program must not start a new line.
        conn.query_drop("INSERT INTO dlock_lock (action) VALUES ('c\\nd'), (x'63ff')")
            .expect("the rows are inserted");
        assert_eq!(names(&database, &["c"]), "");
        let rows: Vec<_> = (0..1500).map(|number| (format!("n{number:04}"),)).collect();
        conn.exec_batch("INSERT INTO dlock_lock (action) VALUES (?)", rows)
            .expect("the rows are inserted");
        let found = names_in_time(&database, "n");
        assert_eq!(found.lines().count(), 1000);
        assert!(found.ends_with("n0999\n"));
    }
}

#[test]
fn names_end_without_output_when_the_resolver_or_a_file_blocks() {
    let database = database_with(Flavour::MariaDb, &["migrate"]);
    let url = database.url().replace("127.0.0.1", "stuck.test");
    assert!(url.contains("stuck.test"), "{url}");
    resolving(
        Dlock::new(["complete-names", ""]).env("DLOCK_URL", url),
        "stuck.test=never",
    )
    .run()
    .expect(0, "", "");

    let folder = tempfile::tempdir().expect("a temporary folder");
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .expect("a new pipe");
    Dlock::new(["complete-names", "", "--", "--url-file"])
        .arg(&fifo)
        .run()
        .expect(0, "", "");
}

#[test]
fn names_are_read_by_an_account_that_can_only_read() {
    for flavour in Flavour::ALL {
        let database = database_with(flavour, &["migrate"]);
        let server = shared(flavour);
        let mut reader = server.database("reader");
        let grant = format!(
            "GRANT SELECT ON `{}`.* TO '{}'@'%'",
            database.name, reader.user
        );
        server
            .admin()
            .query_drop(grant)
            .expect("the privileges can be granted");
        reader.name.clone_from(&database.name);
        assert_eq!(names_in_time(&reader, ""), "migrate\n");
        let empty = server.database("completions");
        assert_eq!(names(&empty, &[""]), "");
        let tables: Vec<String> = empty.admin_conn().query("SHOW TABLES").expect("a list");
        assert_eq!(tables, [] as [&str; 0]);
    }
}
