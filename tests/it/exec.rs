//! What the command sees of dlock, and dlock of the command: as little as possible.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use mysql::prelude::Queryable;

use crate::command::{Stage, is_alive};
use crate::dlock::{Dlock, eventually};
use crate::servers::{Database, Flavour, shared};

/// Runs `claim` on a fresh database of each kind of server.
fn everywhere(claim: impl Fn(&Database)) {
    for flavour in Flavour::ALL {
        claim(&shared(flavour).database("exec"));
    }
}

fn sh(database: &Database, script: &str) -> Dlock {
    Dlock::on(database, ["exec", "-a", "init", "--", "sh", "-c", script])
}

#[test]
fn every_status_of_the_command_is_passed_on() {
    everywhere(|database| {
        for status in 0..=255 {
            sh(database, &format!("exit {status}"))
                .run()
                .expect(status, "", "");
        }
    });
}

#[test]
fn a_command_that_a_signal_killed_gives_128_plus_its_number() {
    everywhere(|database| {
        for signal in [1, 2, 3, 6, 9, 10, 11, 14, 15, 34, 64] {
            let script = format!("ulimit -c 0; kill -{signal} $$; sleep 60");
            sh(database, &script).run().expect(128 + signal, "", "");
        }
    });
}

#[test]
fn stdin_stdout_and_stderr_are_the_commands_own() {
    everywhere(|database| {
        let stage = Stage::new();
        let input = stage.path("input");
        fs::write(&input, "three\nwords\nhere\n").expect("writes");
        sh(database, "tr a-z A-Z; echo to stderr >&2")
            .stdin(Stdio::from(File::open(&input).expect("opens")))
            .run()
            .expect(0, "THREE\nWORDS\nHERE\n", "to stderr\n");
    });
}

#[test]
fn the_command_is_told_what_it_holds() {
    everywhere(|database| {
        let outcome = Dlock::on(database, ["exec", "-a", "größe", "--ttl", "1m 30s"])
            .arg("--holder=deploy 7")
            // An outer dlock's values must not shine through.
            .env("DLOCK_TOKEN", "1")
            .env("DLOCK_ACTION", "outer")
            .env("OTHER", "kept")
            .arg("--")
            .arg("sh")
            .arg("-c")
            .arg("echo $DLOCK_ACTION,$DLOCK_HOLDER,$DLOCK_TTL,$OTHER; echo $DLOCK_TOKEN")
            .run();
        let token: u64 = database
            .admin_conn()
            .query_first("SELECT token FROM dlock_lock")
            .expect("the table is there")
            .expect("the row is there");
        let told = format!("größe,deploy 7,1m 30s,kept\n{token}\n");
        outcome.expect(0, &told, "");
        // A shell takes the last of two of a name, most programs the first.
        let all = Dlock::on(database, ["exec", "-a", "größe", "--", "env"])
            .env("DLOCK_TOKEN", "1")
            .run();
        let tokens = |line: &&str| line.starts_with("DLOCK_TOKEN=");
        assert_eq!(all.stdout.lines().filter(tokens).count(), 1, "{all:#?}");
    });
}

#[test]
fn tokens_grow_from_one_run_to_the_next() {
    everywhere(|database| {
        let tokens: Vec<u64> = (0..5)
            .map(|_| {
                let outcome = sh(database, "echo $DLOCK_TOKEN").run();
                outcome.stdout.trim().parse().expect("a number")
            })
            .collect();
        assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    });
}

#[test]
fn a_command_that_cannot_run_is_found_out_before_the_lock_is_taken() {
    everywhere(|database| {
        let stage = Stage::new();
        let plain = stage.path("plain");
        fs::write(&plain, "no program").expect("writes");
        let plain = plain.to_str().expect("UTF-8");
        for (command, status, why) in [
            ("no-such-command", 127, "no such command"),
            ("/no/such/command", 127, "no such command"),
            (plain, 126, "Permission denied"),
            ("/", 126, "directory"),
        ] {
            Dlock::on(database, ["exec", "-a", "init", "--", command])
                .run()
                .expect(status, "", why);
        }
        let tables: Vec<String> = database.admin_conn().query("SHOW TABLES").expect("shows");
        assert!(tables.is_empty(), "the server was asked: {tables:?}");
    });
}

#[test]
fn a_command_whose_interpreter_is_missing_gives_the_lock_back() {
    everywhere(|database| {
        let stage = Stage::new();
        let script = stage.path("script");
        fs::write(&script, "#!/no/such/interpreter\n").expect("writes");
        fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("chmod");
        let script = script.to_str().expect("UTF-8");
        Dlock::on(database, ["exec", "-a", "init", "--", script])
            .run()
            .expect(127, "", "no such command");
        Dlock::on(database, ["status", "--check", "init"])
            .run()
            .expect(0, "", "");
    });
}

#[test]
fn the_lock_is_free_when_dlock_returns_and_what_the_command_left_running_is_dead() {
    everywhere(|database| {
        let outcome = sh(database, "sleep 600 >/dev/null 2>&1 & echo $!").run();
        let straggler = outcome.stdout.trim().to_owned();
        assert_eq!((outcome.status, straggler.is_empty()), (Some(0), false));
        eventually("the straggler dies", || !is_alive(&straggler));
        Dlock::on(database, ["exec", "-n", "-a", "init", "--", "true"])
            .run()
            .expect(0, "", "");
    });
}

#[test]
fn nothing_is_said_about_what_went_well_unless_asked() {
    everywhere(|database| {
        sh(database, "true").run().expect(0, "", "");
        sh(database, "true")
            .env("DLOCK_VERBOSE", "1")
            .run()
            .expect(0, "", "init is ours");
    });
}

#[test]
fn a_script_without_an_interpreter_line_is_run_by_sh_as_env_and_timeout_do() {
    everywhere(|database| {
        let stage = Stage::new();
        let script = stage.path("script");
        fs::write(&script, "echo ran $1\nexit 3\n").expect("writes");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it is ours");
        Dlock::on(database, ["exec", "-a", "init", "--"])
            .arg(&script)
            .arg("it")
            .run()
            .expect(3, "ran it\n", "");
    });
}
