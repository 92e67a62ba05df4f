//! Tests of the exact contents of the screen, of its keys, and of other terminal sizes.

use testkit::cli_runner::eventually;
use testkit::sql::Sql;

use super::{DOWN, ENTER, ESCAPE, Screen, thirty_actions};

const PAGE_DOWN: &str = "\x1b[6~";
const END: &str = "\x1b[F";

/// Returns the expected page with the list, without its first line, which contains the server's port and the time.
fn list() -> String {
    let start = r"30 actions, 29 held, 1 expired, 3 waiting
  ACTION        STATE    HOLDER                      HELD    EXPIRES IN  WAITERS
>!init          held     web-1.eu-central.example.…  10d 3h  5d 1h       3
 !migrate       expired  web-2.eu-central.example.…  10d 3h  5d 1h ago
  größe-日本語  held     evil\u{1b}[2J\u{1b}[31m\u…  10d 3h  5d 1h
";
    let end = r"init: held and renewing

Enter: open  /: filter  s: sort  r: release  ?: keys  q: quit               1/30
";
    let tenant = |number| {
        let holder = format!("web-{number}/4711");
        format!("  tenant-{number:02}     held     {holder:26}  10d 3h  5d 1h\n")
    };
    let tenants: String = (1..=15).map(tenant).collect();
    format!("{start}{tenants}{end}")
}

#[test]
fn screen_follows_keys_and_sizes_and_shows_the_list() {
    let database = thirty_actions();
    let mut screen = Screen::watch(&database, &[]);
    screen.selects("größe-日本語").types(DOWN).selects("init");
    screen.types(PAGE_DOWN).shows("20/30");
    screen.types(END).selects("tenant-27").hides("größe");
    screen.types("/init").shows("/init_").hides("tenant");
    screen.types(ENTER).shows("1 matching \"init\"");
    screen.types(ENTER);
    for text in ["4711 on web-1", "3 waiting", "no recorded runs"] {
        screen.shows(text);
    }
    screen.types(ESCAPE).selects("init");
    screen.types(ESCAPE).shows("2/30");
    screen.types("?").shows("any key: back");
    screen.types("x").shows("2/30");

    // A resized screen is redrawn immediately.
    screen.resize(200, 50);
    screen.selects("init");
    for text in ["tenant-27", "LAST RUN", "release 42", "1795172174223117"] {
        screen.shows(text);
    }
    screen.types(&DOWN.repeat(2)).selects("tenant-01");
    screen.resize(40, 5);
    screen.selects("tenant-01");
    let grid = screen.grid();
    let lines: Vec<&str> = grid.lines().collect();
    assert_eq!(lines.len(), 5, "{grid}");
    assert!(lines[2].starts_with("  ACTION"), "{grid}");
    assert!(lines[3].starts_with(">!tenant-01"), "{grid}");
    screen.resize(1, 1);
    screen.resize(80, 24);
    screen.selects("tenant-01").shows("4/30");

    // After a renewal of all leases, the list is in another order. The key `g` selects the first action.
    let (list, mut grid) = (list(), String::new());
    let mut admin = database.admin_conn();
    eventually(&list, || {
        admin.run("UPDATE dlock_lock SET renewed_at=UTC_TIMESTAMP(6)");
        screen.types("g");
        grid = screen.grid();
        grid.split_once('\n').unzip().1 == Some(&*list)
    });
    let heading = grid.lines().next().unwrap_or_default();
    let (port, name) = (database.port, &database.name);
    let server = format!("dlock status  127.0.0.1:{port}/{name}");
    assert!(heading.starts_with(&server), "{heading}");
    let is_whole = heading.contains("every 200ms") && heading.ends_with(" UTC");
    assert!(is_whole, "{heading}");
    screen.types("q").ends_with(0);
}
