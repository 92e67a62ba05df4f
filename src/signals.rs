//! The thread that turns signals into events.
//!
//! Handlers only write to a pipe; this thread reads it and says which signal came and whether the
//! kernel sent it. What a signal means is decided by whoever receives the event. Signals that were
//! ignored when dlock started stay ignored, so `nohup` and background jobs keep their meaning.

use std::io;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::iterator::{Handle, SignalsInfo};
use signal_hook::low_level::siginfo::Cause;

use crate::event::{Event, Origin, Signal};
use crate::sys::signal;

/// The running thread.
#[derive(Debug)]
pub struct Signals {
    handle: Handle,
    thread: JoinHandle<()>,
}

impl Signals {
    /// Catches every catchable signal from now on and sends each as an event.
    ///
    /// With `job_control` left to the terminal, SIGTSTP and its like keep stopping us.
    ///
    /// # Errors
    /// When the kernel gives no pipe or no thread.
    pub fn start(events: Sender<Event>, terminal: bool) -> io::Result<Self> {
        let numbers = signal::catchable()
            .into_iter()
            .filter(|number| !(terminal && signal::JOB_CONTROL.contains(number)));
        let mut signals = SignalsInfo::<WithOrigin>::new(numbers)?;
        let handle = signals.handle();
        let thread = signal::blocked(|| {
            thread::Builder::new()
                .name("signals".to_owned())
                .spawn(move || {
                    for arrived in signals.forever() {
                        let origin = match arrived.cause {
                            Cause::Kernel => Origin::Kernel,
                            _ => Origin::Process,
                        };
                        let signal = Signal {
                            number: arrived.signal,
                            origin,
                        };
                        if events.send(Event::Signal(signal)).is_err() {
                            return;
                        }
                    }
                })
        })?;
        Ok(Self { handle, thread })
    }

    /// Stops the thread and waits for it. Signals that arrive from here on are swallowed.
    pub fn stop(self) {
        self.handle.close();
        // A panic in it has been reported by the panic hook.
        let _ = self.thread.join();
    }
}
