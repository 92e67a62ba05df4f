//! `dlock doctor`: what is wrong with a server, an account or the tables is found, and what it says
//! to do about it helps.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use mysql::prelude::Queryable;
use serde_json::Value;

use crate::dlock::{Dlock, Outcome};
use crate::network::{local, refusing};
use crate::proxy::{Door, Fault, Kind, Port, Proxy};
use crate::servers::{Database, Flavour, Server, shared};

/// All checks, in their order.
const CHECKS: [&str; 18] = [
    "address",
    "connect",
    "tls",
    "login",
    "database",
    "server",
    "cluster",
    "proxy",
    "session",
    "writes",
    "grants",
    "tables",
    "gate",
    "durability",
    "replication",
    "clock",
    "round-trip",
    "connections",
];

/// What one run of `dlock doctor --json` found.
#[derive(Debug)]
struct Findings {
    status: i32,
    checks: Vec<Value>,
}

impl Findings {
    #[track_caller]
    fn of(dlock: Dlock) -> Self {
        let outcome = dlock.args(["doctor", "--json"]).run();
        assert_eq!(outcome.stderr, "", "{outcome:#?}");
        let document: Value = serde_json::from_str(&outcome.stdout).expect("it is JSON");
        let status = outcome.status.expect("it ends by itself");
        assert_eq!(document["status"], status, "{document}");
        let checks = document["checks"].as_array().expect("a list").clone();
        for finding in &checks {
            let has_advice = ["why", "remedy"].map(|field| finding[field].is_string());
            let is_wrong = finding["verdict"] == "note" || finding["verdict"] == "mend";
            assert_eq!(has_advice, [is_wrong; 2], "{finding}");
        }
        let mut names: Vec<&str> = checks
            .iter()
            .filter_map(|one| one["check"].as_str())
            .collect();
        names.dedup();
        assert_eq!(names, CHECKS, "every check has its say, in order");
        Self { status, checks }
    }

    #[track_caller]
    fn on(database: &Database) -> Self {
        Self::of(Dlock::new([""; 0]).env("DLOCK_URL", database.url()))
    }

    #[track_caller]
    fn through(proxy: &Proxy, database: &Database) -> Self {
        Self::of(Dlock::new([""; 0]).env("DLOCK_URL", database.url_through(proxy.port())))
    }

    fn verdict(&self, check: &str) -> Vec<&str> {
        let of = self.checks.iter().filter(|one| one["check"] == check);
        of.filter_map(|one| one["verdict"].as_str()).collect()
    }

    /// Asserts that one finding of `check` has this verdict and tells this fact; returns its remedy.
    #[track_caller]
    fn tells(&self, check: &str, verdict: &str, fact: &str) -> String {
        let found = self.checks.iter().find(|one| {
            one["check"] == check
                && one["verdict"] == verdict
                && one["fact"].as_str().is_some_and(|text| text.contains(fact))
        });
        let found = found.unwrap_or_else(|| panic!("no {verdict} {check} {fact:?} in {self:#?}"));
        found["remedy"].as_str().unwrap_or_default().to_owned()
    }

    /// Asserts that nothing is wrong but what `except` names, and what a busy machine may bring.
    #[track_caller]
    fn are_good_except(&self, except: &[&str]) {
        for check in CHECKS {
            let may_be = except.contains(&check) || ["round-trip", "connections"].contains(&check);
            assert!(
                may_be || self.verdict(check) == ["ok"],
                "{check} in {self:#?}"
            );
        }
    }
}

/// A database with dlock's tables, whose account may do everything.
#[track_caller]
fn set_up(server: &Server) -> Database {
    let database = server.database("doctor");
    Dlock::on(&database, ["setup", "-q"])
        .run()
        .expect(0, "", "");
    database
}

#[track_caller]
fn execute(database: &Database, statement: &str) {
    database
        .admin_conn()
        .query_drop(statement)
        .unwrap_or_else(|error| panic!("{statement}: {error}"));
}

/// What is in the database: tables, and the rows of each.
fn contents(database: &Database) -> Vec<(String, u64)> {
    let mut admin = database.admin_conn();
    let tables: Vec<String> = admin.query("SHOW TABLES").expect("root may");
    let count = |table: String| {
        let rows = admin
            .query_first(format!("SELECT COUNT(*) FROM {table}"))
            .expect("root may");
        (table, rows.expect("a number"))
    };
    tables.into_iter().map(count).collect()
}

