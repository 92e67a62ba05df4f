//! Tests of the static build of dlock, which runs in images without a C library.
//!
//! dlock may close only the descriptors that it has inherited. A static C library needs other descriptors to stay open, for example a descriptor for /dev/urandom.

mod empty_root;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::{Flavour, shared};

/// Returns the path of the static program. `make static` builds the program in the target folder.
#[track_caller]
pub(crate) fn program() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_dlock")).ancestors().nth(2);
    let folder = target
        .expect("dlock is in a subfolder of the target folder")
        .join("static");
    let hosts = fs::read_dir(&folder).into_iter().flatten().flatten();
    let programs = hosts.map(|host| host.path().join("debug/dlock"));
    let program = programs.into_iter().find(|program| program.exists());
    let program = program.unwrap_or(folder);
    up_to_date(&program, "make static");
    assert!(
        !has_dynamic_loader(&program),
        "{} is not static",
        program.display()
    );
    program
}

/// Fails if the program `path` is missing or older than the sources. The failure message contains `command`, which
/// builds the program.
#[track_caller]
fn up_to_date(path: &Path, command: &str) {
    let built = changed(path).unwrap_or(SystemTime::UNIX_EPOCH);
    let newest = newest(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(
        built >= newest,
        "{} is missing or older than the sources: {command}",
        path.display()
    );
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

/// Returns the modification time of the newest file below `folder`.
fn newest(folder: &Path) -> SystemTime {
    let entries = fs::read_dir(folder).expect("src can be read");
    let times = entries.map(|entry| {
        let path = entry.expect("src can be read").path();
        match path.is_dir() {
            true => newest(&path),
            false => changed(&path).expect("the source file exists"),
        }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Returns true if the ELF file `program` specifies a dynamic loader.
fn has_dynamic_loader(program: &Path) -> bool {
    const PT_INTERP: u64 = 3;
    let text = fs::read(program).expect("the program can be read");
    let number = |at: usize, size: usize| {
        let bytes = text[at..at + size].iter().rev();
        bytes.fold(0, |number: u64, byte| number << 8 | u64::from(*byte))
    };
    let index = |number: u64| usize::try_from(number).expect("the number fits");
    let (table, size, count) = (
        index(number(32, 8)),
        index(number(54, 2)),
        index(number(56, 2)),
    );
    assert!(count > 0, "the file has no program headers");
    (0..count).any(|header| number(table + header * size, 4) == PT_INTERP)
}

#[test]
fn static_dlock_keeps_the_lock_and_the_inherited_descriptors() {
    let program = program();
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("static");
    let stage = Stage::new();
    let (appended, report) = (stage.path("appended"), stage.path("report"));
    let script = r#"
        exec 3</etc/passwd 5</ 8>>"$1" 9>>"$2"; shift 2
        exec "$@"
    "#;
    // The command runs `status` with the dynamic program, because the test covers the static program only as the
    // holder.
    let command = r#"
        "$dlock" status --check init; echo held=$? >&9
        readlink /proc/self/fd/3 >&9
        echo eight >&8
        exit 4
    "#;
    let outcome = Dlock::of(Path::new("bash"), ["-c", script, "bash"])
        .args([&appended, &report, &program])
        .args(["exec", "-a", "init", "--", "sh", "-c", command])
        .env("DLOCK_URL", database.url())
        .env("dlock", env!("CARGO_BIN_EXE_dlock"))
        .run();
    outcome.expect(4, "", "");
    let read = |path: &Path| fs::read_to_string(path).expect("the command wrote the file");
    assert_eq!(read(&report), "held=75\n/etc/passwd\n", "{flavour}");
    assert_eq!(read(&appended), "eight\n", "{flavour}");
    Dlock::on(&database, ["status", "--check", "init"])
        .run()
        .expect(0, "", "");
}
