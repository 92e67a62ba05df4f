//! Shows the state of the locks repeatedly: on a screen if stdout is a terminal, otherwise as blocks of text or as
//! JSON.
//!
//! The main thread handles events and prints the output. Other threads wait for signals, for the server and, on a
//! screen, for keys. These threads send events to the main thread. dlock shows nothing before the first response from
//! the server.

pub mod lines;
pub mod poller;

use anyhow::Context;

use self::poller::{PollEvent, Poller};
use super::options::WatchOptions;
use super::state::{Header, KeyEffect, ScreenState};
use super::terminal::{Screen, keyboard};
use crate::exit::{ExitError, Status};
use crate::locks::snapshot::TimedSnapshot;
use crate::report::Report;
use crate::report::style::Colors;
use crate::store::Holder;
use crate::store::target::Targets;
use crate::sys::signal::{self, JobControl, SignalFd};
use crate::sys::{clock, terminal};

/// Shows the state of the locks until the user quits, a fatal signal arrives, or the reader of stdout closes the pipe.
///
/// # Errors
/// Fails if the first request fails, for example because the server is unreachable, refuses the account, or has no
/// dlock tables. Also fails if the output cannot be written.
pub fn run(options: WatchOptions, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    let title = Header {
        server: format!("{targets}/{}", targets.database()),
        interval: options.interval,
    };
    let (layout, json) = (options.layout, options.json);
    let operator = options.operator.clone();
    // The descriptor is opened before any thread starts, so that all threads inherit the signal mask. The job control
    // signals are not blocked, so SIGTSTP and terminal access from the background stop this process as usual.
    let signals = SignalFd::open(JobControl::Usual).context("cannot receive signals")?;
    let mut poller = Poller::start(options, targets, signals).context("cannot start a thread")?;
    let first = match first_snapshot(&mut poller)? {
        Ok(snapshot) => snapshot,
        Err(status) => return Ok(status),
    };
    let outcome = match !json && terminal::is_screen() {
        true => on_screen(&mut poller, title, operator, first, layout.colors),
        false => lines::run(&mut poller, first, json, layout, report),
    };
    poller.stop();
    outcome
}

/// Returns the first snapshot, or the exit status if a fatal signal arrives before the snapshot.
///
/// # Errors
/// Fails if the first request fails.
fn first_snapshot(poller: &mut Poller) -> anyhow::Result<Result<TimedSnapshot, Status>> {
    loop {
        match poller.wait() {
            PollEvent::Snapshot(Ok(snapshot)) => return Ok(Ok(*snapshot)),
            PollEvent::Snapshot(Err(failure)) => {
                return Err(ExitError::new(failure.kind.status(), failure).into());
            }
            PollEvent::Signal(number) if signal::is_fatal(number) => {
                return Ok(Err(Status::from_signal(number)));
            }
            _ => {}
        }
    }
}

fn on_screen(
    poller: &mut Poller,
    title: Header,
    operator: Holder,
    first: TimedSnapshot,
    colors: Colors,
) -> anyhow::Result<Status> {
    const LOST: &str = "cannot use the terminal";
    let mut screen = Screen::enter(colors).context(LOST)?;
    let keys = poller.sender();
    keyboard::start(move |key| keys.send(PollEvent::Key(key)).map_err(drop))
        .context("cannot start a thread")?;
    let mut state = ScreenState::new(title, operator, first, screen.size());
    loop {
        state.set_time(clock::now());
        screen.draw(state.frame()).context(LOST)?;
        poller.request_history(state.history_request());
        if let Some(release) = state.take_confirmed() {
            poller.release(release);
        }
        match poller.wait() {
            PollEvent::Key(key) => match state.press(key) {
                KeyEffect::None => {}
                KeyEffect::Quit => return Ok(Status::OK),
                KeyEffect::Suspend => {
                    screen.suspend(signal::suspend_self).context(LOST)?;
                    state.resize(screen.size());
                }
                KeyEffect::Redraw => screen.redraw().context(LOST)?,
            },
            PollEvent::Signal(signal::SIGWINCH) => {
                state.resize(screen.size());
                screen.redraw().context(LOST)?;
            }
            PollEvent::Signal(signal::SIGCONT) => {
                screen.resume().context(LOST)?;
                state.resize(screen.size());
            }
            PollEvent::Signal(number) if signal::is_fatal(number) => {
                return Ok(Status::from_signal(number));
            }
            PollEvent::Snapshot(Ok(snapshot)) => state.set_snapshot(*snapshot),
            PollEvent::History(action, Ok(entries)) => state.set_history(&action, entries),
            PollEvent::Snapshot(Err(failure)) => state.set_failure(failure.to_string()),
            PollEvent::History(action, Err(failure)) => {
                state.set_history_failure(&action, failure.to_string());
            }
            PollEvent::Released(release, outcome) => state.set_released(&release, outcome),
            PollEvent::Signal(_) | PollEvent::Tick => {}
        }
    }
}
