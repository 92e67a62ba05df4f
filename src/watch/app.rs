//! Shows the state of the locks repeatedly: on a screen if stdout is a terminal, otherwise as lines.
//!
//! The main thread draws and decides. Three other threads wait for keys, signals and the server, and send events to it.
//! Nothing is shown before the first response of the server.

pub mod lines;
pub mod poller;

use anyhow::Context;

use self::poller::{Event, Rounds};
use super::heard::Heard;
use super::options::WatchOptions;
use super::state::{Header, Request, State};
use super::terminal::{Colors, Screen, keyboard};
use crate::cli::watch::Color;
use crate::exit::{ExitError, Status};
use crate::report::Report;
use crate::store::target::Target;
use crate::sys::signal::{self, SignalFd};
use crate::sys::{clock, terminal};

/// Shows the state of the locks until the user quits, a fatal signal arrives, or the reader of the output is gone.
///
/// # Errors
/// Fails if the first request fails, for example because the server cannot be reached, refuses the account, or has no
/// dlock tables, and if the output cannot be written.
pub fn run(options: WatchOptions, target: Target, report: &Report) -> anyhow::Result<Status> {
    let title = Header {
        server: format!("{}/{}", target.address, target.database),
        interval: humantime::format_duration(options.interval).to_string(),
    };
    let (color, json) = (options.color, options.json);
    // Opened before any thread starts, so that all threads inherit the signal mask. Job control stays with the
    // terminal, so Ctrl-Z and access from the background stop this process as usual.
    let signals = SignalFd::open(true).context("cannot take signals")?;
    let mut rounds = Rounds::start(options, target, signals).context("cannot start a thread")?;
    let first = match first_snapshot(&mut rounds)? {
        Ok(heard) => heard,
        Err(status) => return Ok(status),
    };
    let outcome = match !json && terminal::is_screen() {
        true => on_screen(&mut rounds, title, first, colors(color)),
        false => lines::run(&mut rounds, first, json, report),
    };
    rounds.leave();
    outcome
}

/// Returns the first response, or the exit status if a fatal signal arrives before it.
fn first_snapshot(rounds: &mut Rounds) -> anyhow::Result<Result<Heard, Status>> {
    loop {
        match rounds.wait() {
            Event::Survey(Ok(heard)) => return Ok(Ok(*heard)),
            Event::Survey(Err(failure)) => {
                return Err(ExitError::new(failure.kind.status(), failure).into());
            }
            Event::Signal(number) if signal::is_fatal(number) => {
                return Ok(Err(Status::from_signal(number)));
            }
            _ => {}
        }
    }
}

fn colors(color: Color) -> Colors {
    let is_unwanted = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match color {
        Color::Never => Colors::Left,
        Color::Auto if is_unwanted() => Colors::Left,
        Color::Always | Color::Auto => Colors::Shown,
    }
}

fn on_screen(
    rounds: &mut Rounds,
    title: Header,
    first: Heard,
    colors: Colors,
) -> anyhow::Result<Status> {
    const LOST: &str = "cannot use the terminal";
    let mut screen = Screen::enter(colors).context(LOST)?;
    let keys = rounds.sender();
    keyboard::start(move |key| keys.send(Event::Key(key)).map_err(drop))
        .context("cannot start a thread")?;
    let mut state = State::new(title, first, screen.size());
    loop {
        screen.draw(state.frame(clock::now())).context(LOST)?;
        rounds.want_history(state.history_wanted());
        match rounds.wait() {
            Event::Key(key) => match state.press(key) {
                Request::None => {}
                Request::Quit => return Ok(Status::OK),
                Request::Suspend => {
                    screen.suspend(signal::suspend_self).context(LOST)?;
                    state.resize(screen.size());
                }
                Request::Redraw => screen.redraw().context(LOST)?,
            },
            Event::Signal(signal::SIGWINCH) => {
                state.resize(screen.size());
                screen.redraw().context(LOST)?;
            }
            Event::Signal(signal::SIGCONT) => {
                screen.resume().context(LOST)?;
                state.resize(screen.size());
            }
            Event::Signal(number) if signal::is_fatal(number) => {
                return Ok(Status::from_signal(number));
            }
            Event::Survey(Ok(heard)) => state.learn(*heard),
            Event::History(action, Ok(entries)) => state.recall(&action, entries),
            Event::Survey(Err(failure)) | Event::History(_, Err(failure)) => {
                state.miss(failure.to_string(), clock::now());
            }
            Event::Signal(_) | Event::Tick => {}
        }
    }
}
