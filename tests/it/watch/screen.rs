//! Tests of signals and colours on a real terminal, and of restoring the terminal.

use testkit::cli_runner::Dlock;
use testkit::command::{Stage, read_message, signal};
use testkit::holder::Holder;
use testkit::servers::{Flavour, shared};
use testkit::terminal::{CTRL_C, CTRL_Z};

use super::{DOWN, ENTER, Screen, thirty_actions};

/// A shell line that prints `same` if the settings of the terminal are equal to `$before`.
const IS_SAME: &str = r#"[ "$before" = "$(stty -g)" ] && echo sa''me"#;

/// The escape sequence for a problem, which one of the actions has.
const COLOR: &str = "\x1b[31;1m";

#[test]
fn details_show_the_outcome_of_each_new_run() {
    let database = shared(Flavour::of_this_test()).database("watch");
    Dlock::on(&database, ["exec", "init", "--", "sh", "-c", "exit 7"]).expect(7, "", "");
    let holder = Holder::on(&database, &["--holder", "web-1/7"]);
    let mut screen = Screen::watch(&database, &[]);
    screen.shows("web-1/7").types(ENTER).shows("exit 7, ");
    assert_eq!(holder.end().status, Some(3));
    screen.shows("free, no waiters").shows("exit 3, ");
    screen.types(CTRL_C).ends_with(0);
}

#[test]
fn session_leader_keeps_the_screen_after_ctrl_z_or_sigstop_and_restores_it_after_each_signal() {
    let database = thirty_actions();
    for (name, status) in [("HUP", 129), ("INT", 130), ("QUIT", 131), ("TERM", 143)] {
        let mut screen = Screen::watch(&database, &[]);
        screen.shows("1/30");
        assert!(screen.current().alternate_screen() && screen.current().hide_cursor());
        // dlock is the leader of its session, so no shell can resume dlock. Therefore dlock must not stop on Ctrl-Z.
        screen.types(CTRL_Z).types(DOWN).shows("2/30");
        let leader = screen.terminal.leader();
        signal(leader, "STOP");
        signal(leader, "CONT");
        screen.types(DOWN).shows("3/30");
        signal(leader, name);
        screen.ends_with(status);
    }
}

#[test]
fn stop_or_exit_restores_the_terminal_of_the_shell() {
    let database = thirty_actions();
    let stage = Stage::new();
    let mut screen = Screen::shell(&database);
    screen.terminal.enters("before=$(stty -g)").prompts();
    for (stop, end) in [("ctrl-z", "q"), ("bg", CTRL_C), ("SIGSTOP", "q")] {
        let ready = stage.fifo(stop);
        let script = format!(
            "echo \\$\\$ > {}; exec $dlock status --watch",
            ready.display()
        );
        let line = format!(r#"TERM=xterm sh -c "{script}""#);
        screen.terminal.enters(&line);
        let pid = read_message(&ready).parse().expect("a process id");
        screen.shows("1/30");
        if stop == "SIGSTOP" {
            signal(pid, "STOP");
        } else {
            screen.types(CTRL_Z);
        }
        screen.terminal.sees("Stopped");
        screen.terminal.prompts();
        // If SIGSTOP stopped dlock, the shell has changed the settings of the terminal, and has not cleared the screen.
        if stop != "SIGSTOP" {
            screen.assert_restored();
            screen.expect_output(IS_SAME, "same");
        }
        if stop == "bg" {
            // In the background, dlock does not use the terminal: it stops. If it stops while the shell runs `fg`, the
            // shell does not resume it, so the test waits until the shell has seen the stop.
            screen.expect_output("bg", "status --watch");
            let is_stopped = r#"until [ "$(jobs -s)" ]; do :; done; echo sto''pped"#;
            screen.expect_output(is_stopped, "stopped");
            screen.assert_restored();
        }
        screen.terminal.enters("fg");
        screen.shows("1/30").types(DOWN).shows("2/30");
        screen.hides("Stopped").types(end);
        screen.terminal.prompts();
        screen.assert_restored();
        screen.expect_output("echo status=$?", "status=0");
        screen.expect_output(IS_SAME, "same");
    }
}

#[test]
fn color_option_overrides_no_color_and_a_dumb_terminal_gets_lines() {
    let database = thirty_actions();
    let cases: [(&[&str], &[&str], bool); 4] = [
        (&["NO_COLOR="], &[], true),
        (&["NO_COLOR=1"], &[], false),
        (&["NO_COLOR=1"], &["--color=always"], true),
        (&["DLOCK_OPT_COLOR=never"], &[], false),
    ];
    for (environment, options, is_colored) in cases {
        let mut screen = Screen::with(&database, environment, options);
        screen.shows("1/30").types("q").ends_with(0);
        let written = String::from_utf8_lossy(screen.terminal.written()).into_owned();
        let case = format!("{environment:?} {options:?}");
        assert_eq!(written.contains(COLOR), is_colored, "{case}");
        // The heading is bold with and without colours.
        assert!(written.contains("\x1b[1m"), "{case}");
    }
    let mut screen = Screen::with(&database, &["TERM=dumb"], &[]);
    screen.terminal.sees("tenant-27");
    screen.terminal.sees("tenant-27");
    screen.types(CTRL_C);
    assert_eq!(screen.terminal.ends(), Some(130));
    assert!(!screen.terminal.screen().contains('\x1b'));
}
