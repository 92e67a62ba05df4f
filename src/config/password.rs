//! The password that is given by itself: `--password-file`, or the variable `DLOCK_PASSWORD`.
//!
//! There is no flag for the password itself, on purpose: other users of the machine can read the
//! command line. The text goes straight into a [`Secret`].

use std::ffi::OsString;
use std::path::Path;

use super::error::Error;
use super::text_file;
use crate::store::target::Secret;

/// Holds the password itself.
const VARIABLE: &str = "DLOCK_PASSWORD";

/// The password from `file`, else from the environment, else none.
pub(super) fn given(
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
        // More often a variable of the caller's that is not set than an account without password.
        return Err(Error::usage(format!(
            "{VARIABLE} is empty: unset it to log in without a password"
        )));
    }
    Ok(Some(Secret::new(text)))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::Write;
    use std::os::unix::ffi::OsStringExt;

    use super::given;
    use crate::exit::Status;

    #[test]
    fn the_file_goes_before_the_variable() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        writeln!(file, "from file").expect("written");
        let environment = |name: &str| (name == "DLOCK_PASSWORD").then(|| "from variable".into());
        let password = given(Some(file.path()), &environment)
            .expect("good")
            .expect("given");
        assert_eq!(password.reveal(), "from file");
        let password = given(None, &environment).expect("good").expect("given");
        assert_eq!(password.reveal(), "from variable");
        assert_eq!(given(None, &|_: &str| None), Ok(None));
    }

    #[test]
    fn a_variable_that_is_empty_or_binary_is_refused() {
        for (bytes, wanted) in [
            (
                &b""[..],
                "DLOCK_PASSWORD is empty: unset it to log in without a password",
            ),
            (b"S3NTINEL\xff", "DLOCK_PASSWORD is not UTF-8"),
        ] {
            let environment = |_: &str| Some(OsString::from_vec(bytes.to_vec()));
            let error = given(None, &environment).expect_err("unusable");
            assert_eq!(error.to_string(), wanted);
            assert_eq!(error.status(), Status::USAGE);
        }
    }
}
