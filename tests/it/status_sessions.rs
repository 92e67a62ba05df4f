//! Tests of what `dlock status` shows about the command's sessions on the server.

use serde_json::Value;
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::on_each_flavour;
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
}

impl Scene {
    #[track_caller]
    fn start(flavour: Flavour) -> Self {
        let database = shared(flavour).database("status");
        let holder = Dlock::on(&database, ["exec", "-a", "init", "--"])
            .arg(flavour.client())
            .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1"])
            .arg(format!("--port={}", database.port))
            .arg(format!("--user={}", database.user))
            .arg(format!("--password={}", database.password))
            .args(["-e", STATEMENT])
            .start();
        let scene = Self { database, holder };
        eventually("the session is noted and executes the statement", || {
            let session = scene.real_session();
            session.is_some_and(|(id, _)| {
                let noted = format!("SELECT 1 FROM dlock_lock WHERE sessions LIKE '%{id}%'");
                scene.database.first::<u8>(noted).is_some()
            })
        });
        scene.database.run(
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
        self.dlock(arguments).run().exited(0).stdout
    }

    /// Returns the id and the client's address of the session that executes the statement.
    #[track_caller]
    fn real_session(&self) -> Option<(u64, String)> {
        let query = format!(
            "SELECT p.id,h.host FROM {SESSIONS} AS p JOIN (\
             SELECT id,host FROM information_schema.processlist\
             /*!80022 WHERE FALSE UNION ALL SELECT id,host FROM performance_schema.processlist*/) AS h ON h.id=p.id \
             WHERE p.user='{}' AND p.info LIKE '%SLEEP(600)%'",
            self.database.user
        );
        self.database.first(query)
    }
}

/// Returns the value of the fact `name` in the output of status for one action.
#[track_caller]
fn fact<'a>(status: &'a str, name: &str) -> &'a str {
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix("  ")?.strip_prefix(name));
    let value = value.unwrap_or_else(|| panic!("{name} is not in {status}"));
    value.trim_start()
}

/// Asserts that status ends the description of the session of `left` with `end`, also if it prints JSON, in which the
/// session is `listed`.
#[track_caller]
fn left_session_is(account: &Database, end: &str, listed: impl Into<Value>) {
    let status = || Dlock::typed(account, "status left");
    let text = status().run().exited(0).stdout;
    assert!(fact(&text, "session").ends_with(end), "{text}");
    let document = status().arg("--json").run().exited(0).json();
    let session = &document["locks"][0]["sessions"][0];
    assert_eq!(session["listed"], listed.into(), "{document}");
}

on_each_flavour!(status_shows_the_sessions_and_on_request_the_statements_of_the_command);
fn status_shows_the_sessions_and_on_request_the_statements_of_the_command(flavour: Flavour) {
    let mut scene = Scene::start(flavour);
    let (id, client) = scene.real_session().expect("the session is listed");
    let user = scene.database.user.clone();
    for arguments in [&["init"][..], &["init", "--json"], &["--json"], &[]] {
        let status = scene.status(arguments);
        assert!(!status.contains("p4ssw0rd"), "{status}");
    }
    let by_option = scene.status(&["init", "--statements"]);
    let by_variable = scene.dlock(&["init"]).env("DLOCK_OPT_STATEMENTS", "1");
    for status in [by_option, by_variable.run().exited(0).stdout] {
        let session = fact(&status, "session");
        let expected = format!("{id} of {user} from {client}: Query (User sleep) for ");
        assert!(session.starts_with(&expected), "{session}");
        assert_eq!(fact(&status, "statement").trim_end(), SHOWN);
        assert!(!status.contains("after-80"), "{status}");
    }
    let document = scene
        .dlock(&["init", "--json", "--statements"])
        .run()
        .json();
    let session = &document["locks"][0]["sessions"][0];
    assert_eq!(session["id"], id);
    assert_eq!(session["account"], user);
    assert_eq!(session["client"], client);
    assert_eq!(session["listed"], true);
    assert_eq!(session["state"], "User sleep");
    assert!(session["for_ms"].is_u64(), "{document}");
    assert_eq!(session["statement"], STATEMENT[..80]);
    (scene.dlock(&["--watch", "--statements"])).expect(64, "", "--watch reads no statements");

    // A failure to read the sessions does not affect the other facts.
    let proxy = Proxy::to(scene.database.port);
    let denied = error_packet(1227, "the process list is locked");
    proxy.every(Kind::Other, Fault::Respond(denied));
    scene.database.port = proxy.port();
    let text = scene.status(&["init"]);
    assert!(text.starts_with("init: held\n"), "{text}");
    let session = fact(&text, "session");
    for part in ["state unknown: ", "the process list is locked"] {
        assert!(session.contains(part), "{text}");
    }
    let document = scene.dlock(&["init", "--json"]).run().exited(0).json();
    let why = document["sessions_error"].as_str().unwrap_or_default();
    assert!(why.contains("the process list is locked"), "{document}");
    assert!(document["locks"][0]["sessions"][0]["listed"].is_null());
}

