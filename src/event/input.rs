//! The thread that waits for the end of stdin.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::thread;
use std::time::Duration;

use crate::event::Event;
use crate::event::queue::EventSender;

/// Pause after a read that a terminal has refused, because this process is in the background.
const PAUSE: Duration = Duration::from_millis(200);

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

fn wait_for_end(input: &mut impl Read) {
    let mut ignored = [0; 4096];
    loop {
        match input.read(&mut ignored) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The signal for this case is blocked.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => thread::park_timeout(PAUSE),
            Err(_) => return,
        }
    }
}
