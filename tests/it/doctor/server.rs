//! Findings about the kind, the settings and the behaviour of the server.

use mysql::prelude::Queryable;
use testkit::cli_runner::Dlock;
use testkit::on_each_series;
use testkit::proxy::Proxy;
use testkit::servers::{Database, Flavour, Series, Server, shared};

use super::{Findings, contents, execute, set_up};

#[test]
fn a_good_server_passes_all_checks_and_is_not_changed() {
    for series in Series::ALL {
        let database = set_up(shared(series));
        Dlock::on(&database, ["exec", "-a", "init", "--", "true"])
            .run()
            .expect(0, "", "");
        execute(
            &database,
            "INSERT INTO dlock_waiter (action,owner_id,holder,host,pid,user,note,polls,server,session_id,\
             account,enqueued_at,last_seen_at) VALUES ('x','y','','',1,'','',0,'',1,'',NOW(),NOW())",
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
        let first = lines.iter().find(|line| !line.starts_with("set "));
        assert!(
            first.is_some_and(|line| line.starts_with("ok    processes     /proc")),
            "{text:#?}"
        );
        let (last, _) = lines.split_last().expect("doctor prints lines");
        assert!(last.starts_with("0 failed, "), "{text:#?}");
        // All checks are also ok over the Unix socket.
        let socket = Dlock::new([""; 0]).env("DLOCK_URL", database.socket_url());
        Findings::of(socket).are_good_except(&[]);
    }
}

#[test]
fn a_small_pool_of_threads_is_reported() {
    let options = [
        "--thread-handling=pool-of-threads",
        "--thread-pool-max-threads=20",
    ];
    let server = Server::start(Flavour::MariaDb, &options);
    let findings = Findings::on(&server.database("doctor"));
    let fact = "a pool of at most 20 threads for 151 connections";
    findings.reports("connections", "warn", fact);
}

on_each_series!(server_settings_are_checked);
fn server_settings_are_checked(series: Series) {
    let mut options = vec!["--log-bin", "--server-id=1", "--sync-binlog=1"];
    let semi_sync = match series.flavour() {
        Flavour::MariaDb => "rpl_semi_sync_master_enabled",
        Flavour::MySql => {
            options.push("--plugin-load-add=semisync_source.so");
            "rpl_semi_sync_source_enabled"
        }
    };
    let server = Server::start(series, &options);
    let database = set_up(&server);
    Findings::on(&database).are_good_except(&[]);
    let set = |name: &str, value: &str| {
        let before: Vec<(String, String)> = database
            .admin_conn()
            .query(format!("SHOW GLOBAL VARIABLES LIKE '{name}'"))
            .expect("root has the privilege");
        execute(&database, &format!("SET GLOBAL {name}={value}"));
        before[0].1.clone()
    };
    let limit = match series.flavour() {
        Flavour::MariaDb => "max_statement_time",
        Flavour::MySql => "max_execution_time",
    };
    let cases = [
        (limit, "5000", "session", "warn", "=5000"),
        (
            semi_sync,
            "1",
            "replication",
            "warn",
            "no replica acknowledges",
        ),
        ("read_only", "1", "writes", "fail", "read_only is on"),
        (
            "binlog_format",
            "'STATEMENT'",
            "writes",
            "fail",
            "STATEMENT",
        ),
        (
            "innodb_flush_log_at_trx_commit",
            "0",
            "durability",
            "fail",
            "trx_commit=0",
        ),
        (
            "innodb_flush_log_at_trx_commit",
            "2",
            "durability",
            "warn",
            "trx_commit=2",
        ),
        ("sync_binlog", "0", "durability", "warn", "sync_binlog=0"),
        ("autocommit", "0", "session", "warn", "autocommit is off"),
        (
            "max_connections",
            "10",
            "connections",
            "warn",
            "of 10 connections in use",
        ),
    ];
    for (name, value, check, status, fact) in cases {
        let before = set(name, value);
        let findings = Findings::on(&database);
        findings.reports(check, status, fact);
        // The privileges cannot be checked while the server rejects all writes.
        findings.are_good_except(&[check, "grants"]);
        let status = if status == "fail" { 78 } else { 0 };
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
    // While a backup blocks all writes, doctor skips the check of the privileges and reports no missing privilege.
    let mut backup = server.admin();
    backup
        .query_drop("FLUSH TABLES WITH READ LOCK")
        .expect("root has the privilege");
    let findings = Findings::on(&database);
    findings.reports("grants", "skip", "imeout");
    findings.are_good_except(&["grants"]);
    drop(backup);
    assert_replica_is_reported(&server, &database);
}

/// Asserts that doctor warns about a replica that reads from `server` and does not acknowledge transactions.
#[track_caller]
fn assert_replica_is_reported(server: &Server, database: &Database) {
    let port = server.port();
    let Database { user, password, .. } = database;
    // MySQL shows sessions of other accounts only with the PROCESS privilege.
    execute(
        database,
        &format!("GRANT REPLICATION SLAVE, PROCESS ON *.* TO '{user}'@'%'"),
    );
    let replica = Server::start(server.series(), &["--server-id=2"]);
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
    testkit::cli_runner::eventually("doctor reports the replica", || {
        Findings::on(database).status("replication") == ["warn"]
    });
    Findings::on(database).reports("replication", "warn", "asynchronous, connected replicas: 1");
}

#[test]
fn a_server_without_a_galera_provider_is_a_single_server() {
    let server = Server::start(Flavour::MariaDb, &["--wsrep-on=ON", "--binlog-format=ROW"]);
    let findings = Findings::on(&set_up(&server));
    findings.reports("cluster", "ok", "a single server");
    findings.are_good_except(&[]);
}

#[test]
fn broken_named_locks_are_a_warning() {
    for series in Series::ALL {
        let database = set_up(shared(series));
        for (replacement, fact) in [
            ("NO_LOCK1(", "the server refuses named locks"),
            // This function returns success to every session, although no session holds the lock.
            ("INTERVAL(", "a named lock does not stay with its session"),
        ] {
            let proxy = Proxy::rewriting(database.port, "GET_LOCK(", replacement);
            let findings = Findings::through(&proxy, &database);
            findings.reports("named-locks", "warn", fact);
            findings.are_good_except(&["named-locks"]);
            assert_eq!(findings.status, 0, "{series}: {findings:#?}");
        }
    }
}

on_each_series!(slow_responses_clock_differences_and_old_versions_are_reported);
fn slow_responses_clock_differences_and_old_versions_are_reported(series: Series) {
    let database = set_up(shared(series));
    let through = |text, replacement| {
        let proxy = Proxy::rewriting(database.port, text, replacement);
        Findings::through(&proxy, &database)
    };
    let slow = through("1 AS round_trip", "SLEEP(.2) AS rt");
    assert_ne!(slow.status("round-trip"), ["ok"], "{slow:#?}");
    let slower = through("1 AS round_trip", "SLEEP(.6) AS rt");
    slower.reports("round-trip", "fail", "median of 3 requests");
    assert_eq!(slower.status, 78);
    let late = through("UTC_TIMESTAMP(6)", "'2020-01-01 0:0'");
    late.reports("clock", "warn", "behind this machine's");
    late.are_good_except(&["clock"]);
    let old = through("VERSION()", "'5.5.62-'");
    old.reports("server", "warn", "5.5.62-");
    old.are_good_except(&["server"]);
}
