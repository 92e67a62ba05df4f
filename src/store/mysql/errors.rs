//! What an error of the server or the driver means for the protocol.
//!
//! The kind says what to do next, and never what was done before: a statement may have been committed
//! before the error, whatever its number. What a request that was sent can have done is for the caller
//! to find out.

use std::io::ErrorKind::{InvalidData, TimedOut, WouldBlock};

use mysql::{DriverError, Error};

use crate::store::finding::Check;
use crate::store::target::{Address, SslMode, Target};
use crate::store::{Failure, FailureKind};

/// When an error came up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before any question was sent.
    Connecting,
    /// After it was sent.
    Asking,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) struct Refusal {
    /// What failed. None if it was a file that the settings name, before anything else.
    pub(super) at: Option<Check>,
    /// What that means.
    pub(super) failure: Failure,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        refusal.failure
    }
}

/// Why `error` ended a connection that was being made.
pub(super) fn refusal(error: &Error, target: &Target) -> Refusal {
    let check = match error {
        Error::MySqlError(error) => match error.code {
            1044 | 1049 => Check::Database,
            // Said in place of a greeting: too many connections, host blocked, host not admitted.
            1040 | 1129 | 1130 => Check::Connect,
            3159 => Check::Tls,
            _ => Check::Login,
        },
        Error::DriverError(DriverError::TlsNotSupported) | Error::TlsError(_) => Check::Tls,
        Error::DriverError(DriverError::UnknownAuthPlugin(_)) => Check::Login,
        other if is_tls(other) => Check::Tls,
        _ => Check::Connect,
    };
    Refusal {
        at: Some(check),
        failure: failure(error, Phase::Connecting, target),
    }
}

/// The kind of the server's error `code`; none if it is not listed here.
///
/// Numbers from MySQL 9.7's and MariaDB 10.11's error references; CR_* numbers (2xxx) never occur
/// here, they are inventions of the C client.
const fn kind_of(code: u16) -> Option<FailureKind> {
    Some(match code {
        // No such table.
        1146 => FailureKind::NoTables,
        // Access: database, account, host, command on table, column, privilege, routine, plugin,
        // password expired, locked account, TLS required of the account.
        1044 | 1045 | 1130 | 1142 | 1143 | 1227 | 1524 | 1698 | 1820 | 1862 | 3118 | 3159
        | 4151 => FailureKind::Denied,
        // Unknown database, column, column named twice, syntax, bad value, too long, no default,
        // statement-based log.
        1046 | 1049 | 1054 | 1060 | 1064 | 1136 | 1292 | 1364 | 1366 | 1406 | 1665 => {
            FailureKind::Config
        }
        // Lock wait, deadlock, changed table, XA, certification, killed query, time limit.
        1020 | 1205 | 1213 | 1317 | 1412 | 1614 | 1615 | 1969 | 3024 | 3101 => {
            FailureKind::Conflict
        }
        // Too many connections: of the server, of the user.
        1040 | 1203 => FailureKind::Full,
        // Limit of the account, read only (option, transaction, mode), not in the cluster: nothing
        // was done; another connection, later, may reach a server that can.
        1047 | 1226 | 1290 | 1792 | 1836 | 3092 => FailureKind::Unreachable,
        // GET_LOCK unknown, denied, refused by a cluster's strict mode or a proxy, bad name,
        // called a deadlock.
        1105 | 1235 | 1305 | 1370 | 3057 | 3058 | 4163 => FailureKind::NoGate,
        _ => return None,
    })
}

/// Advice that follows the server's text.
fn advice(code: u16, target: &Target) -> String {
    let is_plain_tcp = matches!(target.address, Address::Tcp { .. }) && !is_tls_wanted(target);
    let advice = match code {
        1049 => {
            let database = &target.database;
            return format!(
                "; create it (CREATE DATABASE {database}) or name another with --database"
            );
        }
        1146 => "; run dlock setup, or dlock exec with an account that may create tables",
        1290 | 1792 | 1836 => "; the server is read-only, dlock needs the primary",
        // MariaDB says so also when the account or the whole server wants TLS.
        1045 | 1698 if is_plain_tcp => {
            "; check the account and its password, and whether it wants TLS (--ssl-mode)"
        }
        1045 | 1698 => "; check the account and its password",
        1044 | 1142 | 1143 => "; dlock setup --print shows the tables and the grants",
        1665 => "; the server logs by statement, set binlog_format=ROW or MIXED",
        3159 => "; the server wants TLS, set --ssl-mode verify_identity",
        _ => "",
    };
    advice.to_owned()
}

