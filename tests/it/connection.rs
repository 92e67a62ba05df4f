//! Claims about reaching the database: by what the server is named and which name wins, what a connection costs, and
//! what an account must be allowed to do.

use std::fmt::Write;
use std::fs::{self, Permissions};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use mysql::prelude::Queryable;

use crate::command::{Stage, tell};
use crate::dlock::{Dlock, eventually};
use crate::network::{local, resolving};
use crate::proxy::{Port, Proxy, Request};
use crate::servers::{Database, Flavour, shared};

/// The actions that `database` knows, by name.
#[track_caller]
fn actions(database: &Database) -> Vec<String> {
    let rows: Vec<Vec<u8>> = database
        .admin_conn()
        .query("SELECT action FROM dlock_lock WHERE token > 0 AND claim IS NULL ORDER BY action")
        .expect("the tables are there");
    rows.into_iter()
        .map(|name| String::from_utf8(name).expect("names are UTF-8"))
        .collect()
}

/// Runs `true` under a lock of its own for each of `runs`, and asserts that it happened in `database`.
#[track_caller]
fn all_reach(
    database: &Database,
    flavour: Flavour,
    runs: impl IntoIterator<Item = (&'static str, Dlock)>,
) {
    let mut names = Vec::new();
    for (name, dlock) in runs {
        let outcome = dlock.env("DLOCK_ACTION", name).arg("--").arg("true").run();
        assert_eq!(
            (outcome.status, &*outcome.stderr),
            (Some(0), ""),
            "{flavour}, {name}"
        );
        names.push(name);
    }
    names.sort_unstable();
    assert_eq!(actions(database), names, "{flavour}");
}

/// `dlock exec` that does not stand in line and tries the server once; its action comes from the environment.
fn bare() -> Dlock {
    Dlock::new(["exec", "--nonblock", "--db-wait", "0"])
}

/// Writes `text` to a file that only we may read.
fn private(stage: &Stage, name: &str, text: &str) -> PathBuf {
    let path = stage.path(name);
    fs::write(&path, text).expect("the folder is writable");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("the file is ours");
    path
}

/// The socket of the server that `database` is on, as text.
fn socket(flavour: Flavour) -> &'static str {
    let socket = shared(flavour).socket();
    socket.to_str().expect("the socket's path is UTF-8")
}

#[test]
fn a_url_comes_from_a_flag_a_variable_or_a_file() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("url");
        let stage = Stage::new();
        let file = private(&stage, "url", &format!("{}\n", database.url()));
        let runs = [
            ("flag", bare().arg("--url").arg(database.url())),
            ("variable", bare().env("DLOCK_URL", database.url())),
            ("file", bare().arg("--url-file").arg(&file)),
            ("file by variable", bare().env("DLOCK_URL_FILE", &file)),
            (
                "before the subcommand",
                Dlock::new(["--url", &database.url(), "exec"]),
            ),
        ];
        all_reach(&database, flavour, runs);
    }
}

#[test]
fn single_settings_come_from_flags_or_variables() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("single");
        let port = server.port().to_string();
        let flags = [
            "--host",
            "127.0.0.1",
            "--port",
            &port,
            "--user",
            &database.user,
            "--database",
            &database.name,
        ];
        let by_flag = flags.iter().fold(bare(), Dlock::arg);
        let by_variable = bare()
            .env("DLOCK_HOST", "127.0.0.1")
            .env("DLOCK_PORT", &port)
            .env("DLOCK_USER", &database.user)
            .env("DLOCK_DATABASE", &database.name);
        let runs = [("flags", by_flag), ("variables", by_variable)]
            .map(|(name, dlock)| (name, dlock.env("DLOCK_PASSWORD", &database.password)));
        all_reach(&database, flavour, runs);
    }
}

#[test]
fn the_password_comes_from_a_file_or_a_variable() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("password");
        let stage = Stage::new();
        let url = format!(
            "mysql://{}@127.0.0.1:{}/{}",
            database.user,
            server.port(),
            database.name
        );
        let line = private(&stage, "line", &format!("{}\n", database.password));
        let bytes = private(&stage, "bytes", &database.password);
        let run = || bare().env("DLOCK_URL", &url);
        let runs = [
            ("file", run().arg("--password-file").arg(&line)),
            (
                "file without a line end",
                run().arg("--password-file").arg(&bytes),
            ),
            ("file by variable", run().env("DLOCK_PASSWORD_FILE", &line)),
            ("variable", run().env("DLOCK_PASSWORD", &database.password)),
        ];
        all_reach(&database, flavour, runs);
    }
}