/// An account on `database` that may do nothing yet.
fn stranger(database: &Database, name: &str) -> Database {
    let user = format!("{name}_{}", database.user);
    let password = &database.password;
    execute(
        database,
        &format!("CREATE USER '{user}'@'%' IDENTIFIED BY '{password}'"),
    );
    let mut account = database.clone();
    account.user = user;
    account
}

/// The grants that `dlock setup --print` names for exec: table and rights of each.
fn printed_grants(database: &Database) -> Vec<(String, Vec<String>)> {
    let printed = Dlock::new(["setup", "--print", "--database", &database.name]).run();
    let grant = |line: &str| {
        let (rights, rest) = line.strip_prefix("GRANT ")?.split_once(" ON ")?;
        let table = rest.strip_suffix(" TO 'dlock'@'%';")?;
        let rights = rights.split(", ").map(str::to_owned).collect();
        Some((table.to_owned(), rights))
    };
    printed.stdout.lines().filter_map(grant).collect()
}

#[test]
fn a_good_server_needs_no_mending_and_is_left_as_it_was() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour));
        Dlock::on(&database, ["exec", "-a", "init", "--", "true"])
            .run()
            .expect(0, "", "");
        execute(
            &database,
            "INSERT INTO dlock_waiter (action,claim,holder,host,pid,user,note,polls,server,session_id,\
             account,since,seen_at) VALUES ('x','y','','',1,'','',0,'',1,'',NOW(),NOW())",
        );
        let before = contents(&database);
        for table in ["dlock_lock", "dlock_waiter"] {
            assert!(before.contains(&(table.to_owned(), 1)), "{before:?}");
        }
        let findings = Findings::on(&database);
        findings.are_good_except(&[]);
        assert_eq!(findings.status, 0, "{findings:#?}");
        assert_eq!(contents(&database), before);

        let text = Dlock::on(&database, ["doctor"]).run();
        assert_eq!((text.status, text.stderr.as_str()), (Some(0), ""));
        let lines: Vec<&str> = text.stdout.lines().collect();
        assert!(
            lines[0].starts_with("ok    address      127.0.0.1"),
            "{text:#?}"
        );
        let (last, _) = lines.split_last().expect("lines");
        assert!(last.starts_with("0 to mend, "), "{text:#?}");
        // By the socket all is as good.
        let socket = Dlock::new([""; 0]).env("DLOCK_URL", database.socket_url());
        Findings::of(socket).are_good_except(&[]);
    }
}

#[test]
fn what_a_server_is_set_to_is_judged() {
    for flavour in Flavour::ALL {
        let mut options = vec!["--log-bin", "--server-id=1", "--sync-binlog=1"];
        let semi_sync = match flavour {
            Flavour::MariaDb => "rpl_semi_sync_master_enabled",
            Flavour::MySql => {
                options.push("--plugin-load-add=semisync_source.so");
                "rpl_semi_sync_source_enabled"
            }
        };
        let server = Server::start(flavour, &options);
        let database = set_up(&server);
        Findings::on(&database).are_good_except(&[]);
        let set = |name: &str, value: &str| {
            let before: Vec<(String, String)> = database
                .admin_conn()
                .query(format!("SHOW GLOBAL VARIABLES LIKE '{name}'"))
                .expect("root may");
            execute(&database, &format!("SET GLOBAL {name}={value}"));
            before[0].1.clone()
        };
        let limit = match flavour {
            Flavour::MariaDb => "max_statement_time",
            Flavour::MySql => "max_execution_time",
        };
        let cases = [
            (limit, "5000", "session", "note", "=5000"),
            (
                semi_sync,
                "1",
                "replication",
                "note",
                "no replica acknowledges",
            ),
            ("read_only", "1", "writes", "mend", "read_only is on"),
            (
                "binlog_format",
                "'STATEMENT'",
                "writes",
                "mend",
                "STATEMENT",
            ),
            (
                "innodb_flush_log_at_trx_commit",
                "0",
                "durability",
                "mend",
                "trx_commit=0",
            ),
            (
                "innodb_flush_log_at_trx_commit",
                "2",
                "durability",
                "note",
                "trx_commit=2",
            ),
            ("sync_binlog", "0", "durability", "note", "sync_binlog=0"),
            ("autocommit", "0", "session", "note", "autocommit is off"),
            (
                "max_connections",
                "10",
                "connections",
                "note",
                "of 10 in use",
            ),
        ];
        for (name, value, check, verdict, fact) in cases {
            let before = set(name, value);
            let findings = Findings::on(&database);
            findings.tells(check, verdict, fact);
            // Whether the account may write is not to be found out where nobody may.
            findings.are_good_except(&[check, "grants"]);
            let status = if verdict == "mend" { 78 } else { 0 };
            assert_eq!(findings.status, status, "{name}={value}: {findings:#?}");
            let is_number = before.parse::<f64>().is_ok();
            let value = if is_number {
                before
            } else {
                format!("'{before}'")
            };
            set(name, &value);
        }
        Findings::on(&database).are_good_except(&[]);
        // A backup that keeps everybody from writing is in the way of knowing, and no missing grant.
        let mut backup = server.admin();
        backup
            .query_drop("FLUSH TABLES WITH READ LOCK")
            .expect("root may");
        let findings = Findings::on(&database);
        findings.tells("grants", "unchecked", "imeout");
        findings.are_good_except(&["grants"]);
        drop(backup);
        a_replica_is_seen(&server, &database);
    }
}

