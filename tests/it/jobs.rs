//! Jobs: on a terminal a command under dlock behaves as without it. Keys, background and foreground, the terminal's
//! settings, its size and its end.

use std::fs;
use std::path::PathBuf;

use crate::command::{Stage, Witness, heard, signal, tell};
use crate::dlock::{Dlock, Running, eventually};
use crate::recorder::{Recorder, program};
use crate::servers::{Database, Flavour, shared};
use crate::signals::state;
use crate::terminal::{CTRL_BACKSLASH, CTRL_C, CTRL_Z, Terminal};

const HUP: i32 = 1;
const INT: i32 = 2;
const QUIT: i32 = 3;
const CONT: i32 = 18;
const TSTP: i32 = 20;
const WINCH: i32 = 28;

/// A command that takes the lock `$1` of a witness, says who it is on `$2` and goes on when `$3` says so.
const PATIENT: &str = r#"
exec 9>>"$1"
flock -n 9 || exit 99
echo $$ > "$2"
read status < "$3"
exit $status
"#;

/// The words that run the script `text` under dlock with `options`, with the fifos `ready` and `go`.
fn patient(stage: &Stage, options: &str) -> String {
    fs::write(stage.path("patient"), PATIENT).expect("writes");
    stage.fifo("ready");
    stage.fifo("go");
    let [script, witness, ready, go] =
        ["patient", "witness", "ready", "go"].map(|name| stage.path(name).display().to_string());
    format!("$dlock exec -a init {options} -- sh {script} {witness} {ready} {go}")
}

/// A terminal whose session dlock leads, with `recorder` for its command.
fn leading(database: &Database, recorder: &Recorder) -> Terminal {
    let dlock = [env!("CARGO_BIN_EXE_dlock"), "exec", "-a", "leader", "--"];
    let words = dlock
        .map(PathBuf::from)
        .into_iter()
        .chain(recorder.command());
    let terminal = Terminal::with(database, words);
    recorder.is_up();
    terminal
}

/// A holder with its command, and a terminal on which dlock waits for it to run `echo ran`.
fn waiting(stage: &Stage) -> (Recorder, Running, Terminal) {
    let database = shared(Flavour::MariaDb).database("jobs");
    let recorder = Recorder::on(stage, "holder");
    let holder = Dlock::on(&database, ["exec", "-a", "init", "--"])
        .args(recorder.command())
        .start();
    recorder.is_up();
    let mut terminal = Terminal::shell(&database);
    terminal.enters("$dlock exec -a init -- echo r''an");
    terminal.sees("init is held by");
    (recorder, holder, terminal)
}

fn is_told(recorder: &Recorder, number: i32) {
    eventually(&format!("signal {number} arrives"), || {
        recorder.log().is_some_and(|log| log.contains(&number))
    });
}

#[test]
fn each_key_reaches_the_command_once_and_so_does_a_new_size() {
    let database = shared(Flavour::MariaDb).database("jobs");
    let stage = Stage::new();
    let recorder = Recorder::on(&stage, "keys");
    let mut terminal = Terminal::shell(&database);
    terminal.enters(&format!("$dlock exec -a init -- {}", recorder.words()));
    recorder.is_up();
    for (key, number) in [(CTRL_C, INT), (CTRL_BACKSLASH, QUIT), (CTRL_Z, TSTP)] {
        // The last key stops dlock, not a command that blocks everything.
        terminal.types(key);
        recorder.got(number);
    }
    terminal.prompts();
    terminal.enters("fg");
    recorder.got(CONT);
    terminal.resizes();
    recorder.got(WINCH);
    recorder.exit(7);
    terminal.prompts();
    terminal.enters("echo status=$?");
    terminal.sees("status=7");
    let log = recorder.log().expect("it ran");
    for number in [INT, QUIT, TSTP, WINCH] {
        let times = log.iter().filter(|got| **got == number).count();
        assert_eq!(times, 1, "signal {number} in {log:?}");
    }
}

#[test]
fn a_command_that_dies_of_a_key_ends_dlock_with_that_status() {
    let database = shared(Flavour::MariaDb).database("jobs");
    for (key, status) in [(CTRL_C, 130), (CTRL_BACKSLASH, 131)] {
        let stage = Stage::new();
        let mut terminal = Terminal::shell(&database);
        terminal.enters(&patient(&stage, ""));
        heard(&stage.path("ready"));
        terminal.types(key);
        terminal.prompts();
        terminal.enters("echo status=$?");
        terminal.sees(&format!("status={status}"));
        assert!(Witness::on(&stage).is_alone());
    }
}

