//! The precedence of the sources, and the check that the settings are complete.
//!
//! The sources, from highest to lowest precedence:
//! 1. the flag of the setting, or the environment variable of that flag; for the password, `--password-file` and then
//!    `DLOCK_PASSWORD`
//! 2. the URL
//! 3. the option file
//! 4. for the port, the default
//!
//! The URL and every file that the user specifies are read in full, even if sources with higher precedence contain all
//! settings. Otherwise dlock would report an error in a file only when the user removes the variable that overrides the
//! file.

use std::ffi::OsString;

use super::error::Error;
use super::settings::{Endpoint, Partial};
use super::{flags, option_file, password, text_file, tls, url};
use crate::cli::connection::ConnectionArgs;
use crate::store::target::{Address, Target};

/// The port that IANA has assigned to MySQL.
const PORT: u16 = 3306;

/// Collects the address of the server, the database, the credentials and the TLS settings.
///
/// `environment` returns the value of an environment variable. It is called only for the password, because clap has
/// already read the other variables.
///
/// # Errors
///
/// Fails if a source is invalid, or if the sources together do not contain a server, a user and a database.
pub fn target(
    args: &ConnectionArgs,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Target, Error> {
    let flags = flags::settings(args)?;
    let password = Partial {
        password: password::read_password(args.password_file.as_deref(), &environment)?,
        ..Partial::default()
    };
    let url = from_url(args)?;
    let file = match &args.defaults_file {
        Some(path) => option_file::read(path)?,
        None => Partial::default(),
    };
    complete(flags.or(password).or(url).or(file))
}

fn from_url(args: &ConnectionArgs) -> Result<Partial, Error> {
    match (&args.url, &args.url_file) {
        (Some(_), Some(_)) => Err(Error::usage(
            "--url (or DLOCK_URL) and --url-file (or DLOCK_URL_FILE) are both set; set only one of them",
        )),
        (Some(text), None) => url::parse(text)
            .map_err(|fault| Error::usage(format!("the URL in --url (DLOCK_URL) {fault}"))),
        (None, Some(path)) => url::parse(&text_file::value(path)?)
            .map_err(|fault| Error::file(format!("{}: the URL {fault}", path.display()))),
        (None, None) => Ok(Partial::default()),
    }
}

fn complete(merged: Partial) -> Result<Target, Error> {
    let missing = missing(&merged);
    let (Some(endpoint), Some(user), Some(database)) =
        (merged.endpoint, merged.user, merged.database)
    else {
        return Err(Error::usage(missing));
    };
    let address = match endpoint {
        Endpoint::Host(host) => Address::Tcp {
            host,
            port: merged.port.unwrap_or(PORT),
        },
        Endpoint::Socket(path) => Address::Socket(path),
    };
    let tls = tls::settings(
        &address,
        merged.ssl_mode,
        merged.ssl_ca,
        merged.ssl_cert,
        merged.ssl_key,
    )?;
    Ok(Target {
        address,
        user,
        password: merged
            .password
            .filter(|password| !password.reveal().is_empty()),
        database,
        tls,
    })
}

/// Returns a message that lists all missing settings, so that the user can add all of them after the first failure.
fn missing(merged: &Partial) -> String {
    let absent: Vec<&str> = [
        (
            merged.endpoint.is_none(),
            "no server (set --host or DLOCK_HOST, --socket or DLOCK_SOCKET)",
        ),
        (merged.user.is_none(), "no user (set --user or DLOCK_USER)"),
        (
            merged.database.is_none(),
            "no database (set --database or DLOCK_DATABASE)",
        ),
    ]
    .into_iter()
    .filter_map(|(is_absent, what)| is_absent.then_some(what))
    .collect();
    format!(
        "{}; alternatively, use a URL (--url or DLOCK_URL) or an option file (--defaults-file)",
        absent.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::path::PathBuf;

    use proptest::prelude::{any, prop_assert, proptest};
    use tempfile::TempDir;

    use super::target;
    use crate::cli::connection::ConnectionArgs;
    use crate::exit::Status;
    use crate::store::target::{Address, Secret, SslMode, Target, Tls};

    fn none(_: &str) -> Option<OsString> {
        None
    }

    fn text(text: &str) -> String {
        text.to_owned()
    }

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp {
            host: host.to_owned(),
            port,
        }
    }

    /// Creates a file with mode 0600 in `folder`.
    fn file(folder: &TempDir, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.path().join(name);
        fs::write(&path, text).expect("the file is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("the mode is set");
        path
    }

    fn url(text: &str) -> ConnectionArgs {
        ConnectionArgs {
            url: Some(text.to_owned()),
            ..ConnectionArgs::default()
        }
    }

    #[test]
    fn url_alone_is_sufficient() {
        let wanted = Target {
            address: tcp("db", 3306),
            user: "u".to_owned(),
            password: Some(Secret::new("p".to_owned())),
            database: "x".to_owned(),
            tls: Tls {
                mode: SslMode::VerifyIdentity,
                chosen: false,
                ca: None,
                identity: None,
            },
        };
        assert_eq!(target(&url("mysql://u:p@db/x"), none), Ok(wanted));
    }

    #[test]
    fn flags_override_the_url_and_the_url_overrides_the_option_file() {
        let folder = tempfile::tempdir().expect("the temporary folder is created");
        let options = "[client]\nhost=c\nport=1\nuser=c\npassword=c\ndatabase=c\nssl-ca=/c\n";
        let mut args = ConnectionArgs {
            defaults_file: Some(file(&folder, "my.cnf", options)),
            ..ConnectionArgs::default()
        };
        let found = target(&args, none).expect("the file has all settings");
        assert_eq!((found.address, &*found.user), (tcp("c", 1), "c"));

        args.url_file = Some(file(&folder, "url", "mysql://b:b@b/b\n"));
        let found = target(&args, none).expect("the settings are valid");
        assert_eq!((found.address, &*found.user), (tcp("b", 1), "b"));
        assert_eq!(found.database, "b");
        assert_eq!(found.tls.ca, Some("/c".into()));
        assert_eq!(found.password.as_ref().map(Secret::reveal), Some("b"));

        args.host = Some(text("a"));
        args.user = Some(text("a"));
        let found = target(&args, none).expect("the settings are valid");
        assert_eq!(
            (found.address, &*found.user, &*found.database),
            (tcp("a", 1), "a", "b")
        );

        let environment = |name: &str| (name == "DLOCK_PASSWORD").then(|| "variable".into());
        let found = target(&args, environment).expect("the settings are valid");
        assert_eq!(
            found.password.as_ref().map(Secret::reveal),
            Some("variable")
        );

        args.password_file = Some(file(&folder, "password", "file\n"));
        let found = target(&args, environment).expect("the settings are valid");
        assert_eq!(found.password.as_ref().map(Secret::reveal), Some("file"));
    }

    #[test]
    fn source_with_the_highest_precedence_sets_the_server() {
        let mut args = url("mysql://u@db/x");
        args.socket = Some("/s".into());
        assert_eq!(
            target(&args, none).expect("the settings are valid").address,
            Address::Socket("/s".into())
        );

        let mut args = url("mysql://u@localhost/x?socket=/s");
        assert_eq!(
            target(&args, none).expect("the settings are valid").address,
            Address::Socket("/s".into())
        );
        args.host = Some(text("localhost"));
        assert_eq!(
            target(&args, none).expect("the settings are valid").address,
            tcp("localhost", 3306)
        );
    }

    #[test]
    fn empty_password_in_a_file_means_no_password() {
        let folder = tempfile::tempdir().expect("the temporary folder is created");
        let options = "[client]\nhost=c\nuser=c\ndatabase=c\npassword=c\n[dlock]\npassword=\n";
        let args = ConnectionArgs {
            defaults_file: Some(file(&folder, "my.cnf", options)),
            ..ConnectionArgs::default()
        };
        assert_eq!(
            target(&args, none)
                .expect("the settings are valid")
                .password,
            None
        );
    }

    #[test]
    fn missing_settings_are_reported_with_flag_and_variable() {
        let error = target(&ConnectionArgs::default(), none)
            .expect_err("all settings are missing")
            .to_string();
        for name in [
            "--host",
            "DLOCK_SOCKET",
            "--user",
            "DLOCK_USER",
            "DLOCK_DATABASE",
        ] {
            assert!(error.contains(name), "{error}");
        }
        let error = target(&url("mysql://u@db"), none).expect_err("the database is missing");
        assert_eq!(
            error.to_string(),
            "no database (set --database or DLOCK_DATABASE); alternatively, use a URL (--url or \
             DLOCK_URL) or an option file (--defaults-file)"
        );
        assert_eq!(error.status(), Status::USAGE);
    }

    #[test]
    fn invalid_url_exits_64_from_an_option_and_78_from_a_file() {
        let bad = "mysql://d:S3NTINEL@ss/w0rd@host/db";
        let error = target(&url(bad), none).expect_err("the setting is invalid");
        assert!(
            error
                .to_string()
                .contains("percent-encode special characters"),
            "{error}"
        );
        assert_eq!(error.status(), Status::USAGE);

        let folder = tempfile::tempdir().expect("the temporary folder is created");
        let mut args = ConnectionArgs {
            url_file: Some(file(&folder, "url", bad)),
            ..ConnectionArgs::default()
        };
        let error = target(&args, none).expect_err("the setting is invalid");
        assert!(
            error.to_string().contains("/url: the URL is ambiguous"),
            "{error}"
        );
        assert!(!error.to_string().contains("S3NTINEL"), "{error}");
        assert_eq!(error.status(), Status::CONFIG);

        args.url = Some(text("mysql://u@db/x"));
        let error = target(&args, none).expect_err("both URL options are set");
        assert_eq!(error.status(), Status::USAGE);
    }

    proptest! {
        #[test]
        fn no_message_contains_the_password_of_a_url(
            before in "[ -~]{0,4}",
            after in "[ -~]{0,4}",
            tail in any::<String>(),
        ) {
            let text = format!("mysql://d:{before}S3NTINEL{after}@h/{tail}");
            let shown = match target(&url(&text), none) {
                Ok(found) => format!("{found:?}"),
                Err(error) => format!("{error} {error:?}"),
            };
            prop_assert!(!shown.contains("S3NTINEL"), "{}", shown);
        }
    }
}
