//! Tests of what `dlock status` shows about the command's sessions on the server.

use std::fs;

use mysql::Conn;
use mysql::prelude::Queryable;
use serde_json::Value;
use testkit::cli_runner::{Dlock, Outcome, Running, eventually};
use testkit::command::Stage;
use testkit::proxy::{Fault, Kind, Proxy, Request, error_packet};
use testkit::servers::{Database, Flavour, SESSIONS, shared};

/// A statement that runs until its session is killed. It contains a control character, a secret, and text after the
/// first 80 characters.
const STATEMENT: &str = "SELECT SLEEP(600),'p4ssw0rd\u{1b}[2J',                                                    'after-80'";

/// The first 80 characters of [`STATEMENT`], escaped.
const SHOWN: &str = "SELECT SLEEP(600),'p4ssw0rd\\u{1b}[2J',";

/// The action `init`, whose holder executes [`STATEMENT`] with the server's client, and the free action `left`, whose
/// record contains the same session.
struct Scene {
    database: Database,
    holder: Running,
    admin: Conn,
    /// The folder of the client's option file.
    _stage: Stage,
}

impl Scene {
    #[track_caller]
    fn start(flavour: Flavour) -> Self {
        let database = shared(flavour).database("status");
        let stage = Stage::new();
        let options = stage.path("client.cnf");
        let Database {
            user,
            password,
            port,
            ..
        } = &database;
        let text = format!(
            "[client]\nprotocol=tcp\nhost=127.0.0.1\nport={port}\nuser={user}\npassword={password}\n"
        );
        fs::write(&options, text).expect("the file can be written");
        let holder = Dlock::on(&database, ["exec", "-a", "init", "--"])
            .arg(flavour.client())
            .arg(format!("--defaults-file={}", options.display()))
            .args(["-e", STATEMENT])
            .start();
        let mut scene = Self {
            admin: database.admin_conn(),
            database,
            holder,
            _stage: stage,
        };
        eventually("the session is noted and executes the statement", || {
            let status = scene.dlock(&["init", "--json"]).run();
            let document: Value = serde_json::from_str(&status.stdout).unwrap_or_default();
            document["locks"][0]["sessions"][0]["command"] == "Query"
        });
        scene.execute(
            "INSERT INTO dlock_lock (action,token,sessions) \
             SELECT 'left',token,sessions FROM dlock_lock WHERE action='init'",
        );
        scene
    }

    fn dlock(&self, arguments: &[&str]) -> Dlock {
        Dlock::on(&self.database, ["status"]).args(arguments)
    }

    #[track_caller]
    fn status(&self, arguments: &[&str]) -> String {
        stdout(self.dlock(arguments).run())
    }

    /// Returns the session of the action `left` in the JSON that `account` gets.
    #[track_caller]
    fn session(account: &Database) -> Value {
        let status = Dlock::on(account, ["status", "left", "--json"]).run();
        let document: Value = serde_json::from_str(&stdout(status)).expect("stdout is JSON");
        document["locks"][0]["sessions"][0].clone()
    }

    #[track_caller]
    fn execute(&mut self, statement: &str) {
        let outcome = self.admin.query_drop(statement);
        outcome.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    /// Returns the id and the client's address of the session that executes the statement.
    #[track_caller]
    fn real_session(&mut self) -> (u64, String) {
        let query = format!(
            "SELECT p.id,h.host FROM {SESSIONS} AS p JOIN (\
             SELECT id,host FROM information_schema.processlist\
             /*!80022 WHERE FALSE UNION ALL SELECT id,host FROM performance_schema.processlist*/) AS h ON h.id=p.id \
             WHERE p.user='{}' AND p.info LIKE '%SLEEP(600)%'",
            self.database.user
        );
        let found = self.admin.query_first(query).expect("root may query it");
        found.expect("the session is listed")
    }

    /// Stops the holder, which ends the session.
    #[track_caller]
    fn stop_holder(&mut self) {
        self.holder.signal("TERM");
        eventually("dlock ends", || self.holder.is_over());
    }
}

/// Returns the output of a successful status.
#[track_caller]
fn stdout(outcome: Outcome) -> String {
    assert_eq!(outcome.status, Some(0), "{outcome:?}");
    outcome.stdout
}

/// Returns the value of the fact `name` in the output of status for one action.
#[track_caller]
fn fact<'a>(status: &'a str, name: &str) -> &'a str {
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix("  ")?.strip_prefix(name));
    let value = value.unwrap_or_else(|| panic!("{name} is not in {status}"));
    value.trim_start()
}

