//! Tests of the listening address, and of the start and the end.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use testkit::cli_runner::Dlock;
use testkit::holder::Holder;
use testkit::servers::{Flavour, shared};

use super::Page;

#[test]
fn unix_socket_is_replaced_if_its_process_has_ended_and_removed_at_the_end() {
    let database = shared(Flavour::MariaDb).database("serve");
    Holder::on(&database, &[]).end();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("page");
    drop(UnixListener::bind(&path).expect("a socket that is left behind"));
    let page = Page::on_socket(&database, &path);
    let file = fs::symlink_metadata(&path).expect("the socket exists");
    assert!(file.file_type().is_socket());
    assert_eq!(
        file.permissions().mode() & 0o022,
        0,
        "others may not connect"
    );
    assert_eq!(page.json("/status.json")["locks"][0]["action"], "init");
    let listen = format!("unix:{}", path.display());
    let second = Dlock::on(&database, ["serve", "--listen", &listen]).run();
    second.expect(78, "", "Address already in use");
    page.get("/healthz");
    let outcome = page.end();
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    assert!(!path.exists());
}

/// A proxy runs under another account. The man page and the systemd unit contain this umask.
#[test]
fn unix_socket_lets_the_group_connect_if_the_umask_does() {
    let database = shared(Flavour::MariaDb).database("serve");
    Holder::on(&database, &[]).end();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("page");
    let unit = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/examples/systemd/dlock-serve.service"
    );
    let unit = fs::read_to_string(unit).expect("the unit exists");
    let umask = unit.lines().find_map(|line| line.strip_prefix("# UMask="));
    let script = format!("umask {}; exec \"$@\"", umask.expect("a setting"));
    let shell = ["-c", &script, "sh", env!("CARGO_BIN_EXE_dlock")];
    let running = Dlock::of(Path::new("/bin/sh"), shell)
        .args(["serve", "--listen", &format!("unix:{}", path.display())])
        .env("DLOCK_URL", database.url())
        .start();
    running.wait_for_output("listening on unix:");
    let file = fs::symlink_metadata(&path).expect("the socket exists");
    assert_eq!(file.permissions().mode() & 0o777, 0o770);
    running.signal("TERM");
    assert_eq!(running.wait().status, Some(0));
}

#[test]
fn signal_ignored_at_start_does_not_end_the_server() {
    let database = shared(Flavour::MariaDb).database("serve");
    Holder::on(&database, &[]).end();
    let shell = [
        "-c",
        r#"trap '' HUP; exec "$@""#,
        "sh",
        env!("CARGO_BIN_EXE_dlock"),
    ];
    let running = Dlock::of(Path::new("/bin/sh"), shell)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env("DLOCK_URL", database.url())
        .start();
    running.wait_for_output("listening on ");
    let status = fs::read_to_string(format!("/proc/{}/status", running.pid()));
    let status = status.expect("dlock runs");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.expect("a mask").trim(), 16).expect("a number");
    // Signal n is bit n - 1, and SIGHUP is 1.
    assert_eq!(ignored & 1, 1, "{status}");
    running.signal("INT");
    let outcome = running.wait();
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
}

#[test]
fn addresses_that_other_machines_reach_need_a_token() {
    let database = shared(Flavour::MariaDb).database("serve");
    Holder::on(&database, &[]).end();
    let folder = tempfile::tempdir().expect("a folder");
    let (token, short) = (folder.path().join("token"), folder.path().join("short"));
    fs::write(&token, "0123456789abcdef\n").expect("the file is written");
    fs::write(&short, "0123456789abcde\n").expect("the file is written");
    let serve =
        |options: &[&str]| Dlock::on(&database, ["serve", "--listen", "0.0.0.0:0"]).args(options);
    serve(&[])
        .run()
        .expect(64, "", "so --token-file is required");
    let file = |path: &std::path::Path| format!("--token-file={}", path.display());
    serve(&[&file(&short)])
        .run()
        .expect(78, "", "fewer than 16 bytes");
    serve(&["--token-file=/nonexistent"])
        .run()
        .expect(78, "", "/nonexistent");
    let page = Page::start(serve(&[&file(&token)]));
    assert_eq!(page.get("/status.json").status, 401);
    assert_eq!(page.get("/healthz").status, 200);
    for authorization in [
        "Bearer 0123456789abcdef",
        "Basic b3BzOjAxMjM0NTY3ODlhYmNkZWY=",
    ] {
        let header = format!("Authorization: {authorization}");
        let response = page
            .address
            .request("GET", "/status.json", &["Host: localhost", &header]);
        assert_eq!(response.status, 200, "{response:#?}");
    }
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn page_starts_before_its_server_but_not_with_settings_that_never_work() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let url = format!("mysql://app:secret@127.0.0.1:{port}/app");
    let serve = Dlock::new(["serve", "--listen", "127.0.0.1:0"]).env("DLOCK_URL", url);
    let page = Page::start(serve);
    page.running.wait_for_output("cannot reach 127.0.0.1");
    let response = page.get("/status.json");
    assert_eq!(
        (response.status, &*response.body),
        (503, "the database does not respond")
    );
    assert_eq!(page.end().status, Some(0));

    let database = shared(Flavour::MySql).database("serve");
    let url = database.url().replace(&database.password, "wrong");
    let serve = Dlock::new(["serve", "--listen", "127.0.0.1:0"]).env("DLOCK_URL", url);
    serve.run().expect(77, "", "Access denied");
    Dlock::on(&database, ["serve", "--listen", "127.0.0.1:0"])
        .run()
        .expect(78, "", "dlock setup");
}
