//! Tests of the shell completions, in the shells.
//!
//! A test types the start of a command line and the Tab key on a terminal, and checks the words that the shell would
//! pass to dlock.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, eventually};
use testkit::command::Stage;
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

fn database_with(flavour: Flavour, names: &[&str]) -> Database {
    let database = shared(flavour).set_up("completions");
    let mut conn = database.admin_conn();
    let insert = "INSERT INTO dlock_lock (action) VALUES (?)";
    let inserted = conn.exec_batch(insert, names.iter().map(|name| (*name,)));
    inserted.expect("the names are inserted");
    database
}

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
fn names_complete_unquoted_in_quotes_and_after_an_equals_sign_and_are_never_executed() {
    let database = database_with(Flavour::of_this_test(), &HOSTILE);
    for kind in Kind::ALL {
        let mut shell = Shell::on(&database, kind);
        let first_letters = HOSTILE.map(|name| (&name[..1], name));
        for (typed, name) in first_letters.into_iter().chain([
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
        ]) {
            let words = ["dlock", "exec", "-a", name];
            shell.completes(&format!("dlock exec -a {typed}"), &words);
        }
        for (typed, at) in [("c", 2), ("d:one:", 3), ("e", 4)] {
            let word = format!("--action={}", HOSTILE[at]);
            let words = ["dlock", "exec", &word];
            shell.completes(&format!("dlock exec --action={typed}"), &words);
        }
        assert!(!shell.home.path().join("pwned").exists(), "{kind:?}");
    }
}

fn completes_names(shell: &mut Shell, kind: Kind) {
    let lines = "exec -a, exec -n --ttl 5s --once -a, exec, exec --note text, check, forget, \
                 release -y, status, status -a, history migrate, wait, release --reason test -a, \
                 forget -a, check -a";
    for line in lines.split(", ") {
        let words = ["dlock"].into_iter().chain(line.split(' '));
        let words: Vec<&str> = words.chain(["migrate"]).collect();
        shell.completes(&format!("dlock {line} mi"), &words);
    }
    if kind != Kind::Fish {
        // fish completes no value after several short options in one word.
        shell.completes("dlock exec -na mi", &["dlock", "exec", "-na", "migrate"]);
    }
}

