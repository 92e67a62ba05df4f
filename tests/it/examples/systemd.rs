//! Tests of the systemd units. systemd-analyze checks the units on machines where systemd-analyze is installed. The
//! command of the service runs with the credential that systemd would provide.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use testkit::cli_runner::PATIENCE;

use super::{Host, JOB, example, installed};

/// Path of dlock in the service unit.
const DLOCK: &str = "/usr/local/bin/dlock";

/// Returns the settings of the unit `name`, each as section, key and value.
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

/// The test checks copies of the units with the real path of dlock, since systemd-analyze requires that the program
/// exists. Without systemd-analyze, the other tests of this file still parse the units and run the command.
#[test]
fn systemd_accepts_the_units_without_warnings() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let here = installed().join("dlock").display().to_string();
    let names = [
        "report.service",
        "report.timer",
        "dlock-serve.service",
        "app-leader.service",
    ];
    let units = names.map(|name| {
        let path = folder.path().join(name);
        let text = example(&format!("systemd/{name}")).replace(DLOCK, &here);
        // A setting after a comment sign is an alternative that must be valid as well.
        let lines = text.lines().map(|line| match line.split_once("# ") {
            Some(("", setting)) if setting.contains('=') && !setting.contains(' ') => setting,
            _ => line,
        });
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        fs::write(&path, text).expect("the folder is writable");
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
    let warnings = String::from_utf8_lossy(&verified.stderr);
    // If a key is unknown, systemd-analyze prints a warning and exits with 0.
    assert!(
        verified.status.success() && warnings.is_empty(),
        "{warnings}"
    );
}

#[test]
fn the_timer_starts_its_service_every_night_and_after_a_missed_night() {
    assert_eq!(setting("report.timer", "Timer", "Persistent"), "true");
    assert!(setting("report.timer", "Timer", "OnCalendar").starts_with("*-*-* "));
    assert_eq!(
        setting("report.timer", "Install", "WantedBy"),
        "timers.target"
    );
    // If KillMode had a different value, the command would get SIGTERM twice: from systemd and from dlock.
    assert_eq!(setting("report.service", "Service", "KillMode"), "mixed");
}

#[test]
fn one_of_two_machines_runs_the_service_and_a_later_machine_does_not() {
    let host = &Host::of_this_test();
    host.job("report.sh", JOB);
    let credential = setting("report.service", "Service", "LoadCredential");
    let (name, source) = credential.split_once(':').expect("a name and a file");
    assert!(source.starts_with('/'), "{source}");
    let url = host.secret(name, &host.database.url());
    let folder = url
        .strip_suffix(&format!("/{name}"))
        .expect("a path that ends with the name");
    let command = setting("report.service", "Service", "ExecStart");
    let words = command
        .replace(DLOCK, "dlock")
        .replace("${CREDENTIALS_DIRECTORY}", folder);
    let words: Vec<&str> = words.split(' ').collect();
    assert_eq!(words[0], "dlock");
    host.secret("fail", "");
    // The first run fails. On a real machine, Restart=on-failure would start the service again.
    host.starts(&[], words.clone()).run().expect(3, "", "");
    let machines = [0, 1].map(|_| host.starts(&[], words.clone()).start());
    for machine in machines {
        let outcome = machine.wait();
        assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    }
    let later = host.starts(&[], words).run();
    later.expect(0, "", "was done by");
    assert_eq!(host.log(), ["report.sh"]);
}

#[test]
fn the_page_starts_with_the_command_of_its_service() {
    let name = "dlock-serve.service";
    let host = &Host::of_this_test();
    host.starts(&[], ["dlock", "setup"]).run();
    let credential = setting(name, "Service", "LoadCredential");
    let (credential, _) = credential.split_once(':').expect("a name and a file");
    let url = host.secret(credential, &host.database.url());
    let folder = url
        .strip_suffix(&format!("/{credential}"))
        .expect("a path that ends with the name");
    let command = setting(name, "Service", "ExecStart");
    let words = command
        .replace(DLOCK, "dlock")
        .replace("${CREDENTIALS_DIRECTORY}", folder);
    // Another process may use the default port.
    let words: Vec<&str> = words.split(' ').chain(["--listen=127.0.0.1:0"]).collect();
    let running = host.starts(&[], words).start();
    running.wait_for_output("listening on http://127.0.0.1:");
    running.signal("TERM");
    assert_eq!(running.wait().status, Some(0));
}

/// systemd starts `app.service` when the unit is ready, and stops it when the unit ends.
#[test]
fn unit_of_one_machine_is_ready_until_it_is_stopped() {
    let host = &Host::of_this_test();
    let (file, folder) = ("url", tempfile::tempdir().expect("a temporary folder"));
    let url = host.secret(file, &host.database.url());
    let credentials = url
        .strip_suffix(&format!("/{file}"))
        .expect("a path that ends with the name");
    let command = setting("app-leader.service", "Service", "ExecStart");
    let words = command
        .replace(DLOCK, "dlock")
        .replace("${CREDENTIALS_DIRECTORY}", credentials);
    let start = |machine: &str| {
        let socket = folder.path().join(machine);
        let manager = UnixDatagram::bind(&socket).expect("the path is free");
        let patience = manager.set_read_timeout(Some(PATIENCE));
        patience.expect("the time is not 0");
        let words: Vec<&str> = words.split(' ').collect();
        let socket = socket.display().to_string();
        let unit = host.starts(&[("NOTIFY_SOCKET", &socket)], words);
        (unit.start(), manager)
    };
    let state = |manager: &UnixDatagram| {
        let mut state = [0; 64];
        let length = manager.recv(&mut state).expect("a message");
        String::from_utf8_lossy(&state[..length]).into_owned()
    };
    let (first, first_manager) = start("first");
    assert_eq!(state(&first_manager), "READY=1");
    let (second, second_manager) = start("second");
    second.wait_for_output("app is held by");
    first.signal("TERM");
    assert_eq!(state(&first_manager), "STOPPING=1");
    assert_eq!(first.wait().status, Some(0));
    assert_eq!(state(&second_manager), "READY=1");
    second.signal("TERM");
    assert_eq!(second.wait().status, Some(0));
}
