//! The Dockerfile, of which instructions and names are checked, since an engine to build it is rarely where tests run;
//! and its entrypoint, as process 1 of a namespace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{Host, JOB, PATIENT, example, path};
use crate::command::{heard, signal, tell};
use crate::dlock::{Dlock, Outcome, Running};
use crate::pid_one::{namespaces, unshare};

/// What a container's application does here: it says which process it is.
const APPLICATION: [&str; 3] = ["sh", "-c", r#"echo "process $$" >> log"#];

/// A container of `release` that runs the entrypoint and then [`APPLICATION`].
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

/// Sends `name` to process 1 of the container.
fn stop(container: &Running, name: &str) {
    let unshare = container.pid();
    let children = fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children"));
    let first = children.expect("unshare runs");
    signal(first.trim().parse().expect("it has one child"), name);
}

#[test]
fn containers_of_a_release_migrate_once_and_the_application_becomes_process_1() {
    Host::everywhere(|host| {
        host.job("migrate.sh", JOB);
        let containers = [0, 1].map(|_| container(host, "42").start());
        let outcomes = containers.map(Running::wait);
        let ended = |outcome: &Outcome| outcome.status == Some(0);
        assert!(outcomes.iter().all(ended), "{outcomes:#?}");
        let wanted = ["migrate.sh", "process 1", "process 1"];
        assert_eq!(host.log(), wanted);
        // The next release, and back.
        for (release, migrations) in [("43", 2), ("42", 2)] {
            let outcome = container(host, release).run();
            assert!(ended(&outcome), "{outcome:#?}");
            let log = host.log();
            assert_eq!(log.last().map(String::as_str), Some("process 1"));
            let count = log.iter().filter(|line| *line == "migrate.sh").count();
            assert_eq!(count, migrations, "{release}: {log:?}");
        }
    });
}

#[test]
fn a_container_whose_migration_fails_ends_with_its_status_and_starts_nothing() {
    Host::everywhere(|host| {
        host.job("migrate.sh", JOB);
        host.secret("fail", "");
        container(host, "42").run().expect(3, "", "");
        assert!(host.log().is_empty());
    });
}

#[test]
fn a_container_that_is_stopped_ends_its_migration_frees_the_lock_and_starts_nothing() {
    // One that ends with a status of its own, and one that gets done what is left and calls it a success.
    for (on_term, status) in [("exit 4", 4), ("exit 0", 143)] {
        Host::everywhere(|host| {
            let migrate = format!(
                "trap 'echo stopped >> log; {on_term}' TERM; echo up > ready; while :; do sleep 0.05; done"
            );
            host.job("migrate.sh", &migrate);
            let container = container(host, "42").start();
            heard(&host.stage.path("ready"));
            stop(&container, "TERM");
            let outcome = container.wait();
            assert_eq!(outcome.status, Some(status), "{outcome:#?}");
            assert_eq!(host.log(), ["stopped"]);
            assert!(host.is_free("init"));
        });
    }
}

#[test]
fn a_container_that_is_stopped_while_it_waits_leaves_the_line() {
    Host::everywhere(|host| {
        host.job("migrate.sh", PATIENT);
        let first = container(host, "42").start();
        heard(&host.stage.path("ready"));
        let second = container(host, "42").start();
        second.heard("init is held by ");
        stop(&second, "TERM");
        assert_eq!(second.wait().status, Some(143));
        tell(&host.stage.path("go"), "on");
        first.wait().expect(0, "", "");
        assert_eq!(host.log(), ["migrate.sh on", "process 1"]);
    });
}

#[test]
fn a_container_that_is_killed_leaves_the_migration_to_the_next() {
    Host::everywhere(|host| {
        host.job("migrate.sh", PATIENT);
        let [ready, go] = ["ready", "go"].map(|name| host.stage.path(name));
        let variables = [("RELEASE", "42"), ("DLOCK_OPT_TTL", "2s")];
        let first = container_with(host, &variables).start();
        heard(&ready);
        stop(&first, "KILL");
        first.wait();
        let second = container_with(host, &variables).start();
        heard(&ready);
        tell(&go, "second");
        let outcome = second.wait();
        assert_eq!(outcome.status, Some(0), "{outcome:#?}");
        assert_eq!(host.log(), ["migrate.sh second", "process 1"]);
    });
}

/// The instructions of the Dockerfile, each with its words.
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
fn the_dockerfile_copies_what_there_is_and_starts_what_it_has_copied() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut stages = Vec::new();
    let mut built = false;
    let mut copied = Vec::new();
    let mut started = None;
    for (name, words) in instructions() {
        match (name.as_str(), words.as_slice()) {
            ("FROM", [image, ..]) => {
                let tag = image.split_once(':').map(|(_, tag)| tag);
                assert!(tag.is_some_and(|tag| tag != "latest"), "{image}");
                stages.extend(words.get(2).cloned());
                let version = format!("rust:{}-slim-bookworm", env!("CARGO_PKG_RUST_VERSION"));
                assert!(!image.starts_with("rust:") || *image == version, "{image}");
            }
            ("COPY", [from, source, target]) if from.starts_with("--from=") => {
                let stage = from.replace("--from=", "");
                assert!(stages.contains(&stage), "there is no stage {stage}");
                assert!(built, "nothing was built");
                assert_eq!(source, "/build/target/release/dlock");
                copied.push(target.clone());
            }
            ("COPY", [sources @ .., target]) => {
                for source in sources {
                    assert!(root.join(source).exists(), "there is no {source}");
                }
                copied.push(target.clone());
            }
            ("RUN", [cargo, words @ ..]) if cargo == "cargo" => {
                assert_eq!(words.join(" "), "build --release --locked --bin dlock");
                for needed in ["./", "src"] {
                    assert!(copied.iter().any(|it| it == needed), "no {needed} yet");
                }
                built = true;
            }
            ("RUN" | "WORKDIR" | "USER", [_, ..]) => {}
            ("ENTRYPOINT", words) => {
                // In the other form a shell would be process 1.
                let words: Vec<String> =
                    serde_json::from_str(&words.join(" ")).expect("the form with brackets");
                started = words.into_iter().next();
            }
            _ => panic!("{name} {words:?} is not known here"),
        }
    }
    let started = format!("/usr/local/bin/{}", started.expect("an entrypoint"));
    assert!(copied.contains(&started), "{started}: {copied:?}");
    assert!(copied.iter().any(|it| it == "/usr/local/bin/dlock"));
    let entrypoint = fs::metadata(path("docker/entrypoint.sh")).expect("it is there");
    assert_eq!(entrypoint.permissions().mode() & 0o111, 0o111);
}
