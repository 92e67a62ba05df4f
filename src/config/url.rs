//! The grammar of `mysql://USER:PASSWORD@HOST:PORT/DATABASE?socket=PATH&ssl-mode=MODE`.
//!
//! This module only processes text. A URL is refused before it is parsed if its password contains an unencoded `@`,
//! `/`, `?` or `#`. According to the URL standard, the host in `mysql://d:p@ss/w0rd@db` is `ss`, so a part of the
//! password would be sent to the name server and appear in messages. Errors are [`InvalidValue`]s, so they cannot
//! contain any part of the URL.

use url::{Host, ParseError, Url};

use super::settings::{Endpoint, Partial};
use super::value::{self, InvalidValue};
use crate::store::target::Secret;

const UNENCODED: InvalidValue = "is ambiguous; percent-encode special characters in user and \
                          password (@ is %40, / is %2F, ? is %3F, # is %23, % is %25)";
const SCHEME: InvalidValue = "must begin with mysql://";
const PATH: InvalidValue = "must have one database name after the host, without another /";
const QUERY: InvalidValue =
    "may only have socket, ssl-mode, ssl-ca, ssl-cert and ssl-key after the ?, each as KEY=VALUE";

/// Parses `text`. An error message consists of "the URL" and the returned string.
pub(super) fn parse(text: &str) -> Result<Partial, InvalidValue> {
    refuse_ambiguous_text(text)?;
    let url = Url::parse(text).map_err(|error| match error {
        ParseError::EmptyHost => "has no host; for a Unix socket, write localhost and ?socket=PATH",
        ParseError::InvalidPort => "must have a number from 1 to 65535 as its port",
        ParseError::InvalidIpv6Address => "has an invalid IPv6 address in [ ]",
        _ => "is malformed",
    })?;

    let mut partial = Partial {
        endpoint: host(&url)?.map(Endpoint::Host),
        port: url
            .port()
            .map(value::port_number)
            .transpose()
            .map_err(|_| "must have a number from 1 to 65535 as its port")?,
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
mod tests {
    use std::fmt::Write;

    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

    use super::{UNENCODED, parse};
    use crate::config::settings::{Endpoint, Partial};
    use crate::store::target::{Secret, SslMode};

    fn host(name: &str) -> Endpoint {
        Endpoint::Host(name.to_owned())
    }

    fn text(text: &str) -> String {
        text.to_owned()
    }

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    fn encoded(text: &str) -> String {
        text.bytes().fold(String::new(), |mut all, byte| {
            write!(all, "%{byte:02X}").expect("a write to a String never fails");
            all
        })
    }

    #[test]
    fn urls_are_parsed() {
        for (url, wanted) in [
            (
                "mysql://u:p@db:3307/dlock",
                Partial {
                    endpoint: Some(host("db")),
                    port: Some(3307),
                    user: Some(text("u")),
                    password: Some(secret("p")),
                    database: Some(text("dlock")),
                    ..Partial::default()
                },
            ),
            (
                "mysql://db",
                Partial {
                    endpoint: Some(host("db")),
                    ..Partial::default()
                },
            ),
            (
                "MariaDB://db/",
                Partial {
                    endpoint: Some(host("db")),
                    ..Partial::default()
                },
            ),
            (
                "mysql://u%40x:p%2F%3a%25+@DB_1/d%20b",
                Partial {
                    endpoint: Some(host("DB_1")),
                    user: Some(text("u@x")),
                    password: Some(secret("p/:%+")),
                    database: Some(text("d b")),
                    ..Partial::default()
                },
            ),
            (
                "mysql://u:a:b|é\"^@db",
                Partial {
                    endpoint: Some(host("db")),
                    user: Some(text("u")),
                    password: Some(secret("a:b|é\"^")),
                    ..Partial::default()
                },
            ),
            (
                "mysql://u:@[2001:db8::1]:1/x",
                Partial {
                    endpoint: Some(host("2001:db8::1")),
                    port: Some(1),
                    user: Some(text("u")),
                    database: Some(text("x")),
                    ..Partial::default()
                },
            ),
            (
                "mysql://u@localhost/x?socket=/run/my%20sql+.sock&ssl_mode=Verify_CA",
                Partial {
                    endpoint: Some(Endpoint::Socket("/run/my sql+.sock".into())),
                    user: Some(text("u")),
                    database: Some(text("x")),
                    ssl_mode: Some(SslMode::VerifyCa),
                    ..Partial::default()
                },
            ),
            (
                "mysql:///x?ssl-ca=/ca&ssl_cert=/c&ssl-key=/k",
                Partial {
                    database: Some(text("x")),
                    ssl_ca: Some("/ca".into()),
                    ssl_cert: Some("/c".into()),
                    ssl_key: Some("/k".into()),
                    ..Partial::default()
                },
            ),
        ] {
            assert_eq!(parse(url), Ok(wanted), "{url}");
        }
    }

    #[test]
    fn password_with_unencoded_delimiters_is_refused() {
        for url in [
            "mysql://d:p@ss/w0rd@host/db",
            "mysql://d:p@ss@host/db",
            "mysql://d:pa/ss@host/db",
            "mysql://d:pa?ss@host/db",
            "mysql://d:pa#ss@host/db",
            "mysql://d@corp:pw@host/db",
            "mysql://d:100%@host/db",
            "mysql://d:1%zz@host/db",
            "mysql://d:1%+1@host/db",
        ] {
            assert_eq!(parse(url), Err(UNENCODED), "{url}");
        }
    }

    #[test]
    fn malformed_urls_are_refused() {
        for (url, wanted) in [
            ("", "must begin with mysql://"),
            ("db/dlock", "must begin with mysql://"),
            ("mysql:db", "must begin with mysql://"),
            ("postgres://u@db/x", "must begin with mysql://"),
            ("mysql://u@db/x ", "spaces"),
            ("mysql://u:p\tw@db/x", "spaces"),
            ("mysql://u@/x", "has no host"),
            ("mysql://u@:3306/x", "has no host"),
            ("mysql://u@db:port/x", "as its port"),
            ("mysql://u@db:0/x", "as its port"),
            ("mysql://u@db:65536/x", "as its port"),
            ("mysql://u@[::1/x", "IPv6"),
            ("mysql://u@%2Frun%2Fsock/x", "as its host"),
            ("mysql://u@db/x/y", "without another /"),
            ("mysql://u@db/x%00", "one database name"),
            ("mysql://u%00@db/x", "in the user"),
            ("mysql://%FF@db/x", "UTF-8"),
            ("mysql://u@db/x#y", "#"),
            ("mysql://u@db/x?sokcet=/s", "may only have socket"),
            ("mysql://u@db/x?socket", "may only have socket"),
            ("mysql://u@db/x?socket=", "may only have socket"),
            ("mysql://u@db/x?password=p", "may only have socket"),
            ("mysql://u@db/x?socket=/a&socket=/b", "twice"),
            ("mysql://u@db/x?ssl-ca=/a&ssl_ca=/b", "twice"),
            ("mysql://u@db/x?ssl-mode=preferred", "verify_identity"),
        ] {
            let fault = parse(url).expect_err(url);
            assert!(fault.contains(wanted), "{url}: {fault}");
        }
    }

    proptest! {
        #[test]
        fn encoded_parts_round_trip(
            user in "[^\\pC]{1,20}",
            password in any::<String>(),
            database in any::<String>().prop_filter("a name", |name| {
                !name.chars().any(char::is_control) && !matches!(name.as_str(), "" | "." | "..")
            }),
        ) {
            let [u, p, d] = [&user, &password, &database].map(|part| encoded(part));
            let partial = parse(&format!("mysql://{u}:{p}@db:3307/{d}"));
            let partial = partial.expect("all parts are encoded");
            prop_assert_eq!(partial.endpoint, Some(host("db")));
            prop_assert_eq!(partial.user, Some(user));
            let revealed = partial.password.as_ref().map_or("", |password| password.reveal());
            prop_assert_eq!(revealed, password.as_str());
            prop_assert_eq!(partial.database, Some(database));
        }

        #[test]
        fn unencoded_password_is_read_exactly_or_refused(password in "[ -~&&[^%]]{1,12}") {
            if let Ok(partial) = parse(&format!("mysql://d:{password}@db/x")) {
                prop_assert_eq!(partial.endpoint, Some(host("db")));
                prop_assert_eq!(partial.user, Some(text("d")));
                prop_assert_eq!(partial.password, Some(secret(&password)));
            }
        }

        #[test]
        fn parse_never_panics_and_never_sets_an_empty_value(tail in any::<String>()) {
            let _ = parse(&tail);
            if let Ok(partial) = parse(&format!("mysql://{tail}")) {
                prop_assert!(partial.user != Some(String::new()));
                prop_assert!(partial.database != Some(String::new()));
                prop_assert!(partial.endpoint != Some(host("")));
            }
        }
    }
}
