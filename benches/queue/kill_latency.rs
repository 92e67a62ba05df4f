//! The time until the last process of a command's tree is dead after dlock is killed or frozen.
//!
//! All processes of the tree inherit standard output, and dlock and its monitor close their copies: the reader reaches
//! its end when the last process of the tree is dead. Scenes run in batches, half on each server.

use std::io::Read;
use std::process::{Child, ChildStdout, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::markdown::{Page, verdict};
use crate::sample::{millis, percentile};
use crate::site::Site;
use crate::timestamp_command;

const REPETITIONS: usize = 200;

/// Number of scenes at the same time: enough to finish soon, few enough for two processors.
const BATCH: usize = 10;

const TTL: Duration = Duration::from_secs(3);

/// Margin that dlock subtracts from this ttl for its deadline.
const MARGIN: Duration = Duration::from_millis(250);

const ALLOWED: Duration = Duration::from_millis(100);

/// A tree with a child, a child in its own session, and an orphan in another; all of them ignore SIGTERM.
const TREE: &str = r#"
    trap "" TERM
    stay='trap "" TERM HUP; sleep 1000; sleep 1000'
    sh -c "$stay" &
    setsid sh -c "$stay" &
    (setsid sh -c "$stay" &)
    echo up
    sleep 1000; sleep 1000
"#;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Killed,
    Frozen,
}

pub(crate) fn section(page: &mut Page, sites: [&Site; 2]) {
    page.section(
        "Death",
        &format!(
            "From the SIGKILL of dlock, or from its lease's deadline after a SIGSTOP of dlock, to the death of the last \
             process of its command's tree (a shell, a child, one in a session of its own, an orphan; all deaf to \
             SIGTERM); milliseconds, {REPETITIONS} times each, {BATCH} at once. The deadline is taken from the server's \
             row, which is less than a millisecond later than dlock's own."
        ),
    );
    let mut rows = Vec::new();
    for (fate, name) in [
        (Fate::Killed, "SIGKILL of dlock"),
        (Fate::Frozen, "SIGSTOP of dlock"),
    ] {
        let mut lags = Vec::new();
        while lags.len() < REPETITIONS {
            let number = lags.len();
            let scenes: Vec<Scene> = (number..number + BATCH)
                .map(|number| Scene::set(sites[number % 2], &format!("death-{name}-{number}")))
                .collect();
            lags.extend(strike(scenes, fate));
        }
        let in_time = lags.iter().filter(|lag| **lag <= ALLOWED).count();
        let [middle, most] = [50, 100].map(|part| percentile(&lags, part));
        rows.push(vec![
            name.to_owned(),
            millis(middle),
            millis(most),
            format!("{in_time} of {REPETITIONS}"),
            verdict(in_time == REPETITIONS).to_owned(),
        ]);
    }
    page.table(
        &["what happens", "median", "most", "at most 100", "target"],
        &rows,
    );
}

fn strike(scenes: Vec<Scene>, fate: Fate) -> Vec<Duration> {
    let struck: Vec<_> = scenes
        .into_iter()
        .map(|scene| (scene.strike(fate), scene))
        .collect();
    let lags = struck
        .into_iter()
        .map(|(due, scene)| scene.buried().saturating_sub(due));
    lags.collect()
}

/// A holder whose tree is running.
struct Scene<'a> {
    site: &'a Site,
    action: String,
    holder: Child,
    death: Option<JoinHandle<Duration>>,
}

impl<'a> Scene<'a> {
    fn set(site: &'a Site, action: &str) -> Self {
        let ttl = format!("{}s", TTL.as_secs());
        let mut exec = site.exec(&["-a", action, "--ttl", &ttl, "--", "sh", "-c", TREE]);
        let mut holder = exec.stdout(Stdio::piped()).spawn().expect("dlock starts");
        let mut stdout = holder.stdout.take().expect("standard output is a pipe");
        let mut up = [0; 3];
        stdout
            .read_exact(&mut up)
            .expect("the tree reports that it runs");
        Self {
            site,
            action: action.to_owned(),
            holder,
            death: Some(thread::spawn(move || end_of(stdout))),
        }
    }

    /// Kills or stops dlock. Returns the time at which the tree has to be dead.
    fn strike(&self, fate: Fate) -> Duration {
        let pid = i32::try_from(self.holder.id()).ok().and_then(Pid::from_raw);
        let pid = pid.expect("a process id is a positive number");
        match fate {
            Fate::Killed => {
                let now = timestamp_command::now();
                kill_process(pid, Signal::KILL).expect("the process exists");
                now
            }
            Fate::Frozen => {
                kill_process(pid, Signal::STOP).expect("the process exists");
                // A renewal that was in flight has arrived by then.
                thread::sleep(Duration::from_millis(20));
                let (age, now) = (
                    self.site.renewed_ago(&self.action),
                    timestamp_command::now(),
                );
                now + TTL.saturating_sub(MARGIN + age)
            }
        }
    }

    /// Waits for the death of the last process of the tree and returns its time.
    fn buried(mut self) -> Duration {
        let death = self.death.take().expect("the death is awaited once");
        death.join().expect("the reader does not panic")
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn end_of(mut stdout: ChildStdout) -> Duration {
    let read = stdout.read_to_end(&mut Vec::new());
    read.expect("standard output can be read");
    timestamp_command::now()
}
