//! The allowed values of each setting. Each function parses or checks a string and returns the valid value.
//!
//! The functions are pure. Flags, URLs and option files share them. An error is an [`InvalidValue`], which is a
//! constant string. The error cannot contain the rejected value, which may be a password in the wrong option.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use clap::ValueEnum;

use crate::store::target::SslMode;

/// The reason why a value is refused. The error message consists of the name of the option and this string.
pub(super) type InvalidValue = &'static str;

const EMPTY: InvalidValue = "is empty";

/// Maximum number of hosts. The hosts share the time limit of one connect.
pub(super) const MAX_HOSTS: usize = 8;

pub(super) const TOO_MANY_HOSTS: InvalidValue = "has more than 8 hosts";

/// One entry of a list of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostEntry {
    /// A valid host name or IP address, without brackets.
    pub(super) host: String,
    /// The port of this entry. None uses the port of all entries that have none.
    pub(super) port: Option<u16>,
}

/// Parses a list of hosts, which are separated by commas. Each entry may end with a port.
pub(super) fn hosts(text: &str) -> Result<Vec<HostEntry>, InvalidValue> {
    if text.is_empty() {
        return Err(EMPTY);
    }
    let entries: Vec<&str> = text.split(',').collect();
    if entries.len() > MAX_HOSTS {
        return Err(TOO_MANY_HOSTS);
    }
    entries.into_iter().map(host_entry).collect()
}

/// Parses a host with an optional port. An IPv6 address with a port must be in brackets.
fn host_entry(text: &str) -> Result<HostEntry, InvalidValue> {
    if text.is_empty() {
        return Err("has an empty entry; separate the hosts by one comma");
    }
    let (name, number) = split_port(text);
    Ok(HostEntry {
        host: host(name)?,
        port: number.map(port).transpose().map_err(|_| INVALID_HOST)?,
    })
}

/// Returns the host and the text of the port of an entry.
pub(super) fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((name, number)) if !name.contains(':') || name.ends_with(']') => (name, Some(number)),
        _ => (text, None),
    }
}

const INVALID_HOST: InvalidValue =
    "is not a host name or an IP address, or a list of them, each with an optional :PORT";

