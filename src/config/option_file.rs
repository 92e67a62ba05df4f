//! An option file of the `mysql` client and the files that it includes. Options in `[dlock]` override those in
//! `[client]`.
//!
//! Reads files and folders, and enforces the policy. A file is refused if other users can write to it, or if they can
//! read it and it contains a password. An unknown option is an error in `[dlock]`; in `[client]` it is ignored,
//! because it belongs to another program. The policy is stricter than that of the client, which skips files that it
//! cannot read and lines that it does not know: a lock with incomplete settings is worse than no lock. Errors contain
//! file and line, never a value.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::option_group::{Assignment, Group};
use super::option_line::{self, OptionLine};
use super::settings::Partial;
use super::text_file::{TextFile, unreadable};

/// Maximum depth of included files, which is the limit of the `mysql` client.
const MAX_DEPTH: usize = 10;

/// Reads the settings in the file at `path`.
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

/// The group to which the current line of a file belongs.
#[derive(Clone, Copy)]
enum Section {
    /// The line is before the first group.
    Before,
    Client,
    Dlock,
    /// A group of another program.
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
            return Err(world_writable(path));
        }
        // A file starts outside all groups, even if it is included from within a group.
        let mut section = Section::Before;
        for (line, number) in file.text.lines().zip(1usize..) {
            let at = |what: &str| Error::file(format!("{}:{number}: {what}", path.display()));
            match option_line::parse(line).map_err(at)? {
                OptionLine::Blank => {}
                OptionLine::Group(name) => section = Section::of(name),
                OptionLine::Include(_) | OptionLine::IncludeFolder(_) if depth == MAX_DEPTH => {
                    return Err(at(
                        "more than 10 files include each other: is there a circle?",
                    ));
                }
                // A relative path is relative to the working directory, as in the client.
                OptionLine::Include(included) => self.read(Path::new(included), depth + 1)?,
                OptionLine::IncludeFolder(folder) => {
                    for included in option_files_in(Path::new(folder))? {
                        self.read(&included, depth + 1)?;
                    }
                }
                OptionLine::Option { key, value } => {
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
        // Refuses `password SECRET`, which otherwise would be an unknown option and be ignored in [client].
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err("this is not an option: write KEY = VALUE".to_owned());
        }
        // The key is printed only if it is an option of dlock. In a malformed line the key may be the
        // password.
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

/// Returns the `*.cnf` files in `folder`, sorted by name. Includes hidden files, as the client does.
fn option_files_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let listed = || -> std::io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect()
    };
    let failed = |error| unreadable(folder, &error);
    // A user who can add a file to the folder can also add an option.
    if fs::metadata(folder).map_err(failed)?.permissions().mode() & 0o002 != 0 {
        return Err(world_writable(folder));
    }
    let mut files = listed().map_err(failed)?;
    files.retain(|file| file.as_os_str().as_bytes().ends_with(b".cnf"));
    files.sort();
    Ok(files)
}

fn world_writable(path: &Path) -> Error {
    Error::file(format!(
        "{0}: every user can write to it: chmod o-w {0}",
        path.display()
    ))
}

#[cfg(test)]
mod tests;
