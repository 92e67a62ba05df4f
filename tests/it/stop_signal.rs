//! Tests of `exec --stop-signal`: the first signal that the command gets when dlock stops it.

use std::fs;

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{Stage, Witness, read_message};
use testkit::servers::{Database, Flavour, SESSIONS, shared};

/// A command that writes its process id to `$1`. It exits on SIGINT, and prints the names of SIGINT and SIGTERM.
const EXIT_ON_INT: &str = r#"
    trap "echo int; exit 0" INT
    trap "echo term" TERM
    echo $$ > "$1"
    while :; do sleep 0.02; done
"#;

/// Starts `script` with the fifo `ready` as `$1` and with `options`, and waits until the script writes to the fifo.
fn started(database: &Database, stage: &Stage, options: &[&str], script: &str) -> Running {
    let ready = stage.fifo("ready");
    let running = Dlock::on(database, ["exec", "-a", "init"])
        .args(options)
        .args(["--", "sh", "-c", script, "sh"])
        .arg(&ready)
        .start();
    read_message(&ready);
    running
}

fn take_over(database: &Database) {
    let change = "UPDATE dlock_lock SET owner_id=REPEAT('t',16), token=token+1, holder='a thief'";
    let mut admin = database.admin_conn();
    admin.query_drop(change).expect("the row can be changed");
}

#[test]
fn command_over_max_runtime_gets_the_stop_signal_first() {
    let database = shared(Flavour::of_this_test()).database("stop_signal");
    for signal in ["INT", "sigint", "2"] {
        let options = ["--max-runtime", "2s", "--stop-signal", signal];
        let running = started(&database, &Stage::new(), &options, EXIT_ON_INT);
        let why = "init has run for 2s; stopping the command";
        running.wait().expect(124, "int\n", why);
    }
}

#[test]
fn stop_signal_of_the_environment_applies_unless_the_option_is_given() {
    let database = shared(Flavour::of_this_test()).database("stop_signal");
    for (option, printed) in [(None, "int\n"), (Some("--stop-signal=TERM"), "term\n")] {
        let outcome = Dlock::on(&database, ["exec", "-a", "init", "--max-runtime", "2s"])
            .env("DLOCK_OPT_STOP_SIGNAL", "INT")
            .args(option)
            .args(["--", "sh", "-c"])
            .arg("for it in int term; do trap \"echo $it; exit\" $it; done; while :; do sleep 0.02; done")
            .run();
        outcome.expect(124, printed, "init has run for 2s; stopping the command");
    }
}

#[test]
fn command_whose_lease_is_lost_gets_the_stop_signal_first_even_if_it_is_stopped() {
    let database = shared(Flavour::of_this_test()).database("stop_signal");
    for stop in ["", "kill -STOP $$;"] {
        let script = format!(
            r#"trap "echo int; exit 0" INT; trap "echo term" TERM; echo $$ > "$1"; {stop} while :; do sleep 0.02; done"#
        );
        let options = ["--ttl", "6s", "--stop-signal", "INT"];
        let running = started(&database, &Stage::new(), &options, &script);
        take_over(&database);
        let why = "lost init: init is held by a thief";
        running.wait().expect(76, "int\n", why);
        let free = "UPDATE dlock_lock SET owner_id=NULL";
        database
            .admin_conn()
            .query_drop(free)
            .expect("the row can be changed");
    }
}

#[test]
fn command_that_survives_the_stop_signal_is_killed_after_the_grace_period() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("stop_signal");
    let stage = Stage::new();
    let witness = Witness::on(&stage);
    let script = format!(
        r#"exec 9>>"{}"; trap "echo int" INT; trap "echo term" TERM; echo up > "$1"; while :; do sleep 0.02; done"#,
        witness.path().display()
    );
    let options = [
        "--max-runtime",
        "2s",
        "--grace",
        "200ms",
        "--stop-signal",
        "INT",
    ];
    let running = started(&database, &stage, &options, &script);
    running.wait().expect(124, "int\n", "stopping the command");
    assert!(witness.is_alone(), "{flavour}: the command is alive");
}

