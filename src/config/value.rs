//! What the value of each setting may be: text in, checked value out.
//!
//! Pure, and the same for flags, URLs and option files. A refusal is a [`Fault`], a text fixed when
//! dlock is built, so it cannot repeat what was given: people put passwords into the wrong option.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use clap::ValueEnum;

use crate::store::target::SslMode;

/// Why a value is refused; reads on after the option's name.
pub(super) type Fault = &'static str;

const EMPTY: Fault = "is empty";

/// A host name or an IP literal; the brackets of `[::1]` are taken off.
pub(super) fn host(text: &str) -> Result<String, Fault> {
    if text.is_empty() {
        return Err(EMPTY);
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    // Nothing else may stand in a host: it is printed, and it is sent to name servers in the clear.
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
        Err("is not a host name or an IP address (the port is a setting of its own)")
    }
}

/// A TCP port.
pub(super) fn port(text: &str) -> Result<u16, Fault> {
    text.parse()
        .map_err(|_| "must be a number from 1 to 65535")
        .and_then(port_number)
}

/// A TCP port that is a number already.
pub(super) const fn port_number(number: u16) -> Result<u16, Fault> {
    if number == 0 {
        Err("must be a number from 1 to 65535")
    } else {
        Ok(number)
    }
}

/// The name of an account or a database.
pub(super) fn name(text: &str) -> Result<String, Fault> {
    if text.is_empty() {
        Err(EMPTY)
    } else if text.chars().any(char::is_control) {
        // A NUL would end the name early in the handshake and log in as somebody else.
        Err("must not have control characters")
    } else {
        Ok(text.to_owned())
    }
}

/// The path of a file or a socket.
pub(super) fn path(text: &str) -> Result<PathBuf, Fault> {
    if text.is_empty() {
        Err(EMPTY)
    } else if text.contains('\0') {
        Err("must not have control characters")
    } else {
        Ok(PathBuf::from(text))
    }
}

/// A TLS mode, in any case.
pub(super) fn ssl_mode(text: &str) -> Result<SslMode, Fault> {
    if text.eq_ignore_ascii_case("preferred") {
        return Err(
            "must not be preferred, which goes on without encryption when the server offers none: \
             choose required, verify_ca, verify_identity or disabled",
        );
    }
    SslMode::from_str(text, true)
        .map_err(|_| "must be disabled, required, verify_ca or verify_identity")
}

/// An on/off switch of an option file.
pub(super) fn switch(text: &str) -> Result<bool, Fault> {
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
    fn hosts_are_names_and_literals_and_nothing_else() {
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
    fn names_and_paths_are_not_empty_and_end_where_they_seem_to() {
        assert_eq!(name("dlock"), Ok("dlock".to_owned()));
        assert!(name("").is_err());
        assert!(name("root\0x").is_err());
        assert!(name("a\nb").is_err());
        assert!(path("/run/mysqld.sock").is_ok());
        assert!(path("").is_err());
        assert!(path("/run\0").is_err());
    }

    #[test]
    fn modes_are_read_in_any_case() {
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
    fn preferred_is_refused_with_the_choices() {
        let fault = ssl_mode("PREFERRED").expect_err("it protects nobody");
        for choice in ["required", "verify_ca", "verify_identity", "disabled"] {
            assert!(fault.contains(choice), "{fault}");
        }
    }

    #[test]
    fn switches_are_the_six_words_of_the_mysql_client() {
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
