//! Classifies errors from the server and the driver for the protocol.
//!
//! The kind of a failure decides the next step. The kind does not prove that the request had no effect, because a
//! statement may have been committed before the error. If the request was sent, the caller must find out what effect it
//! had.

use std::io::ErrorKind::{InvalidData, TimedOut, WouldBlock};

use mysql::{DriverError, Error};

use super::statements::IS_READ_ONLY;
use crate::store::check::Check;
use crate::store::target::{Address, SslMode, Target};
use crate::store::{Failure, FailureKind};

/// Phase in which an error occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before a request was sent.
    Connecting,
    /// After a request was sent.
    Requesting,
}

/// Error that prevented a connection.
#[derive(Debug)]
pub(super) struct ConnectError {
    /// Check that failed. None if a TLS file from the settings cannot be read. dlock reads these files before all
    /// checks.
    pub(super) at: Option<Check>,
    /// Failure to report.
    pub(super) failure: Failure,
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        error.failure
    }
}

/// Returns the connect error for an `error` of the driver.
pub(super) fn connect_error(error: &Error, target: &Target) -> ConnectError {
    let check = match error {
        Error::MySqlError(error) => match error.code {
            1044 | 1049 => Check::Database,
            // The server sends these errors instead of a greeting: too many connections, host blocked, host not
            // allowed.
            1040 | 1129 | 1130 => Check::Connect,
            3159 => Check::Tls,
            _ => Check::Login,
        },
        Error::DriverError(DriverError::TlsNotSupported) | Error::TlsError(_) => Check::Tls,
        Error::DriverError(DriverError::UnknownAuthPlugin(_)) => Check::Login,
        other if is_tls(other) => Check::Tls,
        _ => Check::Connect,
    };
    ConnectError {
        at: Some(check),
        failure: failure(error, Phase::Connecting, target),
    }
}

/// Returns the kind of the server's error `code`. Returns None if the code is not listed here.
///
/// The codes are from the error references of MySQL 9.7 and MariaDB 10.11. The codes from 2000 to 2999 (CR_*) never
/// occur, because only the C client returns them.
const fn kind_of(code: u16) -> Option<FailureKind> {
    Some(match code {
        // No such table.
        1146 => FailureKind::NoTables,
        // Access denied: database, account, host, command on table, column, privilege, routine, plugin,
        // password expired, account locked, account requires TLS, kill of another account's session.
        1044 | 1045 | 1095 | 1130 | 1142 | 1143 | 1227 | 1524 | 1698 | 1820 | 1862 | 3118
        | 3159 | 4151 => FailureKind::Denied,
        // Unknown database, column, column named twice, syntax, bad value, bad characters, too long, no default,
        // statement-based log.
        1046 | 1049 | 1054 | 1060 | 1064 | 1136 | 1292 | 1300 | 1364 | 1366 | 1406 | 1665
        | 3854 => FailureKind::Config,
        // MySQL Router with connection_sharing=1: packets with several statements are forbidden.
        4501 => FailureKind::SharedSessions,
        // Unknown thread id.
        1094 => FailureKind::NoSuchSession,
        // Lock wait, deadlock, changed table, XA, certification, killed query, time limit.
        1020 | 1205 | 1213 | 1317 | 1412 | 1614 | 1615 | 1969 | 3024 | 3101 => {
            FailureKind::Conflict
        }
        // Too many connections of the server or of the user.
        1040 | 1203 => FailureKind::TooManyConnections,
        // Limit of the account, read-only (option, transaction, mode), node outside its cluster, shutdown, commit refused
        // by Group Replication. The server refused the statement. A later connection may reach a server that accepts it.
        1047 | 1053 | 1226 | 1290 | 1792 | 1836 | 3092 | 3100 => FailureKind::Unreachable,
        // GET_LOCK is unknown, denied, refused by a cluster's strict mode or a proxy, has a bad name,
        // or is reported as a deadlock.
        1105 | 1235 | 1305 | 1370 | 3057 | 3058 | 4163 => FailureKind::NoQueueLock,
        _ => return None,
    })
}

