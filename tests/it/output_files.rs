//! Tests of the files that dlock writes: the metrics file and the copy of the program. dlock follows symbolic links, writes
//! to devices and FIFOs without waiting, and replaces only regular files, which keep their owner and mode.
//!
//! All paths of devices in these tests are links, so that a defect replaces a link and not a device of the machine.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use testkit::cli_runner::{Dlock, Outcome};
use testkit::command::Stage;
use testkit::servers::{Database, Flavour, shared};

/// Runs a command with the metrics file `path`.
fn exec(database: &Database, path: &Path) -> Outcome {
    Dlock::on(database, ["exec", "-a", "init", "--metrics-file"])
        .arg(path)
        .args(["--", "true"])
        .run()
}

/// Creates a link to `target` and returns its path.
fn link(stage: &Stage, target: impl AsRef<Path>) -> std::path::PathBuf {
    let link = stage.path("link");
    symlink(target, &link).expect("the folder is writable");
    link
}

#[test]
fn metrics_are_written_to_a_device_which_is_not_replaced() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("output");
    for (device, message) in [
        ("/dev/null", ""),
        ("/dev/full", "No space left on device (os error 28)"),
    ] {
        let stage = Stage::new();
        let link = link(&stage, device);
        let outcome = exec(&database, &link);
        assert_eq!(outcome.status, Some(0), "{flavour}: {outcome:#?}");
        let message = match message {
            "" => String::new(),
            why => format!(
                "dlock: cannot write the metrics to {}: {why}\n",
                link.display()
            ),
        };
        assert_eq!(outcome.stderr, message, "{flavour}");
        assert!(link.is_symlink(), "{flavour}: {device}");
        let device = fs::metadata(device).expect("the device exists");
        assert!(device.file_type().is_char_device(), "{flavour}");
    }
}

#[test]
fn metrics_are_written_to_a_fifo_without_waiting_for_a_reader() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("output");
    let stage = Stage::new();
    let fifo = stage.fifo("fifo");
    let outcome = exec(&database, &fifo);
    assert_eq!(outcome.status, Some(0), "{flavour}: {outcome:#?}");
    let path = fifo.display();
    let message = format!("dlock: cannot write the metrics to {path}: no process reads the FIFO\n");
    assert_eq!(outcome.stderr, message, "{flavour}");

    let mut options = OpenOptions::new();
    let mut reader = options.read(true).write(true).open(&fifo).expect("a FIFO");
    let outcome = exec(&database, &fifo);
    assert_eq!(outcome.status, Some(0), "{flavour}: {outcome:#?}");
    assert_eq!(outcome.stderr, "", "{flavour}");
    let file_type = fs::metadata(&fifo).expect("the file exists").file_type();
    assert!(file_type.is_fifo(), "{flavour}");
    let mut text = vec![0; 1 << 16];
    let length = reader.read(&mut text).expect("the FIFO has content");
    let text = String::from_utf8_lossy(&text[..length]);
    assert!(text.contains("dlock_"), "{flavour}: {text}");
}

#[test]
fn metrics_file_behind_a_link_keeps_its_owner_and_mode() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("output");
    let stage = Stage::new();
    let target = stage.path("target");
    File::create(&target).expect("the folder is writable");
    fs::set_permissions(&target, Permissions::from_mode(0o640)).expect("the mode is set");
    if rustix::process::geteuid().is_root() {
        chown(&target, Some(1234), Some(2345)).expect("root may set the owner");
    }
    let before = fs::metadata(&target).expect("the file exists");
    let link = link(&stage, "target");
    let outcome = exec(&database, &link);
    assert_eq!(outcome.status, Some(0), "{flavour}: {outcome:#?}");
    assert_eq!(outcome.stderr, "", "{flavour}");
    assert!(link.is_symlink(), "{flavour}");
    let after = fs::metadata(&target).expect("the file exists");
    let facts = |file: &fs::Metadata| (file.mode(), file.uid(), file.gid());
    assert_eq!(facts(&after), facts(&before), "{flavour}");
    let text = fs::read_to_string(&target).expect("the file is readable");
    assert!(text.contains("dlock_"), "{flavour}: {text}");
    let left = fs::read_dir(target.parent().expect("a folder")).expect("a folder");
    assert_eq!(left.count(), 2, "{flavour}");
}

#[test]
fn copy_of_the_program_replaces_no_device_and_no_link() {
    let copy_to = |path: &Path| Dlock::new(["copy-to"]).arg(path).run();
    let stage = Stage::new();
    let null = link(&stage, "/dev/null");
    copy_to(&null).expect(0, "", "");
    assert!(null.is_symlink());
    let fifo = stage.fifo("fifo");
    copy_to(&fifo).expect(70, "", "no process reads the FIFO");

    let stage = Stage::new();
    let program = stage.path("program");
    fs::write(&program, "old").expect("the folder is writable");
    fs::set_permissions(&program, Permissions::from_mode(0o600)).expect("the mode is set");
    let link = link(&stage, "program");
    copy_to(&link).expect(0, "", "");
    assert!(link.is_symlink());
    let version = format!("dlock {}\n", env!("CARGO_PKG_VERSION"));
    Dlock::of(&program, ["-V"]).run().expect(0, &version, "");
    let mode = fs::metadata(&program).expect("the file exists").mode();
    assert_eq!(mode & 0o666, 0o600, "{mode:o}");
}
