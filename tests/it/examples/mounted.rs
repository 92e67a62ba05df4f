//! Starts the containers of the YAML files in which the image of the application does not contain dlock. The program is
//! the static one, as in the image of dlock. Also validates all YAML files against the schemas of Kubernetes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::cli_runner::Dlock;
use testkit::servers::fetched;

use super::kubernetes::{document, list, text};
use super::{Host, JOB, path};
use crate::static_build;

/// The oldest and the newest version of Kubernetes whose schemas kubernetes-validate contains.
const OLDEST: &str = "1.25";
const NEWEST: &str = "1.37";

const VOLUME: &str = "program";

/// Returns the specification of the pods in `name`, and the volume that contains the program.
#[track_caller]
fn pod(name: &str) -> (Value, Value) {
    let pod = document(name, "Deployment")["spec"]["template"]["spec"].clone();
    let volume = list(&pod["volumes"]).iter().find(|it| it["name"] == VOLUME);
    let volume = volume.expect("a volume with the program").clone();
    (pod, volume)
}

/// Returns the command of `container` on `host`, as in the container's file system: the folder of the program is
/// `folder`, and the Secret is a file with the URL of the database.
#[track_caller]
fn words(container: &Value, host: &Host, folder: &Path) -> Vec<String> {
    let mounts = list(&container["volumeMounts"]).iter();
    let mount = mounts.clone().find(|mount| mount["name"] == VOLUME);
    let mount = text(&mount.expect("the program is mounted")["mountPath"]);
    let secret = mounts.clone().find(|mount| mount["name"] == "dlock");
    let secret = secret.map(|mount| format!("{}/url", text(&mount["mountPath"])));
    let words = list(&container["command"]).iter().map(text);
    words
        .map(|word| match Some(word) == secret.as_deref() {
            true => host.secret("url", &host.database.url()),
            false => word.replace(mount, &folder.display().to_string()),
        })
        .collect()
}

/// Runs the container that migrates twice, with the program in `folder`.
fn migrates_once(container: &Value, host: &Host, folder: &Path) {
    host.job("migrate.sh", JOB);
    let words = words(container, host, folder);
    let program = folder.join("dlock").display().to_string();
    assert_eq!(words[0], program);
    for message in ["", "was done by"] {
        host.starts(words.clone()).expect(0, "", message);
    }
    assert_eq!(host.log(), ["migrate.sh"]);
}

#[test]
fn image_volume_provides_dlock_to_an_image_without_dlock() {
    let host = &Host::of_this_test();
    let (pod, volume) = pod("image-volume.yaml");
    let image = format!("dlock:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(text(&volume["image"]["reference"]), image);
    let [init] = list(&pod["initContainers"]) else {
        panic!("expected one init container: {pod}");
    };
    // The image contains the program as /dlock, and the volume is the root folder of the image.
    let folder = host.stage.path("image");
    fs::create_dir(&folder).expect("the folder is writable");
    symlink(static_build::program(), folder.join("dlock")).expect("the folder is writable");
    migrates_once(init, host, &folder);
}

#[test]
fn init_container_copies_dlock_to_an_image_without_dlock() {
    let host = &Host::of_this_test();
    let (pod, volume) = pod("init-copy.yaml");
    assert!(volume["emptyDir"].is_object());
    let [copy, init] = list(&pod["initContainers"]) else {
        panic!("expected two init containers: {pod}");
    };
    let image = format!("dlock:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(text(&copy["image"]), image);
    let folder = host.stage.path("volume");
    fs::create_dir(&folder).expect("the folder is writable");
    let words = words(copy, host, &folder);
    assert_eq!(words[0], "/dlock");
    // A restarted init container replaces the copy.
    for _ in 0..2 {
        Dlock::of(&static_build::program(), &words[1..]).expect(0, "", "");
    }
    let files = fs::read_dir(&folder).expect("the folder exists").count();
    assert_eq!(files, 1, "no unfinished copy is left");
    migrates_once(init, host, &folder);
}

#[test]
fn kubernetes_accepts_the_examples() {
    let files = fs::read_dir(path("kubernetes")).expect("the folder exists");
    let files = files.map(|file| file.expect("the folder can be read").path());
    let files: Vec<PathBuf> = files.collect();
    assert!(files.len() > 3, "{files:?}");
    // Image volumes are newer than the oldest version.
    for (version, wanted) in [(OLDEST, &["image-volume.yaml"][..]), (NEWEST, &[])] {
        let output = Command::new(fetched("kubernetes-validate"))
            .args(["--strict", "--kubernetes-version", version])
            .args(&files)
            .output()
            .expect("kubernetes-validate runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text.lines();
        let refused: Vec<&str> = lines
            .filter_map(|line| line.split_once(" did not validate"))
            .filter_map(|(line, _)| line.rsplit(['/', ' ']).next())
            .collect();
        assert_eq!(refused, wanted, "{version}: {output:?}");
        assert_eq!(output.status.success(), wanted.is_empty(), "{output:?}");
    }
}
