//! Findings for the steps of a connection: address, connect, TLS, login and database. The findings are available when
//! all of these steps have succeeded, or when one of them has failed.

use std::net::{IpAddr, ToSocketAddrs};

use super::variables::ServerFacts;
use crate::store::check::{Check, Finding};
use crate::store::target::{Address, SslMode, Target};

/// Returns the findings of a connection attempt that failed at the check `at` because of `message`.
/// `at` is None if the attempt failed at the TLS files, which dlock reads before all checks.
pub(super) fn failed(target: &Target, at: Option<Check>, message: &str) -> Vec<Finding> {
    let earlier = steps().filter(|check| Some(*check) < at);
    let mut findings: Vec<Finding> = earlier.map(|check| passed(target, check)).collect();
    findings.push(check_failed(at, message));
    findings
}

/// Returns the findings of all steps of a connection on which the server or a proxy then refused the first request.
pub(super) fn reached(target: &Target) -> Vec<Finding> {
    let steps = steps().filter(|check| *check < Check::Server);
    steps.map(|check| passed(target, check)).collect()
}

/// Returns the checks from the first step of a connection on.
fn steps() -> impl Iterator<Item = Check> {
    let checks = Check::ALL.iter().copied();
    checks.filter(|check| *check >= Check::Address)
}

/// Returns the findings of the steps before the database check. All these steps have succeeded.
pub(super) fn connected(target: &Target, facts: &ServerFacts) -> Vec<Finding> {
    let mut findings = vec![
        passed(target, Check::Address),
        passed(target, Check::Connect),
    ];
    findings.push(tls(target, &facts.cipher));
    findings.push(Finding::ok(
        Check::Login,
        format!("logged in as {}", facts.account),
    ));
    findings
}

/// Returns the finding for a database that can be used.
pub(super) fn database_found(target: &Target) -> Finding {
    Finding::ok(Check::Database, format!("{} exists", target.database))
}

/// Returns the finding for the check `at`, which failed. `at` is None as in [`failed`].
pub(super) fn check_failed(at: Option<Check>, message: &str) -> Finding {
    let always_needed = "every dlock command needs a connection to the database";
    let (why, fix) = match at {
        None => (
            always_needed,
            "make the file readable for the user that runs dlock, or specify another file",
        ),
        Some(Check::Address) => (
            always_needed,
            "check the host name (--host, --url) and the name resolution of this machine",
        ),
        Some(Check::Connect) => (
            always_needed,
            "check that the server runs and listens at this address (--host, --port, --socket), that it \
             has a free connection, and that no firewall blocks the connection",
        ),
        Some(Check::Tls) => (
            always_needed,
            "see TLS in dlock-connection(7) for the requirements of each --ssl-mode",
        ),
        Some(Check::Login) => (
            always_needed,
            "check the user, the password and the client host of the account, then run dlock doctor again",
        ),
        Some(_) => (
            "dlock keeps its tables in this database",
            "create the database, then run dlock setup; dlock setup --print shows the required grants",
        ),
    };
    Finding::fail(at.unwrap_or(Check::Tls), message, why, fix)
}

/// Returns the finding for a step that succeeded. The finding contains only facts for which the client needs no request
/// to the server.
fn passed(target: &Target, check: Check) -> Finding {
    let address = &target.address;
    let fact = match check {
        Check::Address => match address {
            Address::Socket(path) => format!("the socket {}", path.display()),
            Address::Tcp { host, .. } if host.parse::<IpAddr>().is_ok() => host.clone(),
            Address::Tcp { host, port } => format!("{host} resolves to {}", addresses(host, *port)),
        },
        Check::Connect => format!("a server responds at {address}"),
        Check::Tls => match target.tls.mode {
            SslMode::Disabled => "no TLS".to_owned(),
            mode => format!("TLS, --ssl-mode {mode}"),
        },
        _ => format!("{} can log in", target.user),
    };
    Finding::ok(check, fact)
}