/// Files are offered only for paths, and nothing is offered for text.
fn completes_paths(shell: &mut Shell) {
    let file = "path to it";
    fs::write(shell.home.path().join(file), "").expect("the file can be written");
    for option in "--url-file --password-file --ssl-ca --heartbeat-file".split(' ') {
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

fn completes_subcommands_options_and_lists_of_values(shell: &mut Shell) {
    shell.completes("dlock hist", &["dlock", "history"]);
    shell.keeps("dlock complete-n", &["dlock", "complete-n"]);
    shell.completes("dlock exec --max-r", &["dlock", "exec", "--max-runtime"]);
    let words = ["dlock", "--log-format", "json", "doctor"];
    shell.completes("dlock --log-format json doc", &words);
    shell.completes("dlock --log-format j", &["dlock", "--log-format", "json"]);
    let words = ["dlock", "exec", "--ssl-mode", "required"];
    shell.completes("dlock exec --ssl-mode req", &words);
}

/// The words after `--` complete as without dlock.
fn completes_the_command_of_exec(shell: &mut Shell, kind: Kind) {
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
    let before = ["dlock", "exec", "--note=a b", "-a", "x", "--"];
    let words = [&before[..], &["tool", "--x=y z", argument]].concat();
    shell.completes("dlock exec --note='a b' -a x -- tool '--x=y z' al", &words);
}

#[test]
fn each_shell_completes_what_the_grammar_expects() {
    let database = database_with(Flavour::of_this_test(), &["migrate", "too", "album"]);
    for kind in Kind::ALL {
        let shell = &mut Shell::on(&database, kind);
        completes_names(shell, kind);
        completes_subcommands_options_and_lists_of_values(shell);
        completes_paths(shell);
        completes_the_command_of_exec(shell, kind);
    }
}

#[test]
fn connection_options_on_the_command_line_select_the_server() {
    let database = database_with(Flavour::of_this_test(), &["migrate"]);
    for kind in Kind::ALL {
        let mut shell = Shell::with(&database, kind, &["DLOCK_URL=mysql://u@127.0.0.1:1/x"]);
        let file = shell.home.path().join("url file");
        fs::write(&file, database.url()).expect("the file can be written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("the file exists");
        let absolute = file.display().to_string();
        // Nothing appears when the names cannot be read.
        shell.keeps("dlock exec -a mi", &["dlock", "exec", "-a", "mi"]);
        let screen = shell.screen().to_lowercase();
        let has_error = screen.contains("error") || screen.contains("dlock:");
        assert!(!has_error, "{screen}");
        let words = ["dlock", "--url-file", "url file", "exec", "-a", "migrate"];
        shell.completes("dlock --url-file 'url file' exec -a mi", &words);
        shell.completes("dlock --url-file url\\ file exec -a mi", &words);
        let words = ["dlock", "exec", "--url-file", &absolute, "-a", "migrate"];
        shell.completes("dlock exec --url-file ~/url\\ file -a mi", &words);
        let word = format!("--url-file={absolute}");
        let words = ["dlock", "exec", &word, "-a", "migrate"];
        shell.completes(&format!("dlock exec '{word}' -a mi"), &words);
    }
}

#[test]
fn names_have_the_prefix_and_are_read_by_an_account_that_can_only_read() {
    for flavour in Flavour::ALL {
        let database = database_with(flavour, &["a%b", "aab", "a_b", "A", "b", "a\u{10ffff}"]);
        let reader = database.account("reader");
        reader.grant(&format!("SELECT ON `{}`.*", database.name));
        for (prefix, wanted) in [
            ("a", "a%b\na_b\naab\na\u{10ffff}\n"),
            ("a%", "a%b\n"),
            ("a\u{10ffff}", "a\u{10ffff}\n"),
        ] {
            assert_eq!(names_in_time(&reader, prefix), wanted);
        }
        assert_eq!(names(&database, &["-a"]), "");
        // A row of another program must not start a new line.
        database.run("INSERT INTO dlock_lock (action) VALUES ('c\\nd'), (x'63ff')");
        assert_eq!(names(&database, &["c"]), "");
        let rows: Vec<_> = (0..1500).map(|it| format!("('n{it:04}')")).collect();
        let rows = rows.join(",");
        database.run(format!("INSERT INTO dlock_lock (action) VALUES {rows}"));
        let found = names_in_time(&database, "n");
        assert_eq!(found.lines().count(), 1000);
        assert!(found.ends_with("n0999\n"));

        // If there are no tables, none are created.
        let empty = shared(flavour).database("completions");
        assert_eq!(names(&empty, &[""]), "");
        let tables: Vec<String> = empty.rows("SHOW TABLES");
        assert_eq!(tables, [] as [&str; 0]);
    }
}

#[test]
fn names_end_without_output_when_they_cannot_be_read() {
    let database = database_with(Flavour::of_this_test(), &["migrate"]);
    // The kernel completes the connections, and nobody sends a greeting.
    let silent = TcpListener::bind(local(0)).expect("127.0.0.1 has a free port");
    let silent = silent.local_addr().map(|address| address.port());
    let stuck = database.url().replace("127.0.0.1", "stuck.test");
    assert!(stuck.contains("stuck.test"), "{stuck}");
    for url in [
        "",
        "nonsense",
        &database.url_through(silent.expect("the listener is bound")),
        // No process listens on port 1.
        &database.url_through(1),
        &database.url().replace(&database.password, "wrong"),
        &stuck,
    ] {
        let dlock = Dlock::new(["complete-names", ""]).env("DLOCK_URL", url);
        resolving(dlock, "stuck.test=never").expect(0, "", "");
    }

    let stage = Stage::new();
    let dlock = Dlock::new(["complete-names", "", "--", "--url-file"]);
    dlock.arg(stage.fifo("fifo")).expect(0, "", "");
}
