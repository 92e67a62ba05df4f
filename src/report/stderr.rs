//! Stderr: written by the caller, or by a writer thread behind a bounded queue.
//!
//! A thread that renews a lease must never wait for the reader of stderr: a full pipe, a terminal
//! that was stopped with Ctrl-S, or a log collector that hangs. After [`Stderr::queued`] a
//! thread writes, and no caller waits for more than [`FLUSH`] (and [`DRAIN`] at the end of the
//! process). Messages for which the queue has no room are dropped and counted.
//!
//! Each message is one `write(2)`, so that lines of several processes do not mix. A closed stderr is
//! no reason to fail: what cannot be written is lost. The SIGPIPE of a closed pipe stays with the
//! writer thread, so that the main thread does not take it for a signal to the command.

use std::convert::Infallible;
use std::io::{self, Write};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::thread;
use std::time::Duration;

/// The most messages in the queue. Enough for some minutes of a run whose renewals fail and who is
/// verbose about it, at about 60 KiB, as much as a pipe holds. More would only delay the news: the
/// oldest messages are kept and the newest dropped, so that what is read has no gap before the count.
const BOUND: usize = 256;

/// How long a flush waits for the writer thread: enough to be scheduled on a busy machine, and short
/// enough for a run that holds a lease of the smallest ttl and handles no signal meanwhile.
const FLUSH: Duration = Duration::from_millis(50);

/// How long the end of the process waits for the queue: enough for a reader that works but is slow,
/// such as a terminal over a bad line. The lease is released by then, so only the exit status waits for
/// this, and a reader that hangs delays it no longer.
const DRAIN: Duration = Duration::from_millis(500);

/// Moves to the start of the terminal's line and erases it.
const ERASE: &str = "\r\x1b[K";

/// Something to be written.
#[derive(Debug)]
pub(super) enum Message {
    /// Text that stays, with the end of its line.
    Lasting(String),
    /// Text on a terminal that the next message overwrites.
    Passing(String),
    /// Nothing but an end of what is passing.
    Clear,
}

/// Writes messages to a sink, which may be a terminal.
#[derive(Debug)]
pub(super) struct Printer<W> {
    sink: W,
    /// Whether the sink shows something passing.
    is_passing: bool,
}

impl<W: Write> Printer<W> {
    const fn new(sink: W) -> Self {
        Self {
            sink,
            is_passing: false,
        }
    }

    fn print(&mut self, message: Message) -> io::Result<()> {
        let is_passing = matches!(message, Message::Passing(_));
        let erase = match mem::replace(&mut self.is_passing, is_passing) || is_passing {
            true => ERASE,
            false => "",
        };
        let text = match message {
            Message::Lasting(text) | Message::Passing(text) => format!("{erase}{text}"),
            Message::Clear => erase.to_owned(),
        };
        self.sink.write_all(text.as_bytes())
    }
}

/// Makes the line that says how many messages were dropped.
type Notice = Box<dyn Fn(u64) -> String + Send>;

/// The way to stderr.
pub(super) enum Stderr {
    /// The caller writes, and waits for the reader.
    Direct(Printer<io::Stderr>),
    /// The writer thread writes.
    Queued(Queue),
    /// Nothing is written any more.
    Closed,
}

impl Stderr {
    /// The caller writes.
    pub(super) fn direct() -> Self {
        Self::Direct(Printer::new(io::stderr()))
    }

    /// The same stderr behind a writer thread, which says by `notice` how many messages were dropped.
    pub(super) fn queued(self, notice: impl Fn(u64) -> String + Send + 'static) -> Self {
        match self {
            Self::Direct(printer) => Self::Queued(Queue::new(printer, BOUND, Box::new(notice))),
            other => other,
        }
    }

    /// Writes `message`, or leaves it to the writer thread.
    pub(super) fn send(&mut self, message: Message) {
        match self {
            // Fails if nobody listens.
            Self::Direct(printer) => drop(printer.print(message)),
            Self::Queued(queue) => queue.send(message),
            Self::Closed => {}
        }
    }

