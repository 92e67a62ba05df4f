//! The settings of the options that set one value each, from the command line or from the environment. clap has already
//! read the environment variables.
//!
//! A host other than localhost together with a socket is refused, because one of the two settings usually comes from a
//! forgotten variable. If dlock used the wrong one, it would acquire the lock on a different server.

use super::error::Error;
use super::settings::{Endpoint, Partial, Source, is_localhost};
use super::value::{self, InvalidValue};
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

    /// Returns the part of `args` that is given at this level.
    pub(super) fn of(self, args: &ConnectionArgs) -> ConnectionArgs {
        args.filtered(|is_on_command_line| is_on_command_line == (self == Self::CommandLine))
    }
}

/// Returns the settings in `args`, which are given at `level`. Ignores the URL and the files in `args`.
pub(super) fn settings(args: &ConnectionArgs, level: Level) -> Result<Source, Error> {
    let hosts = checked(args.host.as_deref(), level, "host", value::hosts)?;
    let endpoint = match (hosts, args.socket.clone()) {
        (Some(hosts), Some(_)) if !is_localhost(&hosts) => {
            return Err(both_set(level, "host", "socket"));
        }
        (_, Some(socket)) => Some(Endpoint::Socket(socket)),
        (Some(hosts), None) => Some(Endpoint::Hosts(hosts)),
        (None, None) => None,
    };
    let settings = Partial {
        endpoint,
        port: checked(args.port, level, "port", value::port_number)?,
        user: checked(args.user.as_deref(), level, "user", value::name)?,
        password: None,
        database: checked(args.database.as_deref(), level, "database", value::name)?,
        ssl_mode: args.ssl_mode,
        ssl_ca: args.ssl_ca.clone(),
        ssl_cert: args.ssl_cert.clone(),
        ssl_key: args.ssl_key.clone(),
    };
    Ok(Source::new(settings, |name| level.origin(name)))
}

/// Returns the error for two options that exclude each other and are both given at `level`.
pub(super) fn both_set(level: Level, one: &str, other: &str) -> Error {
    Error::usage(format!(
        "{} and {} are both set; set only one of them",
        level.origin(one),
        level.origin(other)
    ))
}

/// Applies `check` to `given`, the value of the setting `name`. Returns None if `given` is None.
fn checked<A, B>(
    given: Option<A>,
    level: Level,
    name: &str,
    check: impl Fn(A) -> Result<B, InvalidValue>,
) -> Result<Option<B>, Error> {
    given
        .map(check)
        .transpose()
        .map_err(|fault| Error::usage(format!("{} {fault}", level.origin(name))))
}

#[cfg(test)]
mod tests {
    use super::{Level, settings};
    use crate::cli::connection::ConnectionArgs;
    use crate::config::settings::Endpoint;
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
        let source = settings(&args, Level::Environment)
            .expect("the mysql client accepts localhost with a socket");
        assert_eq!(
            source.settings.endpoint,
            Some(Endpoint::Socket("/run/sock".into()))
        );
    }

    #[test]
    fn invalid_value_is_reported_with_the_option_or_the_variable() {
        let text = |text: &str| Some(text.to_owned());
        for (args, wanted) in [
            (
                ConnectionArgs {
                    host: text("S3NTINEL@db"),
                    ..ConnectionArgs::default()
                },
                "is not a host name",
            ),
            (
                ConnectionArgs {
                    port: Some(0),
                    ..ConnectionArgs::default()
                },
                "must be a number from 1",
            ),
            (
                ConnectionArgs {
                    user: text(""),
                    ..ConnectionArgs::default()
                },
                "is empty",
            ),
            (
                ConnectionArgs {
                    database: text(""),
                    ..ConnectionArgs::default()
                },
                "is empty",
            ),
        ] {
            for (level, name) in [(Level::CommandLine, "--"), (Level::Environment, "DLOCK_")] {
                let error = settings(&args, level)
                    .expect_err("the setting is invalid")
                    .to_string();
                assert!(
                    error.starts_with(name)
                        && error.contains(&format!(" {wanted}"))
                        && !error.contains("S3NTINEL"),
                    "{error}"
                );
            }
        }
    }
}