/// Returns all addresses of `host`, which was resolved a moment ago, separated by commas.
fn addresses(host: &str, port: u16) -> String {
    let mut found: Vec<String> = (host, port)
        .to_socket_addrs()
        .into_iter()
        .flatten()
        .map(|address| address.ip().to_string())
        .collect();
    found.dedup();
    match found.is_empty() {
        true => "an address".to_owned(),
        false => found.join(", "),
    }
}

/// Judges the encryption of the connection. `cipher` is the cipher that the server reports, empty
/// without TLS.
fn tls(target: &Target, cipher: &str) -> Finding {
    let host = match &target.address {
        Address::Socket(_) => {
            return Finding::ok(Check::Tls, "no TLS, which a Unix socket does not need");
        }
        Address::Tcp { host, .. } => host,
    };
    let is_local = host == "localhost"
        || host
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback());
    let why_tls = "an attacker who can change the network traffic can acquire or release locks";
    match target.tls.mode {
        SslMode::Disabled if is_local => {
            Finding::ok(Check::Tls, "no TLS, which is safe on this machine")
        }
        SslMode::Disabled => Finding::warn(
            Check::Tls,
            format!("no TLS on the connection to {host}"),
            why_tls,
            "set --ssl-mode verify_identity, and --ssl-ca if the certificate authority is your own",
        ),
        mode if cipher.is_empty() => Finding::warn(
            Check::Tls,
            format!("--ssl-mode {mode}, but the server reports no TLS"),
            "a proxy probably terminates TLS and does not encrypt its own connection to the server",
            "configure the proxy to use TLS to the server",
        ),
        SslMode::Required => Finding::warn(
            Check::Tls,
            format!("{cipher}, with any certificate (--ssl-mode required)"),
            "an attacker on the network path can present another certificate and read the password",
            "set --ssl-mode verify_identity, and --ssl-ca if the certificate authority is your own",
        ),
        mode => Finding::ok(Check::Tls, format!("{cipher}, --ssl-mode {mode}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{failed, tls};
    use crate::store::check::{Check, CheckStatus, Finding};
    use crate::store::target::{Address, SslMode, Target, Tls};

    fn target(host: &str, mode: SslMode) -> Target {
        Target {
            address: Address::Tcp {
                host: host.to_owned(),
                port: 3306,
            },
            user: "app".to_owned(),
            password: None,
            database: "app".to_owned(),
            tls: Tls {
                mode,
                chosen: true,
                ca: None,
                identity: None,
            },
        }
    }

    #[test]
    fn tls_is_ok_with_a_checked_certificate_or_on_loopback() {
        let status = |host, mode, cipher| tls(&target(host, mode), cipher).status;
        let is_warning = |status| matches!(status, CheckStatus::Warn(_));
        assert_eq!(status("127.0.0.1", SslMode::Disabled, ""), CheckStatus::Ok);
        assert_eq!(status("::1", SslMode::Disabled, ""), CheckStatus::Ok);
        assert!(is_warning(status("192.0.2.1", SslMode::Disabled, "")));
        assert!(is_warning(status("192.0.2.1", SslMode::Required, "AES")));
        assert_eq!(
            status("192.0.2.1", SslMode::VerifyCa, "AES"),
            CheckStatus::Ok
        );
        // A proxy has terminated TLS.
        assert!(is_warning(status("192.0.2.1", SslMode::VerifyIdentity, "")));
    }

    #[test]
    fn only_steps_before_the_failure_are_ok() {
        let target = target("127.0.0.1", SslMode::Required);
        let checks = |at| -> Vec<Check> {
            let findings = failed(&target, at, "no");
            let (last, earlier) = findings.split_last().expect("at least one finding");
            assert!(last.is_failure());
            assert!(
                earlier
                    .iter()
                    .all(|one: &Finding| one.status == CheckStatus::Ok)
            );
            findings.iter().map(|finding| finding.check).collect()
        };
        assert_eq!(checks(None), [Check::Tls]);
        assert_eq!(checks(Some(Check::Address)), [Check::Address]);
        assert_eq!(checks(Some(Check::Tls)), Check::ALL[2..5]);
        assert_eq!(checks(Some(Check::Database)), Check::ALL[2..7]);
    }
}
