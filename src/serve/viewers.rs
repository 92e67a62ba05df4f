//! The events for one viewer of the page.
//!
//! A task writes the events into a channel for one event. If the browser reads slowly, the task waits, and then sends
//! only the latest state, so a slow viewer needs no memory.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::mpsc::{self, error::SendError};
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::overview::{age_event, failure_event};
use super::reader::{Reader, View, reason};
use super::rendering::{Dropped, Rendering, Renderings};
use crate::sys::clock;

/// Maximum time without an event. Then a comment is sent, so that a connection that is lost is noticed on both sides.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// One of the viewers. The value is dropped when the viewer is gone.
#[derive(Debug)]
pub(super) struct Viewer(Rc<Cell<usize>>);

impl Viewer {
    /// Adds a viewer to `count`.
    pub(super) fn new(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The body of a response with events.
#[derive(Debug)]
pub(super) struct Events {
    events: mpsc::Receiver<Rc<Rendering>>,
    /// The event that is being sent, and the index of its next chunk.
    present: Option<(Rc<Rendering>, usize)>,
}

impl Events {
    /// Starts the task, which ends soon after the body is dropped.
    pub(super) fn start(reader: &Rc<Reader>, renderings: &Rc<Renderings>, viewer: Viewer) -> Self {
        let (sender, events) = mpsc::channel(1);
        spawn_local(send_events(
            Rc::clone(reader),
            Rc::clone(renderings),
            sender,
            viewer,
        ));
        Self {
            events,
            present: None,
        }
    }

    /// Returns the next chunk. None if the task has ended.
    pub(super) fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Dropped>>> {
        loop {
            if let Some((event, index)) = &mut self.present {
                match event.chunk(*index) {
                    Ok(Some(chunk)) => {
                        *index += 1;
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                    Ok(None) => self.present = None,
                    Err(dropped) => return Poll::Ready(Some(Err(dropped))),
                }
            }
            match self.events.poll_recv(context) {
                Poll::Ready(Some(event)) => self.present = Some((event, 0)),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// Sends an event for each view until the receiver is dropped.
async fn send_events(
    reader: Rc<Reader>,
    renderings: Rc<Renderings>,
    sender: mpsc::Sender<Rc<Rendering>>,
    _viewer: Viewer,
) {
    let _demanding = reader.demand();
    let mut views = reader.views();
    let mut sent = None;
    let mut view = reader.fresh().await;
    // `view` is the latest view.
    views.mark_unchanged();
    loop {
        if send(&sender, &reader, &renderings, &view, &mut sent)
            .await
            .is_err()
        {
            return;
        }
        view = loop {
            let next = tokio::select! {
                () = sender.closed() => return,
                next = timeout(KEEP_ALIVE, views.changed()) => next,
            };
            match next {
                Ok(Ok(())) => break Rc::clone(&views.borrow_and_update()),
                Ok(Err(_)) => return,
                Err(_) if sender.send(renderings.create(":\n\n")).await.is_err() => return,
                Err(_) => {}
            }
        };
    }
}

/// Sends the event for `view`. `sent` is the number of the response that the viewer has.
///
/// # Errors
/// Fails if the viewer is gone.
async fn send(
    sender: &mpsc::Sender<Rc<Rendering>>,
    reader: &Reader,
    renderings: &Renderings,
    view: &View,
    sent: &mut Option<u64>,
) -> Result<(), SendError<Rc<Rendering>>> {
    let (Some(data), None) = (&view.data, view.failure) else {
        let event = failure_event(reason(view.failure));
        return sender.send(renderings.create(&event)).await;
    };
    let earlier = sent.replace(data.number);
    let event = match &data.changes {
        Some((number, changes)) if earlier == Some(*number) => Rc::clone(changes),
        _ => {
            // First wait for a place in the channel, because the age grows during this wait.
            if let Ok(permit) = sender.reserve().await {
                let age = clock::now().since(data.latest.sent);
                permit.send(renderings.create(&age_event(age)));
            }
            (data.all).get(|| renderings.create(&reader.overview(data).all_event()))
        }
    };
    sender.send(event).await
}