/// Asserts that a replica that reads from `server` without acknowledging is noted.
#[track_caller]
fn a_replica_is_seen(server: &Server, database: &Database) {
    let port = server.port();
    let Database { user, password, .. } = database;
    // MySQL shows the sessions of others only with PROCESS.
    execute(
        database,
        &format!("GRANT REPLICATION SLAVE, PROCESS ON *.* TO '{user}'@'%'"),
    );
    let replica = Server::start(server.flavour(), &["--server-id=2"]);
    let statements = match server.flavour() {
        Flavour::MariaDb => [
            format!(
                "CHANGE MASTER TO MASTER_HOST='127.0.0.1',MASTER_PORT={port},\
                 MASTER_USER='{user}',MASTER_PASSWORD='{password}'"
            ),
            "START SLAVE IO_THREAD".to_owned(),
        ],
        Flavour::MySql => [
            format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1',SOURCE_PORT={port},\
                 SOURCE_USER='{user}',SOURCE_PASSWORD='{password}',GET_SOURCE_PUBLIC_KEY=1"
            ),
            "START REPLICA IO_THREAD".to_owned(),
        ],
    };
    let mut admin = replica.admin();
    for statement in statements {
        admin.query_drop(&statement).expect("a replica starts");
    }
    crate::dlock::eventually("the replica reads", || {
        Findings::on(database).verdict("replication") == ["note"]
    });
    Findings::on(database).tells("replication", "note", "asynchronous, 1 reading");
}

#[test]
fn a_member_of_a_group_is_told_from_a_server_of_its_own() {
    let group = "--group_replication_group_name=8a94f357-aab4-11df-86ab-c80aa9429562";
    let options = [
        "--plugin-load-add=group_replication.so",
        group,
        "--log-bin",
        "--server-id=1",
        "--gtid-mode=ON",
        "--enforce-gtid-consistency=ON",
        "--group_replication_single_primary_mode=OFF",
        // On its own it would begin to look for the others, read-only meanwhile.
        "--group_replication_start_on_boot=OFF",
    ];
    let server = Server::start(Flavour::MySql, &options);
    let findings = Findings::on(&set_up(&server));
    findings.tells("cluster", "note", "every member takes writes");
    findings.are_good_except(&["cluster"]);

    let server = Server::start(Flavour::MariaDb, &["--wsrep-on=ON", "--binlog-format=ROW"]);
    let findings = Findings::on(&set_up(&server));
    findings.tells("cluster", "ok", "a server of its own");
    findings.are_good_except(&[]);
}

