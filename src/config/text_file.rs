//! A small text file that the user named: its content and its permissions for other users.
//!
//! This file only reads and reports; the caller decides about permissions. Errors contain the path and the system's
//! error message, never the content.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::error::Error;

/// Maximum size of a file. No option file is larger, and `/dev/zero` or a wrong path cannot fill the memory.
const LIMIT: u64 = 1 << 20;

/// The content of a file, and its permissions when it was read.
pub(super) struct TextFile {
    pub(super) text: String,
    pub(super) world_readable: bool,
    pub(super) world_writable: bool,
}

impl TextFile {
    /// Reads the file at `path`.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let (metadata, bytes) = open_and_read(path).map_err(|error| unreadable(path, &error))?;
        if bytes.len() as u64 > LIMIT {
            return Err(Error::file(format!("{}: more than 1 MiB", path.display())));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::file(format!("{}: not UTF-8", path.display())))?;
        // The mode of a pipe or a device does not show who has written its content.
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

/// Reads the file at `path`, which contains one value, such as a password. Removes one line end after the value.
///
/// Permissions are not checked: by default Kubernetes mounts secrets with mode 0644, and protects them by the pod's
/// file system and not by the mode.
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

/// Returns the error for a path that cannot be read.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::file(format!("cannot read {}: {error}", path.display()))
}

/// Reads the metadata from the open file, so that the file cannot be replaced between check and use.
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
    fn only_one_line_end_is_removed() {
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
    fn unusable_files_are_refused_without_their_content() {
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
