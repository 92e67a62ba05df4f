//! Tests of `dlock status --watch` on a real terminal, of the terminal after dlock exits, and of the output without a
//! screen.

mod lines;
mod looks;
mod outage;
mod release;
mod screen;

use std::num::NonZero;

use mysql::prelude::Queryable;
use testkit::cli_runner::eventually;
use testkit::each_server::set_up;
use testkit::servers::{Database, Flavour};
use testkit::sql::Sql;
use testkit::terminal::Terminal;

/// A terminal and an emulator that renders the output of the terminal, as a user sees the screen.
pub(crate) struct Screen {
    terminal: Terminal,
    emulator: vt100::Parser,
    /// The number of output bytes that the emulator has processed.
    drawn: usize,
}

impl Screen {
    /// Starts `dlock status --watch=200ms` with `options` as the only program on a terminal of 80 columns and 24
    /// rows.
    #[track_caller]
    fn watch(database: &Database, options: &[&str]) -> Self {
        Self::with(database, &[], options)
    }

    /// Like [`Self::watch`], with the environment variables `environment`, each in the form NAME=VALUE.
    #[track_caller]
    fn with(database: &Database, environment: &[&str], options: &[&str]) -> Self {
        let plain = ["env", "-u", "NO_COLOR", "TERM=xterm-256color"];
        let dlock = [env!("CARGO_BIN_EXE_dlock"), "status", "--watch=200ms"];
        let words = [&plain, environment, &dlock, options].concat();
        Self::on(Terminal::with(database, words))
    }

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

    fn resize(&mut self, columns: u16, rows: u16) {
        self.current();
        self.emulator
            .screen_mut()
            .set_size(size(rows), size(columns));
        self.terminal.becomes(columns, rows);
    }

    /// Processes the output that was written since the last call, and returns the screen.
    fn current(&mut self) -> &vt100::Screen {
        let written = self.terminal.written();
        self.emulator.process(&written[self.drawn..]);
        self.drawn = written.len();
        self.emulator.screen()
    }

    /// Returns the characters on the screen, one line for each row.
    fn grid(&mut self) -> String {
        let (_, columns) = self.current().size();
        let rows = self.current().rows(0, columns.get());
        rows.map(|row| row.trim_end().to_owned() + "\n").collect()
    }

    #[track_caller]
    fn shows(&mut self, text: &str) -> &mut Self {
        let mut grid = String::new();
        eventually(&format!("{text:?} appears on the screen"), || {
            grid = self.grid();
            grid.contains(text)
        });
        self
    }

    /// Waits until the selected line is the line of the action whose name starts with `name`.
    #[track_caller]
    fn selects(&mut self, name: &str) -> &mut Self {
        eventually(&format!("{name:?} is selected"), || {
            let grid = self.grid();
            ["> ", ">!"]
                .iter()
                .any(|mark| grid.contains(&format!("{mark}{name}")))
        });
        self
    }

    #[track_caller]
    fn hides(&mut self, text: &str) -> &mut Self {
        eventually(&format!("{text:?} disappears from the screen"), || {
            !self.grid().contains(text)
        });
        self
    }

    /// Asserts that the terminal is restored: the normal screen, with a cursor and without attributes.
    #[track_caller]
    fn assert_restored(&mut self) {
        let screen = self.current();
        assert!(!screen.alternate_screen() && !screen.hide_cursor());
        let written = String::from_utf8_lossy(self.terminal.written()).into_owned();
        let last = |sequence| written.rfind(sequence);
        let wraps = last("\x1b[?7h") > last("\x1b[?7l");
        assert!(wraps, "line wrapping must be enabled");
        let is_plain = last("\x1b[0m") >= last("\x1b[7m");
        assert!(is_plain, "reverse video must be disabled");
    }

    /// Types a shell line, and waits until its output contains `text` and the shell prints the next prompt.
    #[track_caller]
    fn expect_output(&mut self, line: &str, text: &str) {
        self.terminal.enters(line).sees(text);
        self.terminal.prompts();
    }

    fn types(&mut self, keys: &str) -> &mut Self {
        self.terminal.types(keys);
        self
    }

    /// Waits until the program exits, and asserts that it exits with `status` and restores the terminal.
    #[track_caller]
    fn ends_with(&mut self, status: i32) {
        assert_eq!(self.terminal.ends(), Some(status));
        self.assert_restored();
    }
}

const DOWN: &str = "\x1b[B";
const ENTER: &str = "\r";
const ESCAPE: &str = "\x1b";

fn size(number: u16) -> NonZero<u16> {
    NonZero::new(number).expect("the size is above zero")
}

/// Creates a database with thirty actions with ages of several days, so that the screen does not change during a test. One
/// of the actions has waiters.
fn thirty_actions() -> Database {
    let database = set_up(Flavour::of_this_test());
    let mut admin = database.admin_conn();
    let days = "+INTERVAL 90 MINUTE+INTERVAL 5 DAY";
    let ago = "-INTERVAL 90 MINUTE-INTERVAL 5 DAY";
    let mut hold = |action: &str, holder: &str, note: &str, expires: &str| {
        let statement = format!(
            "INSERT INTO dlock_lock SET action=?,token=1795172174223117,owner_id=REPEAT('x',16),\
             renewals=3,holder=?,host='web-1',pid=4711,user='deploy',note=?,command='migrate.sh',\
             ttl_us=30000000,acquired_at=UTC_TIMESTAMP(6)-INTERVAL 195 MINUTE-INTERVAL 10 DAY,\
             renewed_at=UTC_TIMESTAMP(6)-INTERVAL 1530 MINUTE,\
             expires_at=UTC_TIMESTAMP(6){expires}"
        );
        let inserted = admin.exec_drop(&statement, (action, holder, note));
        inserted.expect("the row can be inserted");
    };
    for number in 1..=27 {
        let name = format!("tenant-{number:02}");
        hold(&name, &format!("web-{number}/4711"), "release 42", days);
    }
    let holder = "web-1.eu-central.example.org/4711";
    hold("init", holder, "release 42", days);
    hold("migrate", "web-2.eu-central.example.org/4711", "", ago);
    // The name contains wide characters. The label contains escape sequences that would clear the screen and change the
    // colour to red.
    let evil = "evil\x1b[2J\x1b[31m\u{202e}gro\n👩\u{200d}🚀";
    hold("größe-日本語", evil, "\x1b]0;t\x07", days);
    for number in 1..=3 {
        let insert = format!(
            "INSERT INTO dlock_waiter SET action='init',owner_id=REPEAT('{number}',16),holder='web-{number}/1',\
             host='web-9',pid=1,user='deploy',note='',polls=1,server='',session_id=0,account='',\
             enqueued_at=UTC_TIMESTAMP(6)-INTERVAL 1530 MINUTE,\
             last_seen_at=UTC_TIMESTAMP(6)+INTERVAL 1 DAY"
        );
        admin.run(insert);
    }
    database
}
