//! Tests of job control: on a terminal, a command behaves the same with dlock as without dlock. The tests cover signal
//! keys, background and foreground jobs, terminal settings, size changes and hangups.

use std::fs;
use std::path::PathBuf;

use testkit::cli_runner::{Dlock, eventually};
use testkit::command::{Stage, Witness, read_message, signal, write_message};
use testkit::holder::Holder;
use testkit::recorder::{Recorder, program};
use testkit::servers::database;
use testkit::terminal::{CTRL_BACKSLASH, CTRL_C, CTRL_Z, Terminal};

use crate::signals::state;

const HUP: i32 = 1;
const INT: i32 = 2;
const QUIT: i32 = 3;
const CONT: i32 = 18;
const TSTP: i32 = 20;
const WINCH: i32 = 28;

/// A command that locks the witness `$1`, writes its process id to `$2` and exits with the status that it reads from
/// `$3`.
const READ_STATUS: &str = r#"
exec 9>>"$1"
flock -n 9 || exit 99
echo $$ > "$2"
read status < "$3"
exit $status
"#;

/// Creates the fifos `ready` and `go`. Returns a shell command that runs [`READ_STATUS`] under dlock with `options` and
/// these fifos.
fn read_status_command(stage: &Stage, options: &str) -> String {
    fs::write(stage.path("script"), READ_STATUS).expect("the file can be written");
    stage.fifo("ready");
    stage.fifo("go");
    let [script, witness, ready, go] =
        ["script", "witness", "ready", "go"].map(|name| stage.path(name).display().to_string());
    format!("$dlock exec -a init {options} -- sh {script} {witness} {ready} {go}")
}

/// Asserts that the last command of the shell on `terminal` had the exit status `status`.
#[track_caller]
fn has_status(terminal: &mut Terminal, status: i32) {
    terminal.prompts().enters("echo status=$?");
    terminal.sees(&format!("status={status}"));
}

fn wait_for_signal(recorder: &Recorder, number: i32) {
    eventually(&format!("the command receives signal {number}"), || {
        recorder.log().is_some_and(|log| log.contains(&number))
    });
}

#[track_caller]
fn was_received_once(recorder: &Recorder, number: i32) {
    let log = recorder.log().expect("the recorder runs");
    let times = log.iter().filter(|got| **got == number).count();
    assert_eq!(times, 1, "signal {number} in {log:?}");
}

#[test]
fn signal_keys_size_changes_and_an_earlier_alarm_reach_the_command_once() {
    let database = database();
    let stage = Stage::new();
    let recorder = Recorder::on(&stage, "keys");
    let mut terminal = Terminal::shell(&database);
    terminal.enters(&format!("$dlock exec -a init -- {}", recorder.words()));
    recorder.is_up();
    for (key, number) in [(CTRL_C, INT), (CTRL_BACKSLASH, QUIT), (CTRL_Z, TSTP)] {
        // The final key stops dlock but not the recorder, which blocks all signals.
        terminal.types(key);
        recorder.got(number);
    }
    terminal.prompts().enters("fg");
    recorder.got(CONT);
    terminal.becomes(132, 50);
    // dlock may send its own SIGCONT later.
    wait_for_signal(&recorder, WINCH);
    recorder.exit(7);
    has_status(&mut terminal, 7);
    for number in [INT, QUIT, TSTP, WINCH] {
        was_received_once(&recorder, number);
    }

    // An alarm that was set before dlock started also reaches the command.
    let recorder = Recorder::on(&stage, "alarmed");
    let (program, command) = (program(), recorder.words());
    let program = program.display();
    terminal.enters(&format!(
        "{program} alarmed $dlock exec -a init -- {command}"
    ));
    recorder.got(14);
    recorder.exit(8);
    has_status(&mut terminal, 8);
}

