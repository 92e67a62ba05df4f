//! The threads that wait for the end of a hold.

use std::fs::File;
use std::io;
use std::thread;

use crate::event::queue::EventSender;
use crate::event::{Event, HoldInput};
use crate::sys::input::wait_for_end;
use crate::sys::ward::Ward;

/// Starts a thread that reads `file`, ignores what it reads, and sends the end of `input` at the end of the file.
///
/// # Errors
/// Fails if the kernel cannot create a thread.
pub fn start(input: HoldInput, mut file: File, events: EventSender) -> io::Result<()> {
    send_after(input, events, move || wait_for_end(&mut file))
}

/// Starts a thread that sends an event when `ward` has ended.
///
/// # Errors
/// Fails if the kernel cannot create a thread.
pub fn watch(ward: Ward, events: EventSender) -> io::Result<()> {
    send_after(HoldInput::Ward(ward.pid()), events, move || ward.wait())
}

fn send_after(
    input: HoldInput,
    events: EventSender,
    wait: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let thread = thread::Builder::new().name("input".to_owned());
    let thread = thread.spawn(move || {
        wait();
        // The send fails only at the end of the process.
        let _ = events.send(Event::InputEnded(input));
    });
    thread.map(drop)
}
