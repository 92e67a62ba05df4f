//! A connection that ends if its client reads too slowly.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::time::{Sleep, sleep};

use super::listener::Connection;

/// Time in which a client must read [`MIN_BYTES`], or everything that was sent to it. The limit is long enough for a
/// short failure of a mobile network.
const WINDOW: Duration = Duration::from_secs(10);

/// Bytes that a client must read in each [`WINDOW`]. Without this limit, a client that reads one byte per second would
/// keep a document in memory for hours.
const MIN_BYTES: usize = 256 << 10;

/// A connection of a client.
pub(super) struct ClientStream {
    stream: TokioIo<Box<dyn Connection>>,
    /// The end of the current window, and the bytes that the client has read in it. None if everything was written.
    window: Option<(Pin<Box<Sleep>>, usize)>,
}

impl ClientStream {
    pub(super) fn new(stream: Box<dyn Connection>) -> Self {
        Self {
            stream: TokioIo::new(stream),
            window: None,
        }
    }

    /// Counts the bytes of a write. Turns the outcome of a write into a failure if the window ends with too few bytes.
    fn limit(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let written = match &outcome {
            Poll::Ready(Ok(count)) => *count,
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        };
        if outcome.is_pending() && self.window.is_none() {
            self.window = Some((Box::pin(sleep(WINDOW)), 0));
        }
        if let Some((end, read)) = &mut self.window {
            *read += written;
            if end.as_mut().poll(context).is_ready() {
                if *read < MIN_BYTES {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                self.window = None;
                // The next call starts a new window.
                context.waker().wake_by_ref();
            }
        }
        outcome
    }
}

impl Read for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, buffer);
        self.limit(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.limit(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper calls this function after it has written everything.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.window = None;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
