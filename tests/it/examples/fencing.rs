//! Tests of the SQL files. The tests send each file with the client of the server, using the command line in the header
//! of the file.

use mysql::prelude::Queryable;
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

/// Prints the token and runs the command line of the file `name`, both under `dlock exec`.
fn granted(host: &Host, name: &str) -> Outcome {
    let url = host.database.url();
    let script = format!("echo \"token $DLOCK_TOKEN\"; {}", line(name));
    let words = [
        "dlock", "exec", "--fence", "--action", "init", "--", "sh", "-c", &script,
    ];
    host.starts(&[("DLOCK_URL", url.as_str())], words).run()
}

/// Asserts that a run of [`granted`] succeeded with a current token, and returns the token.
#[track_caller]
fn token(outcome: &Outcome) -> String {
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    assert!(outcome.stdout.contains("\ncurrent\n"), "{outcome:#?}");
    let line = outcome.stdout.lines().next().expect("a line");
    line.strip_prefix("token ").expect("a token").to_owned()
}

/// Runs the command line of the file `name` with `token`, without dlock.
fn run_with(host: &Host, name: &str, token: &str) -> Outcome {
    host.starts(&[("DLOCK_TOKEN", token)], ["sh", "-c", &line(name)])
        .run()
}

fn state(host: &Host) -> String {
    let mut admin = host.database.admin_conn();
    let state = admin.query_first("SELECT state FROM site WHERE id=1");
    state.expect("the table exists").expect("the row exists")
}

#[test]
fn a_stale_holder_changes_nothing_in_a_fenced_table() {
    for flavour in Flavour::ALL {
        let host = host(flavour);
        let old = token(&granted(&host, "column.sql"));
        assert_eq!(state(&host), "up");
        // A holder may send the file again, for example if the response is lost.
        let again = run_with(&host, "column.sql", &old);
        assert_eq!(again.status, Some(0), "{again:#?}");
        token(&granted(&host, "column.sql"));
        let mut admin = host.database.admin_conn();
        let change = "UPDATE site SET state='of the new'";
        admin.query_drop(change).expect("the row can be changed");
        let refused = run_with(&host, "column.sql", &old);
        assert_ne!(refused.status, Some(0), "{refused:#?}");
        assert!(refused.stderr.contains("1242"), "{refused:#?}");
        assert_eq!(state(&host), "of the new", "{flavour}");
    }
}

#[test]
fn a_transaction_of_a_stale_holder_is_not_committed() {
    for flavour in Flavour::ALL {
        let host = host(flavour);
        token(&granted(&host, "column.sql"));
        let old = token(&granted(&host, "transaction.sql"));
        assert_eq!(state(&host), "done", "{flavour}");
        token(&granted(&host, "column.sql"));
        let refused = run_with(&host, "transaction.sql", &old);
        assert_ne!(refused.status, Some(0), "{refused:#?}");
        assert!(refused.stderr.contains("1242"), "{refused:#?}");
        assert_eq!(state(&host), "up", "{flavour}");
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