#[test]
fn a_password_of_any_characters_logs_in_from_every_source() {
    const PASSWORD: &str = r#"p@/?#% "'\é[]"#;
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("characters");
        let mut root = server.admin();
        let text = PASSWORD.replace('\\', "\\\\").replace('\'', "\\'");
        let alter = format!("ALTER USER '{}'@'%' IDENTIFIED BY '{text}'", database.user);
        root.query_drop(alter).expect("root may");
        let stage = Stage::new();
        let encoded = PASSWORD.bytes().fold(String::new(), |mut all, byte| {
            write!(all, "%{byte:02X}").expect("a String takes all");
            all
        });
        let place = format!("127.0.0.1:{}/{}", server.port(), database.name);
        let quoted = PASSWORD.replace('\\', "\\\\").replace('"', "\\\"");
        let options = private(&stage, "cnf", &format!("[client]\npassword=\"{quoted}\"\n"));
        let file = private(&stage, "password", PASSWORD);
        let run = || bare().env("DLOCK_URL", format!("mysql://{}@{place}", database.user));
        let runs = [
            (
                "url",
                bare().env(
                    "DLOCK_URL",
                    format!("mysql://{}:{encoded}@{place}", database.user),
                ),
            ),
            ("variable", run().env("DLOCK_PASSWORD", PASSWORD)),
            ("file", run().arg("--password-file").arg(file)),
            ("option file", run().arg("--defaults-file").arg(options)),
        ];
        all_reach(&database, flavour, runs);
    }
}

#[test]
fn an_option_file_gives_settings_by_its_groups_and_what_it_includes() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("options");
        let stage = Stage::new();
        let Database {
            name,
            user,
            password,
            ..
        } = &database;
        let port = server.port();
        let client = format!(
            "[mysqld]\nport = 1\n[client]\nhost = 127.0.0.1\nport = {port}\nuser = {user} # who\npassword = '{password}'\n"
        );
        private(&stage, "included.cnf", &client);
        let include = format!("!include {}\n", stage.path("included.cnf").display());
        let ours = format!("[dlock]\ndatabase = {name}\n");
        let whole = private(&stage, "whole", &format!("{client}{ours}"));
        let over = format!("{client}database = not_this\n{ours}");
        let over = private(&stage, "over", &over);
        let including = private(&stage, "including", &format!("{include}{ours}"));
        let by_socket = format!(
            "[client]\nsocket = {}\nuser={user}\npassword={password}\n{ours}",
            socket(flavour)
        );
        let by_socket = private(&stage, "socket", &by_socket);
        let run = |file: &PathBuf| bare().arg("--defaults-file").arg(file);
        let runs = [
            ("both groups", run(&whole)),
            ("dlock over client", run(&over)),
            ("included", run(&including)),
            ("socket", run(&by_socket)),
            ("by variable", bare().env("DLOCK_DEFAULTS_FILE", &whole)),
        ];
        all_reach(&database, flavour, runs);
    }
}

#[test]
fn a_unix_socket_is_named_by_the_url_or_by_a_setting() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("socket");
        let Database {
            name,
            user,
            password,
            ..
        } = &database;
        let socket = socket(flavour);
        // Nobody listens on that port: who goes by TCP does not arrive.
        let url = format!("mysql://{user}:{password}@localhost:1/{name}");
        let runs = [
            ("url", bare().env("DLOCK_URL", database.socket_url())),
            (
                "flag over url",
                bare().env("DLOCK_URL", url).arg("--socket").arg(socket),
            ),
            (
                "variables",
                bare()
                    .env("DLOCK_SOCKET", socket)
                    .env("DLOCK_USER", user)
                    .env("DLOCK_DATABASE", name)
                    .env("DLOCK_PASSWORD", password),
            ),
        ];
        all_reach(&database, flavour, runs);
    }
}

