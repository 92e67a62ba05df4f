//! Findings about the sessions of the account in `--session-user`. Most tests compare the finding with what the account
//! can do: one session is in its process list or not, and its KILL ends that session or not.

use mysql::prelude::Queryable;
use testkit::cli_runner::Dlock;
use testkit::on_each_series;
use testkit::servers::{Database, Flavour, SESSIONS, Series, Server, shared};
use testkit::sql::{Sql, connect};

use super::Findings;

const CHECK: &str = "session-user";

/// Runs doctor as `account` with `--session-user` for the sessions of `user`.
#[track_caller]
fn findings(account: &Database, user: &str) -> Findings {
    let dlock = Dlock::on(account, [""; 0]);
    Findings::of(dlock.env("DLOCK_OPT_SESSION_USER", user))
}

/// Opens a session of `target`. Returns whether `account` can see the session, and whether it can end the session.
#[track_caller]
fn sees_and_ends(account: &Database, target: &Database) -> (bool, bool) {
    let [target, mut own] = [target, account].map(|it| connect(&it.url()).expect("it can log in"));
    let session = target.connection_id();
    let seen: Option<u64> = own.first(format!("SELECT id FROM {SESSIONS} AS p WHERE id={session}"));
    let ended = own.query_drop(format!("KILL {session}"));
    (seen.is_some(), ended.is_ok())
}

/// Creates an account that can use the database but has no privileges for sessions.
fn account(database: &Database, name: &str) -> Database {
    let account = database.account(name);
    account.grant(&format!("SELECT ON `{}`.*", account.name));
    account
}

/// Asserts that the finding about the sessions of `target` is what `account` can do. If `account` cannot see or cannot
/// end them, asserts that the fix changes this.
#[track_caller]
fn finding_is_true_and_the_fix_works(account: &Database, target: &Database) {
    let user = &target.user;
    let able = sees_and_ends(account, target);
    let (status, fact) = match able {
        (true, true) => ("ok", "can see and end the sessions of"),
        (true, false) => ("warn", "can see, but not end, the sessions of"),
        (false, true) => ("warn", "can end, but not see, the sessions of"),
        (false, false) => ("warn", "can neither see nor end the sessions of"),
    };
    let fact = format!("{}@% {fact} {user}", account.user);
    let fix = findings(account, user).reports(CHECK, status, &fact);
    if status == "warn" {
        account.run(&fix);
        assert_eq!(sees_and_ends(account, target), (true, true), "{fix}");
    }
}

on_each_series!(findings_about_privileges_are_true_and_their_fixes_work);
fn findings_about_privileges_are_true_and_their_fixes_work(series: Series) {
    let database = shared(series).set_up("doctor");
    let target = account(&database, "app");
    let (end, set_default) = match series.flavour() {
        Flavour::MariaDb => ("CONNECTION ADMIN", "FOR"),
        Flavour::MySql => ("CONNECTION_ADMIN", "TO"),
    };
    let ends = format!("PROCESS, {end}");
    let privileges = ["", "PROCESS", end, "SUPER", "PROCESS, SUPER", &ends, "ALL"];
    for (at, privileges) in privileges.into_iter().enumerate() {
        let account = account(&database, &format!("p{at}"));
        if !privileges.is_empty() {
            account.grant(&format!("{privileges} ON *.*"));
        }
        finding_is_true_and_the_fix_works(&account, &target);
    }
    // Privileges count only if they are in effect.
    let (inactive, active) = (account(&database, "off"), account(&database, "on"));
    let (off, on) = (&inactive.user, &active.user);
    database.run(format!(
        "CREATE ROLE outer_{on}; CREATE ROLE inner_{on}; \
         GRANT PROCESS, {end} ON *.* TO inner_{on}; GRANT inner_{on} TO outer_{on}; \
         GRANT outer_{on} TO '{off}'@'%'; GRANT outer_{on} TO '{on}'@'%'; \
         SET DEFAULT ROLE outer_{on} {set_default} '{on}'@'%'"
    ));
    // The name of a column looks like a privilege on the whole server.
    let hostile = account(&database, "column");
    let column = "`PROCESS, SUPER ON *.* TO x`";
    database.run(format!("CREATE TABLE hostile ({column} INT PRIMARY KEY)"));
    let select = format!("SELECT ({column}) ON `{}`.hostile", hostile.name);
    hostile.grant(&select);
    for (account, is_able) in [(active, true), (inactive, false), (hostile, false)] {
        let able = sees_and_ends(&account, &target);
        assert_eq!(able, (is_able, is_able), "{}", account.user);
        finding_is_true_and_the_fix_works(&account, &target);
    }
}

#[test]
fn sessions_of_an_account_with_system_user_can_be_ended_only_with_system_user() {
    let database = shared(Flavour::MySql).set_up("doctor");
    let (target, account) = (account(&database, "sys"), account(&database, "dba"));
    target.grant("SYSTEM_USER ON *.*");
    account.grant("PROCESS, CONNECTION_ADMIN ON *.*");
    assert_eq!(sees_and_ends(&account, &target), (true, false));
    // The account cannot read the privileges of other accounts, so the finding states only a condition.
    let condition = format!("if {} has SYSTEM_USER, ", target.user);
    findings(&account, &target.user).reports(CHECK, "ok", &condition);

    account.grant("SELECT ON mysql.global_grants");
    let fix = findings(&account, &target.user).reports(CHECK, "warn", "can see, but not end,");
    let system_user = format!("GRANT SYSTEM_USER ON *.* TO '{}'@'%';", account.user);
    assert_eq!(fix, system_user);
    finding_is_true_and_the_fix_works(&account, &target);
}

#[test]
fn sessions_of_the_own_account_need_no_privilege() {
    for series in Series::ALL {
        let database = shared(series).set_up("doctor");
        let user = &database.user;
        assert_eq!(sees_and_ends(&database, &database), (true, true));
        let found = findings(&database, user);
        found.reports(CHECK, "ok", &format!("{user}@% can see and end its own"));
        let by_option = Dlock::on(&database, ["doctor", "--session-user", "somebody"]).run();
        let fact = "can neither see nor end the sessions of somebody\n";
        assert!(by_option.stdout.contains(fact), "{by_option:?}");
        assert_eq!(by_option.status, Some(0), "a warning is not a failure");
    }
}

/// Asserts that doctor reports that `server`, a MySQL server without the performance schema, lists no sessions.
#[track_caller]
pub(super) fn assert_missing_list_is_reported(server: &Server) {
    let database = server.set_up("doctor");
    let found = findings(&database, &database.user);
    let fix = found.reports(CHECK, "warn", "the server does not list sessions");
    assert!(fix.contains("performance_schema=ON"), "{fix}");
}
