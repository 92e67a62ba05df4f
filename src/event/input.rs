//! The thread that waits for the end of stdin.

use std::fs::File;
use std::io;
use std::thread;

use crate::event::Event;
use crate::event::queue::EventSender;
use crate::sys::input::wait_for_end;

/// Starts a thread that reads `input`, a copy of stdin, ignores what it reads, and sends an event at the end.
///
/// # Errors
/// Fails if the kernel cannot create a thread.
pub fn start(mut input: File, events: EventSender) -> io::Result<()> {
    thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            wait_for_end(&mut input);
            // The send fails only at the end of the process.
            let _ = events.send(Event::InputEnded);
        })?;
    Ok(())
}
