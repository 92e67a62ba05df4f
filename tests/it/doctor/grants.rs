//! Findings about the account's privileges and session limit.

use testkit::cli_runner::Dlock;
use testkit::on_each_series;
use testkit::servers::{Database, Flavour, Series, shared};

use super::Findings;

/// Returns the privileges that `dlock setup --print` prints for exec, as pairs of a table and its privileges.
fn printed_grants(database: &Database) -> Vec<(String, Vec<String>)> {
    let printed = Dlock::new(["setup", "--print", "--database", &database.name]).run();
    let grant = |line: &str| {
        let (rights, rest) = line.strip_prefix("GRANT ")?.split_once(" ON ")?;
        let table = rest.strip_suffix(" TO 'dlock'@'%';")?;
        let rights = rights.split(", ").map(str::to_owned).collect();
        Some((table.to_owned(), rights))
    };
    printed.stdout.lines().filter_map(grant).collect()
}

on_each_series!(each_missing_grant_is_found_and_the_fix_grants_it);
fn each_missing_grant_is_found_and_the_fix_grants_it(series: Series) {
    let database = shared(series).set_up("doctor");
    let account = database.account("poor");
    let user = &account.user;
    let grants = printed_grants(&database);
    assert!(grants.len() > 2, "{grants:?}");
    // One grant makes the other tables invisible, and the fix for them is several statements.
    let (visible, rights) = &grants[0];
    account.grant(&format!("{} ON {visible}", rights.join(", ")));
    let findings = Findings::on(&account);
    findings.reports("tables", "skip", "cannot see dlock_");
    let fix = findings.reports("grants", "fail", "missing: ");
    assert_eq!(findings.status, 78);
    database.run(fix);
    Findings::on(&account).are_good_except(&[]);
    for (table, rights) in &grants {
        let bare = table.rsplit('.').next().expect("a name");
        for right in rights {
            database.run(format!("REVOKE {right} ON {table} FROM '{user}'@'%'"));
            let findings = Findings::on(&account);
            // If an earlier fix had not worked, its privilege would also be missing.
            let fact = format!("missing: {right} on {bare}");
            let fix = findings.reports("grants", "fail", &fact);
            assert_eq!(findings.fact("grants"), fact);
            assert_eq!(findings.status, 78);
            findings.are_good_except(&["grants", "tables"]);
            database.run(fix);
        }
    }
    Findings::on(&account).are_good_except(&[]);

    // A grant through a role and a grant on the whole server count.
    let by_role = database.account("role");
    let (name, user) = (&database.name, &by_role.user);
    let before_user = match series.flavour() {
        Flavour::MariaDb => "FOR",
        Flavour::MySql => "TO",
    };
    database.run(format!(
        "CREATE ROLE r_{user}; GRANT ALL ON `{name}`.* TO r_{user}; GRANT r_{user} TO '{user}'@'%'; \
         SET DEFAULT ROLE r_{user} {before_user} '{user}'@'%'"
    ));
    Findings::on(&by_role).are_good_except(&[]);
    let everywhere = database.account("all");
    everywhere.grant("SELECT, INSERT, UPDATE, DELETE ON *.*");
    Findings::on(&everywhere).are_good_except(&[]);
}

#[test]
fn a_low_session_limit_is_reported_before_it_is_reached() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).set_up("doctor");
        let user = &database.user;
        for (limit, status) in [(2, "fail"), (10, "warn")] {
            let limited = format!("ALTER USER '{user}'@'%' WITH MAX_USER_CONNECTIONS {limit}");
            database.run(limited);
            let fact = format!(", and 1 of {limit} for this account");
            Findings::on(&database).reports("connections", status, &fact);
        }
    }
}
