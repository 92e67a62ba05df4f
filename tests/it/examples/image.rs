//! Tests of the Dockerfile and its entrypoint. Machines that run tests rarely have an engine that builds images, so the
//! test only checks the instructions of the Dockerfile and the files that the instructions name. The entrypoint runs as
//! process 1 of a PID namespace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use testkit::cli_runner::{Dlock, Running};
use testkit::command::{only_child, signal};
use testkit::repository;

use super::{Host, JOB, example, path};
use crate::pid_one::{namespaces, unshare};

/// The command of the application in a container. The application writes its process id to the log.
const APPLICATION: [&str; 3] = ["sh", "-c", r#"echo "process $$" >> log"#];

/// Returns a container with `variables` that runs the entrypoint and then [`APPLICATION`].
fn container(host: &Host, variables: &[&str]) -> Dlock {
    let (url, entrypoint) = (
        host.url(),
        path("docker/entrypoint.sh").display().to_string(),
    );
    let words = [variables, &[&url, &entrypoint], &APPLICATION].concat();
    let unshare = unshare(namespaces());
    Dlock::of(Path::new(unshare.get_program()), unshare.get_args())
        .arg("/usr/bin/env")
        .args(host.words(words))
}

/// Sends the signal `name` to process 1 of the container.
fn stop(container: &Running, name: &str) {
    signal(only_child(container.pid()), name);
}

#[test]
fn containers_migrate_once_and_the_application_becomes_process_1() {
    let host = &Host::with_job("migrate.sh", JOB);
    // A failed migration ends the container with its status, and the next container migrates.
    host.secret("fail", "");
    container(host, &["RELEASE=42"]).expect(3, "", "");
    assert!(host.log().is_empty());
    Host::twice(|| container(host, &["RELEASE=42"]));
    assert_eq!(host.log(), ["migrate.sh", "process 1", "process 1"]);
    // The next release migrates. A rollback does not migrate.
    for (release, log) in [
        ("RELEASE=43", &["migrate.sh", "process 1"][..]),
        ("RELEASE=42", &["process 1"]),
    ] {
        let before = host.log().len();
        container(host, &[release]).run().exited(0);
        assert_eq!(host.log()[before..], *log, "{release}");
    }
}

#[test]
fn stopping_a_container_ends_its_wait_or_its_migration_and_frees_the_lock() {
    let host = &Host::of_this_test();
    // After SIGTERM, one migration exits with 4 and the other migration exits with 0.
    for (on_term, status) in [("exit 4", 4), ("exit 0", 143)] {
        let migrate = format!(
            "trap 'echo stopped {status} >> log; {on_term}' TERM; echo up > ready; while :; do sleep 0.05; done"
        );
        host.job("migrate.sh", &migrate);
        let first = container(host, &["RELEASE=42"]).start();
        host.is_ready();
        let second = container(host, &["RELEASE=42"]).start();
        second.wait_for_output("init is held by ");
        stop(&second, "TERM");
        assert_eq!(second.wait().status, Some(143));
        stop(&first, "TERM");
        first.wait().exited(status);
        assert!(host.is_free("init"));
    }
    assert_eq!(host.log(), ["stopped 4", "stopped 143"]);
}

#[test]
fn the_dockerfile_copies_existing_files_and_starts_a_copied_file() {
    // tests/it/static_build and packaging/check prove that the program in the image of dlock runs everywhere.
    let image = fs::read_to_string(repository().join("packaging/Containerfile"));
    let image = image.expect("the file exists");
    assert!(image.contains("\nCOPY dlock /dlock\n"), "{image}");
    let text = example("docker/Dockerfile");
    let dlock = concat!("FROM dlock:", env!("CARGO_PKG_VERSION"), " AS dlock");
    for line in [
        dlock,
        "COPY --from=dlock /dlock /usr/local/bin/dlock",
        "COPY examples/docker/entrypoint.sh /usr/local/bin/entrypoint.sh",
        // In the other form of this instruction, a shell would be process 1.
        r#"ENTRYPOINT ["entrypoint.sh"]"#,
    ] {
        assert!(text.lines().any(|it| it == line), "{line}");
    }
    let mut images = text.lines().filter(|line| line.starts_with("FROM "));
    assert!(images.all(|line| line.contains(':') && !line.contains(":latest")));
    let entrypoint = fs::metadata(path("docker/entrypoint.sh")).expect("the entrypoint exists");
    assert_eq!(entrypoint.permissions().mode() & 0o111, 0o111);
}