/// Advice for an account that may not read the state of its server in the group.
const GROUP_GRANT: &str = "; the server is configured for Group Replication, and dlock must know whether it is ONLINE in \
    its group; as an administrator: GRANT SELECT ON performance_schema.replication_group_members TO the account of dlock";

/// Returns true if the error is 1290 because of an option that does not make the server read-only.
fn is_other_option(code: u16, text: &str) -> bool {
    code == 1290
        && text.contains(" with the --")
        && !["read-only", "read_only"]
            .iter()
            .any(|word| text.contains(word))
}

/// Returns the advice to append to the server's message. The result is empty if there is no advice.
fn advice(code: u16, text: &str, target: &Target) -> String {
    let is_plain_tcp = matches!(target.address, Address::Tcp { .. }) && !requires_tls(target);
    let advice = match code {
        1049 => {
            let database = &target.database;
            return format!(
                "; create it (CREATE DATABASE {database}) or specify another with --database"
            );
        }
        // MySQL and MariaDB return this code if the tables lack a column that a statement names.
        1054 => "; dlock doctor compares the tables with those that this dlock needs",
        1047 => {
            "; this node has no contact with the majority of its Galera cluster, or is not ready; use another node"
        }
        3118 | 4151 => {
            let user = &target.user;
            return format!(
                "; the account is locked, as a new account of dlock setup --print; as an administrator: \
                 ALTER USER '{user}'@'…' IDENTIFIED BY '…' ACCOUNT UNLOCK"
            );
        }
        4501 => {
            "; MySQL Router shares its connections; set connection_sharing=0 in the route that dlock uses, or connect \
             to the server directly"
        }
        1146 => "; run dlock setup, or dlock exec with an account that may create tables",
        1290 if is_other_option(code, text) => "",
        1290 | 1792 | 1836 => "; the server is read-only, but dlock needs the primary",
        // MariaDB also returns these codes when the account or the whole server requires TLS.
        1045 | 1698 if is_plain_tcp => {
            "; check if the account or the server requires TLS (--ssl-mode), and check the account and its password"
        }
        1045 | 1698 => "; check the account and its password",
        1044 => {
            "; there is no such database, or this account has no privilege on it; dlock setup --print shows the grants"
        }
        1142 | 1143 => {
            "; if the tables do not exist, run dlock setup; dlock setup --print shows the tables and the grants"
        }
        1665 => {
            "; the server logs statements, which excludes the isolation level READ COMMITTED; set binlog_format=ROW in the \
             server's option file, then restart the server"
        }
        3159 => "; the server requires TLS; set --ssl-mode verify_identity",
        _ => "",
    };
    advice.to_owned()
}

