//! `dlock exec` inside the command of another: under the outer lease if it is for the same action, with a
//! lease of its own if not.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::command::{Stage, heard, tell};
use crate::dlock::{Dlock, Outcome};
use crate::holder::{Holder, is_free, renewals, steal, token};
use crate::logs::messages;
use crate::pid_one::{namespaces, unshare};
use crate::proxy::{Door, Proxy};
use crate::servers::{Database, Flavour, shared};

/// An inner dlock that waits for what it is inside of must not make a test wait for ever.
const IMPATIENT: &str = "--wait=2s";

/// Longer than any look at a healthy server takes.
const AT_ONCE: Duration = Duration::from_secs(10);

/// `dlock exec` of `init`, whose command is `script`, in which `$dlock` is the program.
fn outer(database: &Database, script: &str) -> Dlock {
    Dlock::on(database, ["exec", "-a", "init", "--holder=web-1"])
        .env("dlock", env!("CARGO_BIN_EXE_dlock"))
        .args(["--", "sh", "-c", script])
}

/// Where the row of `database` is, as the command is told.
fn address(database: &Database) -> String {
    format!("127.0.0.1:{}/{}", database.port, database.name)
}

/// `dlock exec` of `init` in the surroundings of a command that was granted `token` at `address`.
fn inner(database: &Database, token: u64, address: &str) -> Dlock {
    Dlock::on(database, ["exec", "-a", "init", "-v", IMPATIENT])
        .env("DLOCK_ACTION", "init")
        .env("DLOCK_TOKEN", token.to_string())
        .env("DLOCK_DATABASE_ADDRESS", address)
        .args(["--", "true"])
}

#[test]
fn the_same_action_runs_under_the_outer_lease_and_ends_with_the_inner_status() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("nested");
        let script = format!(
            r#""$dlock" exec -v -a init {IMPATIENT} -- sh -c 'echo "$DLOCK_TOKEN"; exit 5'"#
        );
        let outcome = outer(&database, &script).run();
        let token = token(&database);
        let said = format!(
            "dlock: init is held by the outer dlock (token {token}): running under its lease\n"
        );
        outcome.expect(5, &format!("{token}\n"), &said);
        // The one run is in the history, and the one grant in the row.
        let history = Dlock::on(&database, ["history", "init"]).run().stdout;
        assert_eq!(history.lines().count(), 2, "{flavour}: {history}");
        assert!(history.contains("exited 5"), "{flavour}: {history}");
        assert!(is_free(&database), "{flavour}");
    }
}

#[test]
fn three_levels_are_one_lease() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("nested");
        let script = format!(
            r#""$dlock" exec -a init {IMPATIENT} -- sh -c '
                "$dlock" exec -a init {IMPATIENT} -- sh -c "
                    \"\$dlock\" exec --log-format=json -v -a init {IMPATIENT} -- echo innermost
                    exit 7"'"#
        );
        let outcome = outer(&database, &script).run();
        assert_eq!(outcome.status, Some(7), "{flavour}: {outcome:#?}");
        assert_eq!(outcome.stdout, "innermost\n", "{flavour}");
        let said = messages(&outcome.stderr);
        assert_eq!(said.len(), 1, "{flavour}: {said:?}");
        assert_eq!(said[0]["event"], "nested", "{flavour}");
        assert_eq!(said[0]["token"], token(&database), "{flavour}");
    }
}

#[test]
fn the_inner_command_takes_the_place_of_its_dlock_and_gets_the_signals() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("nested");
        let stage = Stage::new();
        let ready = stage.fifo("ready");
        let script = format!(
            r#"exec "$dlock" exec -a init {IMPATIENT} -- sh -c '
                trap "exit 9" TERM
                tr "\0" " " < /proc/$PPID/comm > {}
                while :; do sleep 0.1; done'"#,
            ready.display()
        );
        let running = outer(&database, &script).start();
        assert_eq!(heard(&ready), "lease-monitor", "{flavour}");
        running.signal("TERM");
        let outcome = running.wait();
        assert_eq!(outcome.status, Some(9), "{flavour}: {outcome:#?}");
    }
}

