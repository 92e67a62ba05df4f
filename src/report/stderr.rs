//! Writes messages to stderr, from the calling thread or from a writer thread that reads a bounded queue.
//!
//! The reader of stderr must not delay a thread that renews a lease. The reader may be a log collector that hangs, or a
//! terminal that a user has stopped with Ctrl-S. After [`Stderr::queued`], only the writer thread writes. A caller then
//! waits at most [`FLUSH_TIMEOUT`] when it flushes messages, and at most [`DRAIN_TIMEOUT`] when the process exits or is
//! about to stop. If the queue is full, new messages are dropped, and a later line reports their number.
//!
//! If the writer thread cannot be started, for example because of `RLIMIT_NPROC`, the calling thread writes each message if
//! stderr has room, and otherwise drops the message.
//!
//! Each message is normally one `write(2)`, so that lines from several processes do not mix. A closed stderr is not an
//! error, but the messages are lost. The SIGPIPE of a closed pipe is sent to the writer thread, so the main thread does
//! not mistake SIGPIPE for a signal that it must forward to the command.

use std::convert::Infallible;
use std::io::{self, Write};
use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::sys;

/// Maximum number of messages in the queue. 256 messages are enough for a few minutes of a verbose run whose renewals
/// fail, and use about 60 KiB, which is about the capacity of a pipe. A larger queue would only delay the newest
/// messages. If the queue is full, the newest messages are dropped, so that the output has no gap before the line that
/// reports the number of dropped messages.
const MAX_QUEUED: usize = 256;

/// Maximum time that a flush waits for the writer thread. The limit is normally long enough for the thread to be
/// scheduled on a busy machine. The main thread handles no events during a flush, so the limit must also be short in
/// comparison with the smallest ttl.
pub(super) const FLUSH_TIMEOUT: Duration = Duration::from_millis(50);

/// Maximum time that dlock waits, at exit or before Ctrl-Z stops it, for all messages to be written. The limit is long
/// enough for a slow reader, such as a terminal on a slow network, and for a busy machine: with 15 processes that want
/// each processor, half a second was too short. At that point dlock has already released the lease or given up, or will
/// not renew it before somebody resumes dlock. So a reader that hangs delays only the exit or the stop, by at most this
/// time.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Escape sequence that moves the cursor to the start of the line and erases the line.
const ERASE: &str = "\r\x1b[K";

/// A request to a [`Printer`].
#[derive(Debug)]
pub(super) enum Message {
    /// Prints text that is never erased.
    Permanent(String),
    /// Prints text that the next message overwrites. Used only on a terminal.
    Transient(String),
    /// Erases the transient text, if any.
    Clear,
}

/// Writes messages to a sink, which may be a terminal.
#[derive(Debug)]
pub(super) struct Printer<W> {
    sink: W,
    /// True if the last line on the sink is transient text.
    is_transient: bool,
}

impl<W: Write> Printer<W> {
    const fn new(sink: W) -> Self {
        Self {
            sink,
            is_transient: false,
        }
    }

    fn print(&mut self, message: Message) -> io::Result<()> {
        let is_transient = matches!(message, Message::Transient(_));
        let erase = match mem::replace(&mut self.is_transient, is_transient) || is_transient {
            true => ERASE,
            false => "",
        };
        let text = match message {
            Message::Permanent(text) | Message::Transient(text) => format!("{erase}{text}"),
            Message::Clear => erase.to_owned(),
        };
        sys::stderr::in_background(|| self.sink.write_all(text.as_bytes()))
    }
}

/// Formats the line about dropped messages. The parameter is the number of dropped messages.
type DroppedLine = Box<dyn Fn(u64) -> String + Send>;

/// The ways to write to stderr.
pub(super) enum Stderr {
    /// The calling thread writes, and waits if the reader is slow.
    Direct(Printer<io::Stderr>),
    /// The writer thread writes.
    Queued(Queue),
    /// Messages are dropped.
    Closed,
}

impl Stderr {
    /// Creates a stderr to which the calling thread writes.
    pub(super) fn direct() -> Self {
        Self::Direct(Printer::new(io::stderr()))
    }

    /// Moves all writes to a writer thread. `dropped_line` formats the line about dropped messages.
    pub(super) fn queued(self, dropped_line: impl Fn(u64) -> String + Send + 'static) -> Self {
        match self {
            Self::Direct(printer) => {
                Self::Queued(Queue::new(printer, MAX_QUEUED, Box::new(dropped_line)))
            }
            other => other,
        }
    }

    /// Writes `message`, or passes it to the writer thread.
    pub(super) fn send(&mut self, message: Message) {
        match self {
            // The write fails if stderr is closed, which is not an error.
            Self::Direct(printer) => drop(printer.print(message)),
            Self::Queued(queue) => queue.send(message),
            Self::Closed => {}
        }
    }

