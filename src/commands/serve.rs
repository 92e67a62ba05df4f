//! `dlock serve`: a page for operators, and metrics for monitoring.

use crate::cli::serve::{Listen, ServeArgs};
use crate::config;
use crate::exit::{ExitError, Status};
use crate::report::Report;
use crate::serve::access::{Access, MIN_TOKEN_LENGTH};
use crate::serve::server::{self, ServerSettings};
use crate::store::target::{Secret, Targets};
use crate::sys::heap;

/// Serves the page until SIGINT, SIGTERM or SIGHUP arrives, and returns 0 then.
///
/// # Errors
/// Fails if the address is not local and there is no token, if the token file cannot be used, or if the server cannot
/// start.
pub fn run(args: ServeArgs, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    heap::return_large_blocks();
    let token = match &args.token_file {
        Some(path) => Some(token(&config::text_file_value(path)?)?),
        None if args.listen.is_local() => None,
        None => return Err(without_token(&args.listen).into()),
    };
    let settings = ServerSettings {
        access: Access::new(&args.listen, &args.allow_host, token),
        listen: args.listen,
        interval: args.interval,
    };
    server::run(settings, targets, report)
}

fn token(text: &str) -> Result<Secret, ExitError> {
    let token = text.trim();
    match token.len() < MIN_TOKEN_LENGTH {
        true => Err(ExitError::new(
            Status::CONFIG,
            format!("the token in --token-file has fewer than {MIN_TOKEN_LENGTH} bytes"),
        )),
        false => Ok(Secret::new(token.to_owned())),
    }
}

fn without_token(listen: &Listen) -> ExitError {
    let address = match listen {
        Listen::Tcp(address) => address.to_string(),
        Listen::Unix(path) => path.display().to_string(),
    };
    let why = format!(
        "other machines can reach {address}, so --token-file is required; or listen on a loopback address or a Unix \
         socket, behind a proxy with TLS and a login"
    );
    ExitError::new(Status::USAGE, why)
}