#[test]
fn the_inner_command_finds_signals_and_streams_as_the_outer_one_does() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("nested");
        // stdin is closed for the one, so it must be for the other. The C library keeps signals 32 and
        // 33 for itself.
        let look = concat!(
            r#"'grep -E "^Sig(Blk|Ign)" /proc/self/status | grep -oE ".{8}$""#,
            r#"; readlink /proc/$$/fd/0 || echo none'"#
        );
        let script = format!(
            r#"trap '' USR1 PIPE; exec <&-; sh -c {look}; echo then
               "$dlock" exec -a init {IMPATIENT} -- sh -c {look}"#
        );
        let outcome = outer(&database, &script).run();
        assert_eq!(outcome.status, Some(0), "{flavour}: {outcome:#?}");
        let (direct, nested) = outcome.stdout.split_once("then\n").expect("both have run");
        assert_eq!(direct, nested, "{flavour}");
        assert!(direct.ends_with("none\n"), "{flavour}: {direct}");
    }
}

#[test]
fn a_token_that_is_not_current_ends_with_76_at_once() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("nested");
        let stage = Stage::new();
        let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
        let script = format!(
            r#"trap '' TERM; echo up > {}; read word < {}
               "$dlock" exec -a init -- echo never; echo status=$?"#,
            ready.display(),
            go.display()
        );
        let running = outer(&database, &script).start();
        assert_eq!(heard(&ready), "up");
        let before = token(&database);
        steal(&database);
        let told = Instant::now();
        tell(&go, "on");
        running.heard("is not current: init is held by a thief");
        assert!(told.elapsed() < AT_ONCE, "{flavour}");
        let outcome = running.wait();
        assert_eq!(outcome.stdout, "status=76\n", "{flavour}: {outcome:#?}");

        // And of a run that is over, whoever has kept its variables.
        let free = "UPDATE dlock_lock SET claim=NULL";
        mysql::prelude::Queryable::query_drop(&mut database.admin_conn(), free)
            .expect("the row can be changed");
        let why = format!("the outer dlock's token {before} is not current: init is free");
        let late = inner(&database, before, &address(&database)).run();
        late.expect(76, "", &why);
        // Of another database they say nothing.
        let other = inner(&database, before, "127.0.0.1:1/other").run();
        other.expect(0, "", "init is ours after");
    }
}

#[test]
fn a_lease_that_an_operator_has_ended_is_not_current() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("nested");
        let stage = Stage::new();
        let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
        let script = format!(
            r#"trap '' TERM; echo up > {}; read word < {}
               "$dlock" exec -a init -- echo never; echo status=$?"#,
            ready.display(),
            go.display()
        );
        let running = outer(&database, &script).start();
        assert_eq!(heard(&ready), "up");
        let release = ["release", "-a", "init", "--yes", "--holder=eve"];
        Dlock::on(&database, release)
            .run()
            .expect(0, "", "released");
        tell(&go, "on");
        running.heard("is not current: ");
        let outcome = running.wait();
        assert_eq!(outcome.stdout, "status=76\n", "{flavour}: {outcome:#?}");
    }
}

#[test]
fn who_is_not_below_the_holder_stands_in_line_whatever_the_variables_say() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("nested");
        let holder = Holder::on(&database, &[]);
        let outcome = inner(&database, token(&database), &address(&database)).run();
        outcome.expect(75, "", "init is held by ");
        assert_eq!(holder.end().status, Some(3), "{flavour}");
    }
}

#[test]
fn a_holder_of_another_pid_namespace_is_nobodys_ancestor() {
    let unshare = unshare(namespaces());
    let words: Vec<&str> = std::iter::once(unshare.get_program())
        .chain(unshare.get_args())
        .filter_map(std::ffi::OsStr::to_str)
        .collect();
    let unshare = words.join(" ");
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("nested");
        let script = format!(r#"{unshare} "$dlock" exec -n -a init -- echo never"#);
        let outcome = outer(&database, &script).run();
        outcome.expect(75, "", "init is held by web-1");
    }
}