#[test]
fn a_flag_goes_before_a_variable_before_the_url_before_the_option_file() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("wanted");
        let stage = Stage::new();
        let Database {
            name,
            user,
            password,
            ..
        } = &database;
        let place = format!("127.0.0.1:{}", server.port());
        let other = "[client]\nhost=192.0.2.1\nport=1\nuser=nobody\npassword=wrong\n\
                     database=other\nsocket=/nowhere\n";
        let other = private(&stage, "other", other);
        let right = private(&stage, "right", password);
        let wrong = private(&stage, "wrong", "wrong");
        let run = || bare().arg("--defaults-file").arg(&other);
        let runs = [
            ("url over file", run().env("DLOCK_URL", database.url())),
            (
                "variable over url",
                run()
                    .env(
                        "DLOCK_URL",
                        format!("mysql://{user}:{password}@{place}/other"),
                    )
                    .env("DLOCK_DATABASE", name),
            ),
            (
                "flag over variable",
                run()
                    .env("DLOCK_URL", database.url())
                    .env("DLOCK_DATABASE", "other")
                    .env("DLOCK_PORT", "1")
                    .arg("--database")
                    .arg(name)
                    .arg("--port")
                    .arg(server.port().to_string()),
            ),
            (
                "url by flag over url by variable",
                run()
                    .env("DLOCK_URL", "mysql://nobody@192.0.2.1/other")
                    .arg("--url")
                    .arg(database.url()),
            ),
            (
                "password by variable over url",
                run()
                    .env("DLOCK_URL", format!("mysql://{user}:wrong@{place}/{name}"))
                    .env("DLOCK_PASSWORD", password),
            ),
            (
                "password by file over variable",
                run()
                    .env("DLOCK_URL", format!("mysql://{user}:wrong@{place}/{name}"))
                    .env("DLOCK_PASSWORD", "wrong")
                    .env("DLOCK_PASSWORD_FILE", wrong)
                    .arg("--password-file")
                    .arg(right),
            ),
        ];
        all_reach(&database, flavour, runs);
    }
}

#[test]
fn every_address_of_a_host_name_is_tried() {
    // Where the machine has no IPv6, ::1 still is an address that does not work.
    const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("addresses");
        let Database {
            name,
            user,
            password,
            ..
        } = &database;
        let through = |port: u16, addresses: &str| {
            let url = format!("mysql://{user}:{password}@db.test:{port}/{name}?ssl-mode=disabled");
            resolving(
                bare().env("DLOCK_URL", url),
                &format!("db.test={addresses}"),
            )
        };
        // The server listens on 127.0.0.1 alone; here is the same on another address alone.
        let proxy = Proxy::at(SocketAddr::new(IpAddr::V4(OTHER), 0), server.port())
            .expect("all of 127 is loopback");
        let _nobody = Port::claim(local(proxy.port())).expect("nobody else has it on 127.0.0.1");
        let runs = [
            ("the second family", through(server.port(), "::1,127.0.0.1")),
            ("the first family", through(server.port(), "127.0.0.1,::1")),
            (
                "the second of a family",
                through(proxy.port(), "127.0.0.1,127.0.0.2"),
            ),
            (
                "the second of the second",
                through(proxy.port(), "::1,127.0.0.1,127.0.0.2"),
            ),
        ];
        all_reach(&database, flavour, runs);

        // What is said is what was wrong, not what the driver tried in vain: an address of one family from the other.
        let nobody = Port::claim(local(0)).expect("127.0.0.1 has ports");
        let port = nobody.number();
        for addresses in ["127.0.0.1,::1", "::1,127.0.0.1"] {
            let outcome = through(port, addresses)
                .env("DLOCK_ACTION", "none")
                .arg("--")
                .arg("true")
                .run();
            outcome.expect(69, "", &format!("cannot reach db.test:{port}: "));
            for noise in ["Invalid argument", "Address family not supported"] {
                assert!(!outcome.stderr.contains(noise), "{flavour}: {outcome:?}");
            }
        }
    }
}

#[test]
fn a_server_that_listens_on_ipv6_alone_is_reached_by_name_and_by_address() {
    let here = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0);
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let Ok(proxy) = Proxy::at(here, server.port()) else {
            // Then there is nothing to claim; a machine that has ::1 must let us have a port there.
            let addresses = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
            assert!(
                !addresses.starts_with(&format!("{:0>32} 01", 1)),
                "{addresses}"
            );
            return;
        };
        let _nobody = Port::claim(local(proxy.port())).expect("nobody else has it on 127.0.0.1");
        let database = server.database("ipv6");
        let Database {
            name,
            user,
            password,
            ..
        } = &database;
        let at = |host: &str| {
            let url = format!("mysql://{user}:{password}@{host}:{}/{name}", proxy.port());
            resolving(bare().env("DLOCK_URL", url), "localhost=127.0.0.1,::1")
        };
        all_reach(
            &database,
            flavour,
            [("address", at("[::1]")), ("name", at("localhost"))],
        );
    }
}

