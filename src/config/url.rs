//! The grammar of `mysql://USER:PASSWORD@HOST:PORT/DATABASE?socket=PATH&ssl-mode=MODE`.
//!
//! Pure text. A password with a raw `@`, `/`, `?` or `#` is refused before anything is parsed: by
//! the rules of URLs `d:p@ss/w0rd@db` has the host `ss`, and half a password would go to the name
//! server and into messages. Errors are [`Fault`]s and so cannot repeat any part of the URL.

use url::{Host, ParseError, Url};

use super::partial::{Partial, Place};
use super::value::{self, Fault};
use crate::store::target::Secret;

const UNENCODED: Fault = "cannot be taken apart: percent-encode special characters in user and \
                          password (@ is %40, / is %2F, ? is %3F, # is %23, % is %25)";
const SCHEME: Fault = "must begin with mysql://";
const PATH: Fault = "must have one database name after the host, and no further /";
const QUERY: Fault =
    "may have socket, ssl-mode, ssl-ca, ssl-cert and ssl-key after the ?, each as KEY=VALUE";

/// Takes `text` apart. The error reads on after "the URL".
pub(super) fn parse(text: &str) -> Result<Partial, Fault> {
    refuse_what_urls_would_misread(text)?;
    let url = Url::parse(text).map_err(|error| match error {
        ParseError::EmptyHost => "has no host: write localhost with ?socket=PATH",
        ParseError::InvalidPort => "must have a number from 1 to 65535 as its port",
        ParseError::InvalidIpv6Address => "has a bad IPv6 address in [ ]",
        _ => "is malformed",
    })?;

    let mut partial = Partial {
        place: host(&url)?.map(Place::Host),
        port: url
            .port()
            .map(value::port_number)
            .transpose()
            .map_err(|_| "must have a number from 1 to 65535 as its port")?,
        user: Some(decoded(url.username())?)
            .filter(|user| !user.is_empty())
            .map(|user| value::name(&user))
            .transpose()
            .map_err(|_| "must not have control characters in the user")?,
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

/// The checks that must see the text as it was typed: `Url` drops tabs and line ends, and takes the
/// last `@` before the first `/` for the one that ends the password.
fn refuse_what_urls_would_misread(text: &str) -> Result<(), Fault> {
    let (scheme, rest) = text.split_once("://").ok_or(SCHEME)?;
    if !["mysql", "mariadb"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
    {
        return Err(SCHEME);
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("must not have spaces or control characters: percent-encode them");
    }
    let (authority, tail) = match rest.find(['/', '?', '#']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    if authority.matches('@').count() > 1 || tail.contains('@') {
        return Err(UNENCODED);
    }
    if tail.contains('#') {
        return Err("must not have a #: percent-encode it as %23");
    }
    Ok(())
}

fn host(url: &Url) -> Result<Option<String>, Fault> {
    match url.host() {
        None | Some(Host::Domain("")) => Ok(None),
        Some(Host::Domain(name)) => value::host(name)
            .map(Some)
            .map_err(|_| "must have a host name or an IP address as its host"),
        Some(Host::Ipv4(address)) => Ok(Some(address.to_string())),
        Some(Host::Ipv6(address)) => Ok(Some(address.to_string())),
    }
}

fn database(path: &str) -> Result<Option<String>, Fault> {
    match path.strip_prefix('/').unwrap_or(path) {
        "" => Ok(None),
        name if name.contains('/') => Err(PATH),
        name => value::name(&decoded(name)?).map(Some).map_err(|_| PATH),
    }
}

/// Sets what one `KEY=VALUE` of the query says; `-` and `_` in keys are equal, as in option files.
fn query(partial: &mut Partial, pair: &str) -> Result<(), Fault> {
    const TWICE: Fault = "has one key twice after the ?";
    let (key, text) = pair.split_once('=').ok_or(QUERY)?;
    let text = decoded(text)?;
    let fresh = match key.replace('_', "-").as_str() {
        "socket" => {
            // A URL can hardly do without a host, so the socket wins, as in other drivers.
            let socket = Place::Socket(value::path(&text).map_err(|_| QUERY)?);
            let before = partial.place.replace(socket);
            !matches!(before, Some(Place::Socket(_)))
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
    if fresh { Ok(()) } else { Err(TWICE) }
}

/// Percent-decoding that refuses what it cannot decode: a raw `%` in a password is a mistake that
/// would otherwise end as "access denied". A `+` stays a `+`; this is no form.
fn decoded(text: &str) -> Result<String, Fault> {
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
    String::from_utf8(bytes).map_err(|_| "must be UTF-8 when percent-decoded")
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

    use super::{UNENCODED, parse};
    use crate::config::partial::{Partial, Place};
    use crate::store::target::{Secret, SslMode};

    fn host(name: &str) -> Place {
        Place::Host(name.to_owned())
    }

    fn text(text: &str) -> String {
        text.to_owned()
    }

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    fn encoded(text: &str) -> String {
        text.bytes().fold(String::new(), |mut all, byte| {
            write!(all, "%{byte:02X}").expect("a String takes all");
            all
        })
    }

    #[test]
    fn urls_are_taken_apart() {
        for (url, wanted) in [
            (
                "mysql://u:p@db:3307/dlock",
                Partial {
                    place: Some(host("db")),
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
                    place: Some(host("db")),
                    ..Partial::default()
                },
            ),
            (
                "MariaDB://db/",
                Partial {
                    place: Some(host("db")),
                    ..Partial::default()
                },
            ),
            (
                "mysql://u%40x:p%2F%3a%25+@DB_1/d%20b",
                Partial {
                    place: Some(host("DB_1")),
                    user: Some(text("u@x")),
                    password: Some(secret("p/:%+")),
                    database: Some(text("d b")),
                    ..Partial::default()
                },
            ),
            (
                "mysql://u:a:b|é\"^@db",
                Partial {
                    place: Some(host("db")),
                    user: Some(text("u")),
                    password: Some(secret("a:b|é\"^")),
                    ..Partial::default()
                },
            ),
            (
                "mysql://u:@[2001:db8::1]:1/x",
                Partial {
                    place: Some(host("2001:db8::1")),
                    port: Some(1),
                    user: Some(text("u")),
                    database: Some(text("x")),
                    ..Partial::default()
                },
            ),
            (
                "mysql://u@localhost/x?socket=/run/my%20sql+.sock&ssl_mode=Verify_CA",
                Partial {
                    place: Some(Place::Socket("/run/my sql+.sock".into())),
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
    fn a_password_that_urls_would_misread_is_refused() {
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
    fn what_is_no_url_of_ours_is_refused() {
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
            ("mysql://u@db/x/y", "no further /"),
            ("mysql://u@db/x%00", "one database name"),
            ("mysql://u%00@db/x", "in the user"),
            ("mysql://%FF@db/x", "UTF-8"),
            ("mysql://u@db/x#y", "#"),
            ("mysql://u@db/x?sokcet=/s", "may have socket"),
            ("mysql://u@db/x?socket", "may have socket"),
            ("mysql://u@db/x?socket=", "may have socket"),
            ("mysql://u@db/x?password=p", "may have socket"),
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
        fn encoded_parts_come_back_whole(
            user in "[^\\pC]{1,20}",
            password in any::<String>(),
            database in any::<String>().prop_filter("a name", |name| {
                !name.chars().any(char::is_control) && !matches!(name.as_str(), "" | "." | "..")
            }),
        ) {
            let [u, p, d] = [&user, &password, &database].map(|part| encoded(part));
            let partial = parse(&format!("mysql://{u}:{p}@db:3307/{d}"));
            let partial = partial.expect("all is encoded");
            prop_assert_eq!(partial.place, Some(host("db")));
            prop_assert_eq!(partial.user, Some(user));
            let revealed = partial.password.as_ref().map_or("", |password| password.reveal());
            prop_assert_eq!(revealed, password.as_str());
            prop_assert_eq!(partial.database, Some(database));
        }

        #[test]
        fn a_raw_password_comes_back_whole_or_not_at_all(password in "[ -~&&[^%]]{1,12}") {
            if let Ok(partial) = parse(&format!("mysql://d:{password}@db/x")) {
                prop_assert_eq!(partial.place, Some(host("db")));
                prop_assert_eq!(partial.user, Some(text("d")));
                prop_assert_eq!(partial.password, Some(secret(&password)));
            }
        }

        #[test]
        fn no_text_makes_it_panic_or_sets_something_to_nothing(tail in any::<String>()) {
            let _ = parse(&tail);
            if let Ok(partial) = parse(&format!("mysql://{tail}")) {
                prop_assert!(partial.user != Some(String::new()));
                prop_assert!(partial.database != Some(String::new()));
                prop_assert!(partial.place != Some(host("")));
            }
        }
    }
}
