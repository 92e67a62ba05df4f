//! The password from `--password-file` or from the variable `DLOCK_PASSWORD`.
//!
//! dlock has no flag for the password itself, because other users of the machine can read the command line. After a
//! successful check, dlock stores the password only in a [`Secret`].

use std::ffi::OsString;
use std::path::Path;

use super::error::Error;
use super::text_file;
use crate::store::target::Secret;

/// The variable that contains the password itself.
const VARIABLE: &str = "DLOCK_PASSWORD";

/// Reads the password from `file`. If `file` is None, reads the password from `environment`. Returns None if neither is
/// set.
pub(super) fn read_password(
    file: Option<&Path>,
    environment: &impl Fn(&str) -> Option<OsString>,
) -> Result<Option<Secret>, Error> {
    if let Some(path) = file {
        return text_file::value(path).map(|text| Some(Secret::new(text)));
    }
    let Some(text) = environment(VARIABLE) else {
        return Ok(None);
    };
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
    Ok(Some(Secret::new(text)))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::Write;
    use std::os::unix::ffi::OsStringExt;

    use super::read_password;
    use crate::exit::Status;

    #[test]
    fn password_file_overrides_the_variable() {
        let mut file = tempfile::NamedTempFile::new().expect("the temporary file is created");
        writeln!(file, "from file").expect("the file is written");
        let environment = |name: &str| (name == "DLOCK_PASSWORD").then(|| "from variable".into());
        let password = read_password(Some(file.path()), &environment)
            .expect("the settings are valid")
            .expect("the password is set");
        assert_eq!(password.reveal(), "from file");
        let password = read_password(None, &environment)
            .expect("the settings are valid")
            .expect("the password is set");
        assert_eq!(password.reveal(), "from variable");
        assert_eq!(read_password(None, &|_: &str| None), Ok(None));
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
            let environment = |_: &str| Some(OsString::from_vec(bytes.to_vec()));
            let error = read_password(None, &environment).expect_err("the password is invalid");
            assert_eq!(error.to_string(), wanted);
            assert_eq!(error.status(), Status::USAGE);
        }
    }
}
