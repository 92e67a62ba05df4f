//! Documents that several responses share, and the limit of the memory that they use.
//!
//! A slow client can take minutes to read a document, while the next documents are rendered. If the documents together
//! exceed 16 MiB, the oldest ones are dropped, and their responses end early.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use hyper::body::Bytes;

/// Maximum size in bytes of all documents in memory. With 10 000 actions, the documents of one interval have about
/// 12 MB.
const MAX_BYTES: usize = 16 << 20;

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
    fn new(text: &str) -> Self {
        let chunks = text.as_bytes().chunks(CHUNK);
        Self {
            length: text.len(),
            chunks: RefCell::new(Some(chunks.map(Bytes::copy_from_slice).collect())),
        }
    }

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
    /// Creates a document. Drops the oldest documents if all documents together are too large.
    pub fn create(&self, text: &str) -> Rc<Rendering> {
        let rendering = Rc::new(Rendering::new(text));
        let mut present = self.present.borrow_mut();
        present.retain(|old| old.upgrade().is_some_and(|old| !old.is_dropped()));
        let sizes = present.iter().filter_map(Weak::upgrade);
        let mut size: usize = sizes.map(|old| old.length).sum::<usize>() + rendering.length;
        while size > MAX_BYTES
            && let Some(oldest) = present.pop_front()
        {
            if let Some(oldest) = oldest.upgrade() {
                oldest.chunks.take();
                size -= oldest.length;
            }
        }
        present.push_back(Rc::downgrade(&rendering));
        rendering
    }
}

/// A document that is created at its first use.
#[derive(Debug, Default)]
pub struct Cached(RefCell<Option<Rc<Rendering>>>);

impl Cached {
    /// Returns the document. Calls `create` if there is none yet, or if it was dropped.
    pub fn get(&self, create: impl FnOnce() -> Rc<Rendering>) -> Rc<Rendering> {
        let mut cached = self.0.borrow_mut();
        match &*cached {
            Some(rendering) if !rendering.is_dropped() => Rc::clone(rendering),
            _ => Rc::clone(cached.insert(create())),
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