    /// Ends what is passing and waits until all that was sent is written, for at most [`FLUSH`].
    pub(super) fn finish(&mut self) {
        match self {
            Self::Direct(_) => self.send(Message::Clear),
            Self::Queued(queue) => queue.finish(),
            Self::Closed => {}
        }
    }

    /// Waits until all that was sent is written, for at most [`DRAIN`]. Nothing is written after it.
    pub(super) fn close(&mut self) {
        if let Self::Queued(queue) = mem::replace(self, Self::Closed) {
            queue.close();
        }
    }
}

/// What the queue carries.
enum Entry {
    /// A message, and how many were dropped immediately before it.
    Message(u64, Message),
    /// All before it is written.
    Flush(SyncSender<()>),
}

/// The caller's end of the queue.
pub(super) struct Queue {
    entries: SyncSender<Entry>,
    /// The writer thread, until there is something to write: most runs have nothing to say.
    writer: Option<Box<dyn FnOnce() + Send>>,
    /// Messages dropped and not yet told.
    dropped: Arc<AtomicU64>,
    /// Messages sent and not yet written.
    unwritten: Arc<AtomicUsize>,
    /// Whether the last message was one that passes.
    is_passing: bool,
    /// Closed when the writer thread ends.
    ended: Receiver<Infallible>,
}

impl Queue {
    fn new<W: Write + Send + 'static>(printer: Printer<W>, bound: usize, notice: Notice) -> Self {
        let (entries, queue) = mpsc::sync_channel(bound);
        let (alive, ended) = mpsc::channel();
        let dropped = Arc::<AtomicU64>::default();
        let unwritten = Arc::<AtomicUsize>::default();
        let is_passing = printer.is_passing;
        let writer = Writing {
            printer,
            queue,
            unwritten: Arc::clone(&unwritten),
            dropped: Arc::clone(&dropped),
            notice,
        };
        Self {
            entries,
            writer: Some(Box::new(move || {
                writer.run();
                drop(alive);
            })),
            dropped,
            unwritten,
            is_passing,
            ended,
        }
    }

    /// Never waits.
    fn send(&mut self, message: Message) {
        if let Some(writer) = self.writer.take() {
            let thread = thread::Builder::new().name("stderr".to_owned());
            // Without a thread the messages are lost, and the lease is not.
            let _ = thread.spawn(writer);
        }
        self.is_passing = matches!(message, Message::Passing(_));
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

    fn finish(&mut self) {
        // Without this, each grant would wait for the thread to wake up and do nothing.
        if !self.is_passing && self.unwritten.load(Ordering::Acquire) == 0 {
            return;
        }
        self.send(Message::Clear);
        let (written, all) = mpsc::sync_channel(1);
        if self.entries.try_send(Entry::Flush(written)).is_ok() {
            // Time is over, or all is written.
            let _ = all.recv_timeout(FLUSH);
        }
    }

    fn close(self) {
        drop((self.entries, self.writer));
        // Time is over, or the thread is. A thread that is stuck ends with the process.
        let _ = self.ended.recv_timeout(DRAIN);
    }
}

/// The writer thread.
struct Writing<W> {
    printer: Printer<W>,
    queue: Receiver<Entry>,
    unwritten: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
    notice: Notice,
}

impl<W: Write> Writing<W> {
    /// Writes until the queue is closed.
    fn run(mut self) {
        while let Some(entry) = self.next() {
            match entry {
                Entry::Message(dropped_before, message) => {
                    self.tell_dropped(dropped_before);
                    self.print(message, 1);
                    self.unwritten.fetch_sub(1, Ordering::Release);
                }
                // Fails only if nobody waits any more.
                Entry::Flush(written) => drop(written.send(())),
            }
        }
    }

