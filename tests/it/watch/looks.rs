//! Tests of the exact contents of the screen, and of other terminal sizes.

use mysql::prelude::Queryable;
use testkit::cli_runner::eventually;
use testkit::servers::{Database, Flavour, shared};

use super::{Screen, create_thirty_actions};

/// The expected page with the list, without its first line, which contains the server's port and the time.
const LIST: &str = r"30 actions, 29 held, 1 expired, 3 waiting
  ACTION        STATE    HOLDER                      HELD    EXPIRES IN  WAITERS
>!init          held     web-1.eu-central.example.…  10d 3h  5d 1h       3
 !migrate       expired  web-2.eu-central.example.…  10d 3h  5d 1h ago
  größe-日本語  held     evil\u{1b}[2J\u{1b}[31m\u…  10d 3h  5d 1h
  tenant-01     held     web-1/4711                  10d 3h  5d 1h
  tenant-02     held     web-2/4711                  10d 3h  5d 1h
  tenant-03     held     web-3/4711                  10d 3h  5d 1h
  tenant-04     held     web-4/4711                  10d 3h  5d 1h
  tenant-05     held     web-5/4711                  10d 3h  5d 1h
  tenant-06     held     web-6/4711                  10d 3h  5d 1h
  tenant-07     held     web-7/4711                  10d 3h  5d 1h
  tenant-08     held     web-8/4711                  10d 3h  5d 1h
  tenant-09     held     web-9/4711                  10d 3h  5d 1h
  tenant-10     held     web-10/4711                 10d 3h  5d 1h
  tenant-11     held     web-11/4711                 10d 3h  5d 1h
  tenant-12     held     web-12/4711                 10d 3h  5d 1h
  tenant-13     held     web-13/4711                 10d 3h  5d 1h
  tenant-14     held     web-14/4711                 10d 3h  5d 1h
  tenant-15     held     web-15/4711                 10d 3h  5d 1h
init: held and renewing

Enter: open  /: filter  s: sort  r: release  ?: keys  q: quit               1/30
";

/// The expected details page of an action, without its first line and normalized by [`without_times`].
const DETAILS: &str = r"30 actions, 29 held, 1 expired, 3 waiting

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

no recorded runs

up, down: scroll  r: release  Esc: back  Ctrl-C: quit
";

#[test]
fn screen_of_80_by_24_shows_the_list_and_the_details() {
    let database = shared(Flavour::of_this_test()).database("watch");
    create_thirty_actions(&database);
    let mut screen = Screen::watch(&database, &[]);
    // `g` selects the first action. Before the first renewal, the list is in another order.
    wait_for_screen(&mut screen, &database, "g", LIST);
    let heading = screen.grid().lines().next().map(str::to_owned);
    let heading = heading.expect("the screen has a first line");
    let server = format!(
        "dlock status  127.0.0.1:{}/{}",
        database.port, database.name
    );
    assert!(heading.starts_with(&server), "{heading}");
    assert!(
        heading.contains("every 200ms") && heading.ends_with(" UTC"),
        "{heading}"
    );
    screen.types("\r");
    wait_for_screen(&mut screen, &database, "", DETAILS);
    screen.types("q");
    screen.types("q");
    screen.ends_with(0);
}

/// Waits until the screen below its first line is equal to `wanted`. Renews all leases and types `keys` before each
/// comparison.
#[track_caller]
fn wait_for_screen(screen: &mut Screen, database: &Database, keys: &str, wanted: &str) {
    let renew = "UPDATE dlock_lock SET renewed_at=UTC_TIMESTAMP(6)";
    let mut admin = database.admin_conn();
    let mut shown = String::new();
    eventually(wanted, || {
        admin.query_drop(renew).expect("the rows can be updated");
        screen.types(keys);
        let before = std::mem::replace(&mut shown, without_times(below_heading(&screen.grid())));
        // Printed only if the test fails.
        if shown != before {
            println!("{shown}");
        }
        shown == wanted
    });
}

/// Replaces the times in `grid`, which change during the test, with an ellipsis.
fn without_times(grid: &str) -> String {
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
fn resized_screen_is_redrawn_immediately() {
    let database = shared(Flavour::of_this_test()).database("watch");
    create_thirty_actions(&database);
    let mut screen = Screen::watch(&database, &[]);
    screen.shows("1/30");
    screen.resize(200, 50);
    screen.selects("größe");
    for text in ["tenant-27", "LAST RUN", "release 42", "1795172174223117"] {
        screen.shows(text);
    }
    screen.types("\x1b[B\x1b[B\x1b[B");
    screen.selects("tenant-01");
    screen.resize(40, 5);
    screen.selects("tenant-01");
    let grid = screen.grid();
    let lines: Vec<&str> = grid.lines().collect();
    assert_eq!(lines.len(), 5, "{grid}");
    assert!(lines[2].starts_with("  ACTION"), "{grid}");
    assert!(lines[3].starts_with(">!tenant-01"), "{grid}");
    screen.resize(1, 1);
    screen.resize(80, 24);
    screen.selects("tenant-01");
    screen.shows("4/30");
    screen.types("q");
    screen.ends_with(0);
}
