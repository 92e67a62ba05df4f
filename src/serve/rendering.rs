//! Documents that several responses share, and the limit of the memory that they use.
//!
//! A slow client can take minutes to read a document, while the next documents are rendered. If the documents together
//! exceed 10 MiB, the oldest ones are dropped, and their responses end early.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::rc::{Rc, Weak};

use hyper::body::Bytes;

/// Maximum size in bytes of all documents in memory. With 10 000 actions, `/status.json` and the event with all lines have
/// about 9 MB. A document that no response contains any more needs no memory.
const MAX_BYTES: usize = 10 << 20;

/// Size of a chunk in bytes. If a document is dropped, only the chunks that a slow response is writing stay in memory.
const CHUNK: usize = 64 << 10;

/// A document in chunks.
#[derive(Debug)]
pub struct Rendering {
    length: usize,
    /// None if the document was dropped.
    chunks: RefCell<Option<Vec<Bytes>>>,
}

/// The document was dropped because a client is too slow to read it.
#[derive(Debug)]
pub struct Dropped;

impl std::fmt::Display for Dropped {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the client is too slow")
    }
}

impl std::error::Error for Dropped {}

impl Rendering {
    /// Returns the length of the document in bytes.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Returns the chunk with this index. None after the last chunk.
    ///
    /// # Errors
    /// Fails if the document was dropped.
    pub fn chunk(&self, index: usize) -> Result<Option<Bytes>, Dropped> {
        match &*self.chunks.borrow() {
            Some(chunks) => Ok(chunks.get(index).cloned()),
            None => Err(Dropped),
        }
    }

    fn is_dropped(&self) -> bool {
        self.chunks.borrow().is_none()
    }
}

/// Creates documents and limits their memory.
#[derive(Debug, Default)]
pub struct Renderings {
    /// The documents in memory, oldest first.
    present: RefCell<VecDeque<Weak<Rendering>>>,
}

impl Renderings {
    /// Creates a document.
    pub fn create(&self, text: &str) -> Rc<Rendering> {
        let mut writer = ChunkWriter::new(self);
        // This writer never fails.
        let _ = writer.write_all(text.as_bytes());
        writer.finish()
    }

    /// Creates a document with what `write` writes.
    ///
    /// # Errors
    /// Returns the failure of `write`.
    pub fn write<E>(
        &self,
        write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<Rc<Rendering>, E> {
        let mut writer = ChunkWriter::new(self);
        write(&mut writer)?;
        Ok(writer.finish())
    }

    /// Drops the oldest documents if all documents together, and a new one of `length` bytes, are too large.
    fn make_room(&self, length: usize) {
        let mut present = self.present.borrow_mut();
        present.retain(|old| old.upgrade().is_some_and(|old| !old.is_dropped()));
        let sizes = present.iter().filter_map(Weak::upgrade);
        let mut size: usize = sizes.map(|old| old.length).sum::<usize>() + length;
        while size > MAX_BYTES
            && let Some(oldest) = present.pop_front()
        {
            if let Some(oldest) = oldest.upgrade() {
                oldest.chunks.take();
                size -= oldest.length;
            }
        }
    }
}

/// Splits a new document into chunks. Makes room for each of them, so that a large document is never in memory twice.
struct ChunkWriter<'a> {
    renderings: &'a Renderings,
    chunks: Vec<Bytes>,
    last: Vec<u8>,
}

impl<'a> ChunkWriter<'a> {
    const fn new(renderings: &'a Renderings) -> Self {
        Self {
            renderings,
            chunks: Vec::new(),
            last: Vec::new(),
        }
    }

    fn end_chunk(&mut self) {
        let length = self.chunks.len() * CHUNK + self.last.len();
        self.renderings.make_room(length);
        self.chunks.push(Bytes::copy_from_slice(&self.last));
        self.last.clear();
    }

    fn finish(mut self) -> Rc<Rendering> {
        let length = self.chunks.len() * CHUNK + self.last.len();
        if !self.last.is_empty() {
            self.end_chunk();
        }
        let rendering = Rc::new(Rendering {
            length,
            chunks: RefCell::new(Some(self.chunks)),
        });
        let mut present = self.renderings.present.borrow_mut();
        present.push_back(Rc::downgrade(&rendering));
        rendering
    }
}

impl Write for ChunkWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.last.len() == CHUNK {
            self.end_chunk();
        }
        let count = bytes.len().min(CHUNK - self.last.len());
        self.last.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A document that is created at its first use. It is freed when no response contains it any more.
#[derive(Debug, Default)]
pub struct Cached(RefCell<Weak<Rendering>>);

impl Cached {
    /// Returns the document. Calls `create` if there is none yet, or if it was dropped or freed.
    pub fn get(&self, create: impl FnOnce() -> Rc<Rendering>) -> Rc<Rendering> {
        let mut cached = self.0.borrow_mut();
        match cached.upgrade() {
            Some(rendering) if !rendering.is_dropped() => rendering,
            _ => {
                let rendering = create();
                *cached = Rc::downgrade(&rendering);
                rendering
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Cached, MAX_BYTES, Renderings};

    #[test]
    fn document_is_complete_and_oldest_documents_are_dropped() {
        let renderings = Renderings::default();
        let text = "x".repeat(CHUNK * 2 + 1);
        let first = renderings.create(&text);
        let lengths: Vec<_> = (0..4)
            .map(|index| {
                first
                    .chunk(index)
                    .expect("the document exists")
                    .map(|chunk| chunk.len())
            })
            .collect();
        assert_eq!(lengths, [Some(CHUNK), Some(CHUNK), Some(1), None]);
        let second = renderings.create(&"y".repeat(MAX_BYTES));
        assert!(first.chunk(0).is_err() && second.chunk(0).is_ok());
        drop(second);
        let third = renderings.create("z");
        assert!(third.chunk(0).is_ok());
    }

    #[test]
    fn dropped_document_is_created_again() {
        let (renderings, cached) = (Renderings::default(), Cached::default());
        let first = cached.get(|| renderings.create("a"));
        let again = cached.get(|| unreachable!("the document is cached"));
        assert!(std::rc::Rc::ptr_eq(&first, &again));
        let _large = renderings.create(&"y".repeat(MAX_BYTES));
        let new = cached.get(|| renderings.create("b"));
        assert_eq!(
            new.chunk(0).expect("the document exists").as_deref(),
            Some(&b"b"[..])
        );
    }
}