#[test]
fn an_exec_costs_one_connection_and_two_packets() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("cost");
        // The tables and the row of the action are there from then on.
        Dlock::on(&database, ["exec", "-a", "init", "--", "true"])
            .run()
            .expect(0, "", "");

        let proxy = Proxy::to(server.port());
        Dlock::new(["exec", "-a", "init", "--", "true"])
            .env("DLOCK_URL", database.url_through(proxy.port()))
            .run()
            .expect(0, "", "");
        let sessions = proxy.sessions();
        let [session] = &sessions[..] else {
            panic!("{flavour}: not one connection: {sessions:#?}");
        };
        let [
            Request::Query(attempt),
            Request::Query(release),
            Request::Quit,
        ] = &session.requests[..]
        else {
            panic!("{flavour}: not two packets and the end: {session:#?}");
        };
        assert!(
            attempt.contains("UPDATE dlock_lock SET token="),
            "{flavour}: {attempt}"
        );
        assert!(
            release.contains("UPDATE dlock_lock SET claim=NULL"),
            "{flavour}: {release}"
        );

        // An action that nobody has ever wanted costs one packet more.
        let proxy = Proxy::to(server.port());
        Dlock::new(["exec", "-a", "new", "--", "true"])
            .env("DLOCK_URL", database.url_through(proxy.port()))
            .run()
            .expect(0, "", "");
        let sessions = proxy.sessions();
        assert_eq!(sessions.len(), 1, "{flavour}: {sessions:#?}");
        assert_eq!(sessions[0].requests.len(), 4, "{flavour}: {sessions:#?}");
    }
}

#[test]
fn the_server_too_counts_one_connection_an_exec() {
    // The driver left to itself asks a server on loopback for its socket and connects a second time, by that.
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("count");
        Dlock::on(&database, ["setup"])
            .run()
            .expect(0, "", "in place");
        let limit = format!(
            "ALTER USER '{}'@'%' WITH MAX_CONNECTIONS_PER_HOUR 2",
            database.user
        );
        database.admin_conn().query_drop(limit).expect("root may");
        let run = || {
            Dlock::on(
                &database,
                ["exec", "-a", "init", "--db-wait", "0", "--", "true"],
            )
            .run()
        };
        run().expect(0, "", "");
        assert_eq!(actions(&database), ["init"], "{flavour}: not released");
        // A second connection of the first would have used up the limit; the driver hides that it could not have it.
        run().expect(0, "", "");
        // The server does keep count.
        run().expect(69, "", "max_connections_per_hour");
    }
}

#[test]
fn the_first_exec_in_an_empty_database_creates_the_tables() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("empty");
        Dlock::on(&database, ["exec", "-a", "init", "--", "echo", "ran"])
            .run()
            .expect(0, "ran\n", "");
        let tables: Vec<String> = database
            .admin_conn()
            .query("SHOW TABLES")
            .expect("root may");
        assert_eq!(
            tables,
            [
                "dlock_done",
                "dlock_fence",
                "dlock_lock",
                "dlock_run",
                "dlock_schema",
                "dlock_waiter"
            ],
            "{flavour}"
        );
        let versions: Vec<u32> = database
            .admin_conn()
            .query("SELECT version FROM dlock_schema")
            .expect("root may");
        assert_eq!(versions, [1], "{flavour}");
    }
}

#[test]
fn many_first_execs_at_once_all_get_their_turn() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("together");
        let stage = Stage::new();
        let count = stage.path("count");
        let count = count.to_str().expect("the path is UTF-8");
        let command = format!("read -r n <{count} || n=0; echo $((n + 1)) >{count}");
        fs::write(count, "0\n").expect("the folder is writable");
        let runs: Vec<_> = (0..8)
            .map(|_| {
                Dlock::on(
                    &database,
                    ["exec", "-q", "-a", "init", "--", "sh", "-c", &command],
                )
                .start()
            })
            .collect();
        for run in runs {
            let outcome = run.wait();
            assert_eq!(
                (outcome.status, &*outcome.stderr),
                (Some(0), ""),
                "{flavour}"
            );
        }
        assert_eq!(
            fs::read_to_string(count).expect("it is there"),
            "8\n",
            "{flavour}"
        );
        let versions: Vec<u32> = database
            .admin_conn()
            .query("SELECT version FROM dlock_schema")
            .expect("root may");
        assert_eq!(versions, [1], "{flavour}");
    }
}

