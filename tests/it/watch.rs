//! `dlock status --watch`: what is on the screen of a real terminal, and what is left of it; and the same as lines.

mod lines;
mod looks;
mod outage;
mod screen;

use std::num::NonZero;

use mysql::prelude::Queryable;

use crate::dlock::{Dlock, eventually};
use crate::servers::Database;
use crate::terminal::Terminal;

/// A terminal that is looked at as a person does: what is on it after all that was written.
pub(crate) struct Screen {
    terminal: Terminal,
    emulator: vt100::Parser,
    /// How much of what was written is drawn.
    drawn: usize,
}

impl Screen {
    /// `dlock status --watch=200ms` with `options` as all that runs on a terminal of 80 by 24.
    #[track_caller]
    fn watch(database: &Database, options: &[&str]) -> Self {
        Self::with(database, &[], options)
    }

    /// The same with `environment`, each as NAME=VALUE.
    #[track_caller]
    fn with(database: &Database, environment: &[&str], options: &[&str]) -> Self {
        let plain = ["env", "-u", "NO_COLOR", "TERM=xterm-256color"];
        let dlock = [env!("CARGO_BIN_EXE_dlock"), "status", "--watch=200ms"];
        let words = [&plain, environment, &dlock, options].concat();
        Self::on(Terminal::with(database, words))
    }

    /// A shell.
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

    /// The characters on it, a line a row.
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

    /// That the terminal is as it was before the program: its own screen with a cursor.
    #[track_caller]
    fn is_given_back(&mut self) {
        let screen = self.look();
        assert!(!screen.alternate_screen() && !screen.hide_cursor());
        let written = String::from_utf8_lossy(self.terminal.written()).into_owned();
        let last = |sequence| written.rfind(sequence);
        assert!(last("\x1b[?7h") > last("\x1b[?7l"), "long lines are folded");
        assert!(last("\x1b[0m") >= last("\x1b[7m"), "nothing is reversed");
    }

    /// Enters a line of shell and waits for what it prints and the next prompt.
    #[track_caller]
    fn says(&mut self, line: &str, text: &str) {
        self.terminal.enters(line);
        self.terminal.sees(text);
        self.terminal.prompts();
    }

    fn types(&mut self, keys: &str) {
        self.terminal.types(keys);
    }

    /// Waits for its end, which must have this status, and leave the terminal as it was.
    #[track_caller]
    fn ends_with(&mut self, status: i32) {
        assert_eq!(self.terminal.ends(), Some(status));
        self.is_given_back();
    }
}

fn size(number: u16) -> NonZero<u16> {
    NonZero::new(number).expect("a size")
}

/// Thirty actions that somebody holds for days, some of them with a line, so that nothing on a screen changes while
/// a test looks at it.
fn thirty(database: &Database) {
    Dlock::on(database, ["setup", "-q"]).run().expect(0, "", "");
    let mut admin = database.admin_conn();
    let mut hold = |action: &str, holder: &str, note: &str, lapses: &str| {
        let statement = format!(
            "INSERT INTO dlock_lock SET action=?,token=1795172174223117,claim=REPEAT('x',16),\
             renewals=3,holder=?,host='web-1',pid=4711,user='deploy',note=?,command='migrate.sh',\
             ttl_us=30000000,acquired_at=UTC_TIMESTAMP(6)-INTERVAL 195 MINUTE-INTERVAL 10 DAY,\
             renewed_at=UTC_TIMESTAMP(6)-INTERVAL 1530 MINUTE,\
             expires_at=UTC_TIMESTAMP(6){lapses}"
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
    // A name that is wider than it is long, a label that would clear the screen and go on in red.
    hold(
        "größe-日本語",
        "evil\x1b[2J\x1b[31m\u{202e}gro\n👩\u{200d}🚀",
        "\x1b]0;t\x07",
        days,
    );
    for place in 1..=3 {
        admin
            .exec_drop(
                "INSERT INTO dlock_waiter SET action='init',claim=REPEAT(?,16),holder=?,\
                 host='web-9',pid=1,user='deploy',note='',polls=1,server='',session_id=0,account='',\
                 since=UTC_TIMESTAMP(6)-INTERVAL 1530 MINUTE,\
                 seen_at=UTC_TIMESTAMP(6)+INTERVAL 1 DAY",
                (place.to_string(), format!("web-{place}/1")),
            )
            .expect("a row can be made");
    }
}
