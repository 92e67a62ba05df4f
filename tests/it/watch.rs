//! Tests of `dlock status --watch`: the screen of a real terminal, the terminal after the exit, and the output as
//! lines.

mod lines;
mod looks;
mod outage;
mod screen;

use std::num::NonZero;

use mysql::prelude::Queryable;

use crate::cli_runner::{Dlock, eventually};
use crate::servers::Database;
use crate::terminal::Terminal;

/// A terminal with an emulator, which shows the screen as a user sees it.
pub(crate) struct Screen {
    terminal: Terminal,
    emulator: vt100::Parser,
    /// The number of output bytes that the emulator has processed.
    drawn: usize,
}

impl Screen {
    /// Starts `dlock status --watch=200ms` with `options` as the only program on a terminal of 80 by 24.
    #[track_caller]
    fn watch(database: &Database, options: &[&str]) -> Self {
        Self::with(database, &[], options)
    }

    /// Starts the program of [`Self::watch`] with `environment`, each entry as NAME=VALUE.
    #[track_caller]
    fn with(database: &Database, environment: &[&str], options: &[&str]) -> Self {
        let plain = ["env", "-u", "NO_COLOR", "TERM=xterm-256color"];
        let dlock = [env!("CARGO_BIN_EXE_dlock"), "status", "--watch=200ms"];
        let words = [&plain, environment, &dlock, options].concat();
        Self::on(Terminal::with(database, words))
    }

    /// Starts a shell.
    #[track_caller]
    fn shell(database: &Database) -> Self {
        Self::on(Terminal::shell(database))
    }

    fn on(terminal: Terminal) -> Self {
        Self {
            terminal,
            emulator: vt100::Parser::new(size(24), size(80), 0),
            drawn: 0,
        }
    }

    fn becomes(&mut self, columns: u16, rows: u16) {
        self.look();
        self.emulator
            .screen_mut()
            .set_size(size(rows), size(columns));
        self.terminal.becomes(columns, rows);
    }

    fn look(&mut self) -> &vt100::Screen {
        let written = self.terminal.written();
        self.emulator.process(&written[self.drawn..]);
        self.drawn = written.len();
        self.emulator.screen()
    }

    /// Returns the characters on the screen, one line for each row.
    fn grid(&mut self) -> String {
        let (_, columns) = self.look().size();
        let rows = self.look().rows(0, columns.get());
        rows.map(|row| row.trim_end().to_owned() + "\n").collect()
    }

    #[track_caller]
    fn shows(&mut self, text: &str) {
        let mut grid = String::new();
        eventually(&format!("{text:?} on the screen"), || {
            grid = self.grid();
            grid.contains(text)
        });
    }

    #[track_caller]
    fn hides(&mut self, text: &str) {
        eventually(&format!("{text:?} goes off the screen"), || {
            !self.grid().contains(text)
        });
    }

    /// Asserts that the terminal is restored: the normal screen, with a cursor and without attributes.
    #[track_caller]
    fn assert_restored(&mut self) {
        let screen = self.look();
        assert!(!screen.alternate_screen() && !screen.hide_cursor());
        let written = String::from_utf8_lossy(self.terminal.written()).into_owned();
        let last = |sequence| written.rfind(sequence);
        let wraps = last("\x1b[?7h") > last("\x1b[?7l");
        assert!(wraps, "line wrapping is still off");
        let is_plain = last("\x1b[0m") >= last("\x1b[7m");
        assert!(is_plain, "reverse video is still on");
    }

    /// Types a shell line and waits for its output and the next prompt.
    #[track_caller]
    fn says(&mut self, line: &str, text: &str) {
        self.terminal.enters(line);
        self.terminal.sees(text);
        self.terminal.prompts();
    }

    fn types(&mut self, keys: &str) {
        self.terminal.types(keys);
    }

    /// Waits until the program exits, and asserts that it exits with `status` and restores the terminal.
    #[track_caller]
    fn ends_with(&mut self, status: i32) {
        assert_eq!(self.terminal.ends(), Some(status));
        self.assert_restored();
    }
}

fn size(number: u16) -> NonZero<u16> {
    NonZero::new(number).expect("a size")
}

/// Creates thirty actions that are held for days, one of them with waiters, so that the screen does not change during a
/// test.
fn thirty(database: &Database) {
    Dlock::on(database, ["setup", "-q"]).run().expect(0, "", "");
    let mut admin = database.admin_conn();
    let mut hold = |action: &str, holder: &str, note: &str, expires: &str| {
        let statement = format!(
            "INSERT INTO dlock_lock SET action=?,token=1795172174223117,owner_id=REPEAT('x',16),\
             renewals=3,holder=?,host='web-1',pid=4711,user='deploy',note=?,command='migrate.sh',\
             ttl_us=30000000,acquired_at=UTC_TIMESTAMP(6)-INTERVAL 195 MINUTE-INTERVAL 10 DAY,\
             renewed_at=UTC_TIMESTAMP(6)-INTERVAL 1530 MINUTE,\
             expires_at=UTC_TIMESTAMP(6){expires}"
        );
        admin
            .exec_drop(&statement, (action, holder, note))
            .expect("a row can be made");
    };
    let days = "+INTERVAL 90 MINUTE+INTERVAL 5 DAY";
    for number in 1..=27 {
        let name = format!("tenant-{number:02}");
        hold(&name, &format!("web-{number}/4711"), "release 42", days);
    }
    hold(
        "init",
        "web-1.eu-central.example.org/4711",
        "release 42",
        days,
    );
    let ago = "-INTERVAL 90 MINUTE-INTERVAL 5 DAY";
    hold("migrate", "web-2.eu-central.example.org/4711", "", ago);
    // The action's name has wide characters, and the label would clear the screen and change the colour to red.
    hold(
        "größe-日本語",
        "evil\x1b[2J\x1b[31m\u{202e}gro\n👩\u{200d}🚀",
        "\x1b]0;t\x07",
        days,
    );
    for number in 1..=3 {
        admin
            .exec_drop(
                "INSERT INTO dlock_waiter SET action='init',owner_id=REPEAT(?,16),holder=?,\
                 host='web-9',pid=1,user='deploy',note='',polls=1,server='',session_id=0,account='',\
                 enqueued_at=UTC_TIMESTAMP(6)-INTERVAL 1530 MINUTE,\
                 last_seen_at=UTC_TIMESTAMP(6)+INTERVAL 1 DAY",
                (number.to_string(), format!("web-{number}/1")),
            )
            .expect("a row can be made");
    }
}
