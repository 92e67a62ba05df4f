//! Findings about the kind, the settings and the behaviour of the server.

use testkit::cli_runner::{Dlock, eventually};
use testkit::clusters::replicate;
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, Series, Server, shared};
use testkit::sql::Sql;

use super::session_user::assert_missing_list_is_reported;
use super::{Findings, contents};

#[test]
fn a_good_server_passes_all_checks_and_is_not_changed() {
    for series in Series::ALL {
        let database = shared(series).set_up("doctor");
        let exec = ["exec", "-a", "init", "--", "true"];
        Dlock::on(&database, exec).run().expect(0, "", "");
        database.run(
            "INSERT INTO dlock_waiter (action,owner_id,holder,host,pid,user,note,polls,server,session_id,\
             account,enqueued_at,last_seen_at) VALUES ('x','y','','',1,'','',0,'',1,'',NOW(),NOW())",
        );
        let before = contents(&database);
        for table in ["dlock_lock", "dlock_waiter"] {
            assert!(before.contains(&(table.to_owned(), 1)), "{before:?}");
        }
        let findings = Findings::on(&database);
        findings.are_good_except(&[]);
        findings.reports("session-user", "skip", "no --session-user");
        assert_eq!(findings.status, 0, "{findings:#?}");
        assert_eq!(contents(&database), before);

        let text = Dlock::on(&database, ["doctor"]).run();
        assert_eq!((text.status, text.stderr.as_str()), (Some(0), ""));
        let lines: Vec<&str> = text.stdout.lines().collect();
        let first = lines.iter().find(|line| !line.starts_with("set "));
        let is_first = first.is_some_and(|it| it.starts_with("ok    processes     /proc"));
        let is_last = lines.last().is_some_and(|it| it.starts_with("0 failed, "));
        assert!(is_first && is_last, "{text:#?}");
        // All checks are also ok over the Unix socket.
        Findings::at(&database.socket_url()).are_good_except(&[]);
    }
}

#[test]
fn a_server_with_a_small_pool_and_without_a_galera_provider_is_a_single_server() {
    let options = "--thread-handling=pool-of-threads --thread-pool-max-threads=20 --wsrep-on=ON --binlog-format=ROW";
    let options: Vec<&str> = options.split(' ').collect();
    let server = Server::start(Flavour::MariaDb, &options);
    let findings = Findings::on(&server.set_up("doctor"));
    let pool = "a pool of at most 20 threads for 151 connections";
    findings.reports("connections", "warn", pool);
    findings.reports("cluster", "ok", "a single server");
    findings.are_good_except(&[]);
}

/// Options without which a replica cannot copy the changes of a MySQL server.
const GTIDS: [&str; 2] = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"];

on_each_flavour!(server_settings_are_checked);
fn server_settings_are_checked(flavour: Flavour) {
    let mut options = vec!["--log-bin", "--server-id=1", "--sync-binlog=1"];
    let semi_sync = match flavour {
        Flavour::MariaDb => "rpl_semi_sync_master_enabled",
        Flavour::MySql => {
            options.extend(GTIDS);
            options.push("--plugin-load-add=semisync_source.so");
            "rpl_semi_sync_source_enabled"
        }
    };
    let server = Server::start(flavour, &options);
    let database = server.set_up("doctor");
    Findings::on(&database).are_good_except(&[]);
    let set = |name: &str, value: &str| {
        let show = format!("SHOW GLOBAL VARIABLES LIKE '{name}'");
        let (_, before): (String, String) = database.value(show);
        let is_number = value.parse::<f64>().is_ok();
        let quote = if is_number { "" } else { "'" };
        database.run(format!("SET GLOBAL {name}={quote}{value}{quote}"));
        before
    };
    let limit = match flavour {
        Flavour::MariaDb => "max_statement_time",
        Flavour::MySql => "max_execution_time",
    };
    let (flush, no_replica) = ("innodb_flush_log_at_trx_commit", "no replica acknowledges");
    let cases = [
        (limit, "5000", "session", "warn", "=5000"),
        (semi_sync, "1", "replication", "warn", no_replica),
        ("read_only", "1", "writes", "fail", "read_only is on"),
        ("binlog_format", "STATEMENT", "writes", "fail", "STATEMENT"),
        (flush, "0", "durability", "fail", "trx_commit=0"),
        (flush, "2", "durability", "warn", "trx_commit=2"),
        ("sync_binlog", "0", "durability", "warn", "sync_binlog=0"),
        ("autocommit", "0", "session", "warn", "autocommit is off"),
        ("max_connections", "10", "connections", "warn", "of 10 conn"),
    ];
    for (name, value, check, status, fact) in cases {
        let before = set(name, value);
        let findings = Findings::on(&database);
        findings.reports(check, status, fact);
        // The privileges cannot be checked while the server rejects all writes.
        findings.are_good_except(&[check, "grants"]);
        let status = if status == "fail" { 78 } else { 0 };
        assert_eq!(findings.status, status, "{name}={value}: {findings:#?}");
        set(name, &before);
    }
    // While a backup blocks all writes, doctor skips the check of the privileges and reports no missing privilege.
    let mut backup = server.admin();
    backup.run("FLUSH TABLES WITH READ LOCK");
    let findings = Findings::on(&database);
    findings.reports("grants", "skip", "imeout");
    findings.are_good_except(&["grants"]);
    drop(backup);
    assert_replica_is_reported(&server, &database);
}

/// Asserts that doctor warns about a replica that reads from `server` and does not acknowledge transactions.
#[track_caller]
fn assert_replica_is_reported(server: &Server, database: &Database) {
    // MySQL shows sessions of other accounts only with the PROCESS privilege.
    database.grant("PROCESS ON *.*");
    let options: &[&str] = match server.flavour() {
        Flavour::MariaDb => &["--server-id=2"],
        Flavour::MySql => &[
            "--server-id=2",
            "--performance-schema=OFF",
            GTIDS[0],
            GTIDS[1],
        ],
    };
    let replica = Server::start(server.series(), options);
    replicate(server, &replica);
    let fact = "asynchronous, connected replicas: 1";
    eventually("doctor reports the replica", || {
        let findings = Findings::on(database);
        findings.status("replication") == ["warn"] && findings.fact("replication") == fact
    });
    if server.flavour() == Flavour::MySql {
        replica.run("STOP REPLICA; SET GLOBAL read_only=OFF");
        assert_missing_list_is_reported(&replica);
    }
}
