//! Starts the containers of the YAML files as the kubelet would start them: with the command and the arguments from the
//! YAML file, without a shell, and with the keys of the Secret as files.

use serde::Deserialize;
use serde_json::Value;
use testkit::cli_runner::{Outcome, Running};

use super::{CONTROLLED, Host, JOB, example};

/// Returns the document of `kind` in the file `name`.
#[track_caller]
pub(super) fn document(name: &str, kind: &str) -> Value {
    let text = example(&format!("kubernetes/{name}"));
    let documents = yaml_serde::Deserializer::from_str(&text);
    let read = |document| Value::deserialize(document).expect("the file is YAML");
    let found = documents.map(read).find(|it: &Value| it["kind"] == kind);
    found.unwrap_or_else(|| panic!("{name} has no {kind}"))
}

#[track_caller]
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

#[track_caller]
pub(super) fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

/// The container of a pod that runs dlock.
struct Container {
    pod: Value,
    spec: Value,
}

impl Container {
    fn init() -> Self {
        Self::of("deployment.yaml", "Deployment", "initContainers")
    }

    fn report() -> Self {
        Self::of("cronjob.yaml", "CronJob", "containers")
    }

    #[track_caller]
    fn of(file: &str, kind: &str, list_name: &str) -> Self {
        let mut spec = &document(file, kind)["spec"];
        if kind == "CronJob" {
            spec = &spec["jobTemplate"]["spec"];
        }
        let pod = spec["template"]["spec"].clone();
        let [container] = list(&pod[list_name]) else {
            panic!("expected one container: {pod}");
        };
        Self {
            spec: container.clone(),
            pod,
        }
    }

    /// Returns the command and the arguments of the container. Each argument that names a mounted key of the Secret is
    /// replaced by the path of a file on `host` that contains `url`.
    fn words(&self, host: &Host, url: &str) -> Vec<String> {
        let [mount] = list(&self.spec["volumeMounts"]) else {
            panic!("expected one mount: {}", self.spec);
        };
        let [volume] = list(&self.pod["volumes"]) else {
            panic!("expected one volume: {}", self.pod);
        };
        let secret = document("deployment.yaml", "Secret");
        assert_eq!(volume["name"], mount["name"]);
        assert_eq!(volume["secret"]["secretName"], secret["metadata"]["name"]);
        let keys = secret["stringData"].as_object().expect("keys");
        let parts = ["command", "args"].iter();
        let words = parts
            .filter_map(|part| self.spec[part].as_array())
            .flatten();
        let mut words: Vec<String> = words.map(|word| text(word).to_owned()).collect();
        for (key, value) in keys {
            assert!(text(value).starts_with("mysql://"), "{key}");
            let mounted = format!("{}/{key}", text(&mount["mountPath"]));
            let word = words.iter_mut().find(|word| **word == mounted);
            *word.unwrap_or_else(|| panic!("no argument is {mounted}")) = host.secret(key, url);
        }
        words
    }
}

fn with(words: &[String], old: &str, new: &str) -> Vec<String> {
    words.iter().map(|word| word.replace(old, new)).collect()
}

#[test]
fn pods_of_one_image_migrate_once_and_a_failed_migration_is_retried() {
    let host = &Host::with_job("migrate.sh", JOB);
    let init = Container::init();
    let new = init.words(host, &host.database.url());
    host.secret("fail", "");
    host.starts(new.clone()).expect(3, "", "");
    let replicas = document("deployment.yaml", "Deployment")["spec"]["replicas"].as_u64();
    let pods = 0..replicas.expect("a number");
    let pods: Vec<Running> = pods.map(|_| host.starts(new.clone()).start()).collect();
    assert!(pods.len() > 1);
    let pods: Vec<Outcome> = pods.into_iter().map(Running::wait).collect();
    assert!(pods.iter().all(|pod| pod.status == Some(0)), "{pods:#?}");
    assert_eq!(host.log(), ["migrate.sh"]);
    // After a rollback to an image that has migrated before, nothing migrates.
    let old = with(&new, "--once=42", "--once=41");
    for (words, runs, message) in [
        (&new, 1, "was done by"),
        (&old, 2, ""),
        (&new, 2, "was done by"),
        (&old, 2, "was done by"),
    ] {
        host.starts(words.clone()).expect(0, "", message);
        assert_eq!(host.log().len(), runs, "{words:?}");
    }
    let forget = host.dlock(&["forget", "-q", "--action", "init", "--once=42"]);
    forget.expect(0, "", "");
    host.starts(new).expect(0, "", "");
    assert_eq!(host.log().len(), 3);
    // Without the database, the init container fails and migrates nothing. No process listens on port 1.
    let mut words = vec!["DLOCK_OPT_CONNECT_TIMEOUT=0".to_owned()];
    words.extend(init.words(host, &host.database.url_through(1)));
    host.starts(words).expect(69, "", "dlock: ");
    assert_eq!(host.log().len(), 3);
}

#[test]
fn one_pod_of_the_singleton_runs_and_the_next_one_takes_over() {
    let host = &Host::with_job("server", CONTROLLED);
    let singleton = Container::of("singleton.yaml", "Deployment", "containers");
    let words = singleton.words(host, &host.database.url());
    // The kubelet replaces the variables of the container.
    let pod = |address: &str| host.starts(with(&words, "$(POD_IP)", address)).start();
    let first = pod("10.0.0.1");
    host.is_ready();
    let leader = |address: &str| host.dlock(&["leader", "app"]).expect(0, address, "");
    leader("10.0.0.1:8080\n");
    let second = pod("10.0.0.2");
    second.wait_for_output("you are next");
    first.signal("TERM");
    assert_eq!(first.wait().status, Some(143));
    host.is_ready();
    leader("10.0.0.2:8080\n");
    host.tell("go", "second");
    assert_eq!(second.wait().status, Some(0));
    assert_eq!(host.log(), ["server second"]);
}

#[test]
fn a_cron_job_in_two_clusters_runs_once() {
    let host = &Host::with_job("report.sh", JOB);
    let words = Container::report().words(host, &host.database.url());
    Host::twice(|| host.starts(words.clone()));
    assert_eq!(host.log(), ["report.sh"]);
}

#[test]
fn the_pods_have_the_settings_that_dlock_needs() {
    for Container { pod, spec } in [Container::init(), Container::report()] {
        // With service links, a Service named dlock would set environment variables that dlock reads.
        assert_eq!(pod["enableServiceLinks"], false);
        // The default grace period of 30 s may be too short for the command to stop and for dlock to release the lock.
        // The release takes up to 5 s.
        assert_eq!(pod["terminationGracePeriodSeconds"], 60);
        let image = text(&spec["image"]);
        for other in list(&pod["containers"]) {
            assert_eq!(text(&other["image"]), image);
        }
    }
    let init = Container::init();
    let image = text(&init.spec["image"]);
    let (_, tag) = image.rsplit_once(':').expect("a tag");
    let key = Value::from(format!("--once={tag}"));
    let command = list(&init.spec["command"]);
    assert!(command.contains(&key), "{image}: {command:?}");

    let deployment = &document("deployment.yaml", "Deployment")["spec"];
    let labels = &deployment["template"]["metadata"]["labels"];
    assert_eq!(deployment["selector"]["matchLabels"], *labels);
    let job = document("cronjob.yaml", "CronJob");
    let schedule = text(&job["spec"]["schedule"]);
    assert_eq!(schedule.split_whitespace().count(), 5, "{schedule}");
    assert_eq!(Container::report().pod["restartPolicy"], "Never");
}
