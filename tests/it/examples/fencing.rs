//! Tests of the SQL files. The tests send each file with the client of the server, using the command line in the header
//! of the file.

use testkit::cli_runner::{Dlock, Outcome};
use testkit::servers::{Flavour, shared};

use super::{Host, example, path};

/// Returns a host on which the command `mysql` runs the client of `flavour` with the account of the database.
fn host(flavour: Flavour) -> Host {
    let host = Host::on(flavour);
    let database = &host.database;
    let account = format!(
        "[client]\nsocket={}\nuser={}\npassword={}\ndatabase={}\n",
        shared(flavour).socket().display(),
        database.user,
        database.password,
        database.name
    );
    let account = host.secret("client.cnf", &account);
    // The script ignores its arguments, since the example passes a database that does not exist here. The option file
    // sets the database of the test.
    let client = flavour.client();
    let script = format!("exec {} --defaults-file={account}", client.display());
    host.job("mysql", &script);
    for name in ["column.sql", "transaction.sql"] {
        std::fs::copy(path("fencing").join(name), host.stage.path(name))
            .expect("the file can be copied");
    }
    host
}

/// Returns the command line that sends the file `name`, from the header of the file.
#[track_caller]
fn line(name: &str) -> String {
    let text = example(&format!("fencing/{name}"));
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("--   { echo "));
    let line = line
        .unwrap_or_else(|| panic!("the header of {name} has no command line that sends the file"));
    format!("PATH=.:$PATH; {{ echo {line}")
}

/// Runs the command line of the file `name` under `dlock exec`, asserts that the token was current, and returns the token.
#[track_caller]
fn granted(host: &Host, name: &str) -> String {
    let script = format!("echo \"token $DLOCK_TOKEN\"; {}", line(name));
    let exec = ["dlock", "exec", "--fence", "--action", "init", "--"];
    let words = [&exec[..], &["sh", "-c", &script]].concat();
    let outcome = host.starts_with_url(&words).run();
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    assert!(outcome.stdout.contains("\ncurrent\n"), "{outcome:#?}");
    let line = outcome.stdout.lines().next().expect("a line");
    line.strip_prefix("token ").expect("a token").to_owned()
}

/// Runs the command line of the file `name` with `token`, without dlock.
fn run_with(host: &Host, name: &str, token: &str) -> Outcome {
    let token = format!("DLOCK_TOKEN={token}");
    host.starts([&*token, "sh", "-c", &line(name)]).run()
}

/// Asserts that the server refuses the file `name` with `token`, and that the table then contains `state`.
#[track_caller]
fn is_refused(host: &Host, name: &str, token: &str, wanted: &str) {
    let refused = run_with(host, name, token);
    assert_ne!(refused.status, Some(0), "{refused:#?}");
    assert!(refused.stderr.contains("1242"), "{refused:#?}");
    assert_eq!(state(host), wanted, "{name}");
}

fn state(host: &Host) -> String {
    host.database.value("SELECT state FROM site WHERE id=1")
}

#[test]
fn a_stale_holder_changes_nothing_in_a_fenced_table_and_commits_no_transaction() {
    for flavour in Flavour::ALL {
        let host = &host(flavour);
        let old = granted(host, "column.sql");
        assert_eq!(state(host), "up");
        // A holder may send the file again, for example if the response is lost.
        run_with(host, "column.sql", &old).exited(0);
        let in_transaction = granted(host, "transaction.sql");
        assert_eq!(state(host), "done", "{flavour}");
        granted(host, "column.sql");
        host.database.run("UPDATE site SET state='of the new'");
        is_refused(host, "column.sql", &old, "of the new");
        is_refused(host, "transaction.sql", &in_transaction, "of the new");
    }
}

/// Except for the token and the notation of the names, the statement in the file equals the statement that
/// `dlock check --sql` prints.
#[test]
fn the_statement_in_the_file_matches_dlock_check() {
    let printed = Dlock::new(["check", "--sql", "--action=init", "--token=17"])
        .env("DLOCK_URL", "mysql://app@localhost/app")
        .run();
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    let printed = plain(&printed.stdout)
        .replace("=17,", "=@token,")
        .replace("`app`.", "")
        .replace("x'696e6974'", "'init'");
    assert!(printed.contains("@token"), "{printed}");
    let file = plain(&example("fencing/transaction.sql"));
    assert!(file.contains(&printed), "{printed}");
}