#[test]
fn status_shows_the_sessions_of_the_command_with_their_states() {
    for flavour in Flavour::ALL {
        let mut scene = Scene::start(flavour);
        let (id, client) = scene.real_session();
        let user = scene.database.user.clone();
        let status = scene.status(&["init"]);
        let session = fact(&status, "session");
        let expected = format!("{id} of {user} from {client}: Query (User sleep) for ");
        assert!(session.starts_with(&expected), "{flavour}: {session}");

        let json = Scene::session(&scene.database);
        assert_eq!(json["id"], id, "{flavour}");
        assert_eq!(json["account"], user, "{flavour}");
        assert_eq!(json["client"], client, "{flavour}");
        assert_eq!(json["listed"], true, "{flavour}");
        assert_eq!(json["state"], "User sleep", "{flavour}");
        assert!(json["for_ms"].is_u64(), "{flavour}: {json}");
        scene.stop_holder();
    }
}

#[test]
fn statements_are_shown_only_with_the_flag_and_are_escaped_and_truncated() {
    for flavour in Flavour::ALL {
        let mut scene = Scene::start(flavour);
        for arguments in [&["init"][..], &["init", "--json"], &["--json"], &[]] {
            let status = scene.status(arguments);
            assert!(!status.contains("p4ssw0rd"), "{flavour}: {status}");
        }
        for status in [
            scene.status(&["init", "--statements"]),
            stdout(
                scene
                    .dlock(&["init"])
                    .env("DLOCK_OPT_STATEMENTS", "1")
                    .run(),
            ),
        ] {
            let statement = fact(&status, "statement");
            assert_eq!(statement.trim_end(), SHOWN, "{flavour}");
            assert!(!status.contains("after-80"), "{flavour}: {status}");
        }
        let json = scene.status(&["init", "--json", "--statements"]);
        let document: Value = serde_json::from_str(&json).expect("stdout is JSON");
        let statement = &document["locks"][0]["sessions"][0]["statement"];
        assert_eq!(*statement, STATEMENT[..80], "{flavour}");

        let why = "--watch reads no statements";
        let watch = scene.dlock(&["--watch", "--statements"]).run();
        watch.expect(64, "", why);
        scene.stop_holder();
    }
}

#[test]
fn no_statement_is_requested_without_the_flag_and_no_session_unless_one_is_shown() {
    for flavour in Flavour::ALL {
        let mut scene = Scene::start(flavour);
        let queries = |arguments: &[&str]| -> Vec<String> {
            let proxy = Proxy::to(scene.database.port);
            let url = scene.database.url_through(proxy.port());
            stdout(scene.dlock(arguments).env("DLOCK_URL", url).run());
            let sessions = proxy.sessions();
            let [session] = sessions.as_slice() else {
                panic!("{flavour}: not one connection: {sessions:?}");
            };
            let queries = session.requests.iter().filter_map(|request| match request {
                Request::Query(text) => Some(text.clone()),
                _ => None,
            });
            queries.collect()
        };
        let reads_statements = |query: &String| {
            let mut words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            words.any(|word| word.eq_ignore_ascii_case("info"))
        };
        for (arguments, expected) in [
            (&["init"][..], 2),
            (&["init", "--json"], 2),
            (&["never"], 1),
            (&["init", "left"], 1),
            (&[], 1),
        ] {
            let queries = queries(arguments);
            assert_eq!(queries.len(), expected, "{flavour}, {arguments:?}");
            assert!(!queries.iter().any(reads_statements), "{queries:?}");
        }
        let queries = queries(&["init", "--statements"]);
        assert!(queries.iter().any(reads_statements), "{queries:?}");
        scene.stop_holder();
    }
}

