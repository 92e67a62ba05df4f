//! Tests of keys, signals and colours on a real terminal, and of restoring the terminal.

use testkit::cli_runner::Dlock;
use testkit::command::{Stage, read_message, signal, write_message};
use testkit::servers::{Database, Flavour, shared};
use testkit::terminal::{CTRL_C, CTRL_Z};

use super::{Screen, create_thirty_actions};

const DOWN: &str = "\x1b[B";
const PAGE_DOWN: &str = "\x1b[6~";
const END: &str = "\x1b[F";
const ESCAPE: &str = "\x1b";
const ENTER: &str = "\r";

/// A shell line that prints `same` if the settings of the terminal are equal to `$before`.
const IS_SAME: &str = r#"[ "$before" = "$(stty -g)" ] && echo sa''me"#;

/// The escape sequence for a problem, which some of the actions have.
const COLOR: &str = "\x1b[31;1m";

/// Creates a database with thirty actions.
fn database_with_actions(flavour: Flavour) -> Database {
    let database = shared(flavour).database("watch");
    create_thirty_actions(&database);
    database
}

#[test]
fn keys_select_filter_open_and_close() {
    let database = database_with_actions(Flavour::of_this_test());
    let mut screen = Screen::watch(&database, &[]);
    screen.selects("größe-日本語");
    screen.types(DOWN);
    screen.selects("init");
    screen.types(PAGE_DOWN);
    screen.shows("20/30");
    screen.types(END);
    screen.selects("tenant-27");
    screen.hides("größe");
    screen.types("/init");
    screen.shows("/init_");
    screen.hides("tenant");
    screen.types(ENTER);
    screen.shows("1 matching \"init\"");
    screen.types(ENTER);
    screen.shows("4711 on web-1");
    screen.shows("3 waiting");
    screen.shows("no recorded runs");
    screen.types(ESCAPE);
    screen.selects("init");
    screen.types(ESCAPE);
    screen.shows("2/30");
    screen.types("?");
    screen.shows("any key: back");
    screen.types("x");
    screen.shows("2/30");
    screen.types("q");
    screen.ends_with(0);
}

#[test]
fn details_show_the_outcome_of_each_new_run() {
    let database = shared(Flavour::of_this_test()).database("watch");
    Dlock::on(
        &database,
        ["exec", "-a", "init", "--", "sh", "-c", "exit 3"],
    )
    .run()
    .expect(3, "", "");
    let stage = Stage::new();
    let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
    let holder = Dlock::on(&database, ["exec", "-a", "init", "--holder", "web-1/7"])
        .args([
            "--",
            "sh",
            "-c",
            r#"echo up > "$1"; read word < "$2""#,
            "sh",
        ])
        .arg(&ready)
        .arg(&go)
        .start();
    read_message(&ready);
    let mut screen = Screen::watch(&database, &[]);
    screen.shows("web-1/7");
    screen.types(ENTER);
    screen.shows("exit 3, ");
    write_message(&go, "on");
    holder.wait().expect(0, "", "");
    screen.shows("free, no waiters");
    screen.shows("exit 0, ");
    screen.types(CTRL_C);
    screen.ends_with(0);
}

#[test]
fn every_exit_restores_the_terminal() {
    let database = database_with_actions(Flavour::of_this_test());
    for (name, status) in [("HUP", 129), ("INT", 130), ("QUIT", 131), ("TERM", 143)] {
        let mut screen = Screen::watch(&database, &[]);
        screen.shows("1/30");
        assert!(screen.current().alternate_screen() && screen.current().hide_cursor());
        signal(screen.terminal.leader(), name);
        screen.ends_with(status);
    }
    let mut screen = Screen::shell(&database);
    screen.terminal.enters("before=$(stty -g)");
    screen.terminal.prompts();
    for key in [CTRL_C, "q"] {
        screen.terminal.enters("TERM=xterm $dlock status --watch");
        screen.shows("1/30");
        screen.types(key);
        screen.terminal.prompts();
        screen.assert_restored();
        screen.expect_output("echo status=$?", "status=0");
        screen.expect_output(IS_SAME, "same");
    }
}

