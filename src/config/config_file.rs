//! The configuration files: the user's file, and the file of the machine.
//!
//! dlock reads them without being told to, so it must never send the password of one server to another server.
//! Therefore a configuration file is read only if no source with higher precedence sets the server. The files have the
//! format and the permission checks of an option file, but only their group `[dlock]` is read.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::option_file;
use super::settings::Settings;

/// The configuration file of the machine.
const SYSTEM_FILE: &str = "/etc/dlock.cnf";

/// The configuration file of a user, relative to the folder of the user's configuration files.
const USER_FILE: &str = "dlock/dlock.cnf";

/// A configuration file that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Origin of the server if the file was ignored, because a source with higher precedence sets the server. None if
    /// the file was read.
    pub ignored_because_of: Option<String>,
}

/// Returns the paths of the configuration files, from highest to lowest precedence. `environment` returns the value of
/// an environment variable.
///
/// The folder of the user's file is that of the XDG Base Directory Specification, which ignores relative paths.
pub(super) fn paths(environment: &impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let folder = |name: &str| {
        let path = PathBuf::from(environment(name)?);
        path.is_absolute().then_some(path)
    };
    let user_folder =
        folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
    let user_file = user_folder.map(|folder| folder.join(USER_FILE));
    user_file.into_iter().chain([SYSTEM_FILE.into()]).collect()
}

/// Adds the settings of the configuration files at `paths` that are missing in `settings`. Returns the settings, and the
/// files that exist.
///
/// # Errors
/// Fails if a file exists and cannot be read or is invalid. A file that is ignored is not opened.
pub(super) fn add(
    mut settings: Settings,
    mut paths: Vec<PathBuf>,
) -> Result<(Settings, Vec<ConfigFile>), Error> {
    let mut files = Vec::new();
    paths.retain(|path| !is_missing(path));
    for path in paths {
        let ignored_because_of = settings.server_origin().map(str::to_owned);
        if ignored_because_of.is_none() {
            settings = settings.or(option_file::read_dlock_group(&path)?);
        }
        files.push(ConfigFile {
            path,
            ignored_because_of,
        });
    }
    Ok((settings, files))
}

/// Returns true if the file does not exist. The home folder of some accounts is `/dev/null`, which is not a folder.
fn is_missing(path: &Path) -> bool {
    fs::metadata(path)
        .is_err_and(|error| [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::PathBuf;

    use super::paths;

    #[test]
    fn user_file_is_in_the_xdg_folder_or_the_home_folder() {
        for (xdg, home, wanted) in [
            (Some("/x"), Some("/h"), Some("/x/dlock/dlock.cnf")),
            (None, Some("/h"), Some("/h/.config/dlock/dlock.cnf")),
            (Some(""), Some("/h"), Some("/h/.config/dlock/dlock.cnf")),
            (Some("x"), Some("/h"), Some("/h/.config/dlock/dlock.cnf")),
            (None, Some(""), None),
            (None, Some("h"), None),
            (None, None, None),
        ] {
            let environment = |name: &str| match name {
                "XDG_CONFIG_HOME" => xdg.map(OsString::from),
                "HOME" => home.map(OsString::from),
                _ => None,
            };
            let wanted = wanted.into_iter().chain(["/etc/dlock.cnf"]);
            let wanted: Vec<PathBuf> = wanted.map(PathBuf::from).collect();
            assert_eq!(paths(&environment), wanted, "{xdg:?} {home:?}");
        }
    }
}
