//! The files in `examples/` do what they say, with the real dlock on both servers.
//!
//! A [`Host`] is where they run: a folder with the jobs that they call, an environment with nothing in it but what the
//! example's own starter (kubelet, cron, systemd) would give, and dlock on the PATH. What can run here runs as it stands
//! in its file; of the rest a real parser says whether it is well formed.
//!
//! - `kubernetes`: the containers of the YAML files
//! - `image`: the Dockerfile and its entrypoint, as process 1
//! - `cron`, `systemd`: the lines that these would start
//! - `script`: the script that locks itself
//! - `fencing`: the SQL files, through the client of each server

mod cron;
mod fencing;
mod image;
mod kubernetes;
mod script;
mod systemd;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::command::Stage;
use crate::dlock::Dlock;
use crate::servers::{Database, Flavour, shared};

/// A job that fails once if there is a file `fail`, and otherwise writes its name to the log.
const JOB: &str = r#"if rm fail 2>/dev/null; then exit 3; fi; echo "${0##*/}" >> log"#;

/// A job that says that it is up, and is done when it is told so.
const PATIENT: &str = r#"echo up > ready; read word < go; echo "${0##*/} $word" >> log"#;

/// Machines that have one folder in common, which holds the jobs and their log.
struct Host {
    database: Database,
    stage: Stage,
}

impl Host {
    fn on(flavour: Flavour) -> Self {
        let database = shared(flavour).database("examples");
        Dlock::on(&database, ["setup", "-q"])
            .run()
            .expect(0, "", "");
        let stage = Stage::new();
        stage.fifo("ready");
        stage.fifo("go");
        Self { database, stage }
    }

    /// Runs `claim` on each kind of server.
    fn everywhere(claim: impl Fn(&Self)) {
        for flavour in Flavour::ALL {
            claim(&Self::on(flavour));
        }
    }

    /// Writes the program `name`.
    fn job(&self, name: &str, text: &str) {
        let path = self.stage.path(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("the folder takes a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    /// Writes the file `name`, which only its owner can read, and returns its path.
    ///
    /// It appears whole: a dlock that was started before may just be reading the one that was there.
    fn secret(&self, name: &str, text: &str) -> String {
        let [new, path] = [format!("{name}.new"), name.to_owned()].map(|it| self.stage.path(&it));
        fs::write(&new, text).expect("the folder takes a file");
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).expect("it is ours");
        fs::rename(&new, &path).expect("it gets its name");
        path.display().to_string()
    }

    /// The words that start `words` in the folder, with `variables` and no others.
    fn words<S: Into<String>>(
        &self,
        variables: &[(&str, &str)],
        words: impl IntoIterator<Item = S>,
    ) -> Vec<String> {
        let folder = self.stage.path("").display().to_string();
        let mut all = vec!["-i".to_owned(), "-C".to_owned(), folder];
        all.push(format!("PATH={}:/usr/bin:/bin", installed().display()));
        all.extend(
            variables
                .iter()
                .map(|(name, value)| format!("{name}={value}")),
        );
        all.extend(words.into_iter().map(Into::into));
        all
    }

    /// A process that was started so.
    fn starts<S: Into<String>>(
        &self,
        variables: &[(&str, &str)],
        words: impl IntoIterator<Item = S>,
    ) -> Dlock {
        Dlock::of(Path::new("/usr/bin/env"), self.words(variables, words))
    }

    /// What the jobs have written.
    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.stage.path("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Whether nobody has the lock.
    fn is_free(&self, action: &str) -> bool {
        Dlock::on(&self.database, ["status", "-q", "--check", action])
            .run()
            .status
            == Some(0)
    }
}

/// The folder that stands for /usr/local/bin: dlock is in it.
fn installed() -> &'static Path {
    let dlock = Path::new(env!("CARGO_BIN_EXE_dlock"));
    dlock.parent().expect("it is in a folder")
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name)
}

/// The text of the example `name`.
#[track_caller]
fn example(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("examples/{name}: {error}"))
}

#[test]
fn each_example_says_what_happens_on_a_crash_without_the_database_and_on_a_rollback() {
    for name in [
        "kubernetes/deployment.yaml",
        "kubernetes/cronjob.yaml",
        "docker/entrypoint.sh",
        "cron/dlock-report",
        "systemd/report.service",
        "self-locking.sh",
        "fencing/column.sql",
        "fencing/transaction.sql",
    ] {
        let text = example(name);
        for case in [" Crash: ", " Database lost", " Rollback"] {
            assert!(text.contains(case), "{name} does not say:{case}");
        }
    }
}

/// So that what is run here is what a reader of the README takes away.
#[test]
fn every_line_of_a_recipe_in_the_readme_stands_in_its_example() {
    let readme = fs::read_to_string(path("../README.md")).expect("the README is there");
    let code = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split(" # ").next())
            .map(|line| line.trim().to_owned())
            .collect()
    };
    for (heading, name) in [
        ("A Kubernetes initContainer", "kubernetes/deployment.yaml"),
        ("An entrypoint", "docker/entrypoint.sh"),
        ("A cron job on many machines", "cron/dlock-report"),
        ("A deploy script that locks itself", "self-locking.sh"),
    ] {
        let (_, section) = readme
            .split_once(&format!("\n### {heading}\n"))
            .unwrap_or_else(|| panic!("there is no recipe {heading}"));
        let block = section.split("```").nth(1).expect("a block of code");
        let (_, block) = block.split_once('\n').expect("its lines");
        let example = code(&example(name));
        let recipe = code(block);
        assert!(recipe.len() > 2, "{heading}: {recipe:?}");
        for line in recipe {
            assert!(example.contains(&line), "{name} does not have: {line}");
        }
    }
}
