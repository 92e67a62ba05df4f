//! The grammar of `mysql://USER:PASSWORD@HOST:PORT/DATABASE?socket=PATH&ssl-mode=MODE`. A list of hosts may replace the
//! host. The URL standard knows no such list, so each entry is parsed as the host of a URL of its own.
//!
//! This module only processes text. A URL is refused before it is parsed if its password contains an unencoded `@`,
//! `/`, `?` or `#`. According to the URL standard, the host in `mysql://d:p@ss/w0rd@db` is `ss`, so a part of the
//! password would be sent to the name server and appear in messages. Errors are [`InvalidValue`]s, so they cannot
//! contain any part of the URL.

use url::{Host, ParseError, Url};

use super::settings::{Endpoint, HostEntry, Partial};
use super::value::{self, InvalidValue};
use crate::store::target::Secret;

const UNENCODED: InvalidValue = "is ambiguous; percent-encode special characters in user and \
                          password (@ is %40, / is %2F, ? is %3F, # is %23, % is %25)";
const SCHEME: InvalidValue = "must begin with mysql://";
const INVALID_PORT: InvalidValue = "must have a number from 1 to 65535 as its port";
const EMPTY_ENTRY: InvalidValue = "has an empty entry in its list of hosts";
const PATH: InvalidValue = "must have one database name after the host, without another /";
const QUERY: InvalidValue =
    "may only have socket, ssl-mode, ssl-ca, ssl-cert and ssl-key after the ?, each as KEY=VALUE";

/// Parses `text`. An error message consists of "the URL" and the returned string.
pub(super) fn parse(text: &str) -> Result<Partial, InvalidValue> {
    refuse_ambiguous_text(text)?;
    let (first, others) = split_hosts(text)?;
    let url = parsed(&first)?;
    let port = port(&url)?;
    let endpoint = match (host(&url)?, others.as_slice()) {
        (None, []) => None,
        (None, _) => return Err(EMPTY_ENTRY),
        // The port of a single host can be overridden, like every other setting.
        (Some(host), []) => Some(Endpoint::Hosts(vec![HostEntry { host, port: None }])),
        (Some(host), others) => {
            let others = others.iter().map(|text| host_entry(text));
            let first = Ok(HostEntry { host, port });
            let entries: Result<_, InvalidValue> = std::iter::once(first).chain(others).collect();
            Some(Endpoint::Hosts(entries?))
        }
    };

    let mut partial = Partial {
        port: port.filter(|_| others.is_empty()),
        endpoint,
        user: Some(decoded(url.username())?)
            .filter(|user| !user.is_empty())
            .map(|user| value::name(&user))
            .transpose()
            .map_err(|_| "must not contain control characters in the user")?,
        password: url.password().map(decoded).transpose()?.map(Secret::new),
        database: database(url.path())?,
        ..Partial::default()
    };
    for pair in url
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
    {
        query(&mut partial, pair)?;
    }
    Ok(partial)
}

/// Refuses text that `Url` would accept and misinterpret. `Url` removes tabs and newlines, and assumes that the
/// password ends at the last `@` before the first `/`.
fn refuse_ambiguous_text(text: &str) -> Result<(), InvalidValue> {
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
    Ok(())
}

/// Returns `text` with only the first host, and the other hosts of the list.
fn split_hosts(text: &str) -> Result<(String, Vec<&str>), InvalidValue> {
    let start = text.find("://").ok_or(SCHEME)? + 3;
    let end = text[start..]
        .find(['/', '?'])
        .map_or(text.len(), |at| start + at);
    let hosts_start = text[start..end]
        .find('@')
        .map_or(start, |at| start + at + 1);
    let mut hosts = text[hosts_start..end].split(',');
    let first = hosts.next().unwrap_or_default();
    let others: Vec<&str> = hosts.collect();
    if others.len() >= value::MAX_HOSTS {
        return Err(value::TOO_MANY_HOSTS);
    }
    let text = format!("{}{first}{}", &text[..hosts_start], &text[end..]);
    Ok((text, others))
}

