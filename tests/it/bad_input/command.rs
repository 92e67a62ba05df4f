//! Commands that cannot be executed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mysql::prelude::Queryable;
use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::proxy::Proxy;
use testkit::servers::{Flavour, shared};

use super::{actions, exec, free, set_up};

#[test]
fn a_command_that_cannot_run_is_reported_before_dlock_connects() {
    let flavour = Flavour::of_this_test();
    let server = shared(flavour);
    let database = set_up(server, "commands");
    let proxy = Proxy::to(server.port());
    let stage = Stage::new();
    let plain = stage.path("plain");
    fs::write(&plain, "#!/bin/sh\n").expect("the folder is writable");
    fs::set_permissions(&plain, Permissions::from_mode(0o644)).expect("the test owns the file");
    for (command, status, why) in [
        (
            Path::new("no-such-command"),
            127,
            "cannot run no-such-command: no such command",
        ),
        (
            Path::new("/no/such/command"),
            127,
            "cannot run /no/such/command: no such command",
        ),
        (&stage.path("plain/below"), 126, "Not a directory"),
        (Path::new(""), 127, "cannot run '': no such command"),
        (&plain, 126, "Permission denied"),
        (Path::new("/"), 126, "cannot run /: "),
    ] {
        let outcome = Dlock::new(["exec", "-a", "init", "--"])
            .env("DLOCK_URL", database.url_through(proxy.port()))
            .arg(command)
            .run();
        outcome.expect(status, "", why);
        assert!(
            outcome.stderr.starts_with("dlock: ") && outcome.stderr.lines().count() == 1,
            "{outcome:#?}"
        );
    }
    assert!(proxy.sessions().is_empty(), "{flavour}: dlock connected");
    assert_eq!(actions(&database), [""; 0], "{flavour}");
}

#[test]
fn a_command_that_the_kernel_cannot_execute_releases_the_lock() {
    // Only the exec system call detects these errors.
    let flavour = Flavour::of_this_test();
    let database = set_up(shared(flavour), "kernel");
    let stage = Stage::new();
    for (name, text, status) in [
        ("shebang", "#!/no/such/interpreter\n", 127),
        ("forbidden", "#!/etc/passwd\n", 126),
    ] {
        let path = stage.path(name);
        fs::write(&path, text).expect("the folder is writable");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("the test owns the file");
        exec(&database, name)
            .arg("--")
            .arg(&path)
            .run()
            .expect(status, "", "cannot run");
        let held = "SELECT COUNT(*) FROM dlock_lock WHERE owner_id IS NOT NULL";
        let held: Option<u64> = database
            .admin_conn()
            .query_first(held)
            .expect("the table exists");
        assert_eq!(held, Some(0), "{flavour}, {name}");
        free(&database, name);
    }
}
