//! Privileges that an account needs, and the messages when a privilege is missing.

use std::io::Write;
use std::process::{Command, Stdio};

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, eventually};
use testkit::command::{Stage, write_message};
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, Server, shared};

/// Creates an account and executes the GRANT statements `grants`, with `ACCOUNT` replaced by the name of the account.
/// Returns `database` with the new account.
#[track_caller]
fn account(database: &Database, name: &str, grants: &[String]) -> Database {
    let mut limited = database.clone();
    limited.user = format!("{name}_{}", database.user);
    let account = format!("'{}'@'%'", limited.user);
    let mut root = database.admin_conn();
    let create = format!("CREATE USER {account} IDENTIFIED BY '{}'", limited.password);
    for statement in [create].iter().chain(grants) {
        let statement = statement.replace("ACCOUNT", &account);
        root.query_drop(&statement)
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    limited
}

/// Returns the GRANT statements that `dlock setup --print` prints for `exec` and for `setup`, with `ACCOUNT` as the
/// account.
#[track_caller]
fn printed_grants(database: &Database) -> [Vec<String>; 2] {
    let outcome = Dlock::new(["setup", "--print", "--database", &database.name]).run();
    assert_eq!(
        (outcome.status, &*outcome.stderr),
        (Some(0), ""),
        "{outcome:?}"
    );
    ["'dlock'@'%'", "'dlock_setup'@'%'"].map(|account| {
        let grants: Vec<String> = outcome
            .stdout
            .lines()
            // The GRANT for the account of setup is a comment.
            .map(|line| line.trim_start_matches("-- "))
            .filter(|line| line.starts_with("GRANT ") && line.contains(account))
            .filter(|line| !line.contains("performance_schema"))
            .map(|line| line.trim_end_matches(';').replace(account, "ACCOUNT"))
            .collect();
        assert!(!grants.is_empty(), "{account}: {outcome:?}");
        grants
    })
}

#[test]
fn the_printed_grants_are_enough_for_setup_exec_and_status() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("grants");
        let [for_exec, for_setup] = printed_grants(&database);
        let admin = account(&database, "admin", &for_setup);
        Dlock::on(&admin, ["setup"])
            .run()
            .expect(0, "", "the tables are in place");

        let limited = account(&database, "limited", &for_exec);
        let stage = Stage::new();
        let go = stage.fifo("go");
        let command = format!("read -r _ <{}", go.display());
        let exec = [
            "exec", "-a", "init", "--ttl", "8s", "--", "sh", "-c", &command,
        ];
        let run = Dlock::on(&limited, exec).start();
        eventually("the lease is renewed", || {
            let renewals = "SELECT renewals FROM dlock_lock WHERE owner_id IS NOT NULL";
            let renewals: Option<u64> = database
                .admin_conn()
                .query_first(renewals)
                .expect("root has the privilege");
            renewals.is_some_and(|renewals| renewals > 0)
        });
        write_message(&go, "on");
        run.wait().expect(0, "", "");
        let outcome = Dlock::on(&limited, ["status", "init"]).run();
        assert!(outcome.stdout.contains("free"), "{flavour}: {outcome:?}");

        let reading = [
            "dlock_success",
            "dlock_lock",
            "dlock_history",
            "dlock_schema",
            "dlock_waiter",
        ]
        .map(|table| format!("GRANT SELECT ON `{}`.{table} TO ACCOUNT", database.name));
        let reader = account(&database, "reader", &reading);
        let outcome = Dlock::on(&reader, ["status", "init"]).run();
        assert!(outcome.stdout.contains("free"), "{flavour}: {outcome:?}");
        Dlock::on(&reader, ["exec", "-a", "init", "--", "true"])
            .run()
            .expect(77, "", "dlock setup --print");
    }
}

