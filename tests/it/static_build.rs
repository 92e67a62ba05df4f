//! Tests of the static build of dlock, which runs in images without a C library.
//!
//! dlock may close only the descriptors that it has inherited. A static C library needs other descriptors to stay open, for example a descriptor for /dev/urandom.

mod empty_root;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::{Flavour, shared};
use testkit::target_tmp;

/// Returns the path of the newest static program in the target folder. `make static` builds it without optimisation. `make`
/// and `make bench-guard` build it as users get it.
#[track_caller]
pub(crate) fn program() -> PathBuf {
    let folder = target_tmp().with_file_name("static");
    let hosts = fs::read_dir(&folder).into_iter().flatten().flatten();
    let profiles = ["debug/dlock", "release/dlock"];
    let programs = hosts.flat_map(|host| profiles.map(|program| host.path().join(program)));
    let built_at = |program: &PathBuf| program.metadata().and_then(|it| it.modified()).ok();
    let program = programs.max_by_key(built_at).unwrap_or(folder);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    // `find` fails if the program is missing.
    let newer = run(Command::new("find").arg(source).arg("-newer").arg(&program));
    let is_current = newer.status.success() && newer.stdout.is_empty();
    let name = program.display();
    assert!(is_current, "{name} is missing or old: make static");
    let linked = run(Command::new("ldd").arg(&program).env("LC_ALL", "C"));
    let is_dynamic = String::from_utf8_lossy(&linked.stdout).contains("ld-");
    assert!(!is_dynamic, "{name} is not static");
    program
}

#[track_caller]
fn run(command: &mut Command) -> Output {
    command.output().expect("the program runs")
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
    Dlock::of(Path::new("bash"), ["-c", script, "bash"])
        .args([&appended, &report, &program])
        .args(["exec", "-q", "-a", "init", "--", "sh", "-c", command])
        .env("DLOCK_URL", database.url())
        .env("dlock", env!("CARGO_BIN_EXE_dlock"))
        .expect(4, "", "");
    let read = |path: &Path| fs::read_to_string(path).expect("the command wrote the file");
    assert_eq!(read(&report), "held=75\n/etc/passwd\n", "{flavour}");
    assert_eq!(read(&appended), "eight\n", "{flavour}");
    Dlock::typed(&database, "status --check init").expect(0, "", "");
}
