//! The thread that turns signals into events.
//!
//! It takes them from the kernel one by one and says which came and whether the kernel sent it.
//! What a signal means is decided by whoever receives the event. It ends with the process: there is
//! nothing of it to be finished or lost.

use std::io;
use std::sync::mpsc::Sender;
use std::thread;

use crate::event::{Event, Origin, Signal};
use crate::sys::signal::Inbox;

/// Starts the thread, which sends each signal from `inbox` as an event.
///
/// # Errors
/// When the kernel gives no thread.
pub fn start(inbox: Inbox, events: Sender<Event>) -> io::Result<()> {
    let thread = thread::Builder::new().name("signals".to_owned());
    thread
        .spawn(move || {
            while let Ok(arrival) = inbox.take() {
                let signal = Signal {
                    number: arrival.number,
                    origin: match arrival.by_kernel {
                        true => Origin::Kernel,
                        false => Origin::Process,
                    },
                };
                if events.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        })
        .map(drop)
}
