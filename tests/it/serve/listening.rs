//! Tests of the listening address, and of the start and the end.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::{Flavour, shared};

use super::{Page, database};

#[test]
fn unix_socket_is_replaced_if_its_process_has_ended_and_removed_at_the_end() {
    let database = database(Flavour::of_this_test());
    let stage = Stage::new();
    let path = stage.path("page");
    drop(UnixListener::bind(&path).expect("a socket that is left behind"));
    let serve = ["serve", "--listen", &format!("unix:{}", path.display())];
    let page = Page::start(Dlock::on(&database, serve));
    let file = fs::symlink_metadata(&path).expect("the socket exists");
    assert!(file.file_type().is_socket());
    let mode = file.permissions().mode();
    assert_eq!(mode & 0o022, 0, "others may not connect");
    assert_eq!(page.json("/status.json")["locks"][0]["action"], "init");
    Dlock::on(&database, serve).expect(78, "", "Address already in use");
    page.get("/healthz");
    page.end().exited(0);
    assert!(!path.exists());
}

/// A proxy runs under another account. The man page and the systemd unit contain this umask.
#[test]
fn umask_lets_the_group_connect_and_an_ignored_signal_stays_ignored() {
    let database = database(Flavour::of_this_test());
    let stage = Stage::new();
    let path = stage.path("page");
    let unit = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/examples/systemd/dlock-serve.service"
    );
    let unit = fs::read_to_string(unit).expect("the unit exists");
    let umask = unit.lines().find_map(|line| line.strip_prefix("# UMask="));
    let umask = umask.expect("a setting");
    let script = format!("trap '' HUP; umask {umask}; exec \"$@\"");
    let shell = ["-c", &script, "sh", env!("CARGO_BIN_EXE_dlock")];
    let running = Dlock::of(Path::new("/bin/sh"), shell)
        .args(["serve", "--listen", &format!("unix:{}", path.display())])
        .env("DLOCK_URL", database.url())
        .start_until("listening on unix:");
    let file = fs::symlink_metadata(&path).expect("the socket exists");
    assert_eq!(file.permissions().mode() & 0o777, 0o770);
    let status = fs::read_to_string(format!("/proc/{}/status", running.pid()));
    let status = status.expect("dlock runs");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.expect("a mask").trim(), 16).expect("a number");
    // Signal n is bit n - 1, and SIGHUP is 1.
    assert_eq!(ignored & 1, 1, "{status}");
    running.wait_after("INT").exited(0);
}

#[test]
fn addresses_that_other_machines_reach_need_a_token() {
    let database = database(Flavour::of_this_test());
    let stage = Stage::new();
    let file = |name: &str, text: &str| {
        let path = stage.path(name);
        fs::write(&path, text).expect("the file is written");
        format!("--token-file={}", path.display())
    };
    let token = file("token", "0123456789abcdef\n");
    let short = file("short", "0123456789abcde\n");
    let serve =
        |options: &[&str]| Dlock::on(&database, ["serve", "--listen", "0.0.0.0:0"]).args(options);
    for (options, status, why) in [
        (&[][..], 64, "so --token-file is required"),
        (&[&*short], 78, "fewer than 16 bytes"),
        (&["--token-file=/nonexistent"], 78, "/nonexistent"),
    ] {
        serve(options).expect(status, "", why);
    }
    let page = Page::start(serve(&[&token]));
    assert_eq!(page.get("/status.json").status, 401);
    assert_eq!(page.get("/healthz").status, 200);
    for authorization in [
        "Authorization: Bearer 0123456789abcdef",
        "Authorization: Basic b3BzOjAxMjM0NTY3ODlhYmNkZWY=",
    ] {
        let headers = ["Host: localhost", authorization];
        let response = page.address.request("GET", "/status.json", &headers);
        assert_eq!(response.status, 200, "{response:#?}");
    }
}

#[test]
fn page_does_not_start_with_settings_that_never_work() {
    let database = shared(Flavour::of_this_test()).database("serve");
    let serve = || Dlock::on(&database, ["serve", "--listen", "127.0.0.1:0"]);
    serve().expect(78, "", "dlock setup");
    let url = database.url().replace(&database.password, "wrong");
    let serve = serve().env("DLOCK_URL", url);
    serve.expect(77, "", "Access denied");
}