/// Classifies `error`; the message names the server and never a secret.
pub(super) fn failure(error: &Error, phase: Phase, target: &Target) -> Failure {
    let address = &target.address;
    let (unlisted, what) = match phase {
        Phase::Connecting => (FailureKind::Unreachable, "cannot reach"),
        Phase::Asking => (FailureKind::Unknown, "no answer from"),
    };
    let (kind, message) = match error {
        Error::MySqlError(error) => {
            let kind = match kind_of(error.code).unwrap_or(unlisted) {
                // Of the limits of an account this one passes when another connection ends.
                _ if error.code == 1226 && error.message.contains("max_user_connections") => {
                    FailureKind::Full
                }
                FailureKind::Denied if phase == Phase::Connecting => FailureKind::NotAdmitted,
                kind => kind,
            };
            let (text, code) = (&error.message, error.code);
            let advice = advice(code, target);
            (
                kind,
                format!("{address} says: {text} (error {code}){advice}"),
            )
        }
        Error::DriverError(DriverError::TlsNotSupported) => (
            FailureKind::Config,
            format!(
                "{address} does not offer TLS; turn it on there, or set --ssl-mode disabled \
                 (DLOCK_SSL_MODE) if the way to it is trusted"
            ),
        ),
        Error::DriverError(DriverError::UnknownAuthPlugin(plugin)) => (
            FailureKind::Denied,
            format!(
                "{address} wants to authenticate {} by {plugin}, which dlock does not know; \
                 use an account with caching_sha2_password or mysql_native_password, and check its \
                 name: MySQL makes up a plugin for accounts that it does not have",
                target.user
            ),
        ),
        Error::TlsError(error) => (FailureKind::Config, tls_failed(&error.to_string(), target)),
        other => {
            let text = plain(other);
            match phase == Phase::Connecting && is_tls_wanted(target) && is_tls(other) {
                true => (FailureKind::Config, tls_failed(&text, target)),
                false => (unlisted, format!("{what} {address}: {text}")),
            }
        }
    };
    Failure { kind, message }
}

fn tls_failed(why: &str, target: &Target) -> String {
    let Target { address, tls, .. } = target;
    let default = match tls.chosen {
        true => "",
        false => " (the default for a host that is not loopback)",
    };
    let ca = match &tls.ca {
        Some(path) => format!(" (now {})", path.display()),
        None => String::new(),
    };
    format!(
        "TLS with {address} failed: {why}; --ssl-mode {} is in force{default}: name the server's \
         authority with --ssl-ca{ca}, or set --ssl-mode required to accept any certificate, or \
         disabled for no TLS",
        tls.mode,
    )
}

/// Whether the connection was to be encrypted.
fn is_tls_wanted(target: &Target) -> bool {
    target.tls.mode != SslMode::Disabled && matches!(target.address, Address::Tcp { .. })
}

/// Whether rustls refused: it reports by `InvalidData`, which no socket does. The driver does so
/// too, of a packet that makes no sense.
fn is_tls(error: &Error) -> bool {
    io_error(error).is_some_and(|error| error.kind() == InvalidData)
}

/// The operating system's error inside the driver's: timeouts of the socket come as codec errors.
fn io_error(error: &Error) -> Option<&std::io::Error> {
    match error {
        Error::IoError(error) => Some(error),
        Error::CodecError(error) => std::error::Error::source(error)?.downcast_ref(),
        _ => None,
    }
}

/// The cause in words for people, without the driver's type names.
fn plain(error: &Error) -> String {
    match error {
        Error::DriverError(DriverError::ConnectTimeout) => "no answer in time".to_owned(),
        // EINVAL and EAFNOSUPPORT: when all addresses of the family that we bound to have failed,
        // the driver goes on with the other family, and the first reason is lost.
        Error::DriverError(DriverError::CouldNotConnect(Some((_, text, _))))
            if text.ends_with("(os error 22)") || text.ends_with("(os error 97)") =>
        {
            "none of its addresses accepts a connection".to_owned()
        }
        Error::DriverError(DriverError::CouldNotConnect(Some((_, text, _)))) => text.clone(),
        other => match (io_error(other), other) {
            (Some(error), _) if matches!(error.kind(), WouldBlock | TimedOut) => {
                "no answer in time".to_owned()
            }
            (Some(error), _) => error.to_string(),
            (None, Error::CodecError(error)) => error.to_string(),
            (None, other) => other.to_string(),
        },
    }
}
