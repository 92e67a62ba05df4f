//! A store that checks tokens, as a resource behind a lock should. It refuses a token that is lower than the highest
//! token that it has accepted. Each action has one file, which contains the count and the highest token.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// The response of the store to a read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    /// The current count. After a write, this is the written count.
    Count(u64),
    /// The token was refused, because the store has accepted this higher token.
    Refused(u64),
}

/// The store of one action.
pub(crate) struct Store(File);

impl Store {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false);
        Ok(Self(file.open(path)?))
    }

    /// Returns the count, or replaces it with `count`, unless `token` is refused.
    pub(crate) fn exchange(&mut self, token: u64, count: Option<u64>) -> io::Result<Response> {
        // If the process is killed in this function, the kernel releases the lock.
        flock(&self.0, FlockOperation::LockExclusive)?;
        let (before, highest) = self.content()?;
        let response = if token < highest {
            Response::Refused(highest)
        } else {
            let count = count.unwrap_or(before);
            // The length is fixed, so one write replaces the complete content.
            let text = format!("{count:020} {token:020}\n");
            self.0.seek(SeekFrom::Start(0))?;
            self.0.write_all(text.as_bytes())?;
            Response::Count(count)
        };
        flock(&self.0, FlockOperation::Unlock)?;
        Ok(response)
    }

    /// Returns the count without checking a token.
    pub(crate) fn count(&mut self) -> io::Result<u64> {
        Ok(self.content()?.0)
    }

    /// Returns the count and the highest token.
    fn content(&mut self) -> io::Result<(u64, u64)> {
        let mut text = String::new();
        self.0.seek(SeekFrom::Start(0))?;
        self.0.read_to_string(&mut text)?;
        let mut numbers = text.split_whitespace().map(str::parse);
        let mut number = || numbers.next().and_then(Result::ok).unwrap_or_default();
        Ok((number(), number()))
    }
}