/// Parses an entry of the list of hosts other than the first.
fn host_entry(text: &str) -> Result<HostEntry, InvalidValue> {
    let url = parsed(&format!("mysql://{text}"))?;
    let host = host(&url)?.ok_or(EMPTY_ENTRY)?;
    let port = port(&url)?;
    Ok(HostEntry { host, port })
}

fn parsed(text: &str) -> Result<Url, InvalidValue> {
    Url::parse(text).map_err(|error| match error {
        ParseError::EmptyHost => "has no host; for a Unix socket, write localhost and ?socket=PATH",
        ParseError::InvalidPort => INVALID_PORT,
        ParseError::InvalidIpv6Address => "has an invalid IPv6 address in [ ]",
        _ => "is malformed",
    })
}

fn port(url: &Url) -> Result<Option<u16>, InvalidValue> {
    let port = url.port().map(value::port_number).transpose();
    port.map_err(|_| INVALID_PORT)
}

fn host(url: &Url) -> Result<Option<String>, InvalidValue> {
    match url.host() {
        None | Some(Host::Domain("")) => Ok(None),
        Some(Host::Domain(name)) => value::host(name)
            .map(Some)
            .map_err(|_| "must have a valid host name or IP address as its host"),
        Some(Host::Ipv4(address)) => Ok(Some(address.to_string())),
        Some(Host::Ipv6(address)) => Ok(Some(address.to_string())),
    }
}

fn database(path: &str) -> Result<Option<String>, InvalidValue> {
    match path.strip_prefix('/').unwrap_or(path) {
        "" => Ok(None),
        name if name.contains('/') => Err(PATH),
        name => value::name(&decoded(name)?).map(Some).map_err(|_| PATH),
    }
}

/// Applies one `KEY=VALUE` of the query. `-` and `_` are equal in keys, as in option files.
fn query(partial: &mut Partial, pair: &str) -> Result<(), InvalidValue> {
    const TWICE: InvalidValue = "has the same key twice after the ?";
    let (key, text) = pair.split_once('=').ok_or(QUERY)?;
    let text = decoded(text)?;
    let is_first = match key.replace('_', "-").as_str() {
        "socket" => {
            // The socket takes precedence over the host, as in other drivers, because a URL with a user must have a
            // host.
            let socket = Endpoint::Socket(value::path(&text).map_err(|_| QUERY)?);
            let before = partial.endpoint.replace(socket);
            !matches!(before, Some(Endpoint::Socket(_)))
        }
        "ssl-mode" => {
            let mode = value::ssl_mode(&text).map_err(
                |_| "must have disabled, required, verify_ca or verify_identity as its ssl-mode",
            )?;
            partial.ssl_mode.replace(mode).is_none()
        }
        "ssl-ca" => partial
            .ssl_ca
            .replace(value::path(&text).map_err(|_| QUERY)?)
            .is_none(),
        "ssl-cert" => partial
            .ssl_cert
            .replace(value::path(&text).map_err(|_| QUERY)?)
            .is_none(),
        "ssl-key" => partial
            .ssl_key
            .replace(value::path(&text).map_err(|_| QUERY)?)
            .is_none(),
        _ => return Err(QUERY),
    };
    if is_first { Ok(()) } else { Err(TWICE) }
}

/// Percent-decodes `text`. An unencoded `%` is an error, because otherwise an unencoded password might be changed, and
/// the server would deny access. A `+` is literal, because the text is not form data.
fn decoded(text: &str) -> Result<String, InvalidValue> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = after;
            continue;
        }
        let [high, low, after @ ..] = after else {
            return Err(UNENCODED);
        };
        let digit = |byte: &u8| char::from(*byte).to_digit(16).ok_or(UNENCODED);
        let byte = digit(high)? * 16 + digit(low)?;
        bytes.push(u8::try_from(byte).map_err(|_| UNENCODED)?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| "must be valid UTF-8 after percent-decoding")
}

#[cfg(test)]
mod tests;
