//! Tests of the systemd units. systemd-analyze checks the units on machines where systemd-analyze is installed. The
//! command of the service runs with the credential that systemd would provide.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use testkit::cli_runner::PATIENCE;

use super::{Host, JOB, example, installed};

/// Returns the value of `key` in the section `section` of the unit `name`.
#[track_caller]
fn setting(name: &str, section: &str, key: &str) -> String {
    let text = example(&format!("systemd/{name}"));
    let text = text.split_once(&format!("\n[{section}]\n"));
    let text = text.and_then(|(_, text)| text.split("\n[").next());
    let mut lines = text.unwrap_or_default().lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let value = value.unwrap_or_else(|| panic!("{name} has no {key} in {section}"));
    value.to_owned()
}

/// Returns the command of the unit `name`, as systemd runs it on `host` with the credential of the unit.
#[track_caller]
fn command(host: &Host, name: &str) -> Vec<String> {
    let credential = setting(name, "Service", "LoadCredential");
    let (file, source) = credential.split_once(':').expect("a name and a file");
    assert!(source.starts_with('/'), "{source}");
    host.secret(file, &host.database.url());
    let folder = host.stage.path("").display().to_string();
    let command = setting(name, "Service", "ExecStart");
    let command = command.strip_prefix("/usr/local/bin/").expect(&command);
    let command = command.replace("${CREDENTIALS_DIRECTORY}/", &folder);
    command.split(' ').map(str::to_owned).collect()
}

/// The test checks copies of the units with the real path of dlock, since systemd-analyze requires that the program
/// exists. Without systemd-analyze, the other tests of this file still parse the units and run the command.
#[test]
fn systemd_accepts_the_units_without_warnings() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let here = installed().join("dlock").display().to_string();
    let names = "report.service report.timer dlock-serve.service app-leader.service";
    let units = names.split(' ').map(|name| {
        let path = folder.path().join(name);
        let text = example(&format!("systemd/{name}")).replace("/usr/local/bin/dlock", &here);
        let is_valid =
            |line: &str| line.is_empty() || line.starts_with(['#', '[']) || line.contains('=');
        assert!(text.lines().all(is_valid), "{name}");
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
    let is_clean = verified.status.success() && warnings.is_empty();
    assert!(is_clean, "{warnings}");
}

#[test]
fn the_timer_starts_its_service_every_night_and_after_a_missed_night() {
    let timer = |section, key| setting("report.timer", section, key);
    assert_eq!(timer("Timer", "Persistent"), "true");
    assert!(timer("Timer", "OnCalendar").starts_with("*-*-* "));
    assert_eq!(timer("Install", "WantedBy"), "timers.target");
    // If KillMode had a different value, the command would get SIGTERM twice: from systemd and from dlock.
    assert_eq!(setting("report.service", "Service", "KillMode"), "mixed");
}

#[test]
fn one_of_two_machines_runs_the_service_and_a_later_machine_does_not() {
    let host = &Host::with_job("report.sh", JOB);
    host.secret("fail", "");
    let words = command(host, "report.service");
    let service = || host.starts(words.clone());
    // The first run fails. On a real machine, Restart=on-failure would start the service again.
    service().expect(3, "", "");
    Host::twice(service);
    service().expect(0, "", "was done by");
    assert_eq!(host.log(), ["report.sh"]);
}

#[test]
fn the_page_starts_with_the_command_of_its_service() {
    let host = &Host::of_this_test();
    let mut words = command(host, "dlock-serve.service");
    // Another process may use the default port.
    words.push("--listen=127.0.0.1:0".to_owned());
    let running = host.starts(words).start();
    running.wait_for_output("listening on http://127.0.0.1:");
    running.signal("TERM");
    assert_eq!(running.wait().status, Some(0));
}

/// systemd starts `app.service` when the unit is ready, and stops it when the unit ends.
#[test]
fn unit_of_one_machine_is_ready_until_it_is_stopped() {
    let host = &Host::of_this_test();
    let words = command(host, "app-leader.service");
    let start = |machine: &str| {
        let socket = host.stage.path(machine);
        let manager = UnixDatagram::bind(&socket).expect("the path is free");
        let patience = manager.set_read_timeout(Some(PATIENCE));
        patience.expect("the time is not 0");
        let mut words = words.clone();
        words.insert(0, format!("NOTIFY_SOCKET={}", socket.display()));
        (host.starts(words).start(), manager)
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
