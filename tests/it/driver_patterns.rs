//! The patterns that the driver compiles match in the same way with `patches/regex` as with the crate `regex`.

use regex::bytes::Regex;

#[test]
fn groups_of_versions_and_keys_of_servers() {
    const ANY: &str = r"^(\d{1,2})\.(\d{1,2})\.(\d{1,3})(.*)";
    const MARIADB: &str = r"^(?:5.5.5-)?(\d{1,2})\.(\d{1,2})\.(\d{1,3})-MariaDB";
    const KEY: &str = "-----BEGIN PUBLIC KEY-----([^-]*)-----END PUBLIC KEY-----";
    let key = b"\xff\n-----BEGIN PUBLIC KEY-----\nMIIB\nIjAN\n-----END PUBLIC KEY-----\n";
    // The wanted groups have a bar between them. They are empty if the text does not match.
    for (pattern, text, wanted) in [
        (ANY, &b"8.0.36"[..], &b"8|0|36|"[..]),
        (ANY, b"9.7.1-0ubuntu0.24.04.1", b"9|7|1|-0ubuntu0.24.04.1"),
        (ANY, b"5.5.5-10.11.19-MariaDB", b"5|5|5|-10.11.19-MariaDB"),
        (ANY, b"8.0.1000\xff", b"8|0|100|0\xff"),
        // A byte above 127 is one byte of a group.
        (ANY, b"10.11.19-\xe4\xff-x\ny", b"10|11|19|-\xe4\xff-x"),
        (ANY, b"\xff8.0.36", b""),
        (ANY, b"100.0.36", b""),
        (ANY, "٨.0.36".as_bytes(), b""),
        (ANY, b"8.0", b""),
        (ANY, b"", b""),
        (MARIADB, b"10.11.19-MariaDB-log", b"10|11|19"),
        (MARIADB, b"5.5.5-10.11.19-MariaDB-\xe4", b"10|11|19"),
        (MARIADB, b"8.0.36", b""),
        (KEY, key, b"\nMIIB\nIjAN\n"),
        (KEY, b"-----BEGIN RSA PUBLIC KEY-----", b""),
    ] {
        let regex = Regex::new(pattern).expect("the pattern is valid");
        let found = regex.captures(text);
        let group = |at| found.as_ref()?.get(at).map(|group| group.as_bytes());
        let groups: Vec<&[u8]> = (1..).map_while(group).collect();
        assert_eq!(groups.join(&b'|'), wanted, "{pattern} {text:?}");
        assert_eq!(found.is_none(), wanted.is_empty(), "{pattern} {text:?}");
    }
}

#[test]
fn times() {
    let (date, time) = (r"\d{4}-\d{2}-\d{2}", r"\d{2}:\d{2}:\d{2}");
    let (clock, long) = (r"\d{2}:[0-5]\d:[0-5]\d", r"[0-8]\d\d:[0-5]\d:[0-5]\d");
    let at = format!("{date} {time}");
    let [exact_at, exact_clock, exact_long] =
        [&at, clock, long].map(|it| format!(r"{it}\.\d{{1,6}}"));
    for (pattern, matching, other) in [
        (date, "2026-01-31", &b"2026-01-3\xff"[..]),
        (&at, "2026-01-31 23:59:59", b"2026-01-31T23:59:59"),
        (
            &exact_at,
            "2026-01-31 23:59:59.000001",
            b"2026-01-31 23:59:59.",
        ),
        (clock, "23:59:59", b"23:60:59"),
        (&exact_clock, "23:59:59.5", b"23:59:59.5\xff"),
        (long, "838:59:59", b"938:59:59"),
        (&exact_long, "838:59:59.000000", b"838:59:59.0000000"),
    ] {
        let pattern = Regex::new(&format!("^{pattern}$")).expect("the pattern is valid");
        assert!(pattern.is_match(matching.as_bytes()), "{pattern:?}");
        assert!(!pattern.is_match(other), "{pattern:?}");
    }
}
