//! The bodies of responses, and the limits of the memory and the time that they use.
//!
//! Several responses share a document. A slow client can take minutes to read one, while the next documents are rendered.
//! If the documents together exceed 4 MiB, the oldest ones are dropped, and their responses end early.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::sleep;

use crate::lease::instant::BootInstant;
use crate::sys::clock;

/// Maximum size in bytes of all documents in memory. A larger document is the only one. With 10 000 actions, the overview
/// has about 1.1 MB, and `/status.json` about 8 MB.
const MAX_BYTES: usize = 4 << 20;

/// Size in bytes by which the memory of a new document grows.
const STEP: usize = 256 << 10;

/// Size in bytes of a chunk, of which each response has a copy. If a document is dropped, only these copies stay in
/// memory.
const CHUNK: usize = 16 << 10;

/// Maximum time in which a client must read a chunk, or the end of a response. A client on this machine needs 13 KiB per
/// second, because the kernel reports what it has read in steps of up to 128 KiB. Without this limit, a client that reads
/// one byte per second would keep its connection for hours. The limit is long enough for a short failure of a mobile
/// network.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A document that responses share.
#[derive(Debug)]
pub struct Document {
    length: usize,
    /// None if the document was dropped.
    text: RefCell<Option<Bytes>>,
}

impl Document {
    /// Creates a document whose memory is not limited, because its text is part of the program or short.
    pub fn new(text: impl Into<Bytes>) -> Rc<Self> {
        let text = text.into();
        Rc::new(Self {
            length: text.len(),
            text: RefCell::new(Some(text)),
        })
    }

    /// Returns the entity tag for the header `ETag`. It depends only on the text.
    pub fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        hasher.write(self.text.borrow().as_deref().unwrap_or_default());
        format!("\"{:016x}\"", hasher.finish())
    }

    fn is_dropped(&self) -> bool {
        self.text.borrow().is_none()
    }

    /// Returns a copy of the chunk at `offset`. None if the document was dropped.
    fn chunk(&self, offset: usize) -> Option<Bytes> {
        let text = self.text.borrow();
        let end = self.length.min(offset + CHUNK);
        Some(Bytes::copy_from_slice(&text.as_ref()?[offset..end]))
    }
}

/// Creates documents and limits their memory. Contains the documents in memory, oldest first.
#[derive(Debug, Default)]
pub struct Documents(RefCell<VecDeque<Weak<Document>>>);

impl Documents {
    /// Creates a document with what `write` writes. Drops older documents while it grows.
    pub fn create<E>(&self, write: impl FnOnce(&mut dyn Write) -> Result<(), E>) -> Rc<Document> {
        let mut writer = DocumentWriter {
            documents: self,
            text: Vec::new(),
        };
        // The writer never fails, and the texts of this program always serialize.
        let _ = write(&mut writer);
        let document = Document::new(writer.text);
        self.0.borrow_mut().push_back(Rc::downgrade(&document));
        document
    }

    /// Returns the document in `cache`. Creates it if there is none, or if it was dropped.
    pub fn cached<E>(
        &self,
        cache: &RefCell<Option<Rc<Document>>>,
        write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Rc<Document> {
        let mut cache = cache.borrow_mut();
        match &*cache {
            Some(document) if !document.is_dropped() => Rc::clone(document),
            _ => Rc::clone(cache.insert(self.create(write))),
        }
    }

    /// Drops the oldest documents if all documents together, and a new one of `length` bytes, are too large.
    fn make_room(&self, length: usize) {
        let mut present = self.0.borrow_mut();
        present.retain(|old| old.upgrade().is_some_and(|old| !old.is_dropped()));
        let lengths = present.iter().filter_map(Weak::upgrade);
        let mut size = length + lengths.map(|old| old.length).sum::<usize>();
        while size > MAX_BYTES
            && let Some(oldest) = present.pop_front().and_then(|old| old.upgrade())
        {
            oldest.text.take();
            size -= oldest.length;
        }
    }
}

/// The text of a new document, for which older ones make room.
struct DocumentWriter<'a> {
    documents: &'a Documents,
    text: Vec<u8>,
}

impl Write for DocumentWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.text.len() + bytes.len();
        if length > self.text.capacity() {
            self.documents.make_room(length + STEP);
            self.text.reserve_exact(bytes.len() + STEP);
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The time at which hyper took the latest chunk for the client of a connection. None while there is no response.
#[derive(Debug, Default)]
pub struct Pace(Cell<Option<BootInstant>>);

impl Pace {
    /// Notes that a request has arrived, whose response may need some time.
    pub fn request(&self) {
        self.0.set(None);
    }

    /// Returns when the client has not read the latest chunk in time. hyper takes the next chunk when it has written
    /// nearly all of the one before. After the last chunk, the next request must follow within the same time.
    pub async fn is_too_slow(&self) {
        loop {
            let passed = self.0.get().map(|taken| clock::now().since(taken));
            let left = READ_TIMEOUT.saturating_sub(passed.unwrap_or_default());
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }
}

/// The body of a response.
#[derive(Debug)]
pub struct DocumentBody {
    /// The document.
    pub document: Rc<Document>,
    /// Number of bytes that hyper has taken.
    pub taken: usize,
    /// The pace of the client.
    pub pace: Rc<Pace>,
}

impl Body for DocumentBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.pace.0.set(Some(clock::now()));
        if self.is_end_stream() {
            return Poll::Ready(None);
        }
        let chunk = self.document.chunk(self.taken);
        self.taken += chunk.as_ref().map_or(0, Bytes::len);
        let dropped = || io::Error::other("the client is too slow");
        Poll::Ready(Some(chunk.map(Frame::data).ok_or_else(dropped)))
    }

    fn is_end_stream(&self) -> bool {
        self.taken == self.document.length
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact((self.document.length - self.taken) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::Write;
    use std::rc::Rc;

    use super::{CHUNK, Document, Documents, MAX_BYTES, STEP};

    fn create(documents: &Documents, length: usize) -> Rc<Document> {
        documents.create(|out| out.write_all(&vec![b'x'; length]))
    }

    #[test]
    fn document_is_complete_and_oldest_documents_are_dropped() {
        let documents = Documents::default();
        let first = create(&documents, CHUNK + 1);
        let lengths = [0, CHUNK].map(|offset| first.chunk(offset).map(|chunk| chunk.len()));
        assert_eq!(lengths, [Some(CHUNK), Some(1)]);
        let second = create(&documents, CHUNK);
        let third = create(&documents, MAX_BYTES - STEP - CHUNK);
        assert!(first.is_dropped() && !second.is_dropped() && !third.is_dropped());
        // A document that no response contains needs no memory.
        drop(third);
        create(&documents, MAX_BYTES - STEP - CHUNK);
        assert!(!second.is_dropped());
        let fourth = create(&documents, 2 * MAX_BYTES);
        assert!(second.is_dropped() && !fourth.is_dropped());
    }

    #[test]
    fn dropped_document_is_created_again() {
        let (documents, cache) = (Documents::default(), RefCell::default());
        let write = |out: &mut dyn Write| out.write_all(b"a");
        let first = documents.cached(&cache, write);
        assert!(Rc::ptr_eq(&first, &documents.cached(&cache, write)));
        let _large = create(&documents, MAX_BYTES);
        assert!(first.is_dropped());
        assert!(!documents.cached(&cache, write).is_dropped());
    }
}
