//! Tests that the files in `examples/` work as described, with the real dlock. Each example that contains SQL or is about
//! leaders runs on MariaDB and on MySQL, the others on one of them.
//!
//! The examples run on a [`Host`], which has a folder with the jobs that the examples call. The environment of an
//! example contains only the variables that the kubelet, cron or systemd would set, and a PATH with dlock's folder.
//! Parts of an example that can run in a test run unchanged. The tests parse and check the other parts.

mod cron;
mod elections;
mod fencing;
mod image;
mod kubernetes;
mod migrations;
mod mounted;
mod script;
mod systemd;

use std::fs;
use std::path::{Path, PathBuf};

use testkit::cli_runner::{Dlock, Outcome};
use testkit::command::{Stage, read_message, write_message};
use testkit::repository;
use testkit::servers::{Database, Flavour, shared};

/// Script of a job that writes its own name to the file `log`. If the file `fail` exists, the job instead deletes the
/// file `fail` and exits with 3.
const JOB: &str = r#"if rm fail 2>/dev/null; then exit 3; fi; echo "${0##*/}" >> log"#;

/// Script of a job that writes to the fifo `ready`, waits for a word from the fifo `go`, and writes its own name and
/// the word to the file `log`.
const CONTROLLED: &str = r#"echo up > ready; read word < go; echo "${0##*/} $word" >> log"#;

/// Script of a job that writes to the fifo `ready` and waits for a word from the fifo of its slot, `go-SLOT`. It writes its
/// first argument to the file `log` before and after the wait.
const IN_SLOT: &str = r#"echo "begin $1" >> log; echo up > ready; read word < "go-$DLOCK_SLOT"; echo "end $1" >> log"#;

/// One or more machines that share a folder, which contains the jobs and their log.
struct Host {
    database: Database,
    stage: Stage,
}

impl Host {
    fn on(flavour: Flavour) -> Self {
        let database = shared(flavour).database("examples");
        let stage = Stage::new();
        stage.fifo("ready");
        stage.fifo("go");
        let host = Self { database, stage };
        host.dlock(&["setup", "-q"]).expect(0, "", "");
        host
    }

    fn of_this_test() -> Self {
        Self::on(Flavour::of_this_test())
    }

    /// Returns a host with the job `name`, which runs the shell script `text`.
    fn with_job(name: &str, text: &str) -> Self {
        let host = Self::of_this_test();
        host.job(name, text);
        host
    }

    fn job(&self, name: &str, text: &str) {
        let text = format!("#!/bin/sh\n{text}\n");
        self.stage.write(name, 0o755, text);
    }

    /// Writes `text` to the file `name`, which only its owner can read, and returns the path of the file.
    ///
    /// The file is replaced atomically, since a dlock process may still be reading the old file.
    fn secret(&self, name: &str, text: &str) -> String {
        let new = self.stage.write(&format!("{name}.new"), 0o600, text);
        let path = self.stage.path(name);
        fs::rename(&new, &path).expect("the file can be renamed");
        path.display().to_string()
    }

    /// Returns the arguments with which env(1) runs `words`, variables and a command, in the folder of the host. The
    /// environment contains only these variables and PATH.
    fn words<S: Into<String>>(&self, words: impl IntoIterator<Item = S>) -> Vec<String> {
        let folder = self.stage.path("").display().to_string();
        let path = format!("PATH={}:/usr/bin:/bin", installed().display());
        let all = ["-i", "-C", &folder, &path].map(str::to_owned);
        let words = words.into_iter().map(Into::into);
        all.into_iter().chain(words).collect()
    }

    /// Returns a run of `words`, variables and a command, in the folder of the host.
    fn starts<S: Into<String>>(&self, words: impl IntoIterator<Item = S>) -> Dlock {
        Dlock::of(Path::new("/usr/bin/env"), self.words(words))
    }

    /// Returns a run of `words` with the URL of the database in the environment.
    fn starts_with_url(&self, words: &[&str]) -> Dlock {
        let url = self.url();
        self.starts([&*url].iter().chain(words).copied())
    }

    fn script(&self, name: &str, arguments: &[&str]) -> Dlock {
        let script = path(name).display().to_string();
        self.starts_with_url(&[&[&*script], arguments].concat())
    }

    fn url(&self) -> String {
        format!("DLOCK_URL={}", self.database.url())
    }

