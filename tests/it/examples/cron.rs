//! Runs the commands of the example crontab as cron would run them: with `/bin/sh -c`, in the home folder, and with the
//! variables that cron and the crontab set.

use std::fs;
use std::path::Path;

use testkit::cli_runner::{Dlock, Outcome, Running};
use testkit::command::{read_message, write_message};

use super::{Host, IN_SLOT, JOB, example, installed};

/// Content of a crontab file in /etc/cron.d.
struct Crontab {
    variables: Vec<(String, String)>,
    commands: Vec<String>,
}

impl Crontab {
    /// Reads the example, which has the format of crontab(5) with a column for the user.
    #[track_caller]
    fn read(name: &str) -> Self {
        let mut crontab = Self {
            variables: Vec::new(),
            commands: Vec::new(),
        };
        let text = example(name);
        assert!(
            text.ends_with('\n'),
            "cron ignores a last line without a newline"
        );
        for line in text.lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some((name, value)) = variable(line) {
                crontab.variables.push((name.to_owned(), value.to_owned()));
                continue;
            }
            let mut fields = line.splitn(7, ' ');
            for _ in 0..5 {
                let field = fields.next().expect("five time fields");
                let is_time = |byte: u8| byte.is_ascii_digit() || b"*/,-".contains(&byte);
                assert!(field.bytes().all(is_time), "{field}: {line}");
            }
            assert_eq!(fields.next(), Some("app"), "{line}");
            let command = fields.next().expect("a command");
            assert!(!command.contains('%'), "cron replaces % with a newline");
            crontab.commands.push(command.to_owned());
        }
        crontab
    }

    /// Returns a run of the command that calls `job`, with the environment that cron would set.
    #[track_caller]
    fn starts(&self, host: &Host, job: &str) -> Dlock {
        let command = self.commands.iter().find(|it| it.ends_with(job));
        let command = command.unwrap_or_else(|| panic!("no line ends with {job}"));
        configuration_file(host);
        let home = host.stage.path("").display().to_string();
        let variables: Vec<(&str, String)> = self
            .variables
            .iter()
            .map(|(name, value)| {
                let value = value.replace("/usr/local/bin", &installed().display().to_string());
                (name.as_str(), value)
            })
            .chain([("LOGNAME", "app".to_owned()), ("HOME", home)])
            .collect();
        let variables: Vec<(&str, &str)> = variables
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        // The variables of the crontab come last and override the variables that cron sets.
        let cron = [&[("PATH", "/usr/bin:/bin")][..], &variables].concat();
        host.starts(&cron, ["/bin/sh", "-c", command])
    }
}

/// Returns the name and the value in a line `NAME=value`, or None for a line with a schedule and a command.
fn variable(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    name.bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        .then_some((name, value))
}

/// Writes the configuration file of the user app, with the account of `host`'s database.
fn configuration_file(host: &Host) {
    let database = &host.database;
    let text = format!(
        "[dlock]\nhost=127.0.0.1\nport={}\nuser={}\npassword={}\ndatabase={}\n",
        database.port, database.user, database.password, database.name
    );
    let folder = host.stage.path(".config/dlock");
    fs::create_dir_all(folder).expect("the folder is writable");
    host.secret(".config/dlock/dlock.cnf", &text);
}

#[test]
fn one_of_two_hosts_runs_the_report_and_neither_has_output_to_mail() {
    let host = &Host::of_this_test();
    host.job("report.sh", JOB);
    let crontab = Crontab::read("cron/dlock-report");
    let tick = [0, 1].map(|_| crontab.starts(host, "report.sh").start());
    let late = crontab.starts(host, "report.sh");
    let mut outcomes: Vec<Outcome> = tick.map(Running::wait).into();
    outcomes.push(late.run());
    for outcome in outcomes {
        outcome.expect(0, "", "");
        assert_eq!(outcome.stderr, "");
    }
    assert_eq!(host.log(), ["report.sh"]);
}

#[test]
fn a_report_that_fails_is_run_by_the_next_host() {
    let host = &Host::of_this_test();
    host.job("report.sh", JOB);
    host.secret("fail", "");
    let crontab = Crontab::read("cron/dlock-report");
    crontab.starts(host, "report.sh").run().expect(3, "", "");
    crontab.starts(host, "report.sh").run().expect(0, "", "");
    assert_eq!(host.log(), ["report.sh"]);
}

#[test]
fn a_reminder_that_fails_is_not_retried() {
    let host = &Host::of_this_test();
    host.job("remind.sh", &format!("echo tried >> log; {JOB}"));
    host.secret("fail", "");
    let crontab = Crontab::read("cron/dlock-report");
    crontab.starts(host, "remind.sh").run().expect(3, "", "");
    let next = crontab.starts(host, "remind.sh").run();
    next.expect(0, "", "");
    assert_eq!(next.stderr, "");
    assert_eq!(host.log(), ["tried"]);
    assert!(!host.is_free("remind"));
}

#[test]
fn at_most_three_machines_run_the_heavy_job() {
    let crontab = Crontab::read("cron/dlock-heavy");
    let host = &Host::of_this_test();
    host.job("heavy.sh", IN_SLOT);
    let ready = host.stage.path("ready");
    let go = ["go-1", "go-2", "go-3"].map(|name| host.stage.fifo(name));
    let three = [(); 3].map(|()| {
        let running = crontab.starts(host, "./heavy.sh").start();
        read_message(&ready);
        running
    });
    crontab.starts(host, "./heavy.sh").run().expect(0, "", "");
    for (go, running) in go.iter().zip(three) {
        write_message(Path::new(go), "on");
        running.wait();
    }
    assert_eq!(host.log().len(), 6);
}
