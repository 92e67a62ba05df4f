//! Option files, password files, URL files and programs that cannot be used.
//!
//! The unit tests of `config::option_file` and `config::text_file` test which content is refused.

use std::path::Path;

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::proxy::Proxy;
use testkit::servers::{Flavour, shared};

use super::{actions, exec, refused};
use crate::connection::private;

#[test]
fn an_unusable_file_is_a_configuration_error() {
    let database = shared(Flavour::of_this_test()).set_up("files");
    let stage = Stage::new();
    let (missing, empty) = (stage.path("missing"), private(&stage, "empty", ""));
    let unknown = private(&stage, "unknown", "[dlock]\n\nttl=3s\n");
    let options = format!("[client]\npassword={}\n", database.password);
    let open = stage.write("open", 0o644, &options);
    let run = |option: &str, path: &Path| exec(&database, "init").arg(option).arg(path);
    let (no_file, large) = (": No such file", ": the file is larger than 1 MiB");
    let endless = Path::new("/dev/zero");
    let readable = ": the file contains a password and all users can read it; run chmod 600";
    for (option, path, why) in [
        ("--defaults-file", &*missing, no_file),
        ("--defaults-file", &open, readable),
        ("--defaults-file", &unknown, ":3: unknown option in [dlock]"),
        ("--password-file", &missing, no_file),
        ("--password-file", &empty, ": the file is empty"),
        ("--password-file", endless, large),
    ] {
        let why = format!("{}{why}", path.display());
        refused(run(option, path), 78, &why);
    }
    let no_url = ": the URL must begin with mysql://";
    for (path, why) in [(&missing, no_file), (&unknown, no_url)] {
        let run = Dlock::new(["exec", "-a", "init", "--url-file"]).arg(path);
        refused(run, 78, &format!("{}{why}", path.display()));
    }
    assert_eq!(actions(&database), [""; 0]);
    // The file is accepted after its mode is changed.
    stage.write("open", 0o600, &options);
    let exec = run("--defaults-file", &open).args(["--", "true"]);
    exec.expect(0, "", "");
}

#[test]
fn a_command_that_cannot_run_is_reported_before_dlock_connects() {
    let database = shared(Flavour::of_this_test()).set_up("commands");
    let proxy = Proxy::to(database.port);
    let stage = Stage::new();
    let plain = stage.write("plain", 0o644, "#!/bin/sh\n");
    let (named, path) = (Path::new("no-such-command"), Path::new("/no/such/command"));
    for (command, status, why) in [
        (named, 127, "cannot run no-such-command: no such command"),
        (path, 127, "cannot run /no/such/command: no such command"),
        (&plain.join("below"), 126, "Not a directory"),
        (Path::new(""), 127, "cannot run '': no such command"),
        (&plain, 126, "Permission denied"),
        (Path::new("/"), 126, "cannot run /: "),
    ] {
        let exec = Dlock::through(&database, proxy.port(), ["exec", "-a", "init", "--"]);
        let outcome = exec.arg(command).expect(status, "", why);
        let is_line = outcome.stderr.starts_with("dlock: ") && outcome.stderr.lines().count() == 1;
        assert!(is_line, "{outcome:#?}");
    }
    assert!(proxy.sessions().is_empty(), "dlock connected");
    assert_eq!(actions(&database), [""; 0]);
}