    /// Starts `run` on two machines at the same time, and asserts that both exit with 0. Returns what they have printed.
    #[track_caller]
    fn twice(run: impl Fn() -> Dlock) -> [Outcome; 2] {
        let machines = [(); 2].map(|()| run().start());
        machines.map(|machine| machine.wait().exited(0))
    }

    fn dlock(&self, words: &[&str]) -> Outcome {
        Dlock::on(&self.database, words).run()
    }

    #[track_caller]
    fn is_ready(&self) {
        read_message(&self.stage.path("ready"));
    }

    /// Sends `word` to the job that reads the fifo `fifo`.
    #[track_caller]
    fn tell(&self, fifo: &str, word: &str) {
        write_message(&self.stage.path(fifo), word);
    }

    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.stage.path("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn is_free(&self, action: &str) -> bool {
        self.dlock(&["status", "-q", "--check", action]).status == Some(0)
    }
}

/// Returns the folder of the dlock under test, which the tests use in place of /usr/local/bin.
pub(crate) fn installed() -> &'static Path {
    let dlock = Path::new(env!("CARGO_BIN_EXE_dlock"));
    dlock.parent().expect("dlock is in a folder")
}

fn path(name: &str) -> PathBuf {
    repository().join("examples").join(name)
}

#[track_caller]
fn example(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("examples/{name}: {error}"))
}

/// Files without an explanation, because another file of the same recipe has it.
const PARTS: &str =
    "demo Dockerfile dlock-serve.service image-volume.yaml init-copy.yaml report.timer";

#[test]
fn each_example_explains_crash_unavailable_database_and_rollback() {
    let parts: Vec<&str> = PARTS.split(' ').collect();
    let folders = "./ cron/ docker/ elections/ fencing/ kubernetes/ systemd/";
    let mut number = 0;
    for folder in folders.split(' ') {
        let files = fs::read_dir(path(folder)).expect("the folder exists");
        let files = files.map(|file| file.expect("the folder can be read"));
        for file in files.filter(|file| file.path().is_file()) {
            let name = file.file_name().into_string().expect("the name is UTF-8");
            let text = example(&format!("{folder}{name}"));
            for case in [" Crash: ", " Database unavailable: ", " Rollback"] {
                let is_there = text.contains(case) || parts.contains(&&*name);
                assert!(is_there, "{folder}{name} does not contain:{case}");
            }
            number += 1;
        }
    }
    assert!(number >= 17 + parts.len(), "only {number} examples");
}

/// Returns the lines of `text` without indents and comments.
fn code(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(" # ").next())
        .map(|line| line.trim().to_owned())
        .collect()
}

/// Returns the lines of the first block of code after the line `heading` in `document`.
#[track_caller]
fn block_after(document: &str, heading: &str) -> Vec<String> {
    let (_, section) = document
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("no section {heading}"));
    let block = section.split("```").nth(1).expect("a block of code");
    let (_, block) = block.split_once('\n').expect("lines of code");
    code(block)
}

/// The commands in the README and in docs/recipes.md are excerpts of the example files that this module tests.
#[test]
fn every_command_of_the_readme_and_the_recipes_is_in_its_example() {
    let [readme, recipes] = ["../README.md", "../docs/recipes.md"].map(example);
    let init = "A Kubernetes initContainer";
    let entrypoint = "The entrypoint of a container";
    let cron_job = "A cron job on many machines";
    let deploy = "A deploy script that locks itself";
    for (heading, recipe, name) in [
        (init, init, "kubernetes/deployment.yaml"),
        (entrypoint, "An entrypoint", "docker/entrypoint.sh"),
        (cron_job, cron_job, "cron/dlock-report"),
        (deploy, deploy, "self-locking.sh"),
        ("At most N at a time", "", "reboot.sh"),
    ] {
        let example = code(&example(name));
        let heading = format!("### {heading}");
        let lines = block_after(&readme, &heading);
        assert!(!lines.is_empty(), "{heading}");
        for line in lines {
            let is_found = example.iter().any(|whole| whole.contains(&line));
            assert!(is_found, "{name} does not contain: {line}");
        }
        let (_, section) = readme.split_once(&heading).expect("the section");
        let section = section.split("\n#").next().expect("its text");
        let link = format!("](examples/{name})");
        assert!(section.contains(&link), "{heading} has no link");
        if !recipe.is_empty() {
            let lines = block_after(&recipes, &format!("## {recipe}"));
            assert!(lines.len() > 2, "{recipe}: {lines:?}");
            for line in lines {
                assert!(example.contains(&line), "{name} does not contain: {line}");
            }
        }
    }
}
