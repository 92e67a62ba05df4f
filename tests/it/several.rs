//! Tests of `dlock exec` with several names: the command runs when all leases are held, and stops when one is lost.

use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::each_server::everywhere;
use testkit::holder::Holder;
use testkit::on_each_flavour;
use testkit::servers::{Database, Flavour, shared};

/// Maximum time that a contender of these tests waits for its leases.
const WAIT: &str = "--wait=1m";

/// Returns a `dlock exec` with `names`, in this order.
fn several(database: &Database, names: &[&str]) -> Dlock {
    let names = names.iter().flat_map(|name| ["-a", name]);
    Dlock::on(database, ["exec", WAIT]).args(names)
}

/// Returns the tokens of `names` in the database.
fn tokens<const N: usize>(database: &Database, names: [&str; N]) -> [u64; N] {
    names.map(|name| {
        let query = format!("SELECT token FROM dlock_lock WHERE action='{name}'");
        database.value(query)
    })
}

/// Returns the names that are held, in the order of their bytes.
fn held(database: &Database) -> Vec<String> {
    let query =
        "SELECT CAST(action AS CHAR) FROM dlock_lock WHERE owner_id IS NOT NULL ORDER BY action";
    database.rows(query)
}

/// Returns a run that holds `api` and waits for `web`, which is held.
fn waiter_for_web(database: &Database) -> Running {
    let waiter = several(database, &["api", "web"]);
    (waiter.args(["--", "echo", "started"])).start_until("web is held by")
}

#[test]
fn command_runs_under_all_leases_and_gets_a_token_for_each() {
    everywhere(|database| {
        let script = r#"echo "$DLOCK_ACTION $DLOCK_TOKEN"; echo "$DLOCK_TOKENS""#;
        let names = ["web", "a=b", "api"];
        let outcome = several(database, &names)
            .args(["--", "sh", "-c", script])
            .run();
        let [a, api, web] = tokens(database, ["a=b", "api", "web"]);
        let printed = format!("a=b {a}\na=b={a}\napi={api}\nweb={web}\n");
        outcome.expect(0, &printed, "");
        assert_eq!(held(database), [""; 0]);
        for name in names {
            Dlock::on(database, ["history", name]).shows("exit 0");
        }
    });
}

on_each_flavour!(waiter_for_the_second_name_holds_the_first_one_for_many_leases);
fn waiter_for_the_second_name_holds_the_first_one_for_many_leases(flavour: Flavour) {
    let database = shared(flavour).database("several");
    let holder = Holder::on(&database, &["--action=web"]);
    let other = Holder::on(&database, &["--action=api"]);
    let waiter = several(&database, &["web", "api"])
        .args(["--ttl=6s", "--", "echo", "both"])
        .start_until("api is held by");
    other.end().expect(3, "", "");
    waiter.wait_for_output("acquired api in");
    waiter.wait_for_output("web is held by");
    eventually("status says what the holder waits for", || {
        let status = Dlock::on(&database, ["status", "api"]).run().stdout;
        status.contains("held and renewing; the holder waits for web")
    });
    // The lease is renewed six times per ttl.
    database.wait_until("renewals>12 FROM dlock_lock WHERE action='api'");
    Dlock::on(&database, ["exec", "-n", "api", "--", "true"]).expect(75, "", "api is held");
    holder.end().expect(3, "", "");
    waiter.wait().expect(0, "both\n", "acquired web in");
    assert_eq!(held(&database), [""; 0], "{flavour}");
}

#[test]
fn contender_that_does_not_get_all_leases_keeps_none() {
    everywhere(|database| {
        let holder = Holder::on(database, &["--action=web"]);
        for limit in ["--nonblock", "--wait=500ms"] {
            several(database, &["api", "web"])
                .args([limit, "--", "echo", "started"])
                .expect(75, "", "web is held by");
            assert_eq!(held(database), ["web"]);
        }
        // A signal ends the wait in the same way.
        let waiter = waiter_for_web(database);
        assert_eq!(held(database), ["api", "web"]);
        waiter.signal("TERM");
        waiter
            .wait()
            .expect(143, "", "while waiting for api and web");
        assert_eq!(held(database), ["web"]);
        // An operator revokes the first lease before the start.
        let waiter = waiter_for_web(database);
        Dlock::on(database, ["release", "-y", "api"]).expect(0, "", "is released");
        waiter.wait().expect(76, "", "lost api: ");
        assert_eq!(held(database), ["web"]);
        holder.end().expect(3, "", "");
    });
}

