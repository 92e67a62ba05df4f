//! Tests of the Dockerfile and its entrypoint. Machines that run tests rarely have an engine that builds images, so the
//! test only checks the instructions of the Dockerfile and the files that the instructions name. The entrypoint runs as
//! process 1 of a PID namespace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use testkit::cli_runner::{Dlock, Outcome, Running};
use testkit::command::signal;
use testkit::repository;

use super::{CONTROLLED, Host, JOB, example, path};
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
    let unshare = container.pid();
    let children = fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children"));
    let first = children.expect("unshare runs");
    signal(first.trim().parse().expect("unshare has one child"), name);
}

#[test]
fn containers_migrate_once_and_the_application_becomes_process_1() {
    let host = &Host::of_this_test();
    host.job("migrate.sh", JOB);
    // A failed migration ends the container with its status, and the next container migrates.
    host.secret("fail", "");
    container(host, &["RELEASE=42"]).expect(3, "", "");
    assert!(host.log().is_empty());
    let containers = [0, 1].map(|_| container(host, &["RELEASE=42"]).start());
    let outcomes = containers.map(Running::wait);
    let ended = |outcome: &Outcome| outcome.status == Some(0);
    assert!(outcomes.iter().all(ended), "{outcomes:#?}");
    assert_eq!(host.log(), ["migrate.sh", "process 1", "process 1"]);
    // The next release migrates. A rollback does not migrate.
    for (release, log) in [
        ("RELEASE=43", &["migrate.sh", "process 1"][..]),
        ("RELEASE=42", &["process 1"]),
    ] {
        let before = host.log().len();
        let outcome = container(host, &[release]).run();
        assert!(ended(&outcome), "{outcome:#?}");
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
        let outcome = first.wait();
        assert_eq!(outcome.status, Some(status), "{outcome:#?}");
        assert!(host.is_free("init"));
    }
    assert_eq!(host.log(), ["stopped 4", "stopped 143"]);
}

#[test]
fn the_next_container_migrates_after_a_container_was_killed() {
    let host = &Host::of_this_test();
    host.job("migrate.sh", CONTROLLED);
    let first = container(host, &["RELEASE=42", "DLOCK_OPT_TTL=6s"]).start();
    host.is_ready();
    stop(&first, "KILL");
    first.wait();
    let second = container(host, &["RELEASE=42"]).start();
    host.is_ready();
    host.tell("go", "second");
    let outcome = second.wait();
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    assert_eq!(host.log(), ["migrate.sh second", "process 1"]);
}

#[test]
fn the_dockerfile_copies_existing_files_and_starts_a_copied_file() {
    // tests/it/static_build and packaging/check prove that the program in the image of dlock runs everywhere.
    let image = fs::read_to_string(repository().join("packaging/Containerfile"));
    let image = image.expect("the file exists");
    let text = example("docker/Dockerfile").replace("\\\n", " ");
    let mut copied = Vec::new();
    let mut started = None;
    let is_instruction = |line: &&str| !line.is_empty() && !line.starts_with('#');
    for line in text.lines().filter(is_instruction) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["FROM", image, ..] => {
                let tag = image.split_once(':').map(|(_, tag)| tag);
                assert!(tag.is_some_and(|tag| tag != "latest"), "{image}");
            }
            ["COPY", from, source, target] if from.starts_with("--from=") => {
                let stage = from.replace("--from=", "");
                let stage = format!("FROM dlock:{} AS {stage}\n", env!("CARGO_PKG_VERSION"));
                assert!(text.contains(&stage), "{line}");
                let program = format!("COPY dlock {source}");
                assert!(image.lines().any(|line| line == program), "{program}");
                copied.push(target);
            }
            ["COPY", ref sources @ .., target] => {
                for source in sources {
                    assert!(repository().join(source).exists(), "{line}");
                }
                copied.push(target);
            }
            ["RUN" | "WORKDIR" | "USER", _, ..] => {}
            ["ENTRYPOINT", ref words @ ..] => {
                // If the instruction used the shell form, a shell would be process 1.
                let words: Vec<String> =
                    serde_json::from_str(&words.join(" ")).expect("the exec form, a JSON array");
                started = words.into_iter().next();
            }
            _ => panic!("this test does not support the instruction {line}"),
        }
    }
    let started = format!("/usr/local/bin/{}", started.expect("an entrypoint"));
    for program in [&*started, "/usr/local/bin/dlock"] {
        assert!(copied.contains(&program), "{program}: {copied:?}");
    }
    let entrypoint = fs::metadata(path("docker/entrypoint.sh")).expect("the entrypoint exists");
    assert_eq!(entrypoint.permissions().mode() & 0o111, 0o111);
}
