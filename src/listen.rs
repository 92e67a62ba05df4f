//! The thread that listens: signals and the words of the monitor become events.
//!
//! What they mean is decided by whoever receives the event. It ends with the process: there is
//! nothing of it to be finished or lost.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::Sender;
use std::thread;

use crate::event::Event;
use crate::monitor::{Monitor, Word};
use crate::sys::alarm::wait_for;
use crate::sys::signal::{self, Inbox, Origin};

/// Starts the thread, which sends each signal from `inbox` and each word of `monitor`, if there is
/// one, as an event.
///
/// # Errors
/// When the kernel gives no thread.
pub fn start(inbox: Inbox, monitor: Option<Monitor>, events: Sender<Event>) -> io::Result<()> {
    let thread = thread::Builder::new().name("listen".to_owned());
    thread
        .spawn(move || {
            // Fails only when nobody receives events any more.
            let _ = listen(&inbox, monitor, |event| events.send(event).map_err(drop));
        })
        .map(drop)
}

fn listen(
    inbox: &Inbox,
    mut monitor: Option<Monitor>,
    tell: impl Fn(Event) -> Result<(), ()>,
) -> Result<(), ()> {
    loop {
        let [signalled, spoken] = match &monitor {
            Some(monitor) => wait_for([inbox.as_fd(), monitor.as_fd()]),
            None => wait_for([inbox.as_fd()]).map(|[signalled]| [signalled, false]),
        }
        .map_err(drop)?;
        if spoken {
            while let Some(word) = monitor.as_ref().and_then(Monitor::hear) {
                if word == Word::Gone {
                    // What is closed is always readable.
                    monitor = None;
                }
                tell(Event::Monitor(word))?;
            }
        }
        if signalled {
            let signal = inbox.take().map_err(drop)?;
            // Later the children are what it left, and whoever buries them reaps them.
            if signal.number == signal::CHILD
                && let Some(monitor) = &monitor
            {
                monitor.tend();
            }
            if signal.origin != Origin::Child {
                tell(Event::Signal(signal))?;
            }
        }
    }
}
