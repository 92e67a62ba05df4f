//! The patterns that the driver compiles match in the same way with `patches/regex` as with the crate `regex`.

use regex::bytes::Regex;

/// Returns the groups of the first match of `pattern` in `text`.
fn groups<const COUNT: usize>(pattern: &str, text: &[u8]) -> Option<[Vec<u8>; COUNT]> {
    let captures = Regex::new(pattern)
        .expect("the pattern is valid")
        .captures(text)?;
    assert!(
        captures.get(COUNT + 1).is_none(),
        "{pattern} has more groups"
    );
    Some(std::array::from_fn(|at| {
        let group = captures.get(at + 1).expect("the group is in the match");
        group.as_bytes().to_vec()
    }))
}

#[test]
fn versions_of_servers() {
    const ANY: &str = r"^(\d{1,2})\.(\d{1,2})\.(\d{1,3})(.*)";
    const MARIADB: &str = r"^(?:5.5.5-)?(\d{1,2})\.(\d{1,2})\.(\d{1,3})-MariaDB";
    for (pattern, version, wanted) in [
        (ANY, &b"8.0.36"[..], Some(["8", "0", "36"])),
        (ANY, b"9.7.1-0ubuntu0.24.04.1", Some(["9", "7", "1"])),
        (ANY, b"10.11.19-MariaDB-log", Some(["10", "11", "19"])),
        (ANY, b"5.5.5-10.11.19-MariaDB", Some(["5", "5", "5"])),
        (ANY, b"8.0.1000\xff", Some(["8", "0", "100"])),
        (ANY, b"\xff8.0.36", None),
        (ANY, b"100.0.36", None),
        (ANY, "٨.0.36".as_bytes(), None),
        (ANY, b"8.0", None),
        (ANY, b"", None),
        (MARIADB, b"10.11.19-MariaDB-log", Some(["10", "11", "19"])),
        (
            MARIADB,
            b"5.5.5-10.11.19-MariaDB-\xe4",
            Some(["10", "11", "19"]),
        ),
        (MARIADB, b"8.0.36", None),
    ] {
        let found = match pattern {
            ANY => groups::<4>(pattern, version).map(|found| found[..3].to_vec()),
            _ => groups::<3>(pattern, version).map(|found| found.to_vec()),
        };
        let wanted = wanted.map(|parts| parts.map(|part| part.as_bytes().to_vec()).to_vec());
        assert_eq!(found, wanted, "{pattern} {version:?}");
    }
    // A byte above 127 is one byte of a group.
    let [_, _, _, rest] = groups::<4>(ANY, b"8.0.36-\xe4\xff-x\ny").expect("a match");
    assert_eq!(rest, b"-\xe4\xff-x");
}

#[test]
fn keys_of_servers() {
    const KEY: &str = "-----BEGIN PUBLIC KEY-----([^-]*)-----END PUBLIC KEY-----";
    let pem = b"\xff\n-----BEGIN PUBLIC KEY-----\nMIIB\nIjAN\n-----END PUBLIC KEY-----\n";
    assert_eq!(groups::<1>(KEY, pem), Some([b"\nMIIB\nIjAN\n".to_vec()]));
    assert_eq!(groups::<1>(KEY, b"-----BEGIN RSA PUBLIC KEY-----"), None);
}

#[test]
fn times() {
    for (pattern, matching, other) in [
        (
            r"^\d{4}-\d{2}-\d{2}$",
            &b"2026-01-31"[..],
            &b"2026-01-3\xff"[..],
        ),
        (
            r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}$",
            b"2026-01-31 23:59:59",
            b"2026-01-31T23:59:59",
        ),
        (
            r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\.\d{1,6}$",
            b"2026-01-31 23:59:59.000001",
            b"2026-01-31 23:59:59.",
        ),
        (r"^\d{2}:[0-5]\d:[0-5]\d$", b"23:59:59", b"23:60:59"),
        (
            r"^\d{2}:[0-5]\d:[0-5]\d\.\d{1,6}$",
            b"23:59:59.5",
            b"23:59:59.5\xff",
        ),
        (r"^[0-8]\d\d:[0-5]\d:[0-5]\d$", b"838:59:59", b"938:59:59"),
        (
            r"^[0-8]\d\d:[0-5]\d:[0-5]\d\.\d{1,6}$",
            b"838:59:59.000000",
            b"838:59:59.0000000",
        ),
    ] {
        let pattern = Regex::new(pattern).expect("the pattern is valid");
        assert!(pattern.is_match(matching), "{pattern:?}");
        assert!(!pattern.is_match(other), "{pattern:?}");
    }
}
