//! Checks the product and version of the server.

use super::variables::ServerFacts;
use crate::store::check::{Check, Finding};

/// Oldest series (major and minor number) without a warning. dlock has not been tried on earlier
/// series.
const OLDEST_MARIADB: (u32, u32) = (10, 6);
const OLDEST_MYSQL: (u32, u32) = (8, 0);

/// Judges product and version.
pub(super) fn server(facts: &ServerFacts) -> Finding {
    let version = &facts.version;
    let tested = "dlock is tested on MariaDB 10.11 and 11.8 and MySQL 9.7";
    let lower = version.to_lowercase();
    if let Some(name) = ["tidb", "vitess"].iter().find(|name| lower.contains(*name)) {
        return Finding::warn(
            Check::Server,
            format!("{version}, which is only compatible with MySQL's protocol"),
            format!("{name} has its own implementation of named locks and row locks; {tested}"),
            "use MySQL or MariaDB, or first test the features of dlock that you need",
        );
    }
    let (name, shown, oldest) = match facts.is_mariadb() {
        true => ("MariaDB", version.clone(), OLDEST_MARIADB),
        false => ("MySQL", format!("MySQL {version}"), OLDEST_MYSQL),
    };
    match series(version) {
        Some(series) if series >= oldest => Finding::ok(Check::Server, shown),
        _ => Finding::warn(
            Check::Server,
            shown,
            format!("{tested}; the behaviour of this version is unknown"),
            format!("use {name} {}.{} or later", oldest.0, oldest.1),
        ),
    }
}

/// Returns the major and minor number. Returns None if the version does not start with two numbers. MariaDB may prepend
/// `5.5.5-` because of old replication clients.
pub(super) fn series(version: &str) -> Option<(u32, u32)> {
    let version = match version.strip_prefix("5.5.5-") {
        Some(rest) if rest.contains("MariaDB") => rest,
        _ => version,
    };
    let mut numbers = version.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::variables::ServerFacts;
    use super::server;
    use crate::store::check::CheckStatus;

    fn is_warning(status: &CheckStatus) -> bool {
        matches!(status, CheckStatus::Warn(_))
    }

    #[test]
    fn old_series_and_compatible_servers_get_a_warning() {
        for (version, is_good) in [
            ("10.11.19-MariaDB-0+deb12u1-log", true),
            ("5.5.5-10.6.4-MariaDB", true),
            ("11.8.2-MariaDB", true),
            ("10.5.9-MariaDB", false),
            ("9.7.4-2", true),
            ("8.0.36", true),
            ("5.7.44-log", false),
            ("8.0.11-TiDB-v8.1.0", false),
            ("8.0.30-Vitess", false),
            ("what?", false),
        ] {
            let facts = ServerFacts {
                version: version.to_owned(),
                ..ServerFacts::default()
            };
            let finding = server(&facts);
            assert!(finding.fact.contains(version), "{finding:?}");
            assert_eq!(finding.status == CheckStatus::Ok, is_good, "{finding:?}");
            assert_eq!(is_warning(&finding.status), !is_good, "{finding:?}");
        }
    }
}