#[test]
fn command_reads_from_a_terminal_without_dev_tty() {
    let database = database();
    let script = r#"mount -t tmpfs tmpfs /dev && exec "$dlock" exec -a init -- sh -c 'read -r line; echo "<$line>"'"#;
    let mut terminal = Terminal::with(&database, ["unshare", "--mount", "sh", "-c", script]);
    terminal.enters("typed").sees("<typed>");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn signal_key_that_kills_the_command_sets_the_status() {
    let database = database();
    let mut terminal = Terminal::shell(&database);
    for (key, status) in [(CTRL_C, 130), (CTRL_BACKSLASH, 131)] {
        let stage = Stage::new();
        terminal.enters(&read_status_command(&stage, ""));
        read_message(&stage.path("ready"));
        terminal.types(key);
        has_status(&mut terminal, status);
        assert!(Witness::on(&stage).is_alone());
    }
}

#[test]
fn ctrl_z_stops_dlock_and_command_and_fg_or_bg_resumes_them() {
    let database = database();
    let stage = Stage::new();
    let mut terminal = Terminal::shell(&database);
    terminal.enters(&read_status_command(&stage, "-v"));
    let command = read_message(&stage.path("ready"));
    for (resume, count) in [("fg", 1), ("bg", 2)] {
        terminal.types(CTRL_Z);
        terminal.sees("dlock is stopped and cannot renew init; the command is ended in ");
        terminal.sees("Stopped").prompts();
        eventually("the command is stopped", || state(&command) == 'T');
        terminal.enters(resume);
        eventually("the command is resumed", || state(&command) != 'T');
        // If Ctrl-Z arrived before the monitor has forwarded SIGCONT, the command would keep running.
        eventually("SIGCONT is forwarded", || {
            let forwarded = terminal.screen().matches("forwarded SIGCONT (18)");
            forwarded.count() == count
        });
    }
    terminal.prompts().enters("fg");
    eventually("the job is in the foreground", || {
        let stat = fs::read_to_string(format!("/proc/{command}/stat")).expect("the command runs");
        // The third and sixth words after the name are the process group, and that in the foreground of the terminal.
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let words: Vec<&str> = after_name.split(' ').collect();
        words[3] == words[6]
    });
    // The holder still has the lock because dlock renewed the lease in time.
    let other = ["exec", "-n", "-a", "init", "--", "echo", "ran"];
    Dlock::on(&database, other).expect(75, "", "init is held by");
    write_message(&stage.path("go"), "4");
    has_status(&mut terminal, 4);
}

#[test]
fn command_stopped_longer_than_its_lease_is_killed_and_fg_reports_the_loss() {
    let database = database();
    let stage = Stage::new();
    let witness = Witness::on(&stage);
    let mut terminal = Terminal::shell(&database);
    terminal.enters(&read_status_command(&stage, "--ttl 8s"));
    read_message(&stage.path("ready"));
    // The command keeps the witness locked.
    assert!(!witness.is_alone());
    terminal.types(CTRL_Z).prompts();
    let next = witness.checked_by(Dlock::typed(&database, "exec -a init"));
    next.expect(0, "alone\n", "init is held by");
    terminal.enters("fg");
    terminal.sees("cannot keep init: dlock was stopped for ");
    has_status(&mut terminal, 76);
}

#[test]
fn ctrl_c_ends_a_waiter_and_ctrl_z_stops_a_waiter_until_fg() {
    let database = database();
    let holder = Holder::on(&database, &[]);
    let mut terminal = Terminal::shell(&database);
    let waits = |terminal: &mut Terminal| {
        terminal.enters("$dlock exec -a init -- echo r''an");
        terminal.sees("init is held by");
    };
    waits(&mut terminal);
    terminal.types(CTRL_C);
    has_status(&mut terminal, 130);
    assert!(!terminal.screen().contains("ran"));

    waits(&mut terminal);
    terminal.types(CTRL_Z).prompts();
    terminal.enters("fg").sees("s for init: held by ");
    holder.end().expect(3, "", "");
    // dlock erases its message about waiting before the command prints.
    terminal.sees("\r\x1b[Kran");
}

#[test]
fn command_reads_the_terminal_and_changes_its_settings_as_without_dlock() {
    let mut terminal = Terminal::shell(&database());
    // A message in the background does not stop dlock.
    terminal
        .enters("stty tostop; $dlock exec -v -a init -- sh -c 'exit 7' & wait $!; echo status=$?");
    terminal.sees("status=7").enters("stty -tostop");
    // A command in the background that reads the terminal stops until fg.
    terminal.enters(r#"$dlock exec -a init -- sh -c 'read word; echo "<$word>"' & "#);
    // The shell reports a stopped job when it prints the next prompt.
    eventually("the job is stopped", || {
        terminal.enters("");
        terminal.screen().contains("Stopped")
    });
    terminal.enters("fg").sees("dlock exec");
    terminal.enters("hello").sees("<hello>");
    has_status(&mut terminal, 0);

    terminal.enters(
        r#"$dlock exec -a init -- sh -c 'stty -echo; echo pass''word:; read w; stty echo; echo "${#w} letters"'"#,
    );
    terminal.sees("password:");
    terminal.enters("secret").sees("6 letters").prompts();
    assert!(!terminal.screen().contains("secret"));

    terminal.enters(
        "$dlock exec -a init -- sh -c 'stty -icanon -echo -isig min 1; echo ke''ys:; dd bs=1 count=1 2>&- | od -An -tx1'",
    );
    terminal.sees("keys:");
    // With these settings, Ctrl-C sends no signal, and the command reads the key. dlock keeps the settings.
    terminal.types(CTRL_C).sees("03").prompts();
    terminal.enters("stty -a").sees("-icanon").sees("-echo ");
}

#[test]
fn signal_keys_and_hangup_reach_the_command_once_if_dlock_leads_the_session() {
    let database = database();
    let stage = Stage::new();
    // First, a shell runs dlock and sends SIGHUP to its jobs. Then dlock is the session leader, as with `ssh -t`.
    let recorder = Recorder::on(&stage, "job");
    let mut terminal = Terminal::shell(&database);
    terminal.enters(&format!("$dlock exec -a job -- {}", recorder.words()));
    recorder.is_up();
    terminal.hangs_up();
    wait_for_signal(&recorder, HUP);
    recorder.exit(0);

    let recorder = Recorder::on(&stage, "leader");
    let dlock = [env!("CARGO_BIN_EXE_dlock"), "exec", "-a", "leader", "--"];
    let words = dlock.map(PathBuf::from).into_iter();
    let mut terminal = Terminal::with(&database, words.chain(recorder.command()));
    recorder.is_up();
    terminal.types(CTRL_C);
    recorder.got(INT);
    signal(terminal.leader(), "USR1");
    recorder.got(10);
    assert_eq!(recorder.log(), Some(vec![INT, 10]));
    terminal.hangs_up();
    wait_for_signal(&recorder, HUP);
    signal(terminal.leader(), "USR1");
    recorder.got(10);
    was_received_once(&recorder, HUP);
    recorder.exit(5);
    assert_eq!(terminal.ends(), Some(5));
}

#[test]
fn command_that_signals_its_own_process_group_is_not_killed() {
    // On a terminal, the command and dlock share a process group, so `kill 0` also signals dlock. This signal must not
    // count as a second stop request.
    let database = database();
    let stage = Stage::new();
    let (ready, told, go) = (stage.fifo("ready"), stage.fifo("told"), stage.fifo("go"));
    let script = stage.path("script");
    let text = r#"
        trap 'kill 0' INT
        trap 'trap "" TERM; echo told > "$2"; read status < "$3"; exit $status' TERM
        echo up > "$1"
        while :; do sleep 0.1; done
    "#;
    fs::write(&script, text).expect("the script can be written");
    let words = [&script, &ready, &told, &go].map(|path| path.display().to_string());
    let mut terminal = Terminal::shell(&database);
    terminal.enters(&format!("$dlock exec -a init -- sh {}", words.join(" ")));
    read_message(&ready);
    terminal.types(CTRL_C);
    assert_eq!(read_message(&told), "told");
    write_message(&go, "5");
    has_status(&mut terminal, 5);
}
