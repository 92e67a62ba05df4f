//! The event queue: receives events from threads, signals, and messages from the monitor.
//!
//! The event loop waits for all three sources in one call. No thread forwards signals or messages from the monitor,
//! because each forwarding step would delay a hand-over. The event loop decides how to handle an event.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use crate::event::{Event, LeaseEvent};
use crate::process::monitor::{Monitor, ParentMessage};
use crate::sys::boot_timer::wait_for;
use crate::sys::channel::Channel;
use crate::sys::signal::{self, Origin, SignalFd};

/// The receiver of events.
#[derive(Debug)]
pub struct EventQueue {
    events: Receiver<Event>,
    /// Readable when a thread has sent an event.
    wakeup: Channel,
    signals: SignalFd,
    /// None after the monitor has died or ended, or if there is no monitor.
    monitor: Option<Monitor>,
}

/// Sends events from a thread.
#[derive(Debug, Clone)]
pub struct EventSender {
    events: Sender<Event>,
    waker: Arc<Channel>,
}

/// Sends the events of one lease from a thread.
#[derive(Debug, Clone)]
pub struct LeaseSender {
    lease: usize,
    sender: EventSender,
}

/// The error that is returned when an event is sent to a queue that has been dropped.
#[derive(Debug)]
pub struct QueueClosed;

impl EventSender {
    /// Sends `event` without waiting.
    ///
    /// # Errors
    /// Fails if the queue has been dropped.
    pub fn send(&self, event: Event) -> Result<(), QueueClosed> {
        self.events.send(event).map_err(|_| QueueClosed)?;
        // The send fails only if the queue was dropped at the same time, or if so many wake-ups are pending that the
        // queue wakes anyway.
        let _ = self.waker.send(&[0]);
        Ok(())
    }

    /// Returns the sender of the events of the lease with the number `lease`.
    #[must_use]
    pub fn of_lease(&self, lease: usize) -> LeaseSender {
        let sender = self.clone();
        LeaseSender { lease, sender }
    }
}

impl LeaseSender {
    /// Sends `event` without waiting.
    ///
    /// # Errors
    /// Fails if the queue has been dropped.
    pub fn send(&self, event: LeaseEvent) -> Result<(), QueueClosed> {
        self.sender.send(Event::Lease(self.lease, event))
    }
}

impl EventQueue {
    /// Creates a queue for signals from `signals`, for messages from `monitor` if there is one, and for events from
    /// threads, which use the returned sender.
    ///
    /// # Errors
    /// Fails if the kernel cannot create a descriptor.
    pub fn new(signals: SignalFd, monitor: Option<Monitor>) -> io::Result<(Self, EventSender)> {
        let (sender, events) = mpsc::channel();
        let (waker, wakeup) = Channel::pair()?;
        let queue = Self {
            events,
            wakeup,
            signals,
            monitor,
        };
        let sender = EventSender {
            events: sender,
            waker: Arc::new(waker),
        };
        Ok((queue, sender))
    }

    /// Waits for the next event and returns it. None if no event arrives within `timeout`, or if the wait ends early
    /// without an event.
    pub fn next(&mut self, timeout: Duration) -> Option<Event> {
        if let Ok(event) = self.events.try_recv() {
            return Some(event);
        }
        let [has_event, has_signal, has_message] = self.wait(timeout)?;
        if has_event {
            // Drain the wake-ups before reading the channel. An event that is sent after the drain wakes the queue
            // again.
            self.wakeup.drain();
        }
        let event = self.events.try_recv().ok();
        event
            .or_else(|| self.recv_from_monitor(has_message))
            .or_else(|| self.recv_signal(has_signal))
    }

    /// Waits up to `timeout` for an event from a thread, a signal, or a message from the monitor. Returns true for each
    /// of these sources that is ready. None if the wait failed.
    fn wait(&self, timeout: Duration) -> Option<[bool; 3]> {
        let (wakeup, signals) = (self.wakeup.as_fd(), self.signals.as_fd());
        let ready = match &self.monitor {
            Some(monitor) => wait_for([wakeup, signals, monitor.as_fd()], Some(timeout)),
            None => wait_for([wakeup, signals], Some(timeout))
                .map(|[has_event, has_signal]| [has_event, has_signal, false]),
        };
        ready.ok()
    }

    fn recv_from_monitor(&mut self, has_message: bool) -> Option<Event> {
        let message = self.monitor.as_ref().filter(|_| has_message)?.recv()?;
        if matches!(message, ParentMessage::Gone(_)) {
            // A closed descriptor would always be readable.
            self.monitor = None;
        }
        Some(Event::Monitor(message))
    }

    fn recv_signal(&self, has_signal: bool) -> Option<Event> {
        let signal = has_signal.then(|| self.signals.take().ok())??;
        // After the monitor's death, the children of this process are the remaining processes of the command's tree.
        // The code that kills the tree also reaps these children.
        if signal.number == signal::SIGCHLD
            && let Some(monitor) = &self.monitor
        {
            monitor.resume_and_reap();
        }
        (signal.origin != Origin::Child).then_some(Event::Signal(signal))
    }
}