#[test]
fn each_grant_that_is_missing_is_found_and_the_remedy_grants_it() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour));
        let account = stranger(&database, "poor");
        let user = &account.user;
        let grants = printed_grants(&database);
        assert!(grants.len() > 2, "{grants:?}");
        for (table, rights) in &grants {
            let rights = rights.join(", ");
            execute(
                &database,
                &format!("GRANT {rights} ON {table} TO '{user}'@'%'"),
            );
        }
        let findings = Findings::on(&account);
        findings.are_good_except(&[]);
        for (table, rights) in &grants {
            let bare = table.rsplit('.').next().expect("a name");
            for right in rights {
                execute(
                    &database,
                    &format!("REVOKE {right} ON {table} FROM '{user}'@'%'"),
                );
                let findings = Findings::on(&account);
                let remedy =
                    findings.tells("grants", "mend", &format!("missing: {right} on {bare}"));
                assert_eq!(findings.status, 78);
                findings.are_good_except(&["grants", "tables"]);
                execute(&database, &remedy);
                Findings::on(&account).are_good_except(&[]);
            }
        }
    }
}

#[test]
fn a_grant_by_a_role_or_on_the_whole_server_counts() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour));
        let name = &database.name;
        let by_role = stranger(&database, "role");
        let user = &by_role.user;
        let role = format!("r_{user}");
        execute(&database, &format!("CREATE ROLE {role}"));
        execute(&database, &format!("GRANT ALL ON `{name}`.* TO {role}"));
        execute(&database, &format!("GRANT {role} TO '{user}'@'%'"));
        execute(
            &database,
            &match flavour {
                Flavour::MariaDb => format!("SET DEFAULT ROLE {role} FOR '{user}'@'%'"),
                Flavour::MySql => format!("SET DEFAULT ROLE {role} TO '{user}'@'%'"),
            },
        );
        Findings::on(&by_role).are_good_except(&[]);
        let everywhere = stranger(&database, "all");
        let user = &everywhere.user;
        execute(
            &database,
            &format!("GRANT SELECT, INSERT, UPDATE, DELETE ON *.* TO '{user}'@'%'"),
        );
        Findings::on(&everywhere).are_good_except(&[]);
    }
}

#[test]
fn an_altered_table_is_found_and_the_remedy_mends_it() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour));
        for (alter, verdict, fact) in [
            (
                "ALTER TABLE dlock_lock ENGINE=MyISAM",
                "mend",
                "dlock_lock is MyISAM, not InnoDB",
            ),
            (
                "ALTER TABLE dlock_lock MODIFY action VARCHAR(255) CHARACTER SET utf8mb4 \
                 COLLATE utf8mb4_general_ci NOT NULL",
                "mend",
                "dlock_lock.action is varchar(255) collate utf8mb4_general_ci not null",
            ),
            (
                "ALTER TABLE dlock_lock MODIFY expires_at DATETIME NULL",
                "mend",
                "dlock_lock.expires_at is datetime, not datetime(6) null",
            ),
            (
                "ALTER TABLE dlock_lock MODIFY claim VARBINARY(16) NOT NULL",
                "mend",
                "dlock_lock.claim is varbinary(16) not null",
            ),
            (
                "ALTER TABLE dlock_waiter MODIFY position BIGINT UNSIGNED NOT NULL",
                "mend",
                "dlock_waiter.position is bigint unsigned not null",
            ),
            (
                "ALTER TABLE dlock_lock DROP COLUMN note",
                "mend",
                "dlock_lock has no column note",
            ),
            (
                "ALTER TABLE dlock_waiter DROP KEY claim",
                "mend",
                "dlock_waiter has no unique key (claim)",
            ),
            (
                "ALTER TABLE dlock_waiter DROP KEY line",
                "note",
                "dlock_waiter has no key (action,position)",
            ),
        ] {
            execute(&database, alter);
            let findings = Findings::on(&database);
            let remedy = findings.tells("tables", verdict, fact);
            findings.are_good_except(&["tables", "grants"]);
            let status = if verdict == "mend" { 78 } else { 0 };
            assert_eq!(findings.status, status, "{alter}: {findings:#?}");
            execute(&database, &remedy);
            Findings::on(&database).are_good_except(&[]);
        }
    }
}

