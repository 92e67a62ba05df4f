//! What the single flags say; clap has filled in their variables already.
//!
//! A host and a socket together are refused: one of them usually comes from a variable that was
//! forgotten, and clap does not tell which. Taking the wrong one would lock on another server.

use super::error::Error;
use super::partial::{Partial, Place};
use super::value::{self, Fault};
use crate::cli::connection::ConnectionArgs;

/// The settings in `args` that are not names of files to read.
pub(super) fn partial(args: &ConnectionArgs) -> Result<Partial, Error> {
    let host = checked(args.host.as_deref(), "--host (DLOCK_HOST)", value::host)?;
    let place = match (host, args.socket.clone()) {
        (Some(host), Some(_)) if !host.eq_ignore_ascii_case("localhost") => {
            return Err(Error::usage(
                "--host and --socket are both given (DLOCK_HOST and DLOCK_SOCKET count): give one",
            ));
        }
        (_, Some(socket)) => Some(Place::Socket(socket)),
        (Some(host), None) => Some(Place::Host(host)),
        (None, None) => None,
    };
    Ok(Partial {
        place,
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

/// `given`, when there, as `check` sees it; `names` opens the message when it is refused.
fn checked<A, B>(
    given: Option<A>,
    names: &str,
    check: impl Fn(A) -> Result<B, Fault>,
) -> Result<Option<B>, Error> {
    given
        .map(check)
        .transpose()
        .map_err(|fault| Error::usage(format!("{names} {fault}")))
}

#[cfg(test)]
mod tests {
    use super::partial;
    use crate::cli::connection::ConnectionArgs;
    use crate::config::partial::Place;
    use crate::exit::Status;

    #[test]
    fn a_host_and_a_socket_together_are_refused_unless_the_host_is_localhost() {
        let mut args = ConnectionArgs {
            host: Some("db".into()),
            socket: Some("/run/sock".into()),
            ..ConnectionArgs::default()
        };
        let error = partial(&args).expect_err("which one?");
        assert!(error.to_string().contains("DLOCK_SOCKET"), "{error}");
        assert_eq!(error.status(), Status::USAGE);

        args.host = Some("localhost".into());
        let merged = partial(&args).expect("the mysql client's way to name a socket");
        assert_eq!(merged.place, Some(Place::Socket("/run/sock".into())));
    }

    #[test]
    fn a_bad_value_is_refused_by_flag_and_variable() {
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
            let error = partial(&args).expect_err("bad").to_string();
            assert!(
                error.starts_with(wanted) && !error.contains("S3NTINEL"),
                "{error}"
            );
        }
    }
}
