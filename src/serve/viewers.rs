//! The events for one viewer of the page.
//!
//! A task writes the events into a channel for one event. If the browser reads slowly, the task first waits for a place
//! in the channel, and then sends only the latest state. It refers to no records while it waits, so that a slow viewer
//! keeps no old records in memory.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::overview::{age_event, failure_event};
use super::reader::{Reader, View, reason};
use super::rendering::{Dropped, Rendering, Renderings};
use crate::lease::instant::BootInstant;
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

/// An event for one viewer.
#[derive(Debug)]
struct Event {
    text: Rc<Rendering>,
    /// Time at which the records of the event were requested. None if the event needs no age.
    sent: Option<BootInstant>,
}

/// The body of a response with events.
#[derive(Debug)]
pub(super) struct Events {
    events: mpsc::Receiver<Event>,
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
                Poll::Ready(Some(Event { text, sent })) => {
                    self.present = Some((text, 0));
                    if let Some(sent) = sent {
                        let age = age_event(clock::now().since(sent));
                        return Poll::Ready(Some(Ok(Bytes::from(age))));
                    }
                }
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
    sender: mpsc::Sender<Event>,
    _viewer: Viewer,
) {
    let _demanding = reader.demand();
    let mut views = reader.views();
    let mut sent = None;
    let view = reader.fresh().await;
    // `view` is the latest view.
    views.mark_unchanged();
    // The channel is empty. The send fails if the viewer is gone, and then the loop ends.
    if let Some(event) = event(&reader, &renderings, &view, &mut sent) {
        let _ = sender.try_send(event);
    }
    drop(view);
    loop {
        let next = tokio::select! {
            () = sender.closed() => return,
            next = timeout(KEEP_ALIVE, views.changed()) => next,
        };
        // First wait for a place in the channel, because the view may change during this wait.
        let Ok(place) = sender.reserve().await else {
            return;
        };
        let event = match next {
            Ok(Ok(())) => {
                let view = Rc::clone(&views.borrow_and_update());
                event(&reader, &renderings, &view, &mut sent)
            }
            Ok(Err(_)) => return,
            Err(_) => Some(Event {
                text: renderings.create(":\n\n"),
                sent: None,
            }),
        };
        if let Some(event) = event {
            place.send(event);
        }
    }
}

/// Returns the event for `view`. `sent` is the number of the response that the viewer has. None if newer records are read,
/// for which an event follows.
fn event(
    reader: &Reader,
    renderings: &Renderings,
    view: &View,
    sent: &mut Option<u64>,
) -> Option<Event> {
    let (Some(data), None) = (&view.data, view.failure) else {
        return Some(Event {
            text: renderings.create(&failure_event(reason(view.failure))),
            sent: None,
        });
    };
    let event = match &data.changes {
        Some((number, changes)) if *sent == Some(*number) => Event {
            text: Rc::clone(changes),
            sent: None,
        },
        _ => {
            let lines = reader.overview(data)?;
            // The writer never fails.
            let create = || {
                let text = renderings.write(|out| lines.write_all(out));
                text.unwrap_or_else(|_| renderings.create(""))
            };
            Event {
                text: data.all.get(create),
                sent: Some(data.sent),
            }
        }
    };
    *sent = Some(data.number);
    Some(event)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::time::Duration;

    use hyper::body::Bytes;
    use tokio::runtime;
    use tokio::task::{LocalSet, yield_now};

    use super::{Events, Viewer};
    use crate::serve::reader::tests::reader;
    use crate::serve::rendering::Renderings;
    use crate::serve::tests::latest;
    use crate::sys::clock;

    #[test]
    fn slow_viewer_keeps_no_records_and_gets_the_latest_ones() {
        let mut builder = runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().expect("a runtime");
        LocalSet::new().block_on(&runtime, async {
            let renderings = Rc::<Renderings>::default();
            let reader = reader(&renderings);
            let publish = || {
                let published = reader.publish(clock::now(), Ok(latest(&[], &[])));
                published.expect("a success is published");
                let view = reader.views().borrow().clone();
                Rc::downgrade(view.data.as_ref().expect("the view has records"))
            };
            let mut earlier = vec![publish()];
            let viewer = Viewer::new(&reader.viewers);
            let mut events = Events::start(&reader, &renderings, viewer);
            // The viewer reads nothing yet.
            for _ in 0..5 {
                for _ in 0..5 {
                    yield_now().await;
                }
                earlier.push(publish());
            }
            let latest = earlier.pop();
            assert!(latest.is_some_and(|data| data.upgrade().is_some()));
            let kept = earlier.iter().filter(|data| data.upgrade().is_some());
            assert_eq!(kept.count(), 0, "earlier records are in memory");
            // The event in the channel, and the latest one.
            for _ in 0..2 {
                for kind in ["age", "all"] {
                    let chunk = std::future::poll_fn(|context| events.poll_chunk(context)).await;
                    let chunk: Option<Bytes> = chunk.transpose().expect("the event is in memory");
                    let text = chunk.expect("an event");
                    let start = format!("event: {kind}\n");
                    assert!(text.starts_with(start.as_bytes()), "{text:?}");
                }
            }
            tokio::time::timeout(
                Duration::ZERO,
                std::future::poll_fn(|context| events.poll_chunk(context)),
            )
            .await
            .expect_err("there is no later event");
        });
    }
}
