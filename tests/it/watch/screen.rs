//! Keys, signals and colours on a real terminal, and that it is given back.

use super::{Screen, thirty};
use crate::command::{Stage, heard, signal, tell};
use crate::dlock::Dlock;
use crate::servers::{Database, Flavour, shared};
use crate::terminal::{CTRL_C, CTRL_Z};

const DOWN: &str = "\x1b[B";
const PAGE_DOWN: &str = "\x1b[6~";
const END: &str = "\x1b[F";
const ESCAPE: &str = "\x1b";
const ENTER: &str = "\r";

/// Whether the terminal's settings are as they were, as a shell is asked that.
const IS_SAME: &str = r#"[ "$before" = "$(stty -g)" ] && echo sa''me"#;

/// What begins a colour.
const COLOR: &str = "\x1b[38;5;";

fn watched(flavour: Flavour) -> Database {
    let database = shared(flavour).database("watch");
    thirty(&database);
    database
}

#[test]
fn keys_select_filter_open_and_close() {
    let database = watched(Flavour::MariaDb);
    let mut screen = Screen::watch(&database, &[]);
    screen.shows("> größe-日本語");
    screen.types(DOWN);
    screen.shows("> init");
    screen.types(PAGE_DOWN);
    screen.shows("20/30");
    screen.types(END);
    screen.shows("> tenant-27");
    screen.hides("größe");
    screen.types("/init");
    screen.shows("/init_");
    screen.hides("tenant");
    screen.types(ENTER);
    screen.shows("1 with \"init\"");
    screen.types(ENTER);
    screen.shows("4711 on web-1");
    screen.shows("3 in line");
    screen.shows("no run is recorded");
    screen.types(ESCAPE);
    screen.shows("> init");
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
fn what_is_open_shows_how_its_runs_end_as_they_do() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("watch");
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
        heard(&ready);
        let mut screen = Screen::watch(&database, &[]);
        screen.shows("web-1/7");
        screen.types(ENTER);
        screen.shows("exited 3, ");
        tell(&go, "on");
        holder.wait().expect(0, "", "");
        screen.shows("free, and nobody waits");
        screen.shows("exited 0, ");
        screen.types(CTRL_C);
        screen.ends_with(0);
    }
}

#[test]
fn every_end_gives_the_terminal_back() {
    let database = watched(Flavour::MariaDb);
    for (name, status) in [("HUP", 129), ("INT", 130), ("QUIT", 131), ("TERM", 143)] {
        let mut screen = Screen::watch(&database, &[]);
        screen.shows("1/30");
        assert!(screen.look().alternate_screen() && screen.look().hide_cursor());
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
        screen.is_given_back();
        screen.says("echo status=$?", "status=0");
        screen.says(IS_SAME, "same");
    }
}

#[test]
fn ctrl_z_gives_the_terminal_back_until_fg() {
    let database = watched(Flavour::MariaDb);
    let mut screen = Screen::shell(&database);
    screen.terminal.enters("before=$(stty -g)");
    screen.terminal.prompts();
    screen.terminal.enters("TERM=xterm $dlock status --watch");
    screen.shows("1/30");
    for goes_on in [false, true] {
        screen.types(CTRL_Z);
        screen.terminal.sees("Stopped");
        screen.terminal.prompts();
        screen.is_given_back();
        screen.says(IS_SAME, "same");
        if goes_on {
            // In the background it does not touch the terminal.
            screen.says("bg", "status --watch");
            screen.is_given_back();
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
    screen.says("echo status=$?", "status=0");
}

#[test]
fn who_cannot_be_stopped_or_was_stopped_by_another_goes_on_with_the_screen() {
    let database = watched(Flavour::MariaDb);
    // Nobody could let it go on: it leads its session.
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
fn who_was_stopped_without_a_warning_takes_the_terminal_over_again() {
    let database = watched(Flavour::MariaDb);
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
    let pid = heard(&ready).parse().expect("a process");
    screen.shows("1/30");
    signal(pid, "STOP");
    screen.terminal.sees("Stopped");
    screen.terminal.prompts();
    // The shell has set the terminal for itself, and left the screen as it was.
    screen.terminal.enters("fg");
    screen.types(DOWN);
    screen.shows("2/30");
    screen.hides("Stopped");
    screen.types("q");
    screen.terminal.prompts();
    screen.is_given_back();
}

#[test]
fn colours_heed_no_color_and_the_option_wins() {
    let database = watched(Flavour::MariaDb);
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
        let what = format!("{environment:?} {options:?}");
        assert_eq!(written.contains(COLOR), is_colored, "{what}");
        // The heading is bold in any case.
        assert!(written.contains("\x1b[1m"), "{what}");
    }
}

#[test]
fn a_dumb_terminal_gets_lines() {
    let database = watched(Flavour::MariaDb);
    let mut screen = Screen::with(&database, &["TERM=dumb"], &[]);
    screen.terminal.sees("tenant-27");
    screen.terminal.sees("tenant-27");
    screen.types(CTRL_C);
    assert_eq!(screen.terminal.ends(), Some(130));
    assert!(!screen.terminal.screen().contains('\x1b'));
}
