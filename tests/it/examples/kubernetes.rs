//! Starts the containers of the YAML files as the kubelet would start them: with the command and the arguments from the
//! YAML file, without a shell, and with the keys of the Secret as files.

use serde::Deserialize;
use serde_json::Value;
use testkit::cli_runner::{Dlock, Outcome, Running};
use testkit::command::{read_message, write_message};

use super::{CONTROLLED, Host, JOB, example};

/// Returns all documents of the file `name`.
#[track_caller]
fn documents(name: &str) -> Vec<Value> {
    let text = example(&format!("kubernetes/{name}"));
    let read = |document| {
        Value::deserialize(document).unwrap_or_else(|error| panic!("{name} is not YAML: {error}"))
    };
    yaml_serde::Deserializer::from_str(&text)
        .map(read)
        .collect()
}

/// Returns the document of `kind` in the file `name`.
#[track_caller]
pub(super) fn document(name: &str, kind: &str) -> Value {
    let found = documents(name).into_iter().find(|it| it["kind"] == kind);
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

/// A container of a pod, and the Secret that the container mounts.
struct Container {
    pod: Value,
    spec: Value,
    secret: Value,
}

impl Container {
    fn init() -> Self {
        let deployment = document("deployment.yaml", "Deployment");
        let pod = deployment["spec"]["template"]["spec"].clone();
        Self::of(pod, "initContainers")
    }

    fn report() -> Self {
        let job = document("cronjob.yaml", "CronJob");
        let pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"].clone();
        Self::of(pod, "containers")
    }

    fn singleton() -> Self {
        let deployment = document("singleton.yaml", "Deployment");
        let pod = deployment["spec"]["template"]["spec"].clone();
        Self::of(pod, "containers")
    }

    #[track_caller]
    fn of(pod: Value, list_name: &str) -> Self {
        let [container] = list(&pod[list_name]) else {
            panic!("expected one container: {pod}");
        };
        Self {
            spec: container.clone(),
            secret: document("deployment.yaml", "Secret"),
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
        assert_eq!(volume["name"], mount["name"]);
        assert_eq!(
            volume["secret"]["secretName"],
            self.secret["metadata"]["name"]
        );
        let keys = self.secret["stringData"].as_object().expect("keys");
        let mut words: Vec<String> = ["command", "args"]
            .iter()
            .filter_map(|part| self.spec[part].as_array())
            .flatten()
            .map(|word| text(word).to_owned())
            .collect();
        for (key, value) in keys {
            assert!(text(value).starts_with("mysql://"), "{key}");
            let mounted = format!("{}/{key}", text(&mount["mountPath"]));
            let word = words.iter_mut().find(|word| **word == mounted);
            *word.unwrap_or_else(|| panic!("no argument is {mounted}")) = host.secret(key, url);
        }
        words
    }

    /// Returns a run of the container on `host`.
    fn starts(&self, host: &Host, variables: &[(&str, &str)]) -> Dlock {
        host.starts(variables, self.words(host, &host.database.url()))
    }

    /// Returns a copy of the container for the image tag `tag`.
    fn of_image(&self, tag: &str) -> Self {
        let image = text(&self.spec["image"]);
        let (_, own) = image.rsplit_once(':').expect("a tag");
        let words = list(&self.spec["command"]).iter();
        let words = words.map(|word| text(word).replace(&format!("={own}"), &format!("={tag}")));
        let mut other = self.spec.clone();
        other["command"] = words.collect();
        Self {
            spec: other,
            pod: self.pod.clone(),
            secret: self.secret.clone(),
        }
    }
}

#[test]
fn pods_of_one_image_initialise_once_and_all_start() {
    let host = &Host::of_this_test();
    host.job("migrate.sh", JOB);
    let replicas = document("deployment.yaml", "Deployment")["spec"]["replicas"].as_u64();
    let pods: Vec<Running> = (0..replicas.expect("a number"))
        .map(|_| Container::init().starts(host, &[]).start())
        .collect();
    assert!(pods.len() > 1);
    let pods: Vec<Outcome> = pods.into_iter().map(Running::wait).collect();
    assert!(pods.iter().all(|pod| pod.status == Some(0)), "{pods:#?}");
    assert_eq!(host.log(), ["migrate.sh"]);
}

#[test]
fn a_failed_migration_is_retried_and_a_successful_one_is_not() {
    let host = &Host::of_this_test();
    host.job("migrate.sh", JOB);
    host.secret("fail", "");
    let init = Container::init();
    init.starts(host, &[]).run().expect(3, "", "");
    init.starts(host, &[]).run().expect(0, "", "");
    init.starts(host, &[]).run().expect(0, "", "was done by");
    assert_eq!(host.log(), ["migrate.sh"]);
}

#[test]
fn the_next_pod_migrates_after_a_pod_died_while_migrating() {
    let host = &Host::of_this_test();
    host.job("migrate.sh", CONTROLLED);
    let init = Container::init();
    let variables = [("DLOCK_OPT_TTL", "2s")];
    let first = init.starts(host, &variables).start();
    read_message(&host.stage.path("ready"));
    let next = init.starts(host, &variables).start();
    next.wait_for_output("init is held by");
    first.signal("KILL");
    first.wait();
    read_message(&host.stage.path("ready"));
    write_message(&host.stage.path("go"), "second");
    next.wait().expect(0, "", "init is held by");
    assert_eq!(host.log(), ["migrate.sh second"]);
}

#[test]
fn a_rollback_to_an_older_image_migrates_nothing() {
    let host = &Host::of_this_test();
    host.job("migrate.sh", JOB);
    let new = Container::init();
    let old = new.of_image("41");
    for (container, runs) in [(&old, 1), (&new, 2), (&old, 2), (&new, 2)] {
        let outcome = container.starts(host, &[]).run();
        assert_eq!(
            (outcome.status, host.log().len()),
            (Some(0), runs),
            "{outcome:#?}"
        );
    }
    let forget = ["forget", "-q", "--action", "init", "--once=42"];
    Dlock::on(&host.database, forget).run().expect(0, "", "");
    new.starts(host, &[]).run().expect(0, "", "");
    assert_eq!(host.log().len(), 3);
}

#[test]
fn without_the_database_the_init_container_fails_with_69_and_migrates_nothing() {
    let host = &Host::of_this_test();
    host.job("migrate.sh", JOB);
    // No process listens on port 1.
    let words = Container::init().words(host, &host.database.url_through(1));
    let outcome = host
        .starts(&[("DLOCK_OPT_CONNECT_TIMEOUT", "0")], words)
        .run();
    outcome.expect(69, "", "dlock: ");
    assert!(host.log().is_empty());
}

#[test]
fn one_pod_of_the_singleton_runs_and_the_next_one_takes_over() {
    let host = &Host::of_this_test();
    host.job("server", CONTROLLED);
    let [ready, go] = ["ready", "go"].map(|name| host.stage.path(name));
    let singleton = Container::singleton();
    // The kubelet replaces the variables of the container.
    let pod = |address: &str| {
        let words = singleton.words(host, &host.database.url());
        let words = words.into_iter();
        let words = words.map(|word| word.replace("$(POD_IP)", address));
        host.starts(&[], words).start()
    };
    let leader = || Dlock::on(&host.database, ["leader", "app"]).run();
    let first = pod("10.0.0.1");
    read_message(&ready);
    leader().expect(0, "10.0.0.1:8080\n", "");
    let second = pod("10.0.0.2");
    second.wait_for_output("you are next");
    first.signal("TERM");
    assert_eq!(first.wait().status, Some(143));
    read_message(&ready);
    leader().expect(0, "10.0.0.2:8080\n", "");
    write_message(&go, "second");
    assert_eq!(second.wait().status, Some(0));
    assert_eq!(host.log(), ["server second"]);
}

#[test]
fn a_cron_job_in_two_clusters_runs_once() {
    let host = &Host::of_this_test();
    host.job("report.sh", JOB);
    let report = Container::report();
    let clusters = [0, 1].map(|_| report.starts(host, &[]).start());
    for cluster in clusters {
        let outcome = cluster.wait();
        assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    }
    assert_eq!(host.log(), ["report.sh"]);
}

#[test]
fn the_pods_have_the_settings_that_dlock_needs() {
    for Container { pod, spec, .. } in [Container::init(), Container::report()] {
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
    assert!(
        list(&init.spec["command"]).contains(&key),
        "{image}: the key of --once is not the image tag"
    );

    let deployment = document("deployment.yaml", "Deployment");
    assert_eq!(
        deployment["spec"]["selector"]["matchLabels"],
        deployment["spec"]["template"]["metadata"]["labels"]
    );
    let job = document("cronjob.yaml", "CronJob");
    let schedule = text(&job["spec"]["schedule"]);
    assert_eq!(schedule.split_whitespace().count(), 5, "{schedule}");
    assert_eq!(Container::report().pod["restartPolicy"], "Never");

    let versions = ["deployment.yaml", "cronjob.yaml"]
        .map(documents)
        .concat()
        .iter()
        .map(|it| format!("{} {}", text(&it["apiVersion"]), text(&it["kind"])))
        .collect::<Vec<_>>();
    assert_eq!(
        versions,
        ["v1 Secret", "apps/v1 Deployment", "batch/v1 CronJob"]
    );
}