    /// The next entry. If there is none yet, no message will say what was dropped after the last one,
    /// perhaps for long.
    fn next(&mut self) -> Option<Entry> {
        match self.queue.try_recv() {
            Ok(entry) => return Some(entry),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                let dropped = self.dropped.swap(0, Ordering::Relaxed);
                self.tell_dropped(dropped);
            }
        }
        self.queue.recv().ok()
    }

    fn tell_dropped(&mut self, count: u64) {
        if count > 0 {
            self.print(Message::Lasting((self.notice)(count)), count);
        }
    }

    /// Prints `message`, which stands for `count` of them.
    fn print(&mut self, message: Message, count: u64) {
        if let Err(error) = self.printer.print(message)
            && error.kind() == io::ErrorKind::WouldBlock
        {
            // A stderr that does not wait for its reader, as some programs make theirs.
            self.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::mpsc::{self, Receiver, Sender};

    use super::{Message, Printer, Queue};

    /// A reader that takes a write when it is told to.
    struct Slow {
        may_go: Receiver<()>,
        taken: Sender<String>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.may_go.recv();
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.taken.send(text).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow(bound: usize) -> (Queue, Sender<()>, Receiver<String>) {
        let (go, may_go) = mpsc::channel();
        let (taken, texts) = mpsc::channel();
        let printer = Printer::new(Slow { may_go, taken });
        let notice = |count| format!("{count} dropped\n");
        let queue = Queue::new(printer, bound, Box::new(notice));
        (queue, go, texts)
    }

    fn line(number: usize) -> Message {
        Message::Lasting(format!("{number}\n"))
    }

    #[test]
    fn messages_that_do_not_fit_are_counted_in_their_place() {
        let (mut queue, go, texts) = slow(2);
        queue.send(line(0));
        go.send(()).expect("it writes");
        assert_eq!(texts.recv().as_deref(), Ok("0\n"));
        // The thread may take one more of them out of the queue, and is stuck with that.
        (1..=9).for_each(|number| queue.send(line(number)));
        let mut read = Vec::new();
        for _ in 0..2 {
            go.send(()).expect("it writes");
            read.push(texts.recv().expect("it is written"));
        }
        // There is room again, and what was dropped comes before this, unless it was told already.
        queue.send(line(10));
        drop(go);
        queue.close();
        read.extend(texts.iter());
        let dropped: Vec<usize> = read
            .iter()
            .filter_map(|text| text.strip_suffix(" dropped\n")?.parse().ok())
            .collect();
        assert_eq!(dropped.len(), 1, "{read:?}");
        assert_eq!(read.len() - 1 + dropped[0], 10, "{read:?}");
        assert_eq!(read.last().map(String::as_str), Some("10\n"), "{read:?}");
        let at = read.iter().position(|text| text.ends_with("dropped\n"));
        assert_eq!(at, Some(read.len() - 2), "{read:?}");
    }

    #[test]
    fn the_count_is_told_at_the_latest_at_the_end() {
        let (mut queue, go, texts) = slow(1);
        (0..5).for_each(|number| queue.send(line(number)));
        drop(go);
        queue.close();
        let read: Vec<String> = texts.iter().collect();
        let count = 5 - (read.len() - 1);
        assert_eq!(read.last(), Some(&format!("{count} dropped\n")), "{read:?}");
    }

    #[test]
    fn a_reader_that_never_reads_holds_nobody_up_for_long() {
        let (mut queue, _go, _texts) = slow(4);
        (0..100).for_each(|number| queue.send(line(number)));
        queue.finish();
        queue.close();
    }

    #[test]
    fn what_passes_is_overwritten_by_whatever_is_printed_next() {
        let mut printer = Printer::new(Vec::new());
        let passing = |text: &str| Message::Passing(text.to_owned());
        for message in [
            Message::Clear,
            passing("a"),
            passing("b"),
            line(1),
            line(2),
            passing("c"),
            Message::Clear,
            Message::Clear,
        ] {
            printer.print(message).expect("a vector takes all");
        }
        let text = String::from_utf8(printer.sink).expect("it is text");
        assert_eq!(text, "\r\x1b[Ka\r\x1b[Kb\r\x1b[K1\n2\n\r\x1b[Kc\r\x1b[K");
    }
}
