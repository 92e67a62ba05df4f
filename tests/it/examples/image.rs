//! Tests of the Dockerfile and its entrypoint. Machines that run tests rarely have an engine that builds images, so the
//! test only checks the instructions of the Dockerfile and the files that the instructions name. The entrypoint runs as
//! process 1 of a PID namespace.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use testkit::cli_runner::{Dlock, Outcome, Running};
use testkit::command::{read_message, signal, write_message};

use super::{CONTROLLED, Host, JOB, example, path};
use crate::pid_one::{namespaces, unshare};

/// The command of the application in a container. The application writes its process id to the log.
const APPLICATION: [&str; 3] = ["sh", "-c", r#"echo "process $$" >> log"#];

/// Returns a container of the release `release` that runs the entrypoint and then [`APPLICATION`].
fn container(host: &Host, release: &str) -> Dlock {
    container_with(host, &[("RELEASE", release)])
}

fn container_with(host: &Host, variables: &[(&str, &str)]) -> Dlock {
    let url = host.database.url();
    let entrypoint = path("docker/entrypoint.sh").display().to_string();
    let words = [entrypoint]
        .into_iter()
        .chain(APPLICATION.map(str::to_owned));
    let variables = [variables, &[("DLOCK_URL", url.as_str())]].concat();
    let unshare = unshare(namespaces());
    Dlock::of(Path::new(unshare.get_program()), unshare.get_args())
        .arg("/usr/bin/env")
        .args(host.words(&variables, words))
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
    let containers = [0, 1].map(|_| container(host, "42").start());
    let outcomes = containers.map(Running::wait);
    let ended = |outcome: &Outcome| outcome.status == Some(0);
    assert!(outcomes.iter().all(ended), "{outcomes:#?}");
    let wanted = ["migrate.sh", "process 1", "process 1"];
    assert_eq!(host.log(), wanted);
    // The next release migrates. A rollback does not migrate.
    for (release, migrations) in [("43", 2), ("42", 2)] {
        let outcome = container(host, release).run();
        assert!(ended(&outcome), "{outcome:#?}");
        let log = host.log();
        assert_eq!(log.last().map(String::as_str), Some("process 1"));
        let count = log.iter().filter(|line| *line == "migrate.sh").count();
        assert_eq!(count, migrations, "{release}: {log:?}");
    }
}

#[test]
fn a_failed_migration_ends_the_container_with_its_status() {
    let host = &Host::of_this_test();
    host.job("migrate.sh", JOB);
    host.secret("fail", "");
    container(host, "42").run().expect(3, "", "");
    assert!(host.log().is_empty());
}

#[test]
fn stopping_a_container_stops_the_migration_and_frees_the_lock() {
    // After SIGTERM, one migration exits with 4 and the other migration exits with 0.
    for (on_term, status) in [("exit 4", 4), ("exit 0", 143)] {
        let host = &Host::of_this_test();
        let migrate = format!(
            "trap 'echo stopped >> log; {on_term}' TERM; echo up > ready; while :; do sleep 0.05; done"
        );
        host.job("migrate.sh", &migrate);
        let container = container(host, "42").start();
        read_message(&host.stage.path("ready"));
        stop(&container, "TERM");
        let outcome = container.wait();
        assert_eq!(outcome.status, Some(status), "{outcome:#?}");
        assert_eq!(host.log(), ["stopped"]);
        assert!(host.is_free("init"));
    }
}

#[test]
fn stopping_a_waiting_container_ends_its_wait() {
    let host = &Host::of_this_test();
    host.job("migrate.sh", CONTROLLED);
    let first = container(host, "42").start();
    read_message(&host.stage.path("ready"));
    let second = container(host, "42").start();
    second.wait_for_output("init is held by ");
    stop(&second, "TERM");
    assert_eq!(second.wait().status, Some(143));
    write_message(&host.stage.path("go"), "on");
    first.wait().expect(0, "", "");
    assert_eq!(host.log(), ["migrate.sh on", "process 1"]);
}

#[test]
fn the_next_container_migrates_after_a_container_was_killed() {
    let host = &Host::of_this_test();
    host.job("migrate.sh", CONTROLLED);
    let [ready, go] = ["ready", "go"].map(|name| host.stage.path(name));
    let variables = [("RELEASE", "42"), ("DLOCK_OPT_TTL", "2s")];
    let first = container_with(host, &variables).start();
    read_message(&ready);
    stop(&first, "KILL");
    first.wait();
    let second = container_with(host, &variables).start();
    read_message(&ready);
    write_message(&go, "second");
    let outcome = second.wait();
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    assert_eq!(host.log(), ["migrate.sh second", "process 1"]);
}

/// Returns the instructions of the Dockerfile, each with its arguments.
fn instructions() -> Vec<(String, Vec<String>)> {
    let text = example("docker/Dockerfile").replace("\\\n", " ");
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (name, words) = line.split_once(' ').expect("an instruction and its words");
            let words = words.split_whitespace().map(str::to_owned).collect();
            (name.to_owned(), words)
        })
        .collect()
}

#[test]
fn the_dockerfile_copies_existing_files_and_starts_a_copied_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let containerfile = fs::read_to_string(root.join("packaging/Containerfile"));
    let containerfile = containerfile.expect("the file exists");
    let mut images = HashMap::new();
    let mut copied = Vec::new();
    let mut started = None;
    for (name, words) in instructions() {
        match (name.as_str(), words.as_slice()) {
            ("FROM", [image, words @ ..]) => {
                let tag = image.split_once(':').map(|(_, tag)| tag);
                assert!(tag.is_some_and(|tag| tag != "latest"), "{image}");
                if let [_, stage] = words {
                    images.insert(stage.clone(), image.clone());
                }
            }
            ("COPY", [from, source, target]) if from.starts_with("--from=") => {
                // tests/it/static_build and packaging/check prove that the program in this image runs everywhere.
                let image = format!("dlock:{}", env!("CARGO_PKG_VERSION"));
                assert_eq!(images.get(&from.replace("--from=", "")), Some(&image));
                let program = format!("COPY dlock {source}");
                assert!(
                    containerfile.lines().any(|line| line == program),
                    "{program}"
                );
                copied.push(target.clone());
            }
            ("COPY", [sources @ .., target]) => {
                for source in sources {
                    assert!(root.join(source).exists(), "{source} does not exist");
                }
                copied.push(target.clone());
            }
            ("RUN" | "WORKDIR" | "USER", [_, ..]) => {}
            ("ENTRYPOINT", words) => {
                // If the instruction used the shell form, a shell would be process 1.
                let words: Vec<String> =
                    serde_json::from_str(&words.join(" ")).expect("the exec form, a JSON array");
                started = words.into_iter().next();
            }
            _ => panic!("this test does not support the instruction {name} {words:?}"),
        }
    }
    let started = format!("/usr/local/bin/{}", started.expect("an entrypoint"));
    assert!(copied.contains(&started), "{started}: {copied:?}");
    assert!(copied.iter().any(|it| it == "/usr/local/bin/dlock"));
    let entrypoint = fs::metadata(path("docker/entrypoint.sh")).expect("the entrypoint exists");
    assert_eq!(entrypoint.permissions().mode() & 0o111, 0o111);
}
