//! The settings from the flags that set one value each. clap has already read the environment variables of the flags.
//!
//! A host other than localhost together with a socket is refused, because one of the two settings usually comes from a
//! forgotten variable, and clap does not report which one. If dlock used the wrong one, it would acquire the lock on a
//! different server.

use super::error::Error;
use super::settings::{Endpoint, Partial};
use super::value::{self, InvalidValue};
use crate::cli::connection::ConnectionArgs;

/// Returns the settings in `args`. Ignores the URL and the files that `args` specifies.
pub(super) fn settings(args: &ConnectionArgs) -> Result<Partial, Error> {
    let host = checked(args.host.as_deref(), "--host (DLOCK_HOST)", value::host)?;
    let endpoint = match (host, args.socket.clone()) {
        (Some(host), Some(_)) if !host.eq_ignore_ascii_case("localhost") => {
            return Err(Error::usage(
                "--host (or DLOCK_HOST) and --socket (or DLOCK_SOCKET) are both set; set only one of them",
            ));
        }
        (_, Some(socket)) => Some(Endpoint::Socket(socket)),
        (Some(host), None) => Some(Endpoint::Host(host)),
        (None, None) => None,
    };
    Ok(Partial {
        endpoint,
        port: checked(args.port, "--port (DLOCK_PORT)", value::port_number)?,
        user: checked(args.user.as_deref(), "--user (DLOCK_USER)", value::name)?,
        password: None,
        database: checked(
            args.database.as_deref(),
            "--database (DLOCK_DATABASE)",
            value::name,
        )?,
        ssl_mode: args.ssl_mode,
        ssl_ca: args.ssl_ca.clone(),
        ssl_cert: args.ssl_cert.clone(),
        ssl_key: args.ssl_key.clone(),
    })
}

/// Applies `check` to `given`. An error message begins with `names`. Returns None if `given` is None.
fn checked<A, B>(
    given: Option<A>,
    names: &str,
    check: impl Fn(A) -> Result<B, InvalidValue>,
) -> Result<Option<B>, Error> {
    given
        .map(check)
        .transpose()
        .map_err(|fault| Error::usage(format!("{names} {fault}")))
}

#[cfg(test)]
mod tests {
    use super::settings;
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
        let error = settings(&args).expect_err("host and socket are ambiguous");
        assert!(error.to_string().contains("DLOCK_SOCKET"), "{error}");
        assert_eq!(error.status(), Status::USAGE);

        args.host = Some("localhost".into());
        let merged = settings(&args).expect("the mysql client accepts localhost with a socket");
        assert_eq!(merged.endpoint, Some(Endpoint::Socket("/run/sock".into())));
    }

    #[test]
    fn invalid_value_is_reported_with_flag_and_variable() {
        let text = |text: &str| Some(text.to_owned());
        for (args, wanted) in [
            (
                ConnectionArgs {
                    host: text("S3NTINEL@db"),
                    ..ConnectionArgs::default()
                },
                "--host (DLOCK_HOST) is not a host name",
            ),
            (
                ConnectionArgs {
                    port: Some(0),
                    ..ConnectionArgs::default()
                },
                "--port (DLOCK_PORT) must be a number from 1",
            ),
            (
                ConnectionArgs {
                    user: text(""),
                    ..ConnectionArgs::default()
                },
                "--user (DLOCK_USER) is empty",
            ),
            (
                ConnectionArgs {
                    database: text(""),
                    ..ConnectionArgs::default()
                },
                "--database (DLOCK_DATABASE) is empty",
            ),
        ] {
            let error = settings(&args)
                .expect_err("the setting is invalid")
                .to_string();
            assert!(
                error.starts_with(wanted) && !error.contains("S3NTINEL"),
                "{error}"
            );
        }
    }
}