/// Classifies `error`. The message names the server and never contains a secret.
pub(super) fn failure(error: &Error, phase: Phase, target: &Target) -> Failure {
    let address = &target.address;
    let (unlisted, what) = match phase {
        Phase::Connecting => (FailureKind::Unreachable, "cannot reach"),
        Phase::Requesting => (FailureKind::Unknown, "no response from"),
    };
    let (kind, message) = match error {
        Error::MySqlError(error) if error.message.contains(IS_READ_ONLY) => (
            FailureKind::Unreachable,
            format!("{address} is read-only, probably a replica, but dlock needs the primary"),
        ),
        Error::MySqlError(error) => {
            let kind = match kind_of(error.code).unwrap_or(unlisted) {
                // Of the limits of an account, this is the only one that allows a new login as soon as another
                // connection ends.
                _ if error.code == 1226 && error.message.contains("max_user_connections") => {
                    FailureKind::TooManyConnections
                }
                FailureKind::Denied if phase == Phase::Connecting => FailureKind::LoginRefused,
                // Other options than those that make a server read-only also prevent statements.
                FailureKind::Unreachable if is_other_option(error.code, &error.message) => {
                    FailureKind::Config
                }
                kind => kind,
            };
            let (text, code) = (&error.message, error.code);
            let advice = match code {
                1142 if text.contains("replication_group_members") => GROUP_GRANT.to_owned(),
                _ => advice(code, text, target),
            };
            (
                kind,
                format!(
                    "{address} returned error {code}: {}{advice}",
                    // Some texts are sentences.
                    text.trim_end_matches('.')
                ),
            )
        }
        Error::DriverError(DriverError::TlsNotSupported) => (
            FailureKind::Config,
            format!(
                "{address} does not offer TLS; turn on TLS on the server, or set --ssl-mode disabled \
                 (DLOCK_SSL_MODE) if the network is trusted"
            ),
        ),
        Error::DriverError(DriverError::UnknownAuthPlugin(plugin)) => (
            FailureKind::Denied,
            format!(
                "{address} requires the authentication plugin {plugin} for {}, which dlock does not \
                 support; use an account with caching_sha2_password or mysql_native_password, and \
                 check the account name, because MySQL reports an arbitrary plugin for an unknown account",
                target.user
            ),
        ),
        Error::TlsError(error) => (FailureKind::Config, tls_failed(&error.to_string(), target)),
        other => {
            let text = cause(other);
            match phase == Phase::Connecting && requires_tls(target) && is_tls(other) {
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
    let mode = tls.mode;
    let failed =
        format!("TLS with {address} failed: {why}; --ssl-mode {mode} is in force{default}");
    // The text of rustls. The certificate authority is right.
    match why.contains("not valid for name") {
        true => format!(
            "{failed}; use a name for which the certificate is valid, or set --ssl-mode verify_ca to accept any name"
        ),
        false => format!(
            "{failed}; specify the server's certificate authority with --ssl-ca{ca}, or set --ssl-mode required to \
             accept any certificate, or --ssl-mode disabled to use no TLS"
        ),
    }
}

/// Returns true if the connection must be encrypted.
fn requires_tls(target: &Target) -> bool {
    target.tls.mode != SslMode::Disabled && matches!(target.address, Address::Tcp { .. })
}

/// Returns true if rustls may have caused the error. rustls reports `InvalidData`, which sockets never report. The
/// driver also reports `InvalidData` for a malformed packet.
fn is_tls(error: &Error) -> bool {
    io_error(error).is_some_and(|error| error.kind() == InvalidData)
}

/// Returns the I/O error that the driver's error contains, or None if it contains none. The driver wraps socket
/// timeouts in codec errors.
fn io_error(error: &Error) -> Option<&std::io::Error> {
    match error {
        Error::IoError(error) => Some(error),
        Error::CodecError(error) => std::error::Error::source(error)?.downcast_ref(),
        _ => None,
    }
}

/// Returns the cause as a message for users, without the driver's type names.
fn cause(error: &Error) -> String {
    match error {
        Error::DriverError(DriverError::ConnectTimeout) => "no response in time".to_owned(),
        // EINVAL and EAFNOSUPPORT: after all addresses of the bind address's family have failed, the
        // driver continues with the other family, and the first reason is lost.
        Error::DriverError(DriverError::CouldNotConnect(Some((_, text, _))))
            if text.ends_with("(os error 22)") || text.ends_with("(os error 97)") =>
        {
            "none of its addresses accepts a connection".to_owned()
        }
        Error::DriverError(DriverError::CouldNotConnect(Some((_, text, _)))) => text.clone(),
        other => match (io_error(other), other) {
            (Some(error), _) if matches!(error.kind(), WouldBlock | TimedOut) => {
                "no response in time".to_owned()
            }
            (Some(error), _) => error.to_string(),
            (None, Error::CodecError(error)) => error.to_string(),
            (None, other) => other.to_string(),
        },
    }
}
