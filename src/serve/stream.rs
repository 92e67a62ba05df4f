//! A connection that ends if its client reads too slowly.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::time::{Sleep, sleep};

use super::listener::Connection;

/// Maximum time in which a client must read the data that is buffered for it: at most a chunk of a document and the buffer
/// of the connection, about 64 KiB. A client on this machine needs 13 KiB per second, because the kernel reports what it
/// has read in steps of up to 128 KiB. Without this limit, a client that reads one byte per second would keep a document in
/// memory for hours. The limit is long enough for a short failure of a mobile network.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection of a client.
pub(super) struct ClientStream {
    stream: TokioIo<Box<dyn Connection>>,
    /// The end of the time in which the client must read the data that is buffered for it. None if everything was written.
    end: Option<Pin<Box<Sleep>>>,
}

impl ClientStream {
    pub(super) fn new(stream: Box<dyn Connection>) -> Self {
        Self {
            stream: TokioIo::new(stream),
            end: None,
        }
    }

    /// Returns `outcome`, the outcome of a write, or a failure if the client reads too slowly.
    fn limit(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if outcome.is_pending() {
            let start = || Box::pin(sleep(READ_TIMEOUT));
            let end = self.end.get_or_insert_with(start);
            if end.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
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

    /// hyper calls this function each time it has written everything that is buffered, also in the middle of a document.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end = None;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