#[test]
fn ctrl_z_stops_dlock_and_command_and_fg_and_bg_let_them_go_on() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("jobs");
        let stage = Stage::new();
        let mut terminal = Terminal::shell(&database);
        terminal.enters(&patient(&stage, ""));
        let command = heard(&stage.path("ready"));
        for way in ["fg", "bg"] {
            terminal.types(CTRL_Z);
            terminal.sees("Stopped");
            terminal.prompts();
            eventually("the command is stopped", || state(&command) == 'T');
            terminal.enters(way);
            eventually("the command goes on", || state(&command) != 'T');
        }
        terminal.prompts();
        terminal.enters("fg");
        // It still holds: the lease was renewed in time.
        Dlock::on(&database, ["exec", "-n", "-a", "init", "--", "echo", "ran"])
            .run()
            .expect(75, "", "init is held by");
        tell(&stage.path("go"), "4");
        terminal.prompts();
        terminal.enters("echo status=$?");
        terminal.sees("status=4");
    }
}

#[test]
fn a_job_that_is_stopped_for_longer_than_its_lease_is_dead_and_fg_tells() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("jobs");
        let stage = Stage::new();
        let witness = Witness::on(&stage);
        let mut terminal = Terminal::shell(&database);
        terminal.enters(&patient(&stage, "--ttl 3s"));
        heard(&stage.path("ready"));
        assert!(!witness.is_alone(), "the witness is blind");
        terminal.types(CTRL_Z);
        terminal.prompts();
        Dlock::on(&database, ["exec", "-a", "init", "--", "sh", "-c"])
            .arg(r#"exec 9>>"$1"; flock -n 9 && echo alone"#)
            .arg("sh")
            .arg(witness.path())
            .run()
            .expect(0, "alone\n", "init is held by");
        terminal.enters("fg");
        terminal.sees("cannot keep init");
        terminal.prompts();
        terminal.enters("echo status=$?");
        terminal.sees("status=76");
    }
}

#[test]
fn ctrl_z_stops_a_dlock_that_waits_and_fg_lets_it_wait_on() {
    let stage = Stage::new();
    let (recorder, holder, mut terminal) = waiting(&stage);
    terminal.types(CTRL_Z);
    terminal.prompts();
    terminal.enters("fg");
    recorder.exit(0);
    holder.wait().expect(0, "", "");
    // The line about waiting is gone before the command writes.
    terminal.sees("\r\x1b[Kran");
}

#[test]
fn ctrl_c_ends_the_waiting_and_the_command_never_runs() {
    let stage = Stage::new();
    let (recorder, holder, mut terminal) = waiting(&stage);
    terminal.types(CTRL_C);
    terminal.prompts();
    terminal.enters("echo status=$?");
    terminal.sees("status=130");
    recorder.exit(0);
    holder.wait().expect(0, "", "");
    assert!(!terminal.screen().contains("ran"));
}

