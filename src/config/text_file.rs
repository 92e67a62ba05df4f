//! Reads a small text file that the user specified, and its permissions for other users.
//!
//! The caller decides if the permissions are acceptable. Errors contain the path and the message of the operating
//! system, and never the content of the file.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::error::Error;

/// Maximum size of a file in bytes. It is larger than any real option file, and small enough that reading `/dev/zero`
/// does not exhaust the memory.
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
            return Err(Error::file(format!(
                "{}: the file is larger than 1 MiB",
                path.display()
            )));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::file(format!("{}: the file is not UTF-8", path.display())))?;
        // The mode of a pipe or a device does not show which users can read or write the content.
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

/// Reads the file at `path`, which contains one value, such as a password. Removes one trailing newline.
///
/// Permissions are not checked. Kubernetes mounts secrets with mode 0644 by default, and protects the secrets by the
/// file system of the pod and not by the mode.
///
/// # Errors
/// Fails if the file cannot be read, is too large, or is not UTF-8. The error does not contain the value.
pub fn value(path: &Path) -> Result<String, Error> {
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

/// Opens and reads the file at `path`. Reads the metadata from the open file, so that the metadata and the content
/// belong to the same file.
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
    fn only_one_trailing_newline_is_removed() {
        let folder = tempfile::tempdir().expect("the temporary folder is created");
        let path = folder.path().join("password");
        for (content, wanted) in [
            ("pw", "pw"),
            ("pw\n", "pw"),
            ("pw\r\n", "pw"),
            ("pw\n\n", "pw\n"),
            ("pw\r", "pw\r"),
            (" pw ", " pw "),
        ] {
            fs::write(&path, content).expect("the file is written");
            assert_eq!(value(&path).as_deref(), Ok(wanted), "{content:?}");
        }
    }

    #[test]
    fn error_for_an_invalid_file_does_not_contain_the_content() {
        let folder = tempfile::tempdir().expect("the temporary folder is created");
        let path = folder.path().join("password");
        let huge = vec![b'S'; usize::try_from(LIMIT).expect("the limit fits in usize") + 1];
        for (content, wanted) in [
            (&b""[..], "the file is empty"),
            (b"\n", "the file is empty"),
            (b"\r\n", "the file is empty"),
            (b"S3NTINEL\xff", "the file is not UTF-8"),
            (&huge, "the file is larger than 1 MiB"),
        ] {
            fs::write(&path, content).expect("the file is written");
            let error = value(&path).expect_err("the content is not a value");
            assert_eq!(error.to_string(), format!("{}: {wanted}", path.display()));
            assert_eq!(error.status(), Status::CONFIG);
        }
        let error = value(Path::new("/nowhere/password")).expect_err("the file does not exist");
        assert!(
            error
                .to_string()
                .starts_with("cannot read /nowhere/password: No such file")
        );
        let error = value(folder.path()).expect_err("a folder is not a file");
        assert!(error.to_string().contains("Is a directory"), "{error}");
    }
}
