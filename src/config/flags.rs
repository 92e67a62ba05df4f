//! The settings of the options that set one value each, from the command line or from the environment. clap has already
//! read the environment variables.
//!
//! A host other than localhost together with a socket is refused, because one of the two settings usually comes from a
//! forgotten variable. If dlock used the wrong one, it would acquire the lock on a different server.

use std::ffi::OsString;

use super::error::Error;
use super::settings::{Setting, Settings};
use crate::cli::connection::ConnectionArgs;

/// Where the value of an option is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    CommandLine,
    Environment,
}

impl Level {
    /// Returns the option or the environment variable for the setting `name`.
    pub(super) fn origin(self, name: &str) -> String {
        match self {
            Self::CommandLine => format!("--{name}"),
            Self::Environment => format!("DLOCK_{}", name.to_uppercase().replace('-', "_")),
        }
    }

    /// Returns true if the option `name` is given at this level, if it is given.
    pub(super) fn has(self, args: &ConnectionArgs, name: &str) -> bool {
        let is_typed = args.on_command_line.iter().any(|typed| typed == name);
        is_typed == (self == Self::CommandLine)
    }
}

/// Returns the settings in `args`, which are given at `level`. Ignores the URL and the files in `args`.
pub(super) fn settings(args: &ConnectionArgs, level: Level) -> Result<Settings, Error> {
    let options: [(Setting, Option<OsString>); 9] = [
        (Setting::Host, args.host.as_ref().map(OsString::from)),
        (Setting::Port, args.port.map(|port| port.to_string().into())),
        (Setting::Socket, args.socket.as_ref().map(OsString::from)),
        (Setting::User, args.user.as_ref().map(OsString::from)),
        (
            Setting::Database,
            args.database.as_ref().map(OsString::from),
        ),
        (
            Setting::SslMode,
            args.ssl_mode.map(|mode| mode.to_string().into()),
        ),
        (Setting::SslCa, args.ssl_ca.as_ref().map(OsString::from)),
        (Setting::SslCert, args.ssl_cert.as_ref().map(OsString::from)),
        (Setting::SslKey, args.ssl_key.as_ref().map(OsString::from)),
    ];
    let mut settings = Settings::default();
    for (setting, value) in options {
        let Some(value) = value.filter(|_| level.has(args, setting.name())) else {
            continue;
        };
        let origin = level.origin(setting.name());
        let invalid = |fault| Error::usage(format!("{origin} {fault}"));
        let text = value.into_string().map_err(|_| invalid("is not UTF-8"))?;
        settings.set(setting, text, &origin).map_err(invalid)?;
    }
    settings.prefer_socket_to_localhost();
    match settings.contains(Setting::Host) && settings.contains(Setting::Socket) {
        true => Err(both_set(level, "host", "socket")),
        false => Ok(settings),
    }
}

/// Returns the error for two options that exclude each other and are both given at `level`.
pub(super) fn both_set(level: Level, one: &str, other: &str) -> Error {
    Error::usage(format!(
        "{} and {} are both set; set only one of them",
        level.origin(one),
        level.origin(other)
    ))
}

#[cfg(test)]
mod tests {
    use super::{Level, settings};
    use crate::cli::connection::ConnectionArgs;
    use crate::exit::Status;

    #[test]
    fn host_with_socket_is_refused_unless_the_host_is_localhost() {
        let mut args = ConnectionArgs {
            host: Some("db".into()),
            socket: Some("/run/sock".into()),
            ..ConnectionArgs::default()
        };
        let error = settings(&args, Level::Environment).expect_err("host and socket are ambiguous");
        assert!(error.to_string().contains("DLOCK_SOCKET"), "{error}");
        assert_eq!(error.status(), Status::USAGE);

        for host in ["localhost,db", "localhost:3306"] {
            args.host = Some(host.into());
            settings(&args, Level::Environment).expect_err("the socket excludes other hosts");
        }

        args.host = Some("localhost".into());
        let settings = settings(&args, Level::Environment)
            .expect("the mysql client accepts localhost with a socket");
        assert_eq!(settings.texts(), [("socket", "/run/sock")]);
    }

    #[test]
    fn invalid_value_is_reported_with_the_option_or_the_variable() {
        let text = |text: &str| Some(text.to_owned());
        let valid = ConnectionArgs::default();
        let host = ConnectionArgs {
            host: text("S3NTINEL@db"),
            ..valid.clone()
        };
        let port = ConnectionArgs {
            port: Some(0),
            ..valid.clone()
        };
        let user = ConnectionArgs {
            user: text(""),
            ..valid.clone()
        };
        let database = ConnectionArgs {
            database: text(""),
            ..valid
        };
        for (mut args, name, fault) in [
            (host, "host", "is not a host name or an IP address"),
            (port, "port", "must be a number from 1 to 65535"),
            (user, "user", "is empty"),
            (database, "database", "is empty"),
        ] {
            let variable = settings(&args, Level::Environment).expect_err("an invalid variable");
            args.on_command_line = vec![name.to_owned()];
            let option = settings(&args, Level::CommandLine).expect_err("an invalid option");
            for (error, origin) in [
                (option, format!("--{name} {fault}")),
                (variable, format!("DLOCK_{} {fault}", name.to_uppercase())),
            ] {
                let error = error.to_string();
                let is_right = error.starts_with(&origin) && !error.contains("S3NTINEL");
                assert!(is_right, "{error}");
            }
        }
    }
}