#[test]
fn a_background_command_that_reads_the_terminal_stops_and_fg_brings_it_back() {
    let database = shared(Flavour::MariaDb).database("jobs");
    let mut terminal = Terminal::shell(&database);
    terminal.enters(r#"$dlock exec -a init -- sh -c 'read word; echo "<$word>"' & "#);
    // The shell tells of a job that stops when it next prompts.
    eventually("the job is stopped", || {
        terminal.enters("");
        terminal.screen().contains("Stopped")
    });
    terminal.enters("fg");
    terminal.sees("dlock exec");
    terminal.enters("hello");
    terminal.sees("<hello>");
    terminal.prompts();
    terminal.enters("echo status=$?");
    terminal.sees("status=0");
}

#[test]
fn a_command_reads_a_password_without_echo() {
    let database = shared(Flavour::MariaDb).database("jobs");
    let mut terminal = Terminal::shell(&database);
    terminal.enters(
        r#"$dlock exec -a init -- sh -c 'stty -echo; echo pass''word:; read w; stty echo; echo "${#w} letters"'"#,
    );
    terminal.sees("password:");
    terminal.enters("secret");
    terminal.sees("6 letters");
    terminal.prompts();
    assert!(!terminal.screen().contains("secret"));
}

#[test]
fn a_command_reads_single_keys_and_dlock_leaves_the_settings_of_the_terminal_alone() {
    let database = shared(Flavour::MariaDb).database("jobs");
    let mut terminal = Terminal::shell(&database);
    terminal.enters(
        "$dlock exec -a init -- sh -c 'stty -icanon -echo -isig min 1; echo ke''ys:; dd bs=1 count=1 2>&- | od -An -tx1'",
    );
    terminal.sees("keys:");
    // No signal now, but a key.
    terminal.types(CTRL_C);
    terminal.sees("03");
    terminal.prompts();
    terminal.enters("stty -a");
    terminal.sees("-icanon");
    terminal.sees("-echo ");
}

#[test]
fn the_end_of_the_terminal_reaches_the_command() {
    let database = shared(Flavour::MariaDb).database("jobs");
    let stage = Stage::new();
    // By way of a shell, which passes it on to its jobs; and with dlock leading the session, as under `ssh -t`.
    let recorder = Recorder::on(&stage, "job");
    let mut terminal = Terminal::shell(&database);
    terminal.enters(&format!("$dlock exec -a job -- {}", recorder.words()));
    recorder.is_up();
    terminal.hangs_up();
    is_told(&recorder, HUP);
    recorder.exit(0);

    let recorder = Recorder::on(&stage, "leader");
    let mut terminal = leading(&database, &recorder);
    terminal.hangs_up();
    is_told(&recorder, HUP);
    signal(terminal.leader(), "USR1");
    recorder.got(10);
    let log = recorder.log().expect("it runs");
    let times = log.iter().filter(|got| **got == HUP).count();
    assert_eq!(times, 1, "{log:?}");
    recorder.exit(5);
    assert_eq!(terminal.ends(), Some(5));
}

#[test]
fn dlock_as_the_leader_of_a_terminal_gets_keys_to_the_command_once() {
    let database = shared(Flavour::MariaDb).database("jobs");
    let stage = Stage::new();
    let recorder = Recorder::on(&stage, "keys");
    let mut terminal = leading(&database, &recorder);
    terminal.types(CTRL_C);
    recorder.got(INT);
    signal(terminal.leader(), "USR1");
    recorder.got(10);
    assert_eq!(recorder.log(), Some(vec![INT, 10]));
    recorder.exit(5);
    assert_eq!(terminal.ends(), Some(5));
}

#[test]
fn a_command_that_stops_its_whole_group_is_not_killed_for_that() {
    // The command and dlock are in one group there: `kill 0` is no second request to stop.
    let database = shared(Flavour::MariaDb).database("jobs");
    let stage = Stage::new();
    let (ready, told, go) = (stage.fifo("ready"), stage.fifo("told"), stage.fifo("go"));
    let script = stage.path("script");
    let text = r#"
        trap 'kill 0' INT
        trap 'trap "" TERM; echo told > "$2"; read status < "$3"; exit $status' TERM
        echo up > "$1"
        while :; do sleep 0.02; done
    "#;
    fs::write(&script, text).expect("writes");
    let words = [&script, &ready, &told, &go].map(|path| path.display().to_string());
    let mut terminal = Terminal::shell(&database);
    terminal.enters(&format!("$dlock exec -a init -- sh {}", words.join(" ")));
    heard(&ready);
    terminal.types(CTRL_C);
    assert_eq!(heard(&told), "told");
    tell(&go, "5");
    terminal.prompts();
    terminal.enters("echo status=$?");
    terminal.sees("status=5");
}

#[test]
fn an_alarm_that_was_set_before_dlock_was_started_reaches_the_command() {
    let database = shared(Flavour::MariaDb).database("jobs");
    let stage = Stage::new();
    let recorder = Recorder::on(&stage, "alarmed");
    let mut terminal = Terminal::shell(&database);
    terminal.enters(&format!(
        "{} alarmed $dlock exec -a init -- {}",
        program().display(),
        recorder.words()
    ));
    recorder.got(14);
    recorder.exit(7);
    terminal.prompts();
    terminal.enters("echo status=$?");
    terminal.sees("status=7");
}
