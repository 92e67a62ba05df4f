//! The password from `--password-file` or from the variable `DLOCK_PASSWORD`.
//!
//! dlock has no flag for the password itself, because other users of the machine can read the command line.

use std::ffi::OsString;
use std::path::Path;

use super::error::Error;
use super::settings::{Setting, Settings};
use super::text_file;

/// The variable that contains the password itself.
pub const VARIABLE: &str = "DLOCK_PASSWORD";

/// Reads the password from `file`. If `file` is None, the password is `variable`, the value of [`VARIABLE`]. The result
/// is empty if neither is set.
pub(super) fn read(file: Option<&Path>, variable: Option<OsString>) -> Result<Settings, Error> {
    let mut settings = Settings::default();
    let (text, origin) = match (file, variable) {
        (Some(path), _) => (text_file::value(path)?, path.display().to_string()),
        (None, Some(text)) => (checked(text)?, VARIABLE.to_owned()),
        (None, None) => return Ok(settings),
    };
    settings.set_valid(Setting::Password, text, &origin);
    Ok(settings)
}

fn checked(text: OsString) -> Result<String, Error> {
    let text = text
        .into_string()
        .map_err(|_| Error::usage(format!("{VARIABLE} is not UTF-8")))?;
    if text.is_empty() {
        // The usual cause of an empty value is an unset variable in the caller's script, not an account without a
        // password.
        return Err(Error::usage(format!(
            "{VARIABLE} is empty; unset it to log in without a password"
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::Write;
    use std::os::unix::ffi::OsStringExt;

    use super::read;
    use crate::config::settings::Setting;
    use crate::exit::Status;

    #[test]
    fn password_file_overrides_the_variable() {
        let mut file = tempfile::NamedTempFile::new().expect("the temporary file is created");
        writeln!(file, "from file").expect("the file is written");
        let variable = || Some(OsString::from("from variable"));
        let path = file.path().display().to_string();
        for (file, variable, wanted) in [
            (Some(file.path()), variable(), Some(("from file", &*path))),
            (None, variable(), Some(("from variable", "DLOCK_PASSWORD"))),
            (None, None, None),
        ] {
            let settings = read(file, variable).expect("the settings are valid");
            let password = settings.text(Setting::Password);
            assert_eq!(password.zip(settings.origin(Setting::Password)), wanted);
        }
    }

    #[test]
    fn empty_or_non_utf8_variable_is_refused() {
        for (bytes, wanted) in [
            (
                &b""[..],
                "DLOCK_PASSWORD is empty; unset it to log in without a password",
            ),
            (b"S3NTINEL\xff", "DLOCK_PASSWORD is not UTF-8"),
        ] {
            let variable = OsString::from_vec(bytes.to_vec());
            let error = read(None, Some(variable)).expect_err("the password is invalid");
            assert_eq!(error.to_string(), wanted);
            assert_eq!(error.status(), Status::USAGE);
        }
    }
}
