//! An option file of the `mysql` client and what it includes, read as `[dlock]` over `[client]`.
//!
//! Walks files and folders and holds the policy: a file that others may write to, or may read a
//! password in, is refused; in `[dlock]` an unknown option is an error, in `[client]` it belongs to
//! another program. Stricter than the client, which skips what it cannot read or does not know:
//! a lock with half its settings is worse than none. Errors name file and line, never a value.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::option_group::{Assignment, Group};
use super::option_line::{self, Line};
use super::partial::Partial;
use super::text_file::{TextFile, unreadable};

/// How deep files may include each other; the limit of the `mysql` client.
const DEPTH: usize = 10;

/// What the file at `path` says.
pub(super) fn read(path: &Path) -> Result<Partial, Error> {
    let mut groups = Groups::default();
    groups.read(path, 0)?;
    Ok(groups.dlock.into_partial().or(groups.client.into_partial()))
}

#[derive(Default)]
struct Groups {
    client: Group,
    dlock: Group,
}

/// The group that the lines of a file are in.
#[derive(Clone, Copy)]
enum Section {
    /// None yet.
    Before,
    Client,
    Dlock,
    /// Another program's.
    Foreign,
}

impl Section {
    fn of(name: &str) -> Self {
        if name.eq_ignore_ascii_case("client") {
            Self::Client
        } else if name.eq_ignore_ascii_case("dlock") {
            Self::Dlock
        } else {
            Self::Foreign
        }
    }
}

impl Groups {
    fn read(&mut self, path: &Path, depth: usize) -> Result<(), Error> {
        let file = TextFile::read(path)?;
        if file.world_writable {
            return Err(open_to_all(path));
        }
        // A file starts outside all groups even when it is included in one.
        let mut section = Section::Before;
        for (line, number) in file.text.lines().zip(1usize..) {
            let at = |what: &str| Error::file(format!("{}:{number}: {what}", path.display()));
            match option_line::parse(line).map_err(at)? {
                Line::Blank => {}
                Line::Group(name) => section = Section::of(name),
                Line::Include(_) | Line::IncludeFolder(_) if depth == DEPTH => {
                    return Err(at(
                        "more than 10 files include each other: is there a circle?",
                    ));
                }
                // A relative path counts from the working directory, as in the client.
                Line::Include(included) => self.read(Path::new(included), depth + 1)?,
                Line::IncludeFolder(folder) => {
                    for included in option_files_in(Path::new(folder))? {
                        self.read(&included, depth + 1)?;
                    }
                }
                Line::Option { key, value } => {
                    let assignment = self.assign(section, key, value).map_err(|what| at(&what))?;
                    if assignment == Assignment::Sensitive && file.world_readable {
                        return Err(Error::file(format!(
                            "{0}: holds a password and every user can read it: chmod 600 {0}",
                            path.display()
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    fn assign(
        &mut self,
        section: Section,
        key: &str,
        value: Option<String>,
    ) -> Result<Assignment, String> {
        let key = key.replace('_', "-");
        let (key, loose) = key
            .strip_prefix("loose-")
            .map_or((&*key, false), |key| (key, true));
        let group = match section {
            Section::Before => return Err("an option before the first [group]".to_owned()),
            Section::Foreign => return Ok(Assignment::Unknown),
            Section::Client => &mut self.client,
            Section::Dlock => &mut self.dlock,
        };
        // Catches `password SECRET`, which would else be an unknown option, ignored in [client].
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err("this is not an option: write KEY = VALUE".to_owned());
        }
        // The key is printed once it is known to be one of ours, and not before: in a garbled line
        // it may be the password.
        match group
            .assign(key, value)
            .map_err(|fault| format!("{key} {fault}"))?
        {
            Assignment::Unknown if matches!(section, Section::Dlock) && !loose => {
                Err("unknown option in [dlock]".to_owned())
            }
            assignment => Ok(assignment),
        }
    }
}

/// The `*.cnf` files in `folder`, by name, hidden ones too, as in the client.
fn option_files_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let listed = || -> std::io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect()
    };
    let failed = |error| unreadable(folder, &error);
    // A user who can add a file can add an option.
    if fs::metadata(folder).map_err(failed)?.permissions().mode() & 0o002 != 0 {
        return Err(open_to_all(folder));
    }
    let mut files = listed().map_err(failed)?;
    files.retain(|file| file.as_os_str().as_bytes().ends_with(b".cnf"));
    files.sort();
    Ok(files)
}

fn open_to_all(path: &Path) -> Error {
    Error::file(format!(
        "{0}: every user can write to it: chmod o-w {0}",
        path.display()
    ))
}

#[cfg(test)]
mod tests;
