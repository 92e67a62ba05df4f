//! A small text file that the user named: its content and who else may touch it.
//!
//! Only reading and telling; what a permission leads to is the caller's business. Errors name the
//! path and what the system said, never the content.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::error::Error;

/// More than any option file holds; keeps `/dev/zero` and a wrong path from filling the memory.
const LIMIT: u64 = 1 << 20;

/// What was read, and the permissions at that moment.
pub(super) struct TextFile {
    pub(super) text: String,
    pub(super) world_readable: bool,
    pub(super) world_writable: bool,
}

impl TextFile {
    /// Reads `path` to its end.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let (metadata, bytes) = open_and_read(path).map_err(|error| unreadable(path, &error))?;
        if bytes.len() as u64 > LIMIT {
            return Err(Error::file(format!("{}: more than 1 MiB", path.display())));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::file(format!("{}: not UTF-8", path.display())))?;
        // Pipes and devices have modes that say nothing about who wrote what came out of them.
        let mode = if metadata.is_file() {
            metadata.permissions().mode()
        } else {
            0
        };
        Ok(Self {
            text,
            world_readable: mode & 0o004 != 0,
            world_writable: mode & 0o002 != 0,
        })
    }
}

/// The one value that the file at `path` holds, such as a password: a line end after it is dropped.
///
/// Permissions are not looked at: Kubernetes mounts secrets with mode 0644 unless told otherwise,
/// and keeps others out by the pod's file system, not by the mode.
pub(super) fn value(path: &Path) -> Result<String, Error> {
    let TextFile { mut text, .. } = TextFile::read(path)?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    if text.is_empty() {
        return Err(Error::file(format!(
            "{}: the file is empty",
            path.display()
        )));
    }
    Ok(text)
}

/// The error for a path that the system does not let us read.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::file(format!("cannot read {}: {error}", path.display()))
}

/// The metadata come from the open file, so nobody can swap the file between check and use.
fn open_and_read(path: &Path) -> std::io::Result<(Metadata, Vec<u8>)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let mut bytes = Vec::new();
    file.take(LIMIT + 1).read_to_end(&mut bytes)?;
    Ok((metadata, bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{LIMIT, value};
    use crate::exit::Status;

    #[test]
    fn one_line_end_is_dropped_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("password");
        for (content, wanted) in [
            ("pw", "pw"),
            ("pw\n", "pw"),
            ("pw\r\n", "pw"),
            ("pw\n\n", "pw\n"),
            ("pw\r", "pw\r"),
            (" pw ", " pw "),
        ] {
            fs::write(&path, content).expect("written");
            assert_eq!(value(&path).as_deref(), Ok(wanted), "{content:?}");
        }
    }

    #[test]
    fn empty_binary_huge_and_missing_files_are_refused_by_name_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("password");
        let huge = vec![b'S'; usize::try_from(LIMIT).expect("small") + 1];
        for (content, wanted) in [
            (&b""[..], "the file is empty"),
            (b"\n", "the file is empty"),
            (b"\r\n", "the file is empty"),
            (b"S3NTINEL\xff", "not UTF-8"),
            (&huge, "more than 1 MiB"),
        ] {
            fs::write(&path, content).expect("written");
            let error = value(&path).expect_err("not a value");
            assert_eq!(error.to_string(), format!("{}: {wanted}", path.display()));
            assert_eq!(error.status(), Status::CONFIG);
        }
        let error = value(Path::new("/nowhere/password")).expect_err("no such file");
        assert!(
            error
                .to_string()
                .starts_with("cannot read /nowhere/password: No such file")
        );
        let error = value(folder.path()).expect_err("a folder");
        assert!(error.to_string().contains("Is a directory"), "{error}");
    }
}
