//! Runs the commands of the example crontab as cron would run them: with `/bin/sh -c`, in the home folder, and with the
//! variables that cron and the crontab set.

use std::fs;

use testkit::cli_runner::Dlock;

use super::{Host, IN_SLOT, JOB, example, installed};

/// Returns a run of the command that calls `job` in the crontab `name`, which has the format of a file in /etc/cron.d,
/// with the environment that cron would set.
#[track_caller]
fn command(host: &Host, name: &str, job: &str) -> Dlock {
    let text = example(name);
    // cron ignores a last line without a newline, and replaces % with a newline.
    assert!(text.ends_with('\n') && !text.contains('%'), "{text}");
    let lines = text.lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let is_variable = |line: &&str| line.starts_with(|first: char| first.is_ascii_uppercase());
    let (variables, commands): (Vec<&str>, Vec<&str>) = lines.partition(is_variable);
    for line in &commands {
        let fields: Vec<&str> = line.splitn(7, ' ').collect();
        let is_time = |byte: u8| byte.is_ascii_digit() || b"*/,-".contains(&byte);
        let mut times = fields[..5].iter();
        assert!(times.all(|field| field.bytes().all(is_time)), "{line}");
        assert_eq!(fields[5], "app", "{line}");
    }
    let line = commands.iter().find(|line| line.ends_with(job));
    let (_, command) = line.and_then(|line| line.split_once(" app ")).expect(job);
    // The configuration file of the user app.
    fs::create_dir_all(host.stage.path(".config/dlock")).expect("the folder is writable");
    host.secret(".config/dlock/dlock.cnf", &host.database.settings());
    let home = format!("HOME={}", host.stage.path("").display());
    // The variables of the crontab come last and override the variables that cron sets.
    let cron = ["LOGNAME=app", &home, "PATH=/usr/bin:/bin"].map(str::to_owned);
    let installed = installed().display().to_string();
    let variables = variables.iter();
    let variables = variables.map(|line| line.replace("/usr/local/bin", &installed));
    let shell = ["/bin/sh", "-c", command].map(str::to_owned);
    host.starts(cron.into_iter().chain(variables).chain(shell))
}

#[test]
fn one_host_runs_the_report_again_after_a_failure_but_not_the_reminder_and_no_host_has_output_to_mail()
 {
    let host = &Host::with_job("report.sh", JOB);
    host.secret("fail", "");
    let report = || command(host, "cron/dlock-report", "report.sh");
    report().expect(3, "", "");
    for outcome in Host::twice(report) {
        outcome.expect(0, "", "");
    }
    report().expect(0, "", "");
    assert_eq!(host.log(), ["report.sh"]);

    // A reminder that fails is not retried.
    let host = &Host::of_this_test();
    host.job("remind.sh", &format!("echo tried >> log; {JOB}"));
    host.secret("fail", "");
    let reminder = || command(host, "cron/dlock-report", "remind.sh").run();
    reminder().expect(3, "", "");
    reminder().expect(0, "", "");
    assert_eq!(host.log(), ["tried"]);
    assert!(!host.is_free("remind"));
}

#[test]
fn at_most_three_machines_run_the_heavy_job() {
    let host = &Host::with_job("heavy.sh", IN_SLOT);
    let heavy = || command(host, "cron/dlock-heavy", "./heavy.sh");
    let three = ["go-1", "go-2", "go-3"].map(|go| {
        host.stage.fifo(go);
        let running = heavy().start();
        host.is_ready();
        (go, running)
    });
    heavy().expect(0, "", "");
    for (go, running) in three {
        host.tell(go, "on");
        running.wait();
    }
    assert_eq!(host.log().len(), 6);
}
