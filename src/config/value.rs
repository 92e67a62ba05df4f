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
        Err("is not a host name or an IP address (the port is a separate setting)")
    }
}

/// Parses and checks a TCP port.
pub(super) fn port(text: &str) -> Result<u16, InvalidValue> {
    text.parse()
        .map_err(|_| "must be a number from 1 to 65535")
        .and_then(port_number)
}

/// Checks a TCP port that is already a number.
pub(super) const fn port_number(number: u16) -> Result<u16, InvalidValue> {
    if number == 0 {
        Err("must be a number from 1 to 65535")
    } else {
        Ok(number)
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
    use super::{host, name, path, port, ssl_mode, switch};
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
