//! Tests of the subcommands that help a new user: `help`, `version`, `explain` and `list`, and of the short help.

use std::fs;
use std::path::Path;

use testkit::cli_runner::{Dlock, Outcome};
use testkit::command::Stage;
use testkit::servers::{Flavour, shared};

const SUBCOMMANDS: [&str; 18] = [
    "exec", "hold", "status", "list", "wait", "check", "leader", "note", "history", "forget",
    "release", "prune", "explain", "setup", "doctor", "copy-to", "version", "help",
];

fn connects(subcommand: &str) -> bool {
    !["explain", "copy-to", "version", "help"].contains(&subcommand)
}

fn at_80_columns(arguments: &[&str]) -> Outcome {
    Dlock::new(arguments).env("COLUMNS", "80").run()
}

#[test]
fn short_help_fits_80_columns_and_omits_connection_options_and_variables() {
    for subcommand in SUBCOMMANDS {
        let help = at_80_columns(&[subcommand, "-h"]);
        assert_eq!((help.status, &*help.stderr), (Some(0), ""), "{subcommand}");
        // One line says how to reach a server.
        let lines = help.stdout.lines();
        let (servers, others): (Vec<&str>, Vec<&str>) =
            lines.partition(|line| line.starts_with("Server: --url "));
        let number = usize::from(connects(subcommand));
        assert_eq!(servers.len(), number, "{subcommand}");
        for absent in ["--ssl-ca", "--url", "DLOCK_", "[env"] {
            let found = others.iter().find(|line| line.contains(absent));
            assert_eq!(found, None, "{subcommand}: {absent}");
        }
        for present in ["Examples:\n  dlock", "--help"] {
            assert!(help.stdout.contains(present), "{subcommand}: {present}");
        }
        let wide = help.stdout.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{subcommand}");
    }
    let help = at_80_columns(&["exec", "-h"]).stdout;
    for group in ["Lock", "Waiting", "Once", "Limits", "Observing"] {
        assert!(help.contains(&format!("\n{group}:\n")), "{group}: {help}");
    }
}

#[test]
fn long_help_has_everything_and_only_the_statuses_of_the_subcommand() {
    for subcommand in SUBCOMMANDS {
        let long = at_80_columns(&[subcommand, "--help"]).stdout;
        let help = at_80_columns(&["help", subcommand]).stdout;
        assert_eq!(long, help, "{subcommand}");
        let has_limit = ["exec", "hold"].contains(&subcommand);
        let may_find_nothing = ["release", "forget", "leader"].contains(&subcommand);
        for (text, is_wanted) in [
            ("--ssl-ca", connects(subcommand)),
            ("[env: DLOCK_HOST=]", connects(subcommand)),
            ("[env: DLOCK_OPT_QUIET=]", true),
            ("Exit status:", true),
            ("Examples:", true),
            ("\n  124  ", has_limit),
            ("\n  66  ", may_find_nothing),
        ] {
            assert_eq!(long.contains(text), is_wanted, "{subcommand}: {text}");
        }
    }
    at_80_columns(&["help", "lock"]).expect(64, "", "did you mean dlock exec NAME -- COMMAND?");
}

#[test]
fn explain_and_version_need_no_server_and_no_valid_environment() {
    let run = |word: &[&str]| Dlock::new(word).env("DLOCK_NONSENSE", "1").run();
    let explain = run(&["explain", "76"]);
    assert_eq!(explain.status, Some(0), "{explain:?}");
    assert!(explain.stdout.contains("dlock history NAME"), "{explain:?}");
    let version = run(&["version"]);
    let short = format!("dlock {}\n", env!("CARGO_PKG_VERSION"));
    let first = format!("{short}commit: ");
    assert!(version.stdout.starts_with(&first), "{version:?}");
    assert!(version.stdout.contains("\nschema version: "), "{version:?}");
    for option in ["--version", "-V"] {
        Dlock::new([option]).expect(0, &short, "");
    }
    Dlock::new(["explain", "256"]).expect(64, "", "'[STATUS]'");
}

