//! Contenders: each wants its action again and again, one run of dlock after the other.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, set_parent_process_death_signal, setsid};

use crate::command::{self, RUN};
use crate::course::Course;
use crate::history::{Event, Line, now};
use crate::schedule::{Plan, Route, Shape, plans};
use crate::site::Site;

/// As much of what a run says as is worth keeping.
const SAID: usize = 2_000;

/// Contends for `action` until it is calm, and then once more.
pub(crate) fn contend(course: &Course, site: &Site, action: &str, slot: usize) {
    let patience = site.purpose.patience();
    for mut plan in plans(course.seed, action, slot) {
        plan.ttl *= patience;
        if !course.weather.pause(Duration::from_millis(plan.pause)) {
            break;
        }
        run(course, site, action, plan);
    }
    // Whoever comes when all faults are over is served.
    course.weather.wait_for_calm();
    let last = Plan {
        pause: 0,
        ttl: 2_000 * patience,
        hold: 10,
        shape: Shape::Plain,
        exit: 0,
        wait: None,
        route: Route::Tcp,
    };
    run(course, site, action, last);
}

/// One run of dlock from its start to its end.
fn run(course: &Course, site: &Site, action: &str, plan: Plan) {
    let run = course.runs.fetch_add(1, Ordering::Relaxed);
    let life = command::make_life(&course.folder, run);
    course.undertaker.watch(run, action, &life);
    let said = course.folder.join("said").join(run.to_string());
    let file = File::create(&said).expect("a file can be made");
    let (reader, stderr) = io::pipe().expect("a pipe can be made");
    let wait = match plan.wait {
        Some(millis) => format!("{millis}ms"),
        None => "forever".to_owned(),
    };
    let url = match plan.route {
        Route::Proxy => match site.proxies.get(action) {
            Some(proxy) => site.database.url_through(proxy.port()),
            None => site.database.url(),
        },
        Route::Tcp => site.database.url(),
        Route::Socket => site.database.socket_url(),
    };
    let mut dlock = course.dlock();
    dlock
        .env("DLOCK_URL", url)
        .env(RUN, run.to_string())
        .args(["exec", "--action", action, "--wait", &wait])
        .args(["--ttl", &format!("{}ms", plan.ttl)])
        .args(["--holder", &format!("run {run}"), "--"])
        .args(command::line(&course.worker, &course.folder, &plan))
        .stdout(Stdio::null())
        .stderr(stderr.try_clone().expect("there are descriptors"));
    // SAFETY: only system calls that may be made between fork and exec.
    unsafe {
        dlock.pre_exec(prepare);
    }
    let mut child = dlock.spawn().expect("dlock starts");
    // Or the pipe would never come to its end.
    drop(dlock);
    course.readers.join(run, stderr);
    course.journal.note(Event::Asked {
        run,
        action: action.to_owned(),
        front: child.id(),
        plan,
    });
    let (status, at) = thread::scope(|scope| {
        let copies = scope.spawn(|| course.readers.copy(run, reader, file));
        let status = child.wait().expect("dlock can be waited for");
        // Before the end of the pipe, which a process that is left behind would put off.
        let at = now();
        course.readers.leave(run);
        let outcome = copies.join().expect("a reader does not panic");
        outcome.expect("what is said can be kept");
        (status, at)
    });
    let event = Event::Ended {
        run,
        action: action.to_owned(),
        status: status.code(),
        signal: status.signal(),
        stderr: tail(&fs::read(&said).expect("what was said can be read")),
    };
    course.journal.write(&Line { at, event });
    course.undertaker.ended(run);
    for file in [life, said] {
        fs::remove_file(file).expect("the run's files are there");
    }
}

/// Makes dlock's life independent of a terminal, and bound to this thread's.
fn prepare() -> io::Result<()> {
    setsid()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

fn tail(text: &[u8]) -> String {
    let start = text.len().saturating_sub(SAID);
    String::from_utf8_lossy(&text[start..]).into_owned()
}