#[test]
fn loss_of_one_lease_stops_the_command_and_releases_the_others() {
    for lost in ["api", "web"] {
        let database = shared(Flavour::of_this_test()).database("several");
        let run = Holder::on(&database, &["--action=api", "--action=web"]);
        Dlock::on(&database, ["release", "-y", lost]).expect(0, "", "is released");
        run.running.wait().expect(76, "", &format!("lost {lost}: "));
        assert_eq!(held(&database), [""; 0]);
        let other = ["web", "api"][usize::from(lost == "web")];
        Dlock::on(&database, ["history", other]).shows("SIGTERM, another lease lost (76)");
        Dlock::on(&database, ["history", lost]).shows("revoked");
    }
}

#[test]
fn contenders_with_names_in_opposite_order_do_not_wait_for_each_other() {
    everywhere(|database| {
        let sets = [
            ["a", "b"],
            ["b", "a"],
            ["c", "b"],
            ["a", "c"],
            ["c", "a"],
            ["b", "c"],
        ];
        let start = |names| several(database, names).args(["--", "true"]).start();
        let running: Vec<_> = sets
            .iter()
            .cycle()
            .take(12)
            .map(|names| start(names))
            .collect();
        for run in running {
            let outcome = run.wait();
            assert_eq!(outcome.status, Some(0), "{outcome:?}");
        }
        assert_eq!(held(database), [""; 0]);
    });
}

#[test]
fn killed_dlock_leaves_no_lease() {
    let database = shared(Flavour::of_this_test()).database("several");
    let run = Holder::on(&database, &["--action=api", "--action=web", "--ttl=1h"]);
    run.running.signal("KILL");
    eventually("the monitor releases both leases", || {
        held(&database).is_empty()
    });
}

#[test]
fn nested_exec_runs_under_each_of_the_outer_leases() {
    let database = shared(Flavour::of_this_test()).database("several");
    let script = r#"
        for names in "-a api" "-a web" "-a web -a api" "-a web -a other"; do
            "$dlock" exec -n $names -- sh -c '
                printf "%s\n" "$DLOCK_TOKENS" "$DLOCK_OUTER_TOKENS" | cut -d= -f1 | xargs'
        done
        "$dlock" exec other -- "$dlock" exec -n web -- echo under both"#;
    let outcome = several(&database, &["web", "api"])
        .env("dlock", env!("CARGO_BIN_EXE_dlock"))
        .args(["--", "sh", "-c", script])
        .run();
    let printed = "api web\napi web\napi web\nother api web\nunder both\n";
    outcome.expect(0, printed, "");
}

#[test]
fn check_checks_all_leases_or_the_one_that_is_named() {
    let database = shared(Flavour::of_this_test()).database("several");
    // An operator takes the second lease away while the command runs. The command goes on after the signal.
    let script = r#"
        trap stopped=yes TERM
        "$dlock" check && "$dlock" check web && "$dlock" check -a api && echo current
        "$dlock" check --sql | grep -c current
        "$dlock" -q release -y web
        until [ "$stopped" ]; do sleep 0.1; done
        "$dlock" check; echo $?; "$dlock" check web; echo $?; "$dlock" check api; echo $?"#;
    several(&database, &["web", "api"])
        .env("dlock", env!("CARGO_BIN_EXE_dlock"))
        .args(["--ttl=3m", "--grace=1m", "--", "sh", "-c", script])
        .expect(76, "current\n2\n76\n76\n0\n", "lost web: ");
}

#[test]
fn names_that_cannot_be_used_together_are_refused() {
    let many: Vec<String> = (0..17).map(|number| format!("-an{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let inside = "dlock exec -a api -a web -- dlock exec deploy --once";
    for (options, message) in [
        (
            &["-a=web", "-a=api", "-a=web"][..],
            "web is given twice: write -a api -a web",
        ),
        (
            &many,
            "17 names are given; at most 16 are allowed: let one name stand for several of them",
        ),
        (&["-a=web", "-a=api", "--once"], inside),
        (&["-a=web", "-a=api", "--once-per=1h"], inside),
    ] {
        let exec = Dlock::new(["exec", "--url=mysql://nobody@127.0.0.1/nothing"]).args(options);
        exec.args(["--", "true"]).expect(64, "", message);
    }
}
