//! The units: read by systemd itself where it is installed, and their command run with the variables that it would get.

use std::fs;
use std::io::ErrorKind;
use std::process::Command;

use super::{Host, JOB, example, installed};

/// Where the unit says that dlock is.
const DLOCK: &str = "/usr/local/bin/dlock";

/// The settings of a unit, as section, key and value.
#[track_caller]
fn settings(name: &str) -> Vec<(String, String, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in example(&format!("systemd/{name}")).lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(heading) = line.strip_prefix('[') {
            let heading = heading.strip_suffix(']').expect("a section's name");
            heading.clone_into(&mut section);
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("{line}"));
        assert!(!section.is_empty(), "{line} is in no section");
        found.push((section.clone(), key.to_owned(), value.to_owned()));
    }
    found
}

#[track_caller]
fn setting(name: &str, section: &str, key: &str) -> String {
    let settings = settings(name);
    let found = settings.iter().find(|it| it.0 == section && it.1 == key);
    let (.., value) = found.unwrap_or_else(|| panic!("{name} has no {key} in {section}"));
    value.clone()
}

/// Reads copies in which dlock is where it is here, since systemd looks for it. Without systemd the other tests of this
/// file still read sections and keys, and run the command.
#[test]
fn systemd_accepts_the_units_without_a_word() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let here = installed().join("dlock").display().to_string();
    let units = ["report.service", "report.timer"].map(|name| {
        let path = folder.path().join(name);
        let text = example(&format!("systemd/{name}")).replace(DLOCK, &here);
        fs::write(&path, text).expect("the folder takes a file");
        path
    });
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .args(units)
        .output();
    let verified = match verified {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("systemd-analyze is not installed: the units were only parsed");
            return;
        }
        verified => verified.expect("systemd-analyze runs"),
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    // An unknown key is a warning, with status 0.
    assert!(verified.status.success() && said.is_empty(), "{said}");
}

#[test]
fn the_timer_starts_the_service_of_its_name_every_night_and_catches_up() {
    assert_eq!(setting("report.timer", "Timer", "Persistent"), "true");
    assert!(setting("report.timer", "Timer", "OnCalendar").starts_with("*-*-* "));
    assert_eq!(
        setting("report.timer", "Install", "WantedBy"),
        "timers.target"
    );
    // Otherwise the command would get a SIGTERM of systemd's beside the one that dlock passes on.
    assert_eq!(setting("report.service", "Service", "KillMode"), "mixed");
}

#[test]
fn of_two_machines_one_runs_the_service_and_one_that_comes_up_later_does_not() {
    Host::everywhere(|host| {
        host.job("report.sh", JOB);
        let credential = setting("report.service", "Service", "LoadCredential");
        let (name, source) = credential.split_once(':').expect("a name and a file");
        assert!(source.starts_with('/'), "{source}");
        let url = host.secret(name, &host.database.url());
        let folder = url.strip_suffix(&format!("/{name}")).expect("its folder");
        let command = setting("report.service", "Service", "ExecStart");
        let words = command
            .replace(DLOCK, "dlock")
            .replace("${CREDENTIALS_DIRECTORY}", folder);
        let words: Vec<&str> = words.split(' ').collect();
        assert_eq!(words[0], "dlock");
        host.secret("fail", "");
        // Restart=on-failure starts it again.
        host.starts(&[], words.clone()).run().expect(3, "", "");
        let machines = [0, 1].map(|_| host.starts(&[], words.clone()).start());
        for machine in machines {
            let outcome = machine.wait();
            assert_eq!(outcome.status, Some(0), "{outcome:#?}");
        }
        let later = host.starts(&[], words).run();
        later.expect(0, "", "was done by");
        assert_eq!(host.log(), ["report.sh"]);
    });
}