    /// Erases transient text. Waits up to `timeout` for all messages to be written.
    pub(super) fn finish(&mut self, timeout: Duration) {
        match self {
            Self::Direct(_) => self.send(Message::Clear),
            Self::Queued(queue) => queue.finish(timeout),
            Self::Closed => {}
        }
    }

    /// Waits up to [`DRAIN_TIMEOUT`] for all messages to be written. Drops all later messages.
    pub(super) fn close(&mut self) {
        if let Self::Queued(queue) = mem::replace(self, Self::Closed) {
            queue.close();
        }
    }
}

/// An entry of the queue.
enum Entry {
    /// A message, and the number of messages that were dropped immediately before it.
    Message(u64, Message),
    /// Requests a notification when all earlier entries are written.
    Flush(SyncSender<()>),
}

/// The main function of the writer thread.
type WriterMain = Box<dyn FnOnce() + Send>;

/// The sending side of the queue.
pub(super) struct Queue {
    entries: SyncSender<Entry>,
    /// The main function of the writer thread. The first message starts the thread, because most runs print no message.
    /// None if the thread has been started.
    writer: Option<WriterMain>,
    /// Number of messages that were dropped but have not yet been reported.
    dropped: Arc<AtomicU64>,
    /// Number of messages that were sent but have not yet been written.
    unwritten: Arc<AtomicUsize>,
    /// True if the most recent message was transient.
    is_transient: bool,
    /// A channel that is disconnected when the writer thread ends.
    ended: Receiver<Infallible>,
}

impl Queue {
    fn new<W: Write + Send + 'static>(
        printer: Printer<W>,
        bound: usize,
        dropped_line: DroppedLine,
    ) -> Self {
        let (entries, queue) = mpsc::sync_channel(bound);
        let (alive, ended) = mpsc::channel();
        let dropped = Arc::<AtomicU64>::default();
        let unwritten = Arc::<AtomicUsize>::default();
        let is_transient = printer.is_transient;
        let writer = WriterThread {
            printer,
            queue,
            unwritten: Arc::clone(&unwritten),
            dropped: Arc::clone(&dropped),
            dropped_line,
        };
        Self {
            entries,
            writer: Some(Box::new(move || {
                writer.run();
                drop(alive);
            })),
            dropped,
            unwritten,
            is_transient,
            ended,
        }
    }

    /// Sends `message` to the writer thread, or drops `message` if the queue is full. Never waits.
    fn send(&mut self, message: Message) {
        if let Some(writer) = self.writer.take() {
            self.writer = start_thread(writer).err();
        }
        if self.writer.is_some() {
            // Without a writer thread, there is no transient text.
            if let Message::Permanent(text) = message {
                sys::stderr::write_if_room(text.as_bytes());
            }
            return;
        }
        self.is_transient = matches!(message, Message::Transient(_));
        self.unwritten.fetch_add(1, Ordering::Relaxed);
        let before = self.dropped.swap(0, Ordering::Relaxed);
        if self
            .entries
            .try_send(Entry::Message(before, message))
            .is_err()
        {
            self.unwritten.fetch_sub(1, Ordering::Relaxed);
            self.dropped.fetch_add(before + 1, Ordering::Relaxed);
        }
    }

    fn finish(&mut self, timeout: Duration) {
        // Without this check, each grant would wait for the writer thread even if there is nothing to write.
        if !self.is_transient && self.unwritten.load(Ordering::Acquire) == 0 {
            return;
        }
        self.send(Message::Clear);
        let (written, all) = mpsc::sync_channel(1);
        if self.writer.is_none() && self.entries.try_send(Entry::Flush(written)).is_ok() {
            // This call returns after the timeout, or earlier if all messages are written.
            let _ = all.recv_timeout(timeout);
        }
    }

    fn close(self) {
        drop((self.entries, self.writer));
        // This call returns after the timeout, or earlier if the thread ends. A stuck thread ends with the process.
        let _ = self.ended.recv_timeout(DRAIN_TIMEOUT);
    }
}

/// Starts the writer thread. Returns its main function if the kernel cannot create a thread.
fn start_thread(main: WriterMain) -> Result<(), WriterMain> {
    // If the start fails, the standard library drops the function that it was given.
    let main = Arc::new(Mutex::new(Some(main)));
    let take = |main: &Mutex<Option<WriterMain>>| {
        let mut main = main.lock().unwrap_or_else(PoisonError::into_inner);
        main.take()
    };
    let passed = Arc::clone(&main);
    let thread = thread::Builder::new().name("stderr".to_owned());
    match thread.spawn(move || take(&passed).map(|main| main())) {
        Ok(_) => Ok(()),
        Err(_) => take(&main).map_or(Ok(()), Err),
    }
}

/// State of the writer thread.
struct WriterThread<W> {
    printer: Printer<W>,
    queue: Receiver<Entry>,
    unwritten: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
    dropped_line: DroppedLine,
}

