//! Tests that the command line overrides the environment, also if different options contradict each other.

use std::time::{Duration, Instant};

use dlock::cli::environment::option_variables;
use testkit::cli_runner::Dlock;
use testkit::servers::{Database, Flavour, shared};

fn exec<'a>(database: &Database, arguments: impl IntoIterator<Item = &'a str>) -> Dlock {
    Dlock::on(database, ["exec"]).args(arguments)
}

#[test]
fn name_on_the_command_line_overrides_the_variable() {
    let database = shared(Flavour::of_this_test()).database("names");
    for arguments in [
        &["init", "--", "printenv", "DLOCK_ACTION"][..],
        &["-a", "init", "--", "printenv", "DLOCK_ACTION"],
        &["-n", "init", "--ttl=5s", "--", "printenv", "DLOCK_ACTION"],
    ] {
        let run = exec(&database, arguments.iter().copied());
        let run = run.env("DLOCK_OPT_ACTION", "other").run();
        run.expect(0, "init\n", "");
    }
    exec(&database, ["--", "printenv", "DLOCK_ACTION"])
        .env("DLOCK_OPT_ACTION", "other")
        .run()
        .expect(0, "other\n", "");
    // The word may be the key or the name, so dlock must not choose.
    exec(&database, ["--once", "v42", "--", "true"])
        .env("DLOCK_OPT_ACTION", "other")
        .run()
        .expect(64, "", "write: --once=v42");
}

#[test]
fn subcommands_accept_the_name_as_an_argument() {
    let database = shared(Flavour::of_this_test()).database("words");
    exec(&database, ["init", "--once", "--", "true"])
        .run()
        .expect(0, "", "");
    for (arguments, why) in [
        (&["wait", "init"][..], ""),
        (&["wait", "init", "--done"], ""),
        (&["forget", "init", "--once"], "init is forgotten"),
        (&["release", "init", "--pause=1m", "--yes"], "paused"),
        (&["release", "init", "--resume", "--yes"], "resumed"),
    ] {
        Dlock::on(&database, arguments).run().expect(0, "", why);
    }
    let command = ["init", "--", "sh", "-c", "\"$0\" check \"$DLOCK_ACTION\""];
    exec(&database, command)
        .arg(env!("CARGO_BIN_EXE_dlock"))
        .run()
        .expect(0, "", "");
}

#[test]
fn option_on_the_command_line_overrides_the_variables_that_contradict_it() {
    let database = shared(Flavour::of_this_test()).database("pairs");
    exec(&database, ["init", "--", "true"])
        .run()
        .expect(0, "", "");
    // Within an hour, only the run with --once runs its command.
    for (arguments, variable, value, stdout) in [
        ("--once", "DLOCK_OPT_ONCE_PER", "1h", "ran\n"),
        ("--once-per=1h", "DLOCK_OPT_ONCE", "other", ""),
    ] {
        exec(&database, ["-q", "init", arguments, "--", "echo", "ran"])
            .env(variable, value)
            .run()
            .expect(0, stdout, "");
    }
    Dlock::on(&database, ["release", "init", "--pause=1h", "--yes"])
        .env("DLOCK_OPT_RESUME", "true")
        .run()
        .expect(0, "", "paused for 1h");
    Dlock::on(&database, ["status", "--check", "init"])
        .env("DLOCK_OPT_WATCH", "1s")
        .run()
        .expect(75, "", "");
    let started = Instant::now();
    let waited = exec(&database, ["-v", "init", "--wait=300ms", "--", "true"])
        .env("DLOCK_OPT_NONBLOCK", "true")
        .env("DLOCK_OPT_QUIET", "true")
        .run();
    assert!(
        waited.status == Some(75) && started.elapsed() >= Duration::from_millis(300),
        "{waited:?}"
    );
    Dlock::on(&database, ["release", "init", "--resume", "--yes"])
        .env("DLOCK_OPT_PAUSE", "1h")
        .run()
        .expect(0, "", "resumed");
    let statements = Dlock::on(&database, ["status", "--json", "--statements", "init"])
        .env("DLOCK_OPT_WATCH", "1s")
        .run();
    assert_eq!(statements.status, Some(0), "{statements:?}");
    exec(&database, ["-v", "init", "--", "true"])
        .env("DLOCK_OPT_QUIET", "true")
        .run()
        .expect(0, "", "acquired");
    let url = database.url();
    Dlock::new(["--url", &url, "wait", "init"])
        .env("DLOCK_URL_FILE", "/nonexistent")
        .run()
        .expect(0, "", "");
    let port = database.port.to_string();
    let server = ["--host=127.0.0.1", "--port", &port];
    Dlock::new(server)
        .args(["--user", &database.user, "--database", &database.name])
        .args(["wait", "init"])
        .env("DLOCK_PASSWORD", &database.password)
        .env("DLOCK_SOCKET", "/nonexistent")
        .run()
        .expect(0, "", "");
}

