//! Option files, password files and URL files that cannot be used.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::{Database, Flavour, shared};

use super::{Form, actions, exec, refused, set_up};

#[test]
fn an_unusable_file_is_a_configuration_error() {
    let flavour = Flavour::of_this_test();
    let database = set_up(shared(flavour), "files");
    let stage = Stage::new();
    let file = |name: &str, mode: u32, text: &str| {
        let path = stage.path(name);
        fs::write(&path, text).expect("the folder is writable");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("the test owns the file");
        path
    };
    let Database { user, password, .. } = &database;
    let options = format!("[client]\nuser={user}\npassword={password}\n");
    let missing = stage.path("missing");
    let folder = stage.path("folder");
    fs::create_dir(&folder).expect("the folder is writable");
    let open = file("open", 0o644, &options);
    let writable = file("writable", 0o602, "[client]\n");
    let malformed = file("malformed", 0o600, "[dlock]\nuser me\n");
    let unknown = file("unknown", 0o600, "[dlock]\n\nttl=3s\n");
    let circle = format!("!include {}\n", stage.path("circle").display());
    let circle = file("circle", 0o600, &circle);
    let empty = file("empty", 0o600, "");
    let binary = stage.path("binary");
    fs::write(&binary, b"\xff\xfe").expect("the folder is writable");

    let at = |path: &Path, why: &str| (path.to_owned(), format!("{}{why}", path.display()));
    for (option, (path, why)) in [
        ("--defaults-file", at(&missing, ": No such file")),
        ("--defaults-file", at(&folder, ": Is a directory")),
        (
            "--defaults-file",
            at(
                &open,
                ": the file contains a password and all users can read it; run chmod 600",
            ),
        ),
        (
            "--defaults-file",
            at(
                &writable,
                ": all users can write to this path; run chmod o-w",
            ),
        ),
        (
            "--defaults-file",
            at(&malformed, ":2: the line is not an option"),
        ),
        (
            "--defaults-file",
            at(&unknown, ":3: unknown option in [dlock]"),
        ),
        (
            "--defaults-file",
            at(&circle, ":1: more than 10 levels of included files"),
        ),
        ("--defaults-file", at(&binary, ": the file is not UTF-8")),
        ("--password-file", at(&missing, ": No such file")),
        ("--password-file", at(&folder, ": Is a directory")),
        ("--password-file", at(&empty, ": the file is empty")),
        (
            "--password-file",
            at(Path::new("/dev/zero"), ": the file is larger than 1 MiB"),
        ),
    ] {
        refused(
            exec(&database, "init").arg(option).arg(path),
            Form::Line,
            78,
            &why,
        );
    }
    for (path, why) in [
        at(&missing, ": No such file"),
        at(&malformed, ": the URL must begin with mysql://"),
    ] {
        let run = Dlock::new(["exec", "-a", "init", "--url-file"]).arg(path);
        refused(run, Form::Line, 78, &why);
    }
    assert_eq!(actions(&database), [""; 0], "{flavour}");
    // The file `open` is accepted after its mode is changed to 0600.
    fs::set_permissions(&open, Permissions::from_mode(0o600)).expect("the test owns the file");
    exec(&database, "init")
        .arg("--defaults-file")
        .arg(open)
        .arg("--")
        .arg("true")
        .run()
        .expect(0, "", "");
}
