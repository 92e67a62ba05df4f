//! dlock as a static program, as for an image without a C library: one that closes only what it has inherited.
//!
//! A static C library keeps descriptors of its own, such as one on /dev/urandom.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::Stage;
use crate::dlock::Dlock;
use crate::servers::{Flavour, shared};
use crate::twins::up_to_date;

/// The static program, which `make static` builds below the folder of dlock's own.
#[track_caller]
fn program() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_dlock")).ancestors().nth(2);
    let folder = target
        .expect("it lies in a folder of the target folder")
        .join("static");
    let hosts = fs::read_dir(&folder).into_iter().flatten().flatten();
    let programs = hosts.map(|host| host.path().join("debug/dlock"));
    let program = programs.into_iter().find(|program| program.exists());
    let program = program.unwrap_or(folder);
    up_to_date(&program, "make static");
    assert!(
        !asks_for_a_loader(&program),
        "{} is not static",
        program.display()
    );
    program
}

/// Whether the ELF file `program` names a dynamic loader.
fn asks_for_a_loader(program: &Path) -> bool {
    const PT_INTERP: u64 = 3;
    let text = fs::read(program).expect("it can be read");
    let number = |at: usize, size: usize| {
        let bytes = text[at..at + size].iter().rev();
        bytes.fold(0, |number: u64, byte| number << 8 | u64::from(*byte))
    };
    let index = |number: u64| usize::try_from(number).expect("it fits");
    let (table, size, count) = (
        index(number(32, 8)),
        index(number(54, 2)),
        index(number(56, 2)),
    );
    assert!(count > 0, "no program");
    (0..count).any(|header| number(table + header * size, 4) == PT_INTERP)
}

#[test]
fn a_static_dlock_holds_a_lock_while_its_command_has_the_inherited_descriptors() {
    let program = program();
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("static");
        let stage = Stage::new();
        let (appended, said) = (stage.path("appended"), stage.path("said"));
        let script = r#"
            exec 3</etc/passwd 5</ 8>>"$1" 9>>"$2"; shift 2
            exec "$@"
        "#;
        // Not by way of the static program: what it does while it holds the lock is the question.
        let command = r#"
            "$dlock" status --check init; echo held=$? >&9
            readlink /proc/self/fd/3 >&9
            echo eight >&8
            exit 4
        "#;
        let outcome = Dlock::of(Path::new("bash"), ["-c", script, "bash"])
            .args([&appended, &said, &program])
            .args(["exec", "-a", "init", "--", "sh", "-c", command])
            .env("DLOCK_URL", database.url())
            .env("dlock", env!("CARGO_BIN_EXE_dlock"))
            .run();
        outcome.expect(4, "", "");
        let read = |path: &Path| fs::read_to_string(path).expect("it was written");
        assert_eq!(read(&said), "held=75\n/etc/passwd\n", "{flavour}");
        assert_eq!(read(&appended), "eight\n", "{flavour}");
        Dlock::on(&database, ["status", "--check", "init"])
            .run()
            .expect(0, "", "");
    }
}