#[test]
fn a_table_of_another_version_is_found() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour));
        for (change, fact) in [
            ("UPDATE dlock_schema SET version=99", "schema version 99"),
            ("INSERT INTO dlock_schema VALUES (98)", "more than one row"),
            ("DELETE FROM dlock_schema", "dlock_schema is empty"),
        ] {
            execute(&database, change);
            let findings = Findings::on(&database);
            findings.tells("tables", "mend", fact);
            assert_eq!(findings.status, 78);
        }
        let column = "ALTER TABLE dlock_lock ADD seal INT NOT NULL";
        execute(&database, column);
        Findings::on(&database).tells("tables", "mend", "has a column seal");
    }
}

#[test]
fn missing_tables_must_be_mended_only_where_the_account_cannot_create_them() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("doctor");
        let findings = Findings::on(&database);
        findings.tells("tables", "note", "missing: dlock_schema, ");
        findings.tells("grants", "unchecked", "nothing to try them on");
        assert_eq!(findings.status, 0, "{findings:#?}");
        assert_eq!(contents(&database), []);

        let account = stranger(&database, "poor");
        let Database { name, user, .. } = &account;
        let grant = format!("GRANT SELECT, INSERT, UPDATE, DELETE ON `{name}`.* TO '{user}'@'%'");
        execute(&database, &grant);
        let findings = Findings::on(&account);
        findings.tells("tables", "mend", "missing: dlock_schema, ");
        assert_eq!(findings.status, 78);
        assert_eq!(contents(&database), []);

        // One that is gone is told from those that are there.
        Dlock::on(&database, ["setup", "-q"])
            .run()
            .expect(0, "", "");
        execute(&database, "DROP TABLE dlock_waiter");
        let findings = Findings::on(&account);
        let fact = findings.checks.iter().find(|one| one["check"] == "tables");
        assert_eq!(fact.expect("it is there")["fact"], "missing: dlock_waiter");
    }
}

#[test]
fn an_account_that_sees_no_table_is_told_so() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour));
        let account = stranger(&database, "blind");
        let Database { name, user, .. } = &account;
        execute(
            &database,
            &format!("GRANT SELECT ON `{name}`.dlock_schema TO '{user}'@'%'"),
        );
        let findings = Findings::on(&account);
        findings.tells("tables", "unchecked", "does not see dlock_waiter, ");
        let remedy = findings.tells("grants", "mend", "missing: SELECT on dlock_lock, ");
        assert_eq!(findings.status, 78);
        for statement in remedy.split_inclusive(';') {
            execute(&database, statement);
        }
        Findings::on(&account).are_good_except(&[]);
    }
}

#[test]
fn named_locks_that_do_not_work_are_noted() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour));
        for (heard, fact) in [
            ("NO_LOCK1(", "named locks are refused"),
            // Says yes to everybody, and no session has anything.
            ("INTERVAL(", "a named lock does not stay with its session"),
        ] {
            let proxy = Proxy::rewriting(database.port, "GET_LOCK(", heard);
            let findings = Findings::through(&proxy, &database);
            findings.tells("gate", "note", fact);
            findings.are_good_except(&["gate"]);
            assert_eq!(findings.status, 0, "{flavour}: {findings:#?}");
        }
    }
}

#[test]
fn a_proxy_that_takes_part_is_recognised() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour));
        // Greets with an id of its own: the four bytes behind the version's end.
        let greeting = Proxy::tampering(database.port, |greeting| {
            let mut greeting = greeting.to_vec();
            let end = greeting.iter().skip(5).position(|byte| *byte == 0);
            greeting[5 + end.expect("a version") + 1] ^= 0x55;
            greeting
        });
        let findings = Findings::through(&greeting, &database);
        findings.tells("proxy", "note", "greets for the server");
        findings.are_good_except(&["proxy"]);
        assert_eq!(findings.status, 0);

        // Answers each question from another session.
        let moving = Proxy::rewriting(database.port, "CONNECTION_ID()", "UUID_SHORT()+00");
        let findings = Findings::through(&moving, &database);
        findings.tells("proxy", "note", "changing sessions");
        findings.are_good_except(&["proxy", "gate"]);

        // Drops what a session was set to.
        let setting = Proxy::rewriting(database.port, "autocommit=1", "autocommit=0");
        let findings = Findings::through(&setting, &database);
        findings.tells("session", "mend", "autocommit=OFF, not ON");
        assert_eq!(findings.status, 78);
    }
}