#[test]
fn no_statement_is_requested_without_the_flag_and_no_session_unless_one_is_shown() {
    let mut scene = Scene::start(Flavour::of_this_test());
    let port = scene.database.port;
    let reads_statements = |query: &str| {
        let mut words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        words.any(|word| word.eq_ignore_ascii_case("info"))
    };
    for (arguments, expected, statements) in [
        (&["init"][..], 2, false),
        (&["init", "--json"], 2, false),
        (&["never"], 1, false),
        (&["init", "left"], 1, false),
        (&[], 1, false),
        (&["init", "--statements"], 2, true),
    ] {
        let proxy = Proxy::to(port);
        scene.database.port = proxy.port();
        scene.status(arguments);
        let sessions = proxy.sessions();
        let [session] = sessions.as_slice() else {
            panic!("not one connection: {sessions:?}");
        };
        let queries = session.requests.iter().filter_map(|request| match request {
            Request::Query(text) => Some(text),
            _ => None,
        });
        let queries: Vec<&String> = queries.collect();
        assert_eq!(queries.len(), expected, "{arguments:?}");
        let reads = queries.iter().any(|query| reads_statements(query));
        assert_eq!(reads, statements, "{queries:?}");
    }
}

on_each_flavour!(a_free_action_names_the_sessions_that_a_dead_holder_has_left);
fn a_free_action_names_the_sessions_that_a_dead_holder_has_left(flavour: Flavour) {
    let mut scene = Scene::start(flavour);
    let status = scene.status(&["left"]);
    assert!(status.starts_with("left: free\n"), "{status}");
    let expected = "free; the next dlock exec first ends 1 session of an earlier run on the server";
    assert_eq!(fact(&status, "diagnosis"), expected);
    assert!(fact(&status, "session").contains(": Query ("), "{status}");
    // A session that the account cannot see is not shown as ended.
    let other = scene.database.account("o");
    other.grant(&format!("SELECT ON `{}`.*", other.name));
    let hidden = ": ended, or not visible without the privilege PROCESS";
    left_session_is(&other, hidden, Value::Null);
    other.grant("PROCESS ON *.*");
    left_session_is(&other, "", true);

    scene.holder.signal("TERM");
    eventually("dlock ends, which ends the session", || {
        scene.holder.is_over()
    });
    for account in [&other, &scene.database] {
        left_session_is(account, ": ended", false);
    }
    let restart = r#"UPDATE dlock_lock SET sessions=REPLACE(sessions,'"started":','"started":1')"#;
    scene.database.run(restart);
    let restarted = ": ended, because the server has restarted";
    left_session_is(&scene.database, restarted, false);
    let elsewhere =
        r#"UPDATE dlock_lock SET sessions=REPLACE(sessions,'"server":"','"server":"db-2.')"#;
    scene.database.run(elsewhere);
    left_session_is(&scene.database, "", Value::Null);
    let status = scene.status(&["left"]);
    let server = " on server db-2.";
    assert!(fact(&status, "session").contains(server), "{status}");
}