#[test]
fn a_free_action_names_the_sessions_that_a_dead_holder_has_left() {
    for flavour in Flavour::ALL {
        let mut scene = Scene::start(flavour);
        let status = scene.status(&["left"]);
        assert!(status.starts_with("left: free\n"), "{flavour}: {status}");
        let expected =
            "free; the next dlock exec first ends 1 session of an earlier run on the server";
        assert_eq!(fact(&status, "diagnosis"), expected, "{flavour}");
        assert!(fact(&status, "session").contains(": Query ("), "{status}");

        scene.stop_holder();
        let ended = scene.status(&["left"]);
        assert!(fact(&ended, "session").ends_with(": ended"), "{ended}");
        assert_eq!(Scene::session(&scene.database)["listed"], false);

        let restart =
            r#"UPDATE dlock_lock SET sessions=REPLACE(sessions,'"started":','"started":1')"#;
        scene.execute(restart);
        let status = scene.status(&["left"]);
        let expected = ": ended, because the server has restarted";
        assert!(fact(&status, "session").ends_with(expected), "{status}");

        let elsewhere =
            r#"UPDATE dlock_lock SET sessions=REPLACE(sessions,'"server":"','"server":"db-2.')"#;
        scene.execute(elsewhere);
        let status = scene.status(&["left"]);
        assert!(
            fact(&status, "session").contains(" on server db-2."),
            "{status}"
        );
        assert!(Scene::session(&scene.database)["listed"].is_null());
    }
}

#[test]
fn a_session_that_the_account_cannot_see_is_not_shown_as_ended() {
    for flavour in Flavour::ALL {
        let mut scene = Scene::start(flavour);
        let mut other = scene.database.clone();
        other.user = format!("o_{}", other.user);
        let Database {
            user,
            password,
            name,
            ..
        } = &other;
        for statement in [
            format!("CREATE USER '{user}'@'%' IDENTIFIED BY '{password}'"),
            format!("GRANT SELECT ON `{name}`.* TO '{user}'@'%'"),
        ] {
            scene.execute(&statement);
        }
        let status = || stdout(Dlock::on(&other, ["status", "left"]).run());
        let hidden = status();
        let expected = ": ended, or not visible without the privilege PROCESS";
        assert!(fact(&hidden, "session").ends_with(expected), "{hidden}");
        assert!(Scene::session(&other)["listed"].is_null(), "{flavour}");

        scene.execute(&format!("GRANT PROCESS ON *.* TO '{user}'@'%'"));
        assert_eq!(Scene::session(&other)["listed"], true, "{flavour}");
        scene.stop_holder();
        let ended = status();
        assert!(fact(&ended, "session").ends_with(": ended"), "{ended}");
    }
}

#[test]
fn a_failure_to_read_the_sessions_does_not_affect_the_other_facts() {
    for flavour in Flavour::ALL {
        let mut scene = Scene::start(flavour);
        let proxy = Proxy::to(scene.database.port);
        let denied = error_packet(1227, "the process list is locked");
        proxy.every(Kind::Other, Fault::Respond(denied));
        let url = scene.database.url_through(proxy.port());
        let status =
            |arguments: &[&str]| stdout(scene.dlock(arguments).env("DLOCK_URL", &url).run());
        let text = status(&["init"]);
        assert!(text.starts_with("init: held\n"), "{flavour}: {text}");
        let session = fact(&text, "session");
        assert!(
            session.contains("state unknown: ") && session.contains("the process list is locked"),
            "{flavour}: {text}"
        );
        let json = status(&["init", "--json"]);
        let document: Value = serde_json::from_str(&json).expect("stdout is JSON");
        let why = document["sessions_error"].as_str().unwrap_or_default();
        assert!(why.contains("the process list is locked"), "{json}");
        assert!(document["locks"][0]["sessions"][0]["listed"].is_null());
        scene.stop_holder();
    }
}