/// Checks a host name or an IP address. Removes the brackets around an IPv6 address.
pub(super) fn host(text: &str) -> Result<String, InvalidValue> {
    if text.is_empty() {
        return Err(EMPTY);
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    // Other characters are refused, because the value may be a misplaced password, and dlock prints the host and sends
    // it to name servers without encryption.
    let is_label = |part: &str| {
        part.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let fits = if bare.contains(':') {
        let (address, zone) = bare.split_once('%').unwrap_or((bare, ""));
        address.parse::<Ipv6Addr>().is_ok() && is_label(zone)
    } else {
        bare == text && is_label(bare)
    };
    if fits {
        Ok(bare.to_owned())
    } else {
        Err(INVALID_HOST)
    }
}

/// Parses and checks a TCP port.
pub(super) fn port(text: &str) -> Result<u16, InvalidValue> {
    match text.parse() {
        Ok(0) | Err(_) => Err("must be a number from 1 to 65535"),
        Ok(number) => Ok(number),
    }
}

/// Checks the name of a user or a database.
pub(super) fn name(text: &str) -> Result<String, InvalidValue> {
    if text.is_empty() {
        Err(EMPTY)
    } else if text.chars().any(char::is_control) {
        // A NUL would truncate the user name in the handshake, and dlock would log in as a different user.
        Err("must not contain control characters")
    } else {
        Ok(text.to_owned())
    }
}

/// Checks the path of a file or a socket.
pub(super) fn path(text: &str) -> Result<PathBuf, InvalidValue> {
    if text.is_empty() {
        Err(EMPTY)
    } else if text.contains('\0') {
        Err("must not contain a NUL character")
    } else {
        Ok(PathBuf::from(text))
    }
}

/// Parses a TLS mode. Upper and lower case are equal.
pub(super) fn ssl_mode(text: &str) -> Result<SslMode, InvalidValue> {
    if text.eq_ignore_ascii_case("preferred") {
        return Err(
            "must not be preferred, which continues without TLS if the server does not support \
             TLS; use required, verify_ca, verify_identity or disabled",
        );
    }
    SslMode::from_str(text, true)
        .map_err(|_| "must be disabled, required, verify_ca or verify_identity")
}

/// Parses the value of an on/off switch in an option file.
pub(super) fn switch(text: &str) -> Result<bool, InvalidValue> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "on" | "true" => Ok(true),
        "0" | "off" | "false" => Ok(false),
        _ => Err("must be on or off"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{
        Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest,
    };

    use super::{HostEntry, host, hosts, name, path, port, ssl_mode, switch};
    use crate::store::target::SslMode;

    #[test]
    fn host_is_a_name_or_an_ip_address() {
        for (text, wanted) in [
            ("db", Some("db")),
            ("db-1.example_x.org.", Some("db-1.example_x.org.")),
            ("10.0.0.1", Some("10.0.0.1")),
            ("::1", Some("::1")),
            ("[::1]", Some("::1")),
            ("fe80::1%eth0", Some("fe80::1%eth0")),
            ("", None),
            ("[db]", None),
            ("db:3306", None),
            ("[::1]:3306", None),
            ("user:pw@db", None),
            ("a b", None),
            ("a/b", None),
            ("a%41", None),
            ("ä", None),
        ] {
            assert_eq!(host(text).ok().as_deref(), wanted, "{text:?}");
        }
    }

    fn entry(host: &str, port: Option<u16>) -> HostEntry {
        let host = host.to_owned();
        HostEntry { host, port }
    }

    #[test]
    fn hosts_are_a_list_with_optional_ports() {
        for (text, wanted) in [
            ("db", vec![entry("db", None)]),
            ("db:3307", vec![entry("db", Some(3307))]),
            (
                "a,b:3307,c",
                vec![entry("a", None), entry("b", Some(3307)), entry("c", None)],
            ),
            ("::1", vec![entry("::1", None)]),
            (
                "[::1]:3307,[::2],::3",
                vec![
                    entry("::1", Some(3307)),
                    entry("::2", None),
                    entry("::3", None),
                ],
            ),
            ("a,A", vec![entry("a", None), entry("A", None)]),
        ] {
            assert_eq!(hosts(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn malformed_lists_of_hosts_are_refused() {
        for (text, wanted) in [
            ("", "is empty"),
            (",", "an empty entry"),
            ("a,", "an empty entry"),
            (",a", "an empty entry"),
            ("a,,b", "an empty entry"),
            ("a, b", "is not a host name"),
            ("a;b", "is not a host name"),
            ("a:", "is not a host name"),
            ("a:0", "is not a host name"),
            ("a:65536", "is not a host name"),
            ("a:b:c", "is not a host name"),
            (":3306", "is empty"),
            ("[::1]x:1", "is not a host name"),
            ("/run/sock", "is not a host name"),
            ("a,b,c,d,e,f,g,h,i", "more than 8 hosts"),
        ] {
            let fault = hosts(text).expect_err(text);
            assert!(fault.contains(wanted), "{text}: {fault}");
        }
    }

    proptest! {
        #[test]
        fn lists_of_hosts_round_trip(entries in proptest::collection::vec(
            (prop_oneof![Just("::1".to_owned()), "[a-z0-9][a-z0-9.-]{0,9}"], any::<Option<u16>>().prop_map(|port| port.filter(|port| *port > 0))),
            1..=8,
        )) {
            let entries: Vec<HostEntry> =
                entries.iter().map(|(host, port)| entry(host, *port)).collect();
            let text = entries.iter().map(|HostEntry { host, port }| {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                port.map_or(host.clone(), |port| format!("{host}:{port}"))
            });
            prop_assert_eq!(hosts(&text.collect::<Vec<_>>().join(",")), Ok(entries));
        }

        #[test]
        fn any_text_is_refused_or_is_a_list_without_empty_entries(text in any::<String>()) {
            if let Ok(entries) = hosts(&text) {
                prop_assert!(!entries.is_empty());
                prop_assert!(entries.iter().all(|entry| !entry.host.is_empty()));
            }
        }
    }

    #[test]
    fn ports_are_1_to_65535() {
        for (text, wanted) in [
            ("1", Some(1)),
            ("65535", Some(65535)),
            ("0", None),
            ("65536", None),
            ("-1", None),
            ("", None),
            ("mysql", None),
        ] {
            assert_eq!(port(text).ok(), wanted, "{text:?}");
        }
    }

    #[test]
    fn empty_names_and_control_characters_are_refused() {
        assert_eq!(name("dlock"), Ok("dlock".to_owned()));
        assert!(name("").is_err());
        assert!(name("root\0x").is_err());
        assert!(name("a\nb").is_err());
        assert!(path("/run/mysqld.sock").is_ok());
        assert!(path("").is_err());
        assert!(path("/run\0").is_err());
    }

    #[test]
    fn ssl_modes_are_case_insensitive() {
        for (text, wanted) in [
            ("DISABLED", Some(SslMode::Disabled)),
            ("Required", Some(SslMode::Required)),
            ("verify_ca", Some(SslMode::VerifyCa)),
            ("VERIFY_IDENTITY", Some(SslMode::VerifyIdentity)),
            ("", None),
            ("verify", None),
        ] {
            assert_eq!(ssl_mode(text).ok(), wanted, "{text:?}");
        }
    }

    #[test]
    fn preferred_is_refused_with_a_list_of_the_modes() {
        let fault = ssl_mode("PREFERRED").expect_err("preferred does not enforce encryption");
        for choice in ["required", "verify_ca", "verify_identity", "disabled"] {
            assert!(fault.contains(choice), "{fault}");
        }
    }

    #[test]
    fn switch_accepts_the_six_values_of_the_mysql_client() {
        for (text, wanted) in [
            ("1", Some(true)),
            ("ON", Some(true)),
            ("true", Some(true)),
            ("0", Some(false)),
            ("off", Some(false)),
            ("FALSE", Some(false)),
            ("yes", None),
            ("", None),
        ] {
            assert_eq!(switch(text).ok(), wanted, "{text:?}");
        }
    }
}