#[test]
fn slow_answers_clocks_apart_and_old_versions_are_noted() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour));
        let through = |said, heard| {
            let proxy = Proxy::rewriting(database.port, said, heard);
            Findings::through(&proxy, &database)
        };
        let slow = through("1 AS round_trip", "SLEEP(.2) AS rt");
        assert_ne!(slow.verdict("round-trip"), ["ok"], "{slow:#?}");
        let slower = through("1 AS round_trip", "SLEEP(.6) AS rt");
        slower.tells("round-trip", "mend", "in the median of 3");
        assert_eq!(slower.status, 78);
        let late = through("UTC_TIMESTAMP(6)", "'2020-01-01 0:0'");
        late.tells("clock", "note", "behind this machine's");
        late.are_good_except(&["clock"]);
        let old = through("VERSION()", "'5.5.62-'");
        old.tells("server", "note", "5.5.62-");
        old.are_good_except(&["server"]);
    }
}

#[test]
fn an_account_with_few_sessions_is_told_before_it_runs_out() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour));
        for (limit, verdict) in [(2, "mend"), (10, "note")] {
            let alter = format!(
                "ALTER USER '{}'@'%' WITH MAX_USER_CONNECTIONS {limit}",
                database.user
            );
            execute(&database, &alter);
            let fact = format!(", 1 of the {limit} of this account");
            Findings::on(&database).tells("connections", verdict, &fact);
        }
    }
}

#[test]
fn a_way_that_ends_early_says_at_which_step_and_what_was_not_checked() {
    let nobody = Port::claim(local(0)).expect("127.0.0.1 has ports");
    let closed = nobody.number();
    let full = refusing(1040, "Too many connections");
    let run = |url: &str| Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", url));
    let ends = |url: &str, check: &str, status: i32, fact: &str| {
        let findings = run(url);
        findings.tells(check, "mend", fact);
        assert_eq!(findings.status, status, "{findings:#?}");
        let at = CHECKS
            .iter()
            .position(|name| *name == check)
            .expect("one of them");
        for (place, name) in CHECKS.iter().enumerate() {
            let wanted = match place.cmp(&at) {
                std::cmp::Ordering::Less => "ok",
                std::cmp::Ordering::Equal => "mend",
                std::cmp::Ordering::Greater => "unchecked",
            };
            assert_eq!(findings.verdict(name), [wanted], "{name} in {findings:#?}");
        }
    };
    let unknown = "mysql://u@unknown.invalid/d?ssl-mode=disabled";
    ends(unknown, "address", 69, "cannot resolve");
    ends(
        &format!("mysql://u@127.0.0.1:{closed}/d"),
        "connect",
        69,
        "refused",
    );
    ends(
        &format!("mysql://u@127.0.0.1:{full}/d"),
        "connect",
        69,
        "Too many",
    );
    ends(
        "mysql://u@h/d?socket=/no/such",
        "connect",
        69,
        "No such file",
    );
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("doctor");
        let url = database.url().replace(&database.password, "another");
        ends(&url, "login", 77, "Access denied");
    }
    let plain = shared(Flavour::MariaDb).database("doctor");
    let url = format!("{}?ssl-mode=required", plain.url());
    ends(&url, "tls", 78, "does not offer TLS");
    let encrypted = shared(Flavour::MySql).database("doctor");
    let url = format!("{}?ssl-mode=verify_ca", encrypted.url());
    ends(&url, "tls", 78, "failed");
    // Any certificate is better than none, and worse than one that is checked.
    let url = format!("{}?ssl-mode=required", encrypted.url());
    run(&url).tells("tls", "note", "with any certificate");
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let silent = Proxy::to(0);
    silent.door(Door::Silent);
    let url = format!("mysql://u@127.0.0.1:{}/d", silent.port());
    let findings = Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", url));
    findings.tells("connect", "mend", "no answer in time");
    assert_eq!(findings.status, 69, "{findings:#?}");
}

