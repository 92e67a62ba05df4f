//! A store that checks tokens, as a resource behind a lock should. It refuses a token that is lower than the highest
//! token that it has accepted. Each action has one file, which contains the count and the highest token.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

pub(crate) struct Store(File);

impl Store {
    pub(crate) fn open(path: &Path) -> Self {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false);
        Self(file.open(path).expect("the store can be opened"))
    }

    /// Returns the count, or replaces it with `count` and returns that. The error is the highest token that the store
    /// has accepted, if that is higher than `token`.
    pub(crate) fn exchange(&self, token: u64, count: Option<u64>) -> Result<u64, u64> {
        // If the process is killed in this function, the kernel releases the lock.
        flock(&self.0, FlockOperation::LockExclusive).expect("the store can be locked");
        let [before, highest] = self.content();
        let response = if token < highest {
            Err(highest)
        } else {
            let count = count.unwrap_or(before);
            // The length is fixed, so one write replaces the complete content.
            let text = format!("{count:020} {token:020}\n");
            (self.0.write_all_at(text.as_bytes(), 0)).expect("the store can be written");
            Ok(count)
        };
        flock(&self.0, FlockOperation::Unlock).expect("the store can be unlocked");
        response
    }

    /// Returns the count and the highest token, without checking a token.
    pub(crate) fn content(&self) -> [u64; 2] {
        let mut bytes = [0; 42];
        let length = self
            .0
            .read_at(&mut bytes, 0)
            .expect("the store can be read");
        let text = str::from_utf8(&bytes[..length]).expect("the store is text");
        let mut numbers = text.split_whitespace().map(str::parse);
        [(); 2].map(|()| numbers.next().and_then(Result::ok).unwrap_or_default())
    }
}
