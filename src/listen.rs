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

/// Starts the thread, which sends each signal from `inbox` and each word of `monitor` as an event.
///
/// # Errors
/// When the kernel gives no thread.
pub fn start(inbox: Inbox, monitor: Monitor, events: Sender<Event>) -> io::Result<()> {
    let thread = thread::Builder::new().name("listen".to_owned());
    thread
        .spawn(move || {
            // Fails only when nobody receives events any more.
            let _ = listen(&inbox, &monitor, |event| events.send(event).map_err(drop));
        })
        .map(drop)
}

fn listen(
    inbox: &Inbox,
    monitor: &Monitor,
    tell: impl Fn(Event) -> Result<(), ()>,
) -> Result<(), ()> {
    let mut is_monitor_there = true;
    loop {
        let [signalled, spoken] = match is_monitor_there {
            true => wait_for([inbox.as_fd(), monitor.as_fd()]),
            // What is closed is always readable.
            false => wait_for([inbox.as_fd()]).map(|[signalled]| [signalled, false]),
        }
        .map_err(drop)?;
        while let (true, Some(word)) = (spoken && is_monitor_there, monitor.hear()) {
            is_monitor_there = word != Word::Gone;
            tell(Event::Monitor(word))?;
        }
        if signalled {
            let signal = inbox.take().map_err(drop)?;
            // Later the children are what it left, and whoever buries them reaps them.
            if signal.number == signal::CHILD && is_monitor_there {
                monitor.tend();
            }
            if signal.origin != Origin::Child {
                tell(Event::Signal(signal))?;
            }
        }
    }
}
