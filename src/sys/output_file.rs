//! The files that dlock writes: the metrics file, and the copy of the program.
//!
//! Only this module creates, replaces and renames files. It replaces regular files atomically, so a reader gets either
//! the old or the new content. It never replaces a device, a FIFO or a symbolic link: it follows links, and writes to
//! devices and FIFOs without waiting for a reader. A disk may block for any time, so callers that must not block use a
//! thread.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::random;

/// Maximum number of symbolic links that lead to a file that does not exist. It is the limit of the kernel.
const MAX_LINKS: usize = 40;

/// The permissions to execute a file.
const EXECUTE: u32 = 0o111;

/// Writes the content of the file at `path` with `write`. A new file gets the permissions `mode`. An existing file keeps
/// its permissions and, if the kernel allows it, its owner and group, and also gets the execute permissions in `mode`.
///
/// # Errors
/// Fails if the path is a folder, if the file cannot be written, or if no process reads the FIFO. The old content is then
/// unchanged, unless the file is a device or a FIFO.
pub fn write(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(old) if old.is_file() => replace(&fs::canonicalize(path)?, mode, Some(&old), write),
        Ok(other) => write_through(path, &other, write),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            replace(&link_target(path), mode, None, write)
        }
        Err(error) => Err(error),
    }
}

/// Writes to a device or a FIFO.
fn write_through(
    path: &Path,
    file: &Metadata,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    let opened = File::options()
        .write(true)
        .custom_flags(flags.cast_signed())
        .open(path);
    match opened {
        Ok(mut opened) => write(&mut opened),
        Err(_) if file.file_type().is_fifo() => Err(io::Error::other("no process reads the FIFO")),
        Err(error) => Err(error),
    }
}

/// Atomically replaces the file at `path`, whose metadata is `old`. None if there is no such file.
fn replace(
    path: &Path,
    mode: u32,
    old: Option<&Metadata>,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let unfinished = unfinished(path)?;
    let written = fill(&unfinished, mode, old, write);
    let outcome = written.and_then(|()| fs::rename(&unfinished, path));
    if outcome.is_err() {
        // The first error is more useful than an error of the removal.
        let _ = fs::remove_file(&unfinished);
    }
    outcome
}

/// Creates the file `path` with the owner and the permissions of `old`.
fn fill(
    path: &Path,
    mode: u32,
    old: Option<&Metadata>,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(mode & 0o700)
        .open(path)?;
    write(&mut file)?;
    let mode = old.map_or(mode, |old| old.mode() | mode & EXECUTE);
    // Only root may set the owner. A group that this user does not belong to cannot be set either.
    if let Some(old) = old
        && fchown(&file, Some(old.uid()), Some(old.gid())).is_err()
    {
        let _ = fchown(&file, None, Some(old.gid()));
    }
    // A change of the owner removes permissions, and so does the umask. The set-user-ID bit must not apply to a
    // different owner.
    file.set_permissions(Permissions::from_mode(mode & 0o777))
}

/// Returns the path of the unfinished file. It is in the same folder as `path`, because a file cannot be moved to a
/// different file system by renaming it.
///
/// The name starts with a dot and does not end with `.prom`, so collectors of metrics ignore the file. The name is random,
/// so another user cannot create a link with that name in advance in a folder like /tmp.
fn unfinished(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let random: [u8; 8] = random::bytes()?;
    let mut unfinished = OsString::from(".");
    unfinished.push(name);
    unfinished.push(format!(".{:016x}.tmp", u64::from_ne_bytes(random)));
    Ok(path.with_file_name(unfinished))
}

/// Returns the path to which the symbolic link `path` leads, if that file does not exist. Returns `path` if it is not a
/// link.
fn link_target(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = fs::read_link(&path) else {
            break;
        };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{self, Write};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::write;

    fn put(path: &Path, mode: u32, text: &str) -> io::Result<()> {
        write(path, mode, |file| file.write_all(text.as_bytes()))
    }

    fn mode(path: &Path) -> u32 {
        let file = fs::metadata(path).expect("the file exists");
        file.permissions().mode() & 0o7777
    }

    #[test]
    fn file_is_replaced_atomically_without_leftovers() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("dlock.prom");
        put(&path, 0o644, "one").expect("the file can be written");
        assert_eq!(mode(&path), 0o644);
        let old = fs::File::open(&path).expect("the file exists");
        put(&path, 0o644, "two").expect("the file can be written");
        assert_eq!(io::read_to_string(old).expect("a text"), "one");
        assert_eq!(fs::read_to_string(&path).expect("the file exists"), "two");
        put(&folder.path().join("no/such/folder"), 0o644, "").expect_err("there is no folder");
        put(folder.path(), 0o644, "").expect_err("a folder cannot be replaced by a file");
        let failed = write(&path, 0o644, |_| Err(io::ErrorKind::StorageFull.into()));
        failed.expect_err("the content cannot be written");
        assert_eq!(fs::read_to_string(&path).expect("the file exists"), "two");
        let left = fs::read_dir(folder.path()).expect("the folder exists");
        assert_eq!(left.count(), 1);
    }

    #[test]
    fn existing_file_keeps_its_mode_and_gets_execute_permissions() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        put(&path, 0o640, "").expect("the file can be written");
        put(&path, 0o644, "").expect("the file can be written");
        assert_eq!(mode(&path), 0o640);
        put(&path, 0o755, "").expect("the file can be written");
        assert_eq!(mode(&path), 0o751);
    }

    #[test]
    fn links_are_followed_also_to_a_file_that_does_not_exist() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        let target = folder.path().join("target");
        symlink("second", &first).expect("the folder is writable");
        symlink(&target, &second).expect("the folder is writable");
        for text in ["one", "two"] {
            put(&first, 0o644, text).expect("the file can be written");
            assert_eq!(fs::read_to_string(&target).expect("the file exists"), text);
            assert!(first.is_symlink() && second.is_symlink() && !target.is_symlink());
        }
        let circle = folder.path().join("circle");
        symlink("circle", &circle).expect("the folder is writable");
        put(&circle, 0o644, "").expect_err("the link leads to itself");
    }
}