impl<W: Write> WriterThread<W> {
    /// Writes messages until the queue is closed.
    fn run(mut self) {
        while let Some(entry) = self.next() {
            match entry {
                Entry::Message(dropped_before, message) => {
                    self.print_dropped_count(dropped_before);
                    self.print(message, 1);
                    self.unwritten.fetch_sub(1, Ordering::Release);
                }
                // The send fails only if the caller no longer waits.
                Entry::Flush(written) => drop(written.send(())),
            }
        }
    }

    /// Returns the next entry. Reports the dropped messages first if the queue is empty, because the next message may
    /// arrive much later. Returns None when the queue is closed.
    fn next(&mut self) -> Option<Entry> {
        match self.queue.try_recv() {
            Ok(entry) => return Some(entry),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                let dropped = self.dropped.swap(0, Ordering::Relaxed);
                self.print_dropped_count(dropped);
            }
        }
        self.queue.recv().ok()
    }

    fn print_dropped_count(&mut self, count: u64) {
        if count > 0 {
            self.print(Message::Permanent((self.dropped_line)(count)), count);
        }
    }

    /// Prints `message`. Adds `count` to the number of dropped messages if stderr has no room.
    fn print(&mut self, message: Message, count: u64) {
        if let Err(error) = self.printer.print(message)
            && error.kind() == io::ErrorKind::WouldBlock
        {
            // The buffer of stderr is full, and another program has set stderr to non-blocking mode.
            self.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::mpsc::{self, Receiver, Sender};

    use super::{FLUSH_TIMEOUT, Message, Printer, Queue};

    /// A sink that accepts a write only after the test allows it.
    struct SlowReader {
        may_read: Receiver<()>,
        taken: Sender<String>,
    }

    impl Write for SlowReader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.may_read.recv();
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.taken.send(text).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow_reader(bound: usize) -> (Queue, Sender<()>, Receiver<String>) {
        let (allow_read, may_read) = mpsc::channel();
        let (taken, texts) = mpsc::channel();
        let printer = Printer::new(SlowReader { may_read, taken });
        let dropped_line = |count| format!("{count} dropped\n");
        let queue = Queue::new(printer, bound, Box::new(dropped_line));
        (queue, allow_read, texts)
    }

    fn line(number: usize) -> Message {
        Message::Permanent(format!("{number}\n"))
    }

    #[test]
    fn the_count_of_dropped_messages_is_printed_in_their_place() {
        let (mut queue, allow_read, texts) = slow_reader(2);
        queue.send(line(0));
        allow_read
            .send(())
            .expect("the writer thread waits for the reader");
        assert_eq!(texts.recv().as_deref(), Ok("0\n"));
        // The writer thread may take one more message out of the queue before it waits for the reader.
        (1..=9).for_each(|number| queue.send(line(number)));
        let mut read = Vec::new();
        for _ in 0..2 {
            allow_read
                .send(())
                .expect("the writer thread waits for the reader");
            read.push(texts.recv().expect("the message is written"));
        }
        // The queue has room again. The number of dropped messages is reported immediately before this message.
        queue.send(line(10));
        drop(allow_read);
        queue.close();
        read.extend(texts.iter());
        // If the writer thread is quick, messages between and after the dropped ones still find room.
        let (mut next, mut dropped) = (1, 0);
        for text in &read {
            if let Some(count) = text.strip_suffix(" dropped\n") {
                let count: usize = count.parse().expect("a count");
                (next, dropped) = (next + count, dropped + count);
            } else {
                assert_eq!(*text, format!("{next}\n"), "{read:?}");
                next += 1;
            }
        }
        assert!(dropped > 0 && next == 11, "{read:?}");
    }

    #[test]
    fn close_reports_the_remaining_dropped_messages() {
        let (mut queue, allow_read, texts) = slow_reader(1);
        (0..5).for_each(|number| queue.send(line(number)));
        drop(allow_read);
        queue.close();
        let read: Vec<String> = texts.iter().collect();
        let count = 5 - (read.len() - 1);
        assert_eq!(read.last(), Some(&format!("{count} dropped\n")), "{read:?}");
    }

    #[test]
    fn a_reader_that_never_reads_delays_the_caller_only_briefly() {
        let (mut queue, _allow_read, _texts) = slow_reader(4);
        (0..100).for_each(|number| queue.send(line(number)));
        queue.finish(FLUSH_TIMEOUT);
        queue.close();
    }

    #[test]
    fn transient_text_is_overwritten_by_the_next_message() {
        let mut printer = Printer::new(Vec::new());
        let transient = |text: &str| Message::Transient(text.to_owned());
        for message in [
            Message::Clear,
            transient("a"),
            transient("b"),
            line(1),
            line(2),
            transient("c"),
            Message::Clear,
            Message::Clear,
        ] {
            printer.print(message).expect("a write to a Vec succeeds");
        }
        let text = String::from_utf8(printer.sink).expect("valid UTF-8");
        assert_eq!(text, "\r\x1b[Ka\r\x1b[Kb\r\x1b[K1\n2\n\r\x1b[Kc\r\x1b[K");
    }
}
