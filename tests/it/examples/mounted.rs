//! Starts the containers of the YAML files in which the image of the application does not contain dlock. The program is
//! the static one, as in the image of dlock. Also validates all YAML files against the schemas of Kubernetes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::cli_runner::Dlock;
use testkit::servers::fetched;

use super::kubernetes::{document, list, text};
use super::{Host, JOB, path};
use crate::static_build;

/// The oldest and the newest version of Kubernetes whose schemas kubernetes-validate contains.
const VERSIONS: [&str; 2] = ["1.25", "1.37"];

/// Name of the volume that contains the program.
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
        let run = host.starts(&[], words.clone()).run();
        run.expect(0, "", message);
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
        let run = Dlock::of(&static_build::program(), &words[1..]).run();
        run.expect(0, "", "");
    }
    let files = fs::read_dir(&folder).expect("the folder exists").count();
    assert_eq!(files, 1, "no unfinished copy is left");
    migrates_once(init, host, &folder);
}

#[test]
fn copy_to_a_missing_folder_names_the_path_and_leaves_no_file() {
    let outcome = Dlock::new(["copy-to", "/nonexistent/dlock"]).run();
    outcome.expect(
        70,
        "",
        "dlock: cannot copy /proc/self/exe to /nonexistent/dlock: No such file or directory (os error 2)\n",
    );
    // A folder cannot be replaced.
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let target = folder.path().join("dlock");
    fs::create_dir(&target).expect("the folder is writable");
    let outcome = Dlock::new(["copy-to"]).arg(&target).run();
    outcome.expect(70, "", "cannot copy /proc/self/exe to ");
    let files = fs::read_dir(folder.path()).expect("the folder exists");
    assert_eq!(files.count(), 1);
}

#[test]
fn copy_is_executable_and_identical_to_the_program() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let copy = folder.path().join("copy");
    Dlock::new(["copy-to"]).arg(&copy).run().expect(0, "", "");
    let read = |path: &Path| fs::read(path).expect("the file can be read");
    assert!(read(&copy) == read(Path::new(env!("CARGO_BIN_EXE_dlock"))));
    let mode = fs::metadata(&copy).expect("the copy exists").permissions();
    assert_eq!(mode.mode() & 0o555, 0o555);
}

/// Returns true if the schemas of Kubernetes `version` allow every field of the files `names`. One process checks all files,
/// because its start takes most of the time.
fn are_valid(names: &[&str], version: &str) -> bool {
    let output = Command::new(fetched("kubernetes-validate"))
        .args(["--strict", "--kubernetes-version", version])
        .args(names.iter().map(|name| path("kubernetes").join(name)))
        .output()
        .expect("kubernetes-validate runs");
    let is_refused = String::from_utf8_lossy(&output.stdout).contains("did not validate");
    assert_ne!(output.status.success(), is_refused, "{output:?}");
    !is_refused
}

#[test]
fn kubernetes_accepts_the_examples() {
    let files = fs::read_dir(path("kubernetes")).expect("the folder exists");
    let names = files.map(|file| file.expect("the folder can be read").file_name());
    let names: Vec<_> = names.collect();
    let names = names
        .iter()
        .map(|name| name.to_str().expect("the name is UTF-8"));
    // Image volumes are newer than the oldest version.
    let (newer, others): (Vec<_>, Vec<_>) = names.partition(|name| *name == "image-volume.yaml");
    assert!(
        newer.len() == 1 && others.len() > 2,
        "{newer:?}, {others:?}"
    );
    let [oldest, newest] = VERSIONS;
    assert!(are_valid(&others, oldest));
    assert!(!are_valid(&newer, oldest));
    assert!(are_valid(&[others, newer].concat(), newest));
}
