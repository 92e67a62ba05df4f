//! Tests of the grammar of URLs.

use std::fmt::Write;

use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

use super::{UNENCODED, parse};
use crate::config::settings::{Endpoint, HostEntry, Partial};
use crate::store::target::{Secret, SslMode};

fn host(name: &str) -> Endpoint {
    hosts(&[(name, None)])
}

fn hosts(entries: &[(&str, Option<u16>)]) -> Endpoint {
    let entries = entries.iter().map(|(host, port)| HostEntry {
        host: text(host),
        port: *port,
    });
    Endpoint::Hosts(entries.collect())
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
            "mysql://u:a,b@a:3306,b/db",
            Partial {
                endpoint: Some(hosts(&[("a", Some(3306)), ("b", None)])),
                user: Some(text("u")),
                password: Some(secret("a,b")),
                database: Some(text("db")),
                ..Partial::default()
            },
        ),
        (
            "mysql://a,[::1]:3307,10.0.0.1?ssl-mode=required",
            Partial {
                endpoint: Some(hosts(&[
                    ("a", None),
                    ("::1", Some(3307)),
                    ("10.0.0.1", None),
                ])),
                ssl_mode: Some(SslMode::Required),
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
        ("mysql://u@dätenbank/x", "as its host"),
        ("https://u@dätenbank/x", "must begin with mysql://"),
        ("mysql://u@db/x/y", "without another /"),
        ("mysql://u@db/x%00", "one database name"),
        ("mysql://u%00@db/x", "in the user"),
        ("mysql://%FF@db/x", "UTF-8"),
        ("mysql://u@a,/x", "has an empty entry"),
        ("mysql://u@,a/x", "has no host"),
        ("mysql://u@a,,b/x", "has an empty entry"),
        ("mysql://u@a,b:0/x", "as its port"),
        ("mysql://u@a,b:p/x", "as its port"),
        ("mysql://u@a,b%2F/x", "as its host"),
        ("mysql://u@a,b,c,d,e,f,g,h,i/x", "more than 8 hosts"),
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