#[test]
fn another_action_inside_is_a_lock_of_its_own_with_defaults_of_its_own() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("nested");
        let script = format!(
            r#"before=$DLOCK_TOKEN
               "$dlock" exec -a other {IMPATIENT} -- sh -c '
                    echo "$DLOCK_ACTION $DLOCK_HOLDER $DLOCK_TTL $DLOCK_DATABASE_ADDRESS"
                    [ "$DLOCK_TOKEN" != "$1" ] || echo "the same token"' sh "$before"
               echo "$DLOCK_ACTION $DLOCK_HOLDER $DLOCK_TTL""#
        );
        let outcome = outer(&database, &script).env("DLOCK_OPT_TTL", "1m").run();
        assert_eq!(outcome.status, Some(0), "{flavour}: {outcome:#?}");
        let lines: Vec<&str> = outcome.stdout.lines().collect();
        assert_eq!(lines.len(), 2, "{flavour}: {lines:?}");
        // What a user sets for options is for every dlock; what dlock sets is for none.
        assert!(lines[0].starts_with("other "), "{lines:?}");
        assert!(!lines[0].contains("web-1"), "{flavour}: {lines:?}");
        let end = format!(" 1m {}", address(&database));
        assert!(lines[0].ends_with(&end), "{lines:?}");
        assert_eq!(lines[1], "init web-1 1m", "{flavour}");

        let script =
            format!(r#""$dlock" exec -a other {IMPATIENT} -- sh -c 'echo "$DLOCK_TTL"; exit 4'"#);
        let outcome = Dlock::on(&database, ["exec", "-a", "init", "--ttl=1m"])
            .env("dlock", env!("CARGO_BIN_EXE_dlock"))
            .args(["--", "sh", "-c", &script])
            .run();
        outcome.expect(4, "30s\n", "");
        // It has no action unless it is told one.
        let outcome = outer(&database, r#""$dlock" exec -- true"#).run();
        outcome.expect(64, "", "--action");
    }
}

#[test]
fn check_is_about_the_lease_that_it_runs_under() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("nested");
        outer(&database, r#""$dlock" check"#)
            .run()
            .expect(0, "", "");
    }
}

#[test]
fn once_inside_skips_what_is_done_and_records_nothing() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("nested");
        let script = format!(r#""$dlock" exec -a init --once=v1 {IMPATIENT} -- echo run"#);
        for _ in 0..2 {
            outer(&database, &script).run().expect(0, "run\n", "");
        }
        let record = ["exec", "-a", "init", "--once=v1", "--", "true"];
        Dlock::on(&database, record).run().expect(0, "", "");
        let outcome: Outcome = outer(&database, &script).run();
        outcome.expect(0, "", "init (v1) was done by ");
    }
}

#[test]
fn a_server_that_does_not_answer_the_inner_one_is_tried_for_as_long_as_db_wait() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("nested");
        let proxy = Proxy::to(database.port);
        proxy.door(Door::Refused);
        let url = database.url_through(proxy.port());
        let run = |reach: &str| {
            Dlock::new(["exec", "-a", "init", "--db-wait", reach])
                .env("DLOCK_URL", &url)
                .env("DLOCK_ACTION", "init")
                .env("DLOCK_TOKEN", "1")
                .env("DLOCK_DATABASE_ADDRESS", "127.0.0.1:1/other")
                .args(["--", "true"])
        };
        run("0").run().expect(69, "", "cannot reach");
        let running = run("1m").start();
        // Whatever it has tried by then.
        proxy.door(Door::Open);
        assert_eq!(running.wait().status, Some(0), "{flavour}");
        assert_eq!(renewals(&database), 0, "{flavour}");
    }
}

#[test]
fn a_command_that_cannot_be_run_inside_says_so_as_ever() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("nested");
        let stage = Stage::new();
        let script = stage.path("script");
        std::fs::write(&script, "#!/no/such/interpreter\n").expect("it can be written");
        let made = Command::new("chmod").arg("+x").arg(&script).status();
        assert!(made.expect("chmod runs").success());
        let inner = format!(
            r#""$dlock" exec -a init {IMPATIENT} -- {}"#,
            script.display()
        );
        let outcome = outer(&database, &inner).run();
        outcome.expect(127, "", "no such command");
    }
}
