//! Tests of the grammar of URLs.

use std::fmt::Write;

use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

use super::{InvalidValue, Setting, Settings, UNENCODED};

fn parse(url: &str) -> Result<Settings, InvalidValue> {
    super::parse(url, "--url")
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
            "host=db port=3307 user=u password=p database=dlock",
        ),
        ("mysql://db", "host=db"),
        ("MariaDB://db:/", "host=db"),
        (
            "mysql://u%40x:p%2F%3a%25+@DB_1/d%20b",
            "host=DB_1 user=u@x password=p/:%+ database=d b",
        ),
        ("mysql://u:a:b|é\"^@db", "host=db user=u password=a:b|é\"^"),
        (
            "mysql://u:@[2001:db8::1]:1/x",
            "host=[2001:db8::1] port=1 user=u database=x",
        ),
        (
            "mysql://u:a,b@a:3306,b/db",
            "host=a:3306,b user=u password=a,b database=db",
        ),
        (
            "mysql://a,[::1]:3307,10.0.0.1?ssl-mode=required",
            "host=a,[::1]:3307,10.0.0.1 ssl-mode=required",
        ),
        (
            "mysql://u@localhost/x?socket=/run/my%20sql+.sock&ssl_mode=Verify_CA",
            "socket=/run/my sql+.sock user=u database=x ssl-mode=Verify_CA",
        ),
        (
            "mysql:///x?ssl-ca=/ca&ssl_cert=/c&ssl-key=/k",
            "database=x ssl-ca=/ca ssl-cert=/c ssl-key=/k",
        ),
    ] {
        let settings = parse(url).expect(url);
        let texts = settings.texts().into_iter();
        let texts: Vec<String> = texts.map(|(name, text)| format!("{name}={text}")).collect();
        assert_eq!(texts.join(" "), wanted, "{url}");
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
        assert_eq!(parse(url).err(), Some(UNENCODED), "{url}");
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
        ("mysql://u@::1:3306/x", "as its host"),
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
            !name.is_empty() && !name.chars().any(char::is_control)
        }),
    ) {
        let [u, p, d] = [&user, &password, &database].map(|part| encoded(part));
        let settings = parse(&format!("mysql://{u}:{p}@db:3307/{d}"));
        let settings = settings.expect("all parts are encoded");
        prop_assert_eq!(settings.text(Setting::Host), Some("db"));
        prop_assert_eq!(settings.text(Setting::User), Some(&*user));
        prop_assert_eq!(settings.text(Setting::Password).unwrap_or_default(), &*password);
        prop_assert_eq!(settings.text(Setting::Database), Some(&*database));
    }

    #[test]
    fn unencoded_password_is_read_exactly_or_refused(password in "[ -~&&[^%]]{1,12}") {
        if let Ok(settings) = parse(&format!("mysql://d:{password}@db/x")) {
            let wanted = [("host", "db"), ("user", "d"), ("password", &*password), ("database", "x")];
            prop_assert_eq!(settings.texts(), wanted);
        }
    }

    #[test]
    fn parse_never_panics_and_never_sets_an_empty_value(tail in any::<String>()) {
        let _ = parse(&tail);
        if let Ok(settings) = parse(&format!("mysql://{tail}")) {
            prop_assert!(settings.texts().iter().all(|(_, text)| !text.is_empty()));
        }
    }
}