#[test]
fn ctrl_z_restores_the_terminal_until_fg() {
    let database = database_with_actions(Flavour::of_this_test());
    let mut screen = Screen::shell(&database);
    screen.terminal.enters("before=$(stty -g)");
    screen.terminal.prompts();
    screen.terminal.enters("TERM=xterm $dlock status --watch");
    screen.shows("1/30");
    for in_background in [false, true] {
        screen.types(CTRL_Z);
        screen.terminal.sees("Stopped");
        screen.terminal.prompts();
        screen.assert_restored();
        screen.expect_output(IS_SAME, "same");
        if in_background {
            // In the background, dlock does not use the terminal: it stops. If it stops while the shell runs `fg`, the
            // shell does not resume it, so the test waits until the shell has seen the stop.
            screen.expect_output("bg", "status --watch");
            screen.expect_output(
                r#"until [ "$(jobs -s)" ]; do :; done; echo sto''pped"#,
                "stopped",
            );
            screen.assert_restored();
        }
        screen.terminal.enters("fg");
        screen.shows("1/30");
        screen.types(DOWN);
        screen.shows("2/30");
        screen.types("g");
        screen.shows("1/30");
    }
    screen.types("q");
    screen.terminal.prompts();
    screen.expect_output("echo status=$?", "status=0");
}

#[test]
fn session_leader_keeps_the_screen_after_ctrl_z_or_sigstop() {
    let database = database_with_actions(Flavour::of_this_test());
    // dlock is the leader of its session, so no shell can resume dlock. Therefore dlock must not stop on Ctrl-Z.
    let mut screen = Screen::watch(&database, &[]);
    screen.shows("1/30");
    screen.types(CTRL_Z);
    screen.types(DOWN);
    screen.shows("2/30");
    let leader = screen.terminal.leader();
    signal(leader, "STOP");
    signal(leader, "CONT");
    screen.types(DOWN);
    screen.shows("3/30");
    screen.types("q");
    screen.ends_with(0);
}

#[test]
fn watch_stopped_by_sigstop_redraws_the_screen_after_fg() {
    let database = database_with_actions(Flavour::of_this_test());
    let stage = Stage::new();
    let ready = stage.fifo("ready");
    let mut screen = Screen::shell(&database);
    let script = format!(
        "echo \\$\\$ > {}; exec $dlock status --watch",
        ready.display()
    );
    screen
        .terminal
        .enters(&format!(r#"TERM=xterm sh -c "{script}""#));
    let pid = read_message(&ready).parse().expect("a process id");
    screen.shows("1/30");
    signal(pid, "STOP");
    screen.terminal.sees("Stopped");
    screen.terminal.prompts();
    // The shell has changed the settings of the terminal, and has not cleared the screen.
    screen.terminal.enters("fg");
    screen.types(DOWN);
    screen.shows("2/30");
    screen.hides("Stopped");
    screen.types("q");
    screen.terminal.prompts();
    screen.assert_restored();
}

#[test]
fn color_option_overrides_no_color() {
    let database = database_with_actions(Flavour::of_this_test());
    let cases: [(&[&str], &[&str], bool); 6] = [
        (&[], &[], true),
        (&["NO_COLOR="], &[], true),
        (&["NO_COLOR=1"], &[], false),
        (&["NO_COLOR=1"], &["--color=always"], true),
        (&[], &["--color=never"], false),
        (&["DLOCK_OPT_COLOR=never"], &[], false),
    ];
    for (environment, options, is_colored) in cases {
        let mut screen = Screen::with(&database, environment, options);
        screen.shows("1/30");
        screen.types("q");
        screen.ends_with(0);
        let written = String::from_utf8_lossy(screen.terminal.written()).into_owned();
        let case = format!("{environment:?} {options:?}");
        assert_eq!(written.contains(COLOR), is_colored, "{case}");
        // The heading is bold with and without colours.
        assert!(written.contains("\x1b[1m"), "{case}");
    }
}

#[test]
fn dumb_terminal_gets_lines() {
    let database = database_with_actions(Flavour::of_this_test());
    let mut screen = Screen::with(&database, &["TERM=dumb"], &[]);
    screen.terminal.sees("tenant-27");
    screen.terminal.sees("tenant-27");
    screen.types(CTRL_C);
    assert_eq!(screen.terminal.ends(), Some(130));
    assert!(!screen.terminal.screen().contains('\x1b'));
}