/// `database` as another account, which has been given `grants`; `ACCOUNT` stands for it.
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

/// The grants that `dlock setup --print` names for `exec` and for `setup`.
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
            .filter(|line| line.starts_with("GRANT ") && line.contains(account))
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
            let renewals = "SELECT renewals FROM dlock_lock WHERE claim IS NOT NULL";
            let renewals: Option<u64> = database
                .admin_conn()
                .query_first(renewals)
                .expect("root may");
            renewals.is_some_and(|renewals| renewals > 0)
        });
        tell(&go, "on");
        run.wait().expect(0, "", "");
        let outcome = Dlock::on(&limited, ["status", "init"]).run();
        assert!(outcome.stdout.contains("free"), "{flavour}: {outcome:?}");

        let reading = [
            "dlock_done",
            "dlock_lock",
            "dlock_run",
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
fn an_account_that_may_not_create_the_tables_is_told_of_setup_and_the_grants() {
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
            outcome.expect(
                77,
                "",
                "run dlock setup with an account that may create tables",
            );
            for grant in [
                "GRANT CREATE, SELECT, INSERT ON",
                &format!("GRANT SELECT ON `{}`.dlock_schema TO", database.name),
                &format!(
                    "GRANT SELECT, INSERT, UPDATE ON `{}`.dlock_lock TO",
                    database.name
                ),
            ] {
                assert!(
                    outcome.stderr.contains(grant),
                    "{flavour}, {grant}: {outcome:?}"
                );
            }
        }
    }
}

#[test]
fn an_account_without_any_grant_is_told_where_the_grants_are() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("no_grant");
        Dlock::on(&database, ["setup"])
            .run()
            .expect(0, "", "in place");
        let nobody = account(&database, "nobody", &[]);
        Dlock::on(&nobody, ["exec", "-a", "init", "--", "echo", "ran"])
            .run()
            .expect(77, "", "dlock setup --print");
    }
}

#[test]
fn setup_changes_nothing_that_is_there() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("setup");
        let rows = || -> Vec<(Vec<u8>, u64)> {
            let rows = database
                .admin_conn()
                .query("SELECT action, token FROM dlock_lock");
            rows.expect("the table is there")
        };
        Dlock::on(&database, ["setup"])
            .run()
            .expect(0, "", "the tables are in place");
        Dlock::on(&database, ["exec", "-a", "init", "--", "true"])
            .run()
            .expect(0, "", "");
        let before = rows();
        assert_eq!(before.len(), 1, "{flavour}");
        Dlock::on(&database, ["setup"])
            .run()
            .expect(0, "", "the tables are in place");
        assert_eq!(rows(), before, "{flavour}");
    }
}

#[test]
fn tables_of_another_version_are_left_alone() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("version");
        Dlock::on(&database, ["exec", "-a", "init", "--", "true"])
            .run()
            .expect(0, "", "");
        let rows = || -> Vec<(Vec<u8>, u64, Option<Vec<u8>>)> {
            let rows = database
                .admin_conn()
                .query("SELECT action, token, claim FROM dlock_lock");
            rows.expect("the table is there")
        };
        let before = rows();
        for (version, advice) in [
            ("UPDATE dlock_schema SET version = 2", "use a newer dlock"),
            (
                "UPDATE dlock_schema SET version = 0",
                "run the dlock that made them",
            ),
            (
                "INSERT INTO dlock_schema (version) VALUES (7)",
                "use a newer dlock",
            ),
            ("DELETE FROM dlock_schema", "run dlock setup"),
        ] {
            database.admin_conn().query_drop(version).expect("root may");
            for action in ["init", "new"] {
                let outcome =
                    Dlock::on(&database, ["exec", "-a", action, "--", "echo", "ran"]).run();
                outcome.expect(78, "", advice);
            }
            Dlock::on(&database, ["status"])
                .run()
                .expect(78, "", advice);
            assert_eq!(rows(), before, "{flavour}, {version}");
        }
        // What the last of them was told to do helps.
        Dlock::on(&database, ["setup"])
            .run()
            .expect(0, "", "the tables are in place");
        Dlock::on(&database, ["exec", "-a", "init", "--", "true"])
            .run()
            .expect(0, "", "");
    }
}
