//! An option file of the `mysql` client, or a configuration file of dlock in the same format, and the files that it
//! includes. In an option file, options in `[dlock]` override those in `[client]`. In a configuration file, only
//! `[dlock]` is read.
//!
//! This module reads files and folders, and enforces these rules:
//! - A file is refused if all users can write to it, or if all users can read it and it contains a password in one of
//!   the two groups.
//! - An unknown option is an error in `[dlock]`, unless it begins with `loose-`. In `[client]`, an unknown option is
//!   ignored, because it may belong to a different program.
//!
//! The rules are stricter than those of the `mysql` client, which skips unreadable files and unknown lines. A lock with
//! incomplete settings is worse than no lock. Errors contain the path and, if a line is invalid, its number, but never
//! a value.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::option_group::{Assignment, Group, known_options};
use super::option_line::{self, OptionLine};
use super::settings::Settings;
use super::text_file::{TextFile, unreadable};

/// Maximum depth of included files. The `mysql` client has the same limit.
const MAX_DEPTH: usize = 10;

/// Reads the settings in the groups `[client]` and `[dlock]` from the file at `path` and the files that it includes.
pub(super) fn read(path: &Path) -> Result<Settings, Error> {
    let mut groups = Groups {
        client: Some(Group::default()),
        ..Groups::default()
    };
    groups.read(path, 0)?;
    let client = groups.client.unwrap_or_default();
    Ok(groups.dlock.into_settings().or(client.into_settings()))
}

/// Reads the settings in the group `[dlock]` from the file at `path` and the files that it includes.
pub(super) fn read_dlock_group(path: &Path) -> Result<Settings, Error> {
    let mut groups = Groups::default();
    groups.read(path, 0)?;
    Ok(groups.dlock.into_settings())
}

#[derive(Default)]
struct Groups {
    /// None ignores the group `[client]`.
    client: Option<Group>,
    dlock: Group,
}

/// The group to which the current line of a file belongs.
#[derive(Clone, Copy)]
enum Section {
    /// The line is before the first group.
    Before,
    Client,
    Dlock,
    /// The line is in a group that belongs to a different program.
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
            let place = format!("{}:{number}", path.display());
            let at = |what: &str| Error::file(format!("{place}: {what}"));
            match option_line::parse(line).map_err(at)? {
                OptionLine::Blank => {}
                OptionLine::Group(name) => section = Section::of(name),
                OptionLine::Include(_) | OptionLine::IncludeFolder(_) if depth == MAX_DEPTH => {
                    return Err(at(
                        "more than 10 levels of included files; a file may include itself",
                    ));
                }
                // A relative path is resolved from the working directory, as in the `mysql` client.
                OptionLine::Include(included) => self.read(Path::new(included), depth + 1)?,
                OptionLine::IncludeFolder(folder) => {
                    for included in option_files_in(Path::new(folder))? {
                        self.read(&included, depth + 1)?;
                    }
                }
                OptionLine::Option { key, value } => {
                    let assignment = self
                        .assign(section, key, value, &place)
                        .map_err(|what| at(&what))?;
                    if assignment == Assignment::Sensitive && file.world_readable {
                        return Err(Error::file(format!(
                            "{0}: the file contains a password and all users can read it; run chmod 600 {0}",
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
        place: &str,
    ) -> Result<Assignment, String> {
        let key = key.replace('_', "-");
        let (key, loose) = key
            .strip_prefix("loose-")
            .map_or((&*key, false), |key| (key, true));
        let group = match section {
            Section::Before => return Err("the option is not in a [group]".to_owned()),
            Section::Foreign => return Ok(Assignment::Unknown),
            Section::Client => match &mut self.client {
                Some(client) => client,
                None => return Ok(Assignment::Unknown),
            },
            Section::Dlock => &mut self.dlock,
        };
        // Refuses a line such as `password SECRET`. Otherwise it would be an unknown option, which is ignored in
        // [client].
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err("the line is not an option; write KEY = VALUE".to_owned());
        }
        // The key is printed only if dlock uses the option, because the key of a malformed line may be the password.
        match group
            .assign(key, value, place)
            .map_err(|fault| format!("{key} {fault}"))?
        {
            Assignment::Unknown if matches!(section, Section::Dlock) && !loose => Err(format!(
                "unknown option in [dlock]; the known options are {}",
                known_options()
            )),
            assignment => Ok(assignment),
        }
    }
}

/// Returns the `*.cnf` files in `folder`, sorted by name. Includes hidden files, as the `mysql` client does.
fn option_files_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let listed = || -> std::io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect()
    };
    let failed = |error| unreadable(folder, &error);
    // If all users can write to the folder, any user can add a file with options.
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
        "{0}: all users can write to this path; run chmod o-w {0}",
        path.display()
    ))
}

#[cfg(test)]
mod tests;
