//! The thread that reads keys. The thread ends when the process exits, the terminal hangs up, or the receiver of the
//! keys is dropped.

use std::io;
use std::thread;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::watch::key::Key;

/// Starts the thread, which calls `send` with each key that has a function, until `send` fails.
///
/// # Errors
/// Fails if the kernel cannot create a thread.
pub fn start(send: impl Fn(Key) -> Result<(), ()> + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name("keyboard".to_owned());
    thread
        .spawn(move || {
            while let Ok(event) = event::read() {
                let key = match event {
                    Event::Key(event) if event.kind != KeyEventKind::Release => key(event),
                    // SIGWINCH reports a new size of the terminal.
                    _ => None,
                };
                if key.is_some_and(|key| send(key).is_err()) {
                    return;
                }
            }
        })
        .map(drop)
}

fn key(event: KeyEvent) -> Option<Key> {
    let with_control = event.modifiers.contains(KeyModifiers::CONTROL);
    Some(match event.code {
        KeyCode::Char('c') if with_control => Key::Interrupt,
        KeyCode::Char('z') if with_control => Key::Suspend,
        KeyCode::Char('l') if with_control => Key::Redraw,
        KeyCode::Char('u') if with_control => Key::Erase,
        KeyCode::Char('b') if with_control => Key::PageUp,
        KeyCode::Char('f') if with_control => Key::PageDown,
        KeyCode::Char('h') if with_control => Key::Backspace,
        KeyCode::Char(_) if with_control => return None,
        KeyCode::Char(character) => Key::Text(character),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}
