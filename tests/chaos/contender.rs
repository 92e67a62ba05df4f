//! Contenders: each runs dlock on its action again and again, one run after the other.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, set_parent_process_death_signal, setsid};

use crate::command::{self, RUN};
use crate::history::{Event, Line, now};
use crate::run_context::RunContext;
use crate::schedule::{Plan, Route, Shape, plans};
use crate::testbed::Site;

/// Maximum number of bytes of a run's standard error that the history keeps.
const SAID: usize = 2_000;

/// Contends for `action` until the faults are over, and then once more.
pub(crate) fn contend(context: &RunContext, site: &Site, action: &str, slot: usize) {
    let patience = site.purpose.patience();
    for mut plan in plans(context.seed, action, slot) {
        plan.ttl *= patience;
        if !context.fault_phase.pause(Duration::from_millis(plan.pause)) {
            break;
        }
        run(context, site, action, plan);
    }
    // A contender that starts after all faults must be served.
    context.fault_phase.wait_for_quiet();
    let last = Plan {
        pause: 0,
        ttl: 2_000 * patience,
        hold: 10,
        shape: Shape::Plain,
        exit: 0,
        wait: None,
        route: Route::Tcp,
    };
    run(context, site, action, last);
}

/// Runs dlock once, from its start to its end.
fn run(context: &RunContext, site: &Site, action: &str, plan: Plan) {
    let run = context.runs.fetch_add(1, Ordering::Relaxed);
    let life = command::make_life(&context.folder, run);
    context.tree_watcher.watch(run, action, &life);
    let said = context.folder.join("said").join(run.to_string());
    let file = File::create(&said).expect("a file can be created");
    let (reader, stderr) = io::pipe().expect("a pipe can be created");
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
    let mut dlock = context.dlock();
    dlock
        .env("DLOCK_URL", url)
        .env(RUN, run.to_string())
        .args(["exec", "--action", action, "--wait", &wait])
        .args(["--ttl", &format!("{}ms", plan.ttl)])
        .args(["--holder", &format!("run {run}"), "--"])
        .args(command::line(&context.worker, &context.folder, &plan))
        .stdout(Stdio::null())
        .stderr(stderr.try_clone().expect("a descriptor is available"));
    // SAFETY: `prepare` only makes system calls that are allowed between fork and exec.
    unsafe {
        dlock.pre_exec(prepare);
    }
    let mut child = dlock.spawn().expect("dlock starts");
    // The builder holds a write end of the pipe, which would never reach its end.
    drop(dlock);
    context.readers.join(run, stderr);
    context.journal.note(Event::Asked {
        run,
        action: action.to_owned(),
        parent: child.id(),
        plan,
    });
    let (status, at) = thread::scope(|scope| {
        let copies = scope.spawn(|| context.readers.copy(run, reader, file));
        let status = child.wait().expect("dlock can be waited for");
        // The time is taken before the end of the pipe, which a leftover process would delay.
        let at = now();
        context.readers.leave(run);
        let outcome = copies.join().expect("a reader does not panic");
        outcome.expect("standard error can be copied");
        (status, at)
    });
    let event = Event::Ended {
        run,
        action: action.to_owned(),
        status: status.code(),
        signal: status.signal(),
        stderr: tail(&fs::read(&said).expect("the copy of standard error can be read")),
    };
    context.journal.write(&Line { at, event });
    context.tree_watcher.ended(run);
    for file in [life, said] {
        fs::remove_file(file).expect("the run's files are there");
    }
}

/// Detaches dlock from the terminal, and lets the kernel kill it when this thread ends.
fn prepare() -> io::Result<()> {
    setsid()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

fn tail(text: &[u8]) -> String {
    let start = text.len().saturating_sub(SAID);
    String::from_utf8_lossy(&text[start..]).into_owned()
}