#[test]
fn unknown_and_invalid_variables_are_usage_errors_that_name_the_variable() {
    for (name, value, why) in [
        (
            "DLOCK_OPT_WIAT",
            "1s",
            "the environment variable DLOCK_OPT_WIAT is unknown; did you mean DLOCK_OPT_WAIT?",
        ),
        (
            "DLOCK_WAIT",
            "3s",
            "the environment variable DLOCK_WAIT is unknown; did you mean DLOCK_OPT_WAIT?",
        ),
        (
            "DLOCK_PORT",
            "tcp://10.0.0.1:80",
            "set enableServiceLinks: false in the spec of the pod",
        ),
        ("DLOCK_PORT", "", "'DLOCK_PORT (--port <PORT>)'"),
        ("DLOCK_USER", "", "DLOCK_USER is empty"),
        (
            "DLOCK_OPT_NONBLOCK",
            "maybe",
            "invalid value 'maybe' for 'DLOCK_OPT_NONBLOCK (--nonblock)': write true or false",
        ),
        (
            "DLOCK_OPT_VERBOSE",
            "2",
            "invalid value '2' for 'DLOCK_OPT_VERBOSE (--verbose)'",
        ),
        (
            "DLOCK_OPT_TTL",
            "soon",
            "invalid value 'soon' for 'DLOCK_OPT_TTL (--ttl <DURATION>)'",
        ),
        (
            "DLOCK_OPT_LOG_FORMAT",
            "xml",
            "invalid value 'xml' for 'DLOCK_OPT_LOG_FORMAT (--log-format <FORMAT>)'",
        ),
    ] {
        let run = Dlock::new(["exec", "init", "--", "true"]).env(name, value);
        run.run().expect(64, "", why);
    }
    // The option on the command line replaces the invalid value of its variable.
    let run = Dlock::new(["setup", "--print", "--verbose"]).env("DLOCK_OPT_VERBOSE", "2");
    assert_eq!(run.run().status, Some(0));
}

#[test]
fn variables_that_dlock_or_kubernetes_sets_are_accepted() {
    let mut run = Dlock::new(["setup", "--print"]);
    for name in dlock::variables_without_option() {
        // The second variable has an effect in the program of the tests.
        if !["DLOCK_PASSWORD", "DLOCK_MUTANT"].contains(&name) {
            run = run.env(name, "1");
        }
    }
    let run = run.env("DLOCK_DB_PORT", "tcp://10.0.0.1:3306");
    assert_eq!(run.run().status, Some(0));
}

#[test]
fn empty_variable_of_an_option_counts_as_not_set() {
    let database = shared(Flavour::of_this_test()).database("empty");
    let variables = option_variables();
    let variables: Vec<&String> = (variables.iter())
        .filter(|name| name.starts_with("DLOCK_OPT_"))
        .collect();
    assert!(variables.len() > 30, "{variables:?}");
    let run = |subcommand: &[&str]| {
        let run = Dlock::on(&database, subcommand);
        variables.iter().fold(run, |run, name| run.env(name, ""))
    };
    for subcommand in [
        &["exec", "init", "--", "true"][..],
        &["status", "init"],
        &["wait", "init"],
        &["check", "init", "--token=1"],
        &["history", "init"],
        &["list"],
        &["setup"],
        &["release", "init", "--pause=1m", "--yes"],
    ] {
        let outcome = run(subcommand).run();
        let status = match subcommand {
            ["check", ..] => 76,
            _ => 0,
        };
        assert_eq!(outcome.status, Some(status), "{subcommand:?}: {outcome:#?}");
    }
    // The name is missing.
    let unnamed = run(&["exec", "--", "true"]).run();
    assert_eq!(unnamed.status, Some(64), "{unnamed:#?}");
}

#[test]
fn variable_that_dlock_sets_is_warned_about_if_no_dlock_has_set_it() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("ignored");
    let run = || exec(&database, ["init", "--", "true"]).env("DLOCK_TTL", "10s");
    let warning = "dlock: the environment variable DLOCK_TTL has no effect, because dlock sets it for commands; \
         did you mean DLOCK_OPT_TTL?\n";
    let outcome = run().run();
    assert_eq!(outcome.status, Some(0), "{flavour}: {outcome:#?}");
    assert_eq!(outcome.stderr, warning, "{flavour}");
    let inner = run().env("DLOCK_TOKEN", "1").run();
    assert_eq!(inner.stderr, "", "{flavour}");
}
