//! Showing what is held again and again: on a screen where there is one, elsewhere as lines.
//!
//! The main thread draws and decides; three others wait, for keys, for signals and for the server,
//! and tell it what came. The server must have answered once before anything is shown.

pub mod lines;
pub mod rounds;

use std::time::Duration;

use anyhow::Context;

use self::rounds::{Event, Rounds};
use super::asked::Asked;
use super::heard::Heard;
use super::state::{Request, State, Title};

use super::terminal::{Colors, Screen, keyboard};
use crate::cli::watch::Color;
use crate::exit::{Ending, Status};
use crate::report::Report;
use crate::store::target::Target;
use crate::sys::signal::{self, Inbox};
use crate::sys::{clock, terminal};

/// What is shown, and how.
#[derive(Debug, Clone)]
pub struct Wishes {
    /// Which actions.
    pub asked: Asked,
    /// Whether for a program.
    pub json: bool,
    /// How often.
    pub interval: Duration,
    /// Whether the screen has colours.
    pub color: Color,
}

/// Shows it until somebody ends that.
///
/// # Errors
/// When the server cannot be reached at first, refuses, or has no tables of ours; when the output
/// takes nothing.
pub fn run(wishes: Wishes, target: Target, report: &Report) -> anyhow::Result<Status> {
    let title = Title {
        server: format!("{}/{}", target.address, target.database),
        interval: humantime::format_duration(wishes.interval).to_string(),
    };
    let (color, json) = (wishes.color, wishes.json);
    // Before any thread, so that all of them leave signals to it. Ctrl-Z and a terminal that is not
    // ours stop us as they stop anybody.
    let inbox = Inbox::open(true).context("cannot take signals")?;
    let mut rounds = Rounds::start(wishes, target, inbox).context("cannot start a thread")?;
    let first = match first(&mut rounds)? {
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

/// The first answer, or the status of an end that came before it.
fn first(rounds: &mut Rounds) -> anyhow::Result<Result<Heard, Status>> {
    loop {
        match rounds.wait() {
            Event::Survey(Ok(heard)) => return Ok(Ok(*heard)),
            Event::Survey(Err(failure)) => {
                return Err(Ending::new(failure.kind.status(), failure).into());
            }
            Event::Signal(number) if signal::is_deadly(number) => {
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
    title: Title,
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
                    screen.suspend(signal::stop_job).context(LOST)?;
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
            Event::Signal(number) if signal::is_deadly(number) => {
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
