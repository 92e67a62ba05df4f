//! The grammar of `mysql://USER:PASSWORD@HOST:PORT/DATABASE?socket=PATH&ssl-mode=MODE`. A list of hosts may replace the
//! host.
//!
//! This module only processes text. A URL is refused if its password contains an unencoded `@`, `/`, `?` or `#`.
//! According to the URL standard, the host in `mysql://d:p@ss/w0rd@db` is `ss`, so a part of the password would be sent
//! to the name server and appear in messages. Errors are [`InvalidValue`]s, so they cannot contain any part of the URL.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::settings::{Setting, Settings};
use super::value::{self, InvalidValue};

const UNENCODED: InvalidValue = "is ambiguous; percent-encode special characters in user and \
                          password (@ is %40, / is %2F, ? is %3F, # is %23, % is %25)";
const SCHEME: InvalidValue = "must begin with mysql://";
const INVALID_PORT: InvalidValue = "must have a number from 1 to 65535 as its port";
const INVALID_HOST: InvalidValue = "must have a valid host name or IP address as its host";
const INVALID_USER: InvalidValue = "must not contain control characters in the user";
const NO_HOST: InvalidValue = "has no host; for a Unix socket, write localhost and ?socket=PATH";
const EMPTY_ENTRY: InvalidValue = "has an empty entry in its list of hosts";
const PATH: InvalidValue = "must have one database name after the host, without another /";
const QUERY: InvalidValue =
    "may only have socket, ssl-mode, ssl-ca, ssl-cert and ssl-key after the ?, each as KEY=VALUE";

/// Parses `text`. `origin` is the origin of all settings in it. An error message consists of "the URL" and the returned
/// string.
pub(super) fn parse(text: &str, origin: &str) -> Result<Settings, InvalidValue> {
    let (authority, tail) = split(text)?;
    let (account, hosts) = authority.split_once('@').unwrap_or(("", authority));
    let (user, password) = account.split_once(':').unwrap_or((account, ""));
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let database = path.strip_prefix('/').unwrap_or(path);
    if database.contains('/') {
        return Err(PATH);
    }
    let hosts = decoded(hosts)?;
    if !authority.is_empty() {
        check_hosts(&hosts)?;
    }
    // The port of a single host can be overridden, like every other setting.
    let (host, port) = match hosts.contains(',') {
        true => (&*hosts, None),
        false => value::split_port(&hosts),
    };
    let mut settings = Settings::default();
    for (setting, text, fault) in [
        (Setting::Host, host.to_owned(), INVALID_HOST),
        (
            Setting::Port,
            port.unwrap_or_default().to_owned(),
            INVALID_PORT,
        ),
        (Setting::User, decoded(user)?, INVALID_USER),
        (Setting::Password, decoded(password)?, UNENCODED),
        (Setting::Database, decoded(database)?, PATH),
    ] {
        if !text.is_empty() {
            settings.set(setting, text, origin).map_err(|_| fault)?;
        }
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        set_from_query(&mut settings, pair, origin)?;
    }
    // The socket takes precedence over the host, as in other drivers, because a URL with a user must have a host.
    if settings.contains(Setting::Socket) {
        settings.remove(Setting::Host);
    }
    Ok(settings)
}

/// Returns the part of `text` before the path and the query, and the rest. Refuses text that is ambiguous, because the
/// password may contain an unencoded character.
fn split(text: &str) -> Result<(&str, &str), InvalidValue> {
    let (scheme, rest) = text.split_once("://").ok_or(SCHEME)?;
    if !["mysql", "mariadb"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
    {
        return Err(SCHEME);
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("must not contain spaces or control characters; percent-encode them");
    }
    let (authority, tail) = match rest.find(['/', '?', '#']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    if authority.matches('@').count() > 1 || tail.contains('@') {
        return Err(UNENCODED);
    }
    if tail.contains('#') {
        return Err("must not contain #; percent-encode it as %23");
    }
    Ok((authority, tail))
}

/// Checks a list of hosts. An IPv6 address must be in brackets, because its end would be ambiguous.
fn check_hosts(list: &str) -> Result<(), InvalidValue> {
    if list.split(',').count() > value::MAX_HOSTS {
        return Err(value::TOO_MANY_HOSTS);
    }
    for (number, entry) in list.split(',').enumerate() {
        let (name, port) = value::split_port(entry);
        let fault = match name.chars().next() {
            None if number == 0 => return Err(NO_HOST),
            None => return Err(EMPTY_ENTRY),
            Some('[') => "has an invalid IPv6 address in [ ]",
            Some(_) if name.contains(':') => return Err(INVALID_HOST),
            Some(_) => INVALID_HOST,
        };
        value::host(name).map_err(|_| fault)?;
        // According to the URL standard, a port may be empty.
        let port = port.filter(|port| !port.is_empty()).map(value::port);
        port.transpose().map_err(|_| INVALID_PORT)?;
    }
    Ok(())
}

/// Sets one `KEY=VALUE` of the query. `-` and `_` are equal in keys, as in option files.
fn set_from_query(settings: &mut Settings, pair: &str, origin: &str) -> Result<(), InvalidValue> {
    let (key, text) = pair.split_once('=').ok_or(QUERY)?;
    let setting = key.replace('_', "-").parse().map_err(|_| QUERY)?;
    let fault = match setting {
        Setting::SslMode => {
            "must have disabled, required, verify_ca or verify_identity as its ssl-mode"
        }
        Setting::Socket | Setting::SslCa | Setting::SslCert | Setting::SslKey => QUERY,
        _ => return Err(QUERY),
    };
    if settings.contains(setting) {
        return Err("has the same key twice after the ?");
    }
    settings
        .set(setting, decoded(text)?, origin)
        .map_err(|_| fault)
}

/// Percent-decodes `text`. An unencoded `%` is an error, because otherwise an unencoded password might be changed, and
/// the server would deny access. A `+` is literal, because the text is not form data.
fn decoded(text: &str) -> Result<String, InvalidValue> {
    let is_encoded = |after: &str| {
        let digits = after.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_encoded) {
        return Err(UNENCODED);
    }
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(Cow::into_owned)
        .map_err(|_| "must be valid UTF-8 after percent-decoding")
}

#[cfg(test)]
mod tests;
