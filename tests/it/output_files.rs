//! Tests of the files that dlock writes: the metrics file and the copy of the program. dlock follows symbolic links, writes
//! to devices and FIFOs without waiting, and replaces only regular files, which keep their owner and mode.
//!
//! All paths of devices in these tests are links, so that a defect replaces a link and not a device of the machine.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::{Database, Flavour, shared};

/// Runs a command with the metrics file `path`, and asserts that `stderr` is the whole output.
#[track_caller]
fn writes_metrics(database: &Database, path: &Path, stderr: &str) {
    let dlock = Dlock::on(database, ["exec", "-a", "init", "--metrics-file"]);
    let outcome = dlock.arg(path).args(["--", "true"]).run();
    outcome.expect(0, "", stderr);
    assert_eq!(outcome.stderr, stderr);
}

fn link(stage: &Stage, target: impl AsRef<Path>) -> std::path::PathBuf {
    let link = stage.path("link");
    symlink(target, &link).expect("the folder is writable");
    link
}

#[test]
fn metrics_are_written_to_devices_and_fifos_and_a_file_behind_a_link_keeps_its_owner_and_mode() {
    let database = shared(Flavour::of_this_test()).database("output");
    for device in ["/dev/null", "/dev/full"] {
        let stage = Stage::new();
        let link = link(&stage, device);
        let path = link.display();
        let message = match device {
            "/dev/null" => String::new(),
            _ => format!(
                "dlock: cannot write the metrics to {path}: No space left on device (os error 28)\n"
            ),
        };
        writes_metrics(&database, &link, &message);
        assert!(link.is_symlink(), "{device}");
        let file_type = fs::metadata(device).expect("the device exists").file_type();
        assert!(file_type.is_char_device(), "{device}");
    }

    // dlock does not wait for a reader.
    let stage = Stage::new();
    let fifo = stage.fifo("fifo");
    let path = fifo.display();
    let message = format!("dlock: cannot write the metrics to {path}: no process reads the FIFO\n");
    writes_metrics(&database, &fifo, &message);
    let mut options = OpenOptions::new();
    let mut reader = options.read(true).write(true).open(&fifo).expect("a FIFO");
    writes_metrics(&database, &fifo, "");
    let file_type = fs::metadata(&fifo).expect("the file exists").file_type();
    assert!(file_type.is_fifo());
    let mut text = vec![0; 1 << 16];
    let length = reader.read(&mut text).expect("the FIFO has content");
    let text = String::from_utf8_lossy(&text[..length]);
    assert!(text.contains("dlock_"), "{text}");

    let stage = Stage::new();
    let target = stage.path("target");
    File::create(&target).expect("the folder is writable");
    fs::set_permissions(&target, Permissions::from_mode(0o640)).expect("the mode is set");
    if rustix::process::geteuid().is_root() {
        chown(&target, Some(1234), Some(2345)).expect("root may set the owner");
    }
    let facts = || {
        let file = fs::metadata(&target).expect("the file exists");
        (file.mode(), file.uid(), file.gid())
    };
    let before = facts();
    let link = link(&stage, "target");
    writes_metrics(&database, &link, "");
    assert!(link.is_symlink());
    assert_eq!(facts(), before);
    let text = fs::read_to_string(&target).expect("the file is readable");
    assert!(text.contains("dlock_"), "{text}");
    let left = fs::read_dir(stage.path("")).expect("a folder");
    assert_eq!(left.count(), 2);
}

#[test]
fn copy_of_the_program_is_complete_and_replaces_no_device_and_no_link() {
    let copy_to = |path: &Path| Dlock::new(["copy-to"]).arg(path).run();
    let why = "/proc/self/exe to /nonexistent/dlock: No such file or directory (os error 2)\n";
    let missing = copy_to(Path::new("/nonexistent/dlock"));
    missing.expect(70, "", &format!("dlock: cannot copy {why}"));
    let stage = Stage::new();
    let null = link(&stage, "/dev/null");
    copy_to(&null).expect(0, "", "");
    assert!(null.is_symlink());
    copy_to(&stage.fifo("fifo")).expect(70, "", "no process reads the FIFO");
    // A folder cannot be replaced, and no unfinished copy is left.
    let folder = stage.path("folder");
    fs::create_dir(&folder).expect("the folder is writable");
    copy_to(&folder).expect(70, "", "cannot copy /proc/self/exe to ");
    let copy = stage.path("copy");
    copy_to(&copy).expect(0, "", "");
    let files = fs::read_dir(stage.path("")).expect("the folder exists");
    assert_eq!(files.count(), 4);
    let read = |path: &Path| fs::read(path).expect("the file can be read");
    assert!(read(&copy) == read(Path::new(env!("CARGO_BIN_EXE_dlock"))));
    let mode = fs::metadata(&copy).expect("the file exists").mode();
    assert_eq!(mode & 0o555, 0o555, "{mode:o}");

    let stage = Stage::new();
    let program = stage.write("program", 0o600, "old");
    let link = link(&stage, "program");
    copy_to(&link).expect(0, "", "");
    assert!(link.is_symlink());
    let version = format!("dlock {}\n", env!("CARGO_PKG_VERSION"));
    Dlock::of(&program, ["-V"]).expect(0, &version, "");
    let mode = fs::metadata(&program).expect("the file exists").mode();
    assert_eq!(mode & 0o666, 0o600, "{mode:o}");
}