#[test]
fn list_prints_the_same_as_status_of_all_locks() {
    let database = shared(Flavour::of_this_test()).database("list");
    for name in ["job-10", "job-2", "init"] {
        let run = Dlock::on(&database, ["exec", name, "--", "true"]);
        run.expect(0, "", "");
    }
    for subcommand in ["list", "ls"] {
        let table = Dlock::on(&database, [subcommand]).run();
        let lines = table.stdout.lines();
        let names: Vec<&str> = lines.filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names, ["ACTION", "init", "job-2", "job-10"], "{table:?}");
    }
    let json = Dlock::on(&database, ["ls", "--json"]).run();
    let document = json.json();
    let locks = document["locks"].as_array().expect("an array");
    let names: Vec<_> = locks.iter().map(|lock| &lock["action"]).collect();
    assert_eq!(names, ["init", "job-2", "job-10"], "{json:?}");
}

#[test]
fn last_message_of_exec_contains_the_status_that_dlock_sets() {
    let database = shared(Flavour::of_this_test()).database("statuses");
    let exec = |options: &[&str], command: &[&str]| {
        let exec = Dlock::on(&database, ["exec", "init"]).args(options);
        exec.arg("--").args(command).run()
    };
    let last = |outcome: &Outcome| outcome.stderr.lines().last().unwrap_or("").to_owned();

    let run = exec(&["--max-runtime=100ms"], &["sleep", "60"]);
    let why = "dlock: init has run for 100ms; stopping the command (exit status 124; see dlock explain 124)\n";
    run.expect(124, "", why);
    assert_eq!(last(&run), why.trim_end());
    // dlock passes this status on, so it explains nothing.
    exec(&[], &["sh", "-c", "exit 124"]).expect(124, "", "");

    let ends = |options: &[&str], command: &str, end: &str| {
        let run = exec(options, &[command]);
        assert!(last(&run).ends_with(end), "{run:?}");
    };
    let explained = " (exit status 127; see dlock explain 127)";
    ends(&[], "no-such-command", explained);
    let pause = ["release", "init", "--pause=1h", "--yes"];
    assert_eq!(Dlock::on(&database, pause).run().status, Some(0));
    ends(&["-n"], "true", " (exit status 75; see dlock explain 75)");
    ends(&["-n", "-E", "9"], "true", " (exit status 9, set by -E)");
}

/// Returns the lines of the section "Quick start" of a document that a user types.
fn quick_start(document: &str, heading: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let text = fs::read_to_string(path).expect("the document can be read");
    let (_, section) = text.split_once(heading).expect("the section exists");
    let (section, _) = section
        .split_once("\n## ")
        .expect("another section follows");
    let typed = section.lines().filter_map(|line| line.strip_prefix("$ "));
    typed.map(str::to_owned).collect()
}

#[test]
fn quick_start_of_the_readme_leads_from_a_fresh_server_to_a_finished_run() {
    let lines = quick_start("README.md", "\n## Quick start\n");
    assert!(lines.len() > 3, "{lines:?}");
    assert_eq!(quick_start("README.zh-CN.md", "\n## 快速开始\n"), lines);
    for flavour in Flavour::ALL {
        // No other test uses the names in the document, so the shared server is like a fresh one.
        let server = shared(flavour);
        let stage = Stage::new();
        let program =
            |name: &str, text: &str| stage.write(name, 0o755, format!("#!/bin/sh\n{text}\n"));
        let dlock = env!("CARGO_BIN_EXE_dlock");
        program("dlock", &format!("exec '{dlock}' \"$@\""));
        // The administrator's client is configured for the server.
        let (client, socket) = (flavour.client(), server.socket().display());
        let client = client.display();
        let options = format!("--no-defaults --user=root --socket='{socket}'");
        program("mysql", &format!("exec '{client}' {options} \"$@\""));
        program("migrate.sh", "echo migrated");
        let address = format!("127.0.0.1:{}", server.port());
        let script = lines.join("\n").replace("db.example.org", &address);
        let folder = stage.path("").display().to_string();
        Dlock::of(Path::new("bash"), ["-euo", "pipefail", "-c"])
            .arg(format!("cd '{folder}'; PATH=.:$PATH\n{script}"))
            .expect(0, "migrated\n", "");
    }
}