#[test]
fn descendants_in_other_sessions_get_the_stop_signal() {
    let database = shared(Flavour::of_this_test()).database("stop_signal");
    // A shell starts its background processes with SIGINT ignored, so this test uses a different signal.
    let script = r#"
        setsid sh -c 'trap "echo descendant; exit" USR1; echo up > "$1"; while :; do sleep 0.02; done' sh "$1" &
        trap "wait; echo command; exit" USR1
        while :; do sleep 0.02; done
    "#;
    let options = ["--max-runtime", "2s", "--stop-signal", "USR1"];
    let running = started(&database, &Stage::new(), &options, script);
    let why = "stopping the command";
    running.wait().expect(124, "descendant\ncommand\n", why);
}

#[test]
fn stop_signal_kill_kills_at_once() {
    let database = shared(Flavour::of_this_test()).database("stop_signal");
    // The test would fail if dlock waited for the grace period.
    let options = [
        "--ttl",
        "2h",
        "--grace",
        "1h",
        "--max-runtime",
        "2s",
        "--stop-signal",
        "KILL",
    ];
    let running = started(&database, &Stage::new(), &options, EXIT_ON_INT);
    running.wait().expect(124, "", "stopping the command");
}

#[test]
fn stop_signal_does_not_change_the_signals_that_dlock_forwards() {
    let database = shared(Flavour::of_this_test()).database("stop_signal");
    let script = r#"trap "echo int" INT; trap "echo term; exit 3" TERM; echo up > "$1"; while :; do sleep 0.02; done"#;
    let options = ["--stop-signal", "INT"];
    let running = started(&database, &Stage::new(), &options, script);
    running.signal("TERM");
    running.wait().expect(3, "term\n", "");
}

/// A run of the server's own client, which executes a statement that takes a minute.
struct Statement {
    flavour: Flavour,
    database: Database,
    /// The folder with the option file of the client.
    _stage: Stage,
}

impl Statement {
    /// Starts the run with `options`, and waits until the server executes the statement.
    fn start(flavour: Flavour, options: &[&str]) -> (Self, Running) {
        let stage = Stage::new();
        let database = shared(flavour).database("stop_signal");
        let file = stage.path("client.cnf");
        let text = format!(
            "[client]\nprotocol=tcp\nhost=127.0.0.1\nport={}\nuser={}\npassword={}\n",
            database.port, database.user, database.password
        );
        fs::write(&file, text).expect("the file can be written");
        let running = Dlock::on(&database, ["exec", "-a", "init"])
            .args(options)
            .arg("--")
            .arg(flavour.client())
            .arg(format!("--defaults-file={}", file.display()))
            .args(["-e", "SELECT SLEEP(60)"])
            .start();
        let statement = Self {
            flavour,
            database,
            _stage: stage,
        };
        eventually("the server executes the statement", || {
            statement.is_executed()
        });
        (statement, running)
    }

    fn is_executed(&self) -> bool {
        let query = format!(
            "SELECT id FROM {SESSIONS} s WHERE user='{}' AND info LIKE 'SELECT SLEEP%'",
            self.database.user
        );
        let session: Option<u64> =
            (self.database.admin_conn().query_first(query)).expect("the process list can be read");
        session.is_some()
    }

    /// Waits until dlock exits with `status`, and checks that the client itself has killed the statement.
    #[track_caller]
    fn is_killed_by_its_client(&self, running: Running, status: i32) {
        let outcome = running.wait();
        assert!(!self.is_executed(), "{}: {outcome:#?}", self.flavour);
        let message = match self.flavour {
            Flavour::MariaDb => "Ctrl-C -- query killed",
            Flavour::MySql => "^C -- query aborted",
        };
        let is_printed = outcome.stdout.contains(message);
        assert!(outcome.status == Some(status) && is_printed, "{outcome:#?}");
    }
}

#[test]
fn sigint_lets_the_client_of_the_server_kill_its_own_statement() {
    // On a busy machine, a client needs seconds to start, and to react to a signal.
    let options = ["--max-runtime", "8s", "--stop-signal", "INT"];
    for (statement, running) in Flavour::ALL.map(|flavour| Statement::start(flavour, &options)) {
        statement.is_killed_by_its_client(running, 124);
    }
    let options = ["--ttl", "20s", "--stop-signal", "INT"];
    for (statement, running) in Flavour::ALL.map(|flavour| Statement::start(flavour, &options)) {
        take_over(&statement.database);
        statement.is_killed_by_its_client(running, 76);
    }
}