#[test]
fn a_missing_create_grant_is_reported_once_with_setup_print() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("no_create");
        let grant = format!(
            "GRANT SELECT, INSERT, UPDATE ON `{}`.* TO ACCOUNT",
            database.name
        );
        let limited = account(&database, "limited", &[grant]);
        for arguments in [
            vec!["exec", "-a", "init", "--", "echo", "ran"],
            vec!["setup"],
        ] {
            let outcome = Dlock::on(&limited, &arguments).run();
            let why = format!(
                "dlock: the database {} does not have all tables of dlock, and {} may not create them (",
                database.name, limited.user
            );
            outcome.expect(77, "", &why);
            assert_eq!(
                outcome.stderr.matches(" may not create ").count(),
                1,
                "{outcome:?}"
            );
            assert!(
                outcome
                    .stderr
                    .contains("; dlock setup --print, with the same settings, "),
                "{flavour}: {outcome:?}"
            );
        }
    }
}

#[test]
fn the_message_for_missing_grants_names_setup_print() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("no_grant");
        Dlock::on(&database, ["setup"])
            .run()
            .expect(0, "", "in place");
        let powerless = account(&database, "nobody", &[]);
        Dlock::on(&powerless, ["exec", "-a", "init", "--", "echo", "ran"])
            .run()
            .expect(77, "", "dlock setup --print");
    }
}

/// Executes the output of `dlock setup --print` with `options` in the client of `server`, which gets the arguments
/// `client`.
#[track_caller]
fn execute_printout(server: &Server, options: &[&str], client: &[&str]) {
    let printed = Dlock::new(["setup", "--print"]).args(options).run();
    assert_eq!(printed.status, Some(0), "{printed:#?}");
    let mut mysql = Command::new(server.flavour().client())
        .args(["--no-defaults", "--user=root", "--socket"])
        .arg(server.socket())
        .args(client)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the client runs");
    let mut input = mysql.stdin.take().expect("a pipe");
    input
        .write_all(printed.stdout.as_bytes())
        .expect("the client reads");
    drop(input);
    let outcome = mysql.wait_with_output().expect("the client ends");
    let why = String::from_utf8_lossy(&outcome.stderr);
    assert!(
        outcome.status.success(),
        "{options:?}: {why}\n{}",
        printed.stdout
    );
}

on_each_flavour!(the_printed_statements_can_be_executed_on_a_fresh_server);
fn the_printed_statements_can_be_executed_on_a_fresh_server(flavour: Flavour) {
    let server = Server::start(flavour, &[]);
    let mut root = server.admin();
    let mut execute = |statement: &str| {
        root.query_drop(statement)
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
    };
    execute("CREATE DATABASE app");
    execute("CREATE DATABASE `my_``db`");
    let named = ["--database=my_`db", "--user=o'neill"];
    for (options, client, database, user) in [
        (&[][..], &["app"][..], "app", "dlock"),
        (&named, &[], "my_`db", "o'neill"),
    ] {
        // The second time, the tables and the account exist.
        for _ in 0..2 {
            execute_printout(&server, options, client);
        }
        let port = server.port().to_string();
        let exec = || {
            Dlock::new(["exec", "-a", "init", "--host=127.0.0.1", "--port", &port]).args([
                "--database",
                database,
                "--user",
                user,
            ])
        };
        let locked = exec().args(["--", "true"]).run();
        locked.expect(77, "", "' IDENTIFIED BY '…' ACCOUNT UNLOCK");
        let account = format!("'{}'@'%'", user.replace('\'', "''"));
        execute(&format!(
            "ALTER USER {account} IDENTIFIED BY 'p' ACCOUNT UNLOCK"
        ));
        let run = exec().env("DLOCK_PASSWORD", "p").args(["--", "true"]).run();
        run.expect(0, "", "");
        let setup = Dlock::new(["setup", "--host=127.0.0.1", "--port", &port])
            .args(["--database", database, "--user", user])
            .env("DLOCK_PASSWORD", "p");
        setup.run().expect(0, "", "the tables are in place");
    }
    // A further run does not lock an account that is in use.
    execute_printout(&server, &[], &["app"]);
    let port = server.port();
    Dlock::new(["exec", "-a", "init", "--", "true"])
        .env("DLOCK_URL", format!("mysql://dlock:p@127.0.0.1:{port}/app"))
        .run()
        .expect(0, "", "");
    server.stop();
}
