//! The way to the server: name, greeting, TLS, login and database; what is known of each step
//! when one of them failed, and when none did.

use std::net::{IpAddr, ToSocketAddrs};

use super::facts::Facts;
use crate::store::finding::{Check, Finding};
use crate::store::target::{Address, SslMode, Target};

/// The findings of a way that ended at a check because of `message`. None stands for the files that are
/// read before all checks.
pub(super) fn failed(target: &Target, at: Option<Check>, message: &str) -> Vec<Finding> {
    let passed_before = Check::ALL.into_iter().filter(|check| Some(*check) < at);
    let mut findings: Vec<Finding> = passed_before.map(|check| passed(target, check)).collect();
    findings.push(stopped(at, message));
    findings
}

/// The findings of the steps before the database, all of them taken.
pub(super) fn arrived(target: &Target, facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![
        passed(target, Check::Address),
        passed(target, Check::Connect),
    ];
    findings.push(tls(target, &facts.cipher));
    findings.push(Finding::ok(
        Check::Login,
        format!("the server knows us as {}", facts.account),
    ));
    findings
}

/// What is said of the database that we are in.
pub(super) fn entered(target: &Target) -> Finding {
    Finding::ok(Check::Database, format!("{} is there", target.database))
}

/// What is said of the check that failed.
pub(super) fn stopped(at: Option<Check>, message: &str) -> Finding {
    let every = "every command of dlock needs it";
    let (why, remedy) = match at {
        None => (
            every,
            "make the file readable for whoever runs dlock, or name another",
        ),
        Some(Check::Address) => (
            every,
            "check the host name (--host, --url) and the name server of this machine",
        ),
        Some(Check::Connect) => (
            every,
            "check that the server runs and listens there (--host, --port, --socket), that it has a \
             connection left, and what stands between",
        ),
        Some(Check::Tls) => (
            every,
            "CONNECTION in dlock(7) tells what each --ssl-mode asks for",
        ),
        Some(Check::Login) => (
            every,
            "check user, password and the host that the account is for; dlock status with the same \
             settings says it again",
        ),
        Some(_) => (
            "dlock keeps its tables there",
            "create it, and run dlock setup; dlock setup --print shows the grants",
        ),
    };
    Finding::mend(at.unwrap_or(Check::Tls), message, why, remedy)
}

/// A step that went well, as far as is known without asking the server.
fn passed(target: &Target, check: Check) -> Finding {
    let address = &target.address;
    let fact = match check {
        Check::Address => match address {
            Address::Socket(path) => format!("the socket {}", path.display()),
            Address::Tcp { host, .. } if host.parse::<IpAddr>().is_ok() => host.clone(),
            Address::Tcp { host, port } => format!("{host} is {}", addresses(host, *port)),
        },
        Check::Connect => format!("a server answers at {address}"),
        Check::Tls => match target.tls.mode {
            SslMode::Disabled => "no TLS".to_owned(),
            mode => format!("TLS, --ssl-mode {mode}"),
        },
        _ => format!("{} is let in", target.user),
    };
    Finding::ok(check, fact)
}

/// All addresses of `host`, which was resolved a moment ago.
fn addresses(host: &str, port: u16) -> String {
    let mut found: Vec<String> = (host, port)
        .to_socket_addrs()
        .into_iter()
        .flatten()
        .map(|address| address.ip().to_string())
        .collect();
    found.dedup();
    match found.is_empty() {
        true => "resolved".to_owned(),
        false => found.join(", "),
    }
}

/// What protects the connection, by the server's own word.
fn tls(target: &Target, cipher: &str) -> Finding {
    let host = match &target.address {
        Address::Socket(_) => {
            return Finding::ok(Check::Tls, "a socket of this machine needs none");
        }
        Address::Tcp { host, .. } => host,
    };
    let is_local = host == "localhost"
        || host
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback());
    let read = "who can read or change what goes between can take the lock or free it";
    match target.tls.mode {
        SslMode::Disabled if is_local => {
            Finding::ok(Check::Tls, "none, which is enough on this machine")
        }
        SslMode::Disabled => Finding::note(
            Check::Tls,
            format!("none on the way to {host}"),
            read,
            "set --ssl-mode verify_identity, with --ssl-ca if the authority is your own",
        ),
        mode if cipher.is_empty() => Finding::note(
            Check::Tls,
            format!("--ssl-mode {mode}, but the server knows of no TLS"),
            "a proxy ends it, and what is behind the proxy is not protected by it",
            "let the proxy use TLS towards the server",
        ),
        SslMode::Required => Finding::note(
            Check::Tls,
            format!("{cipher}, with any certificate (--ssl-mode required)"),
            "whoever gets between can show a certificate of his own and read the password",
            "set --ssl-mode verify_identity, with --ssl-ca if the authority is your own",
        ),
        mode => Finding::ok(Check::Tls, format!("{cipher}, --ssl-mode {mode}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{failed, tls};
    use crate::store::finding::{Check, Finding, Verdict};
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
    fn tls_is_good_when_the_certificate_is_checked_or_nobody_is_between() {
        let judged = |host, mode, cipher| tls(&target(host, mode), cipher).verdict;
        let is_note = |verdict| matches!(verdict, Verdict::Note(_));
        assert_eq!(judged("127.0.0.1", SslMode::Disabled, ""), Verdict::Ok);
        assert_eq!(judged("::1", SslMode::Disabled, ""), Verdict::Ok);
        assert!(is_note(judged("192.0.2.1", SslMode::Disabled, "")));
        assert!(is_note(judged("192.0.2.1", SslMode::Required, "AES")));
        assert_eq!(judged("192.0.2.1", SslMode::VerifyCa, "AES"), Verdict::Ok);
        // A proxy has ended it.
        assert!(is_note(judged("192.0.2.1", SslMode::VerifyIdentity, "")));
    }

    #[test]
    fn only_what_was_passed_before_the_failure_is_called_good() {
        let target = target("127.0.0.1", SslMode::Required);
        let checks = |at| -> Vec<Check> {
            let findings = failed(&target, at, "no");
            let (last, rest) = findings.split_last().expect("one at least");
            assert!(last.is_mend());
            assert!(rest.iter().all(|one: &Finding| one.verdict == Verdict::Ok));
            findings.iter().map(|finding| finding.check).collect()
        };
        assert_eq!(checks(None), [Check::Tls]);
        assert_eq!(checks(Some(Check::Address)), [Check::Address]);
        assert_eq!(checks(Some(Check::Tls)), Check::ALL[..3]);
        assert_eq!(checks(Some(Check::Database)), Check::ALL[..5]);
    }
}
