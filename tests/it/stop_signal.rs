//! Tests of `exec --stop-signal`: the first signal that the command gets when dlock stops it.

use std::fs;

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::holder::steal;
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, SESSIONS, shared};

/// Runs `dlock` with the command `script`, takes its lease over when the command has written to the fifo `$1`, and asserts
/// that the command prints `printed`.
#[track_caller]
fn prints_at_a_loss(database: &Database, dlock: Dlock, script: &str, printed: &str) {
    let stage = Stage::new();
    let running = stage.start(dlock.args(["--ttl", "6s"]), script);
    steal(database);
    let why = "lost init: init is held by a thief";
    running.wait().expect(76, printed, why);
    database.run("UPDATE dlock_lock SET owner_id=NULL");
}

#[test]
fn command_and_its_descendants_get_the_stop_signal_first() {
    let database = shared(Flavour::of_this_test()).database("stop_signal");
    let exec = || Dlock::on(&database, ["exec", "-a", "init"]);
    let traps = r#"for it in int term; do trap "echo $it; exit" $it; done"#;
    // A command that is stopped is continued.
    for stop in [":", "kill -STOP $$"] {
        let script = format!(r#"{traps}; echo up > "$1"; {stop}; while :; do sleep 0.1; done"#);
        let int = exec().args(["--stop-signal", "INT"]);
        prints_at_a_loss(&database, int, &script, "int\n");
    }
    // The option overrides the variable.
    let script = format!(r#"{traps}; echo up > "$1"; while :; do sleep 0.1; done"#);
    let int = || exec().env("DLOCK_OPT_STOP_SIGNAL", "INT");
    prints_at_a_loss(&database, int(), &script, "int\n");
    let term = int().args(["--stop-signal", "TERM"]);
    prints_at_a_loss(&database, term, &script, "term\n");

    // A shell starts its background processes with SIGINT ignored, so this command gets another signal.
    let script = r#"
        trap "wait; echo command; exit" USR1
        setsid sh -c 'trap "echo descendant; exit" USR1; echo up > "$1"; while :; do sleep 0.1; done' sh "$1" &
        while :; do sleep 0.1; done
    "#;
    let usr1 = exec().args(["--stop-signal", "USR1"]);
    prints_at_a_loss(&database, usr1, script, "descendant\ncommand\n");
}

on_each_flavour!(sigint_lets_the_client_of_the_server_kill_its_own_statement);
fn sigint_lets_the_client_of_the_server_kill_its_own_statement(flavour: Flavour) {
    let database = shared(flavour).database("stop_signal");
    let stage = Stage::new();
    let file = stage.path("client.cnf");
    let text = format!(
        "[client]\nprotocol=tcp\nhost=127.0.0.1\nport={}\nuser={}\npassword={}\n",
        database.port, database.user, database.password
    );
    fs::write(&file, text).expect("the file can be written");
    // On a busy machine, a client needs seconds to react to a signal.
    let running = Dlock::typed(&database, "exec -a init --ttl 20s --stop-signal INT --")
        .arg(flavour.client())
        .arg(format!("--defaults-file={}", file.display()))
        .args(["-e", "SELECT SLEEP(60)"])
        .start();
    let statements = format!(
        "{SESSIONS} s WHERE user='{}' AND info LIKE 'SELECT SLEEP%'",
        database.user
    );
    database.wait_until(format!("COUNT(*)=1 FROM {statements}"));
    steal(&database);
    let outcome = running.wait();
    let statements: u64 = database.value(format!("SELECT COUNT(*) FROM {statements}"));
    assert_eq!(statements, 0, "{outcome:#?}");
    let message = match flavour {
        Flavour::MariaDb => "Ctrl-C -- query killed",
        Flavour::MySql => "^C -- query aborted",
    };
    assert!(outcome.stdout.contains(message), "{outcome:#?}");
    assert_eq!(outcome.status, Some(76), "{outcome:#?}");
}
