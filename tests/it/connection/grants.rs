//! Privileges that an account needs, and the messages when a privilege is missing.

use std::fs::File;

use testkit::cli_runner::{Dlock, eventually};
use testkit::command::Stage;
use testkit::holder::{Holder, renewals};
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, Server, shared};

use crate::faults::on_each;

/// Creates an account and executes the GRANT statements `grants`, with `ACCOUNT` replaced by the name of the account.
/// Returns `database` with the new account.
#[track_caller]
fn account(database: &Database, name: &str, grants: &[String]) -> Database {
    let account = database.account(name);
    let name = format!("'{}'@'%'", account.user);
    for statement in grants {
        database.run(statement.replace("ACCOUNT", &name));
    }
    account
}

/// Returns the GRANT statements that `dlock setup --print` prints for `exec` and for `setup`, with `ACCOUNT` as the
/// account.
#[track_caller]
fn printed_grants(database: &Database) -> [Vec<String>; 2] {
    let outcome = Dlock::new(["setup", "--print", "--database", &database.name]).run();
    outcome.expect(0, &outcome.stdout, "");
    ["'dlock'@'%'", "'dlock_setup'@'%'"].map(|account| {
        // The GRANT for the account of setup is a comment.
        let lines = (outcome.stdout.lines()).map(|line| line.trim_start_matches("-- "));
        let grants = lines
            .filter(|line| line.starts_with("GRANT ") && line.contains(account))
            .filter(|line| !line.contains("performance_schema"))
            .map(|line| line.trim_end_matches(';').replace(account, "ACCOUNT"));
        let grants: Vec<String> = grants.collect();
        assert!(!grants.is_empty(), "{account}: {outcome:?}");
        grants
    })
}

#[test]
fn the_printed_grants_are_enough_for_setup_exec_and_status() {
    on_each(|flavour| {
        let database = shared(flavour).database("grants");
        let [for_exec, for_setup] = printed_grants(&database);
        let admin = account(&database, "admin", &for_setup);
        Dlock::on(&admin, ["setup"]).expect(0, "", "the tables are in place");

        let limited = account(&database, "limited", &for_exec);
        let holder = Holder::on(&limited, &["--ttl", "8s"]);
        eventually("the lease is renewed", || renewals(&database) > 0);
        assert_eq!(holder.end().status, Some(3));
        let name = &database.name;
        let tables = ["success", "lock", "history", "schema", "waiter"];
        let reading = tables.map(|it| format!("GRANT SELECT ON `{name}`.dlock_{it} TO ACCOUNT"));
        let reader = account(&database, "reader", &reading);
        for account in [&limited, &reader] {
            let outcome = Dlock::on(account, ["status", "init"]).run();
            assert!(outcome.stdout.contains("free"), "{flavour}: {outcome:?}");
        }
        let powerless = account(&database, "nobody", &[]);
        for (account, shown) in [(&reader, "tables and the grants"), (&powerless, "grants")] {
            let exec = Dlock::on(account, ["exec", "-a", "init", "--", "true"]);
            let advice = format!("dlock setup --print shows the {shown}");
            exec.expect(77, "", &advice);
        }
    });
}

#[test]
fn a_missing_create_grant_is_reported_once_and_before_missing_grants() {
    on_each(|flavour| {
        let database = shared(flavour).database("no_create");
        let name = &database.name;
        let limited = |user, rights: &str| {
            let grant = format!("GRANT {rights} ON `{name}`.* TO ACCOUNT");
            account(&database, user, &[grant])
        };
        let writer = limited("w", "SELECT, INSERT, UPDATE");
        let reader = limited("r", "SELECT");
        let run = |account: &Database, words: &str| Dlock::on(account, words.split(' ')).run();
        let exec = "exec -a init -- echo ran";
        for account in [&writer, &reader] {
            let why = format!(
                "dlock: the database {name} does not have all tables of dlock, and {} may not create them (",
                account.user
            );
            for words in [exec, "setup"] {
                let outcome = run(account, words);
                outcome.expect(77, "", &why);
                outcome.expect(77, "", "; dlock setup --print, with the same settings, ");
                let count = |text| outcome.stderr.matches(text).count();
                let counts = [" may not create ", "setup"].map(count);
                assert_eq!(counts, [1, 1], "{outcome:#?}");
                assert!(outcome.stderr.len() < 500, "{outcome:#?}");
            }
        }
        let printed = run(&reader, "setup --print").stdout;
        let grant = format!("`{name}`.dlock_lock TO '{}'", reader.user);
        assert!(printed.contains(&grant), "{printed}");
        run(&database, "setup").expect(0, "", "in place");
        let outcome = run(&reader, exec);
        let advice = "dlock setup --print shows the tables and the grants";
        outcome.expect(77, "", advice);
        assert!(!outcome.stderr.contains("may not create"), "{outcome:#?}");
    });
}

/// Executes the output of `dlock setup --print` with `options` in the client of `server`, which gets the arguments
/// `client`.
#[track_caller]
fn execute_printout(server: &Server, options: &[&str], client: &[&str]) {
    let printed = Dlock::new(["setup", "--print"]).args(options).run();
    let printed = printed.exited(0);
    let stage = Stage::new();
    let statements = stage.write("setup.sql", 0o600, printed.stdout);
    let statements = File::open(statements).expect("the file exists");
    Dlock::of(
        &server.flavour().client(),
        ["--no-defaults", "--user=root", "--socket"],
    )
    .arg(server.socket())
    .args(client)
    .stdin(statements.into())
    .run()
    .exited(0);
}

on_each_flavour!(the_printed_statements_can_be_executed_on_a_fresh_server);
fn the_printed_statements_can_be_executed_on_a_fresh_server(flavour: Flavour) {
    let server = Server::start(flavour, &[]);
    server.run("CREATE DATABASE app; CREATE DATABASE `my_``db`");
    let port = server.port().to_string();
    let named = ["--database=my_`db", "--user=o'neill"];
    let default = ["--database=app", "--user=dlock"];
    for (options, client, settings) in [(&named[..], &[][..], &named), (&[], &["app"], &default)] {
        // The second time, the tables and the account exist.
        for _ in 0..2 {
            execute_printout(&server, options, client);
        }
        let dlock = |words: &str| {
            let dlock = Dlock::new(["--host=127.0.0.1", "--port", &port]);
            dlock.args(settings).args(words.split(' '))
        };
        let exec = "exec -a init -- true";
        dlock(exec).expect(77, "", "' IDENTIFIED BY '…' ACCOUNT UNLOCK");
        let (_, user) = settings[1].split_once('=').expect("an option with a value");
        let account = format!("'{}'@'%'", user.replace('\'', "''"));
        let unlock = format!("ALTER USER {account} IDENTIFIED BY 'p' ACCOUNT UNLOCK");
        server.run(&unlock);
        let dlock = |words| dlock(words).env("DLOCK_PASSWORD", "p").run();
        dlock(exec).expect(0, "", "");
        dlock("setup").expect(0, "", "the tables are in place");
        // A further run does not lock an account that is in use.
        execute_printout(&server, options, client);
        dlock(exec).expect(0, "", "");
    }
}
