//! Tests of the screen's contents, character by character, and of other terminal sizes.

use mysql::prelude::Queryable;

use super::{Screen, thirty};
use crate::cli_runner::eventually;
use crate::servers::{Database, Flavour, shared};

/// The list, without the heading, which contains the server's port and the time.
const LIST: &str = r"30 actions, 29 held, 1 expired, 3 waiting
  ACTION        STATE    HOLDER                    HELD FOR  EXPIRES IN  WAITERS
> größe-日本語  held     evil\u{1b}[2J\u{1b}[31m…  10d 3h    5d 1h
  init          held     web-1.eu-central.exampl…  10d 3h    5d 1h       3
  migrate       expired  web-2.eu-central.exampl…  10d 3h    5d 1h ago
  tenant-01     held     web-1/4711                10d 3h    5d 1h
  tenant-02     held     web-2/4711                10d 3h    5d 1h
  tenant-03     held     web-3/4711                10d 3h    5d 1h
  tenant-04     held     web-4/4711                10d 3h    5d 1h
  tenant-05     held     web-5/4711                10d 3h    5d 1h
  tenant-06     held     web-6/4711                10d 3h    5d 1h
  tenant-07     held     web-7/4711                10d 3h    5d 1h
  tenant-08     held     web-8/4711                10d 3h    5d 1h
  tenant-09     held     web-9/4711                10d 3h    5d 1h
  tenant-10     held     web-10/4711               10d 3h    5d 1h
  tenant-11     held     web-11/4711               10d 3h    5d 1h
  tenant-12     held     web-12/4711               10d 3h    5d 1h
  tenant-13     held     web-13/4711               10d 3h    5d 1h
  tenant-14     held     web-14/4711               10d 3h    5d 1h
  tenant-15     held     web-15/4711               10d 3h    5d 1h
größe-日本語: held and renewing

Enter: open  /: filter  s: sort  ?: keys  q: quit                           1/30
";

/// The details of an action, without the heading and normalized by [`hidden`].
const OPEN: &str = r"30 actions, 29 held, 1 expired, 3 waiting

init: held
  diagnosis     held and renewing
  holder        web-1.eu-central.example.org/4711
  process       4711 on web-1
  user          deploy
  command       migrate.sh
  note          release 42
  since         …
  renewed       …
  lease         …
  token         1795172174223117

3 waiting
  POSITION  WAITER   WAITED  SESSION  HOST   USER    NOTE
  1         web-1/1  1d 1h   alive    web-9  deploy
  2         web-2/1  1d 1h   alive    web-9  deploy
  3         web-3/1  1d 1h   alive    web-9  deploy

no run is recorded

up, down: scroll  Esc: back  Ctrl-C: quit
";

#[test]
fn screen_of_80_by_24_shows_the_list_and_the_details() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("watch");
        thirty(&database);
        let mut screen = Screen::watch(&database, &[]);
        looks_like(&mut screen, &database, LIST);
        let heading = screen.grid().lines().next().map(str::to_owned);
        let heading = heading.expect("a line");
        let server = format!(
            "dlock status  127.0.0.1:{}/{}",
            database.port, database.name
        );
        assert!(heading.starts_with(&server), "{heading}");
        assert!(
            heading.contains("every 200ms") && heading.ends_with(" UTC"),
            "{heading}"
        );
        screen.types("j\r");
        looks_like(&mut screen, &database, OPEN);
        screen.types("q");
        screen.types("q");
        screen.ends_with(0);
    }
}

/// Waits until the screen below its first line equals `wanted`, and renews all leases in the meantime.
#[track_caller]
fn looks_like(screen: &mut Screen, database: &Database, wanted: &str) {
    let renew = "UPDATE dlock_lock SET renewed_at=UTC_TIMESTAMP(6)";
    let mut admin = database.admin_conn();
    let mut shown = String::new();
    eventually(wanted, || {
        admin.query_drop(renew).expect("rows can be changed");
        let before = std::mem::replace(&mut shown, hidden(below_heading(&screen.grid())));
        // For the output of a test that fails.
        if shown != before {
            println!("{shown}");
        }
        shown == wanted
    });
}

/// Returns `grid` without times, which change during the test.
fn hidden(grid: &str) -> String {
    let line = |line: &str| {
        let name = ["since", "renewed", "lease"]
            .into_iter()
            .find(|name| line.starts_with(&format!("  {name} ")));
        match name {
            Some(name) => format!("  {name:14}…\n"),
            None => format!("{line}\n"),
        }
    };
    grid.lines().map(line).collect()
}

fn below_heading(grid: &str) -> &str {
    grid.split_once('\n').map_or("", |(_, rest)| rest)
}

#[test]
fn resized_screen_is_redrawn_at_once() {
    let database = shared(Flavour::MariaDb).database("watch");
    thirty(&database);
    let mut screen = Screen::watch(&database, &[]);
    screen.shows("1/30");
    screen.becomes(200, 50);
    for text in [
        "> größe",
        "tenant-27",
        "LAST RUN",
        "release 42",
        "1795172174223117",
    ] {
        screen.shows(text);
    }
    screen.types("\x1b[B\x1b[B\x1b[B");
    screen.shows("> tenant-01");
    screen.becomes(40, 5);
    screen.shows("> tenant-01");
    let grid = screen.grid();
    let lines: Vec<&str> = grid.lines().collect();
    assert_eq!(lines.len(), 5, "{grid}");
    assert!(lines[2].starts_with("  ACTION"), "{grid}");
    assert!(lines[3].starts_with("> tenant-01"), "{grid}");
    screen.becomes(1, 1);
    screen.becomes(80, 24);
    screen.shows("> tenant-01");
    screen.shows("4/30");
    screen.types("q");
    screen.ends_with(0);
}