#[test]
fn a_file_that_cannot_be_read_leaves_all_else_unchecked() {
    let url = "mysql://u@127.0.0.1/d?ssl-mode=verify_ca&ssl-ca=/no/such/file";
    let findings = Findings::of(Dlock::new([""; 0]).env("DLOCK_URL", url));
    findings.tells("tls", "mend", "cannot read /no/such/file");
    assert_eq!(findings.verdict("address"), ["unchecked"]);
    assert_eq!(findings.status, 78);
}

#[test]
fn without_its_database_a_server_is_looked_at_all_the_same() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("doctor");
        let socket = shared(flavour).socket().to_str().expect("UTF-8").to_owned();
        let as_root = ["--user", "root", "--socket", &socket, "--database", "none"];
        let findings = Findings::of(Dlock::new(as_root));
        let remedy = findings.tells("database", "mend", "Unknown database");
        assert!(remedy.contains("create it"), "{remedy}");
        assert_eq!(findings.status, 78);
        findings.are_good_except(&["database", "grants", "tables"]);
        assert_eq!(findings.verdict("tables"), ["unchecked"]);

        let other = Dlock::new(["--database", "mysql"]).env("DLOCK_URL", database.url());
        let findings = Findings::of(other);
        findings.tells("database", "mend", "Access denied");
        assert_eq!(findings.status, 77);
        assert_eq!(findings.verdict("gate"), ["ok"]);
    }
}

#[test]
fn a_session_that_is_cut_costs_one_check_and_a_server_that_goes_ends_it() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour));
        let proxy = Proxy::to(database.port);
        proxy.next(Kind::Stand, Fault::Reset);
        let findings = Findings::through(&proxy, &database);
        findings.tells("gate", "unchecked", "no answer");
        findings.are_good_except(&["gate"]);

        let case = proxy.next(Kind::Stand, Fault::HoldRequest);
        let url = database.url_through(proxy.port());
        let run = Dlock::new(["doctor"]).env("DLOCK_URL", url).start();
        case.wait();
        proxy.door(Door::Refused);
        proxy.reset();
        let outcome = run.wait();
        assert_eq!(outcome.status, Some(69), "{outcome:#?}");
        assert!(
            outcome.stdout.contains("mend  gate         no answer"),
            "{outcome:#?}"
        );
        assert!(outcome.stdout.contains("ok    tables"), "{outcome:#?}");
        assert!(
            outcome.stdout.contains("-     round-trip   not checked"),
            "{outcome:#?}"
        );
    }
}

#[test]
fn the_text_says_why_and_what_to_do() {
    let database = shared(Flavour::MariaDb).database("doctor");
    let Outcome { stdout, .. } = Dlock::on(&database, ["doctor"]).run();
    let lines: Vec<&str> = stdout.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.starts_with("note  tables       missing: "));
    let at = at.unwrap_or_else(|| panic!("{stdout}"));
    assert_eq!(
        lines[at + 1..at + 3],
        [
            "        why: the first dlock exec creates them; dlock status has nothing to show until then",
            "        do:  run dlock setup",
        ]
    );
}

#[test]
fn the_form_of_json_and_every_check_are_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/parts/dlock-doctor.man");
    let page = fs::read_to_string(path).expect("the page is there");
    let database = shared(Flavour::MariaDb).database("doctor");
    let outcome = Dlock::on(&database, ["doctor", "--json"]).run();
    let document: Value = serde_json::from_str(&outcome.stdout).expect("it is JSON");
    for (heading, object) in [
        ("\n.SS JSON\n", &document),
        ("\n.SS \"JSON: a finding\"\n", &document["checks"][0]),
    ] {
        let (_, text) = page.split_once(heading).expect("a section");
        let text = text.split("\n.S").next().expect("its text");
        let documented: BTreeSet<&str> = text
            .lines()
            .filter_map(|line| line.strip_suffix(')')?.split_once(" ("))
            .map(|(field, _)| field)
            .collect();
        let fields = object.as_object().expect("an object").keys();
        assert_eq!(
            documented,
            fields.map(String::as_str).collect(),
            "{heading}"
        );
    }
    let items = page.split(".TP\n").filter_map(|item| item.lines().next());
    let names: Vec<&str> = items.flat_map(|tag| tag.split(", ")).collect();
    let from = names.iter().position(|name| *name == CHECKS[0]);
    assert_eq!(names[from.expect("the list")..][..CHECKS.len()], CHECKS);
}
