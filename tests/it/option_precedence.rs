//! Tests that the command line overrides the environment, also if different options contradict each other.

use std::time::{Duration, Instant};

use dlock::cli::environment::option_variables;
use testkit::cli_runner::{Dlock, Outcome};
use testkit::servers::{Database, Flavour, shared};

/// Runs dlock with `words`, separated by blanks, and with one variable.
#[track_caller]
fn run(database: &Database, words: &str, variable: &str, value: &str) -> Outcome {
    let dlock = Dlock::typed(database, words);
    dlock.env(variable, value).run()
}

#[test]
fn name_is_an_option_or_an_argument_and_overrides_the_variable() {
    let database = shared(Flavour::of_this_test()).database("names");
    for (words, name) in [
        ("exec init -- printenv DLOCK_ACTION", "init\n"),
        ("exec -a init -- printenv DLOCK_ACTION", "init\n"),
        ("exec -n init --ttl=5s -- printenv DLOCK_ACTION", "init\n"),
        ("exec -- printenv DLOCK_ACTION", "other\n"),
    ] {
        run(&database, words, "DLOCK_OPT_ACTION", "other").expect(0, name, "");
    }
    // The word may be the key or the name, so dlock must not choose.
    let ambiguous = "exec --once v42 -- true";
    run(&database, ambiguous, "DLOCK_OPT_ACTION", "other").expect(64, "", "write: --once=v42");

    // Every subcommand accepts the name as an argument.
    for (words, why) in [
        ("exec init --once -- true", ""),
        ("wait init", ""),
        ("wait init --done", ""),
        ("forget init --once", "init is forgotten"),
        ("release init --pause=1m --yes", "paused"),
        ("release init --resume --yes", "resumed"),
    ] {
        Dlock::typed(&database, words).expect(0, "", why);
    }
    let check = r#""$0" check "$DLOCK_ACTION""#;
    let check = Dlock::on(&database, ["exec", "init", "--", "sh", "-c", check]);
    check.arg(env!("CARGO_BIN_EXE_dlock")).expect(0, "", "");
}

#[test]
fn option_on_the_command_line_overrides_the_variables_that_contradict_it() {
    let database = shared(Flavour::of_this_test()).database("pairs");
    let run = |words: &str, variable, value| run(&database, words, variable, value);
    // Within an hour, only the run with --once runs its command.
    run("exec init -- true", "DLOCK_OPT_QUIET", "true").expect(0, "", "");
    let [once, per] =
        ["--once", "--once-per=1h"].map(|it| format!("exec -q init {it} -- echo ran"));
    run(&once, "DLOCK_OPT_ONCE_PER", "1h").expect(0, "ran\n", "");
    run(&per, "DLOCK_OPT_ONCE", "other").expect(0, "", "");
    run("release init --pause=1h --yes", "DLOCK_OPT_RESUME", "true").expect(0, "", "paused for 1h");
    run("status --check init", "DLOCK_OPT_WATCH", "1s").expect(75, "", "");
    let started = Instant::now();
    let waited = Dlock::on(&database, "exec -v init --wait=300ms -- true".split(' '))
        .env("DLOCK_OPT_NONBLOCK", "true")
        .env("DLOCK_OPT_QUIET", "true")
        .run();
    let took = started.elapsed();
    assert_eq!(waited.status, Some(75), "{waited:?}");
    assert!(took >= Duration::from_millis(300), "{waited:?}");
    run("release init --resume --yes", "DLOCK_OPT_PAUSE", "1h").expect(0, "", "resumed");
    let statements = run("status --json --statements init", "DLOCK_OPT_WATCH", "1s");
    assert_eq!(statements.status, Some(0), "{statements:?}");
    run("exec -v init -- true", "DLOCK_OPT_QUIET", "true").expect(0, "", "acquired");
    let url = database.url();
    let by_url = Dlock::new(["--url", &url, "wait", "init"]);
    let by_url = by_url.env("DLOCK_URL_FILE", "/nonexistent");
    by_url.expect(0, "", "");
    let port = database.port.to_string();
    Dlock::new(["--host=127.0.0.1", "--port", &port])
        .args(["--user", &database.user, "--database", &database.name])
        .args(["wait", "init"])
        .env("DLOCK_PASSWORD", &database.password)
        .env("DLOCK_SOCKET", "/nonexistent")
        .expect(0, "", "");
}

#[test]
fn unknown_and_invalid_variables_are_usage_errors_that_name_the_variable() {
    let unknown =
        "the environment variable DLOCK_OPT_WIAT is unknown; did you mean DLOCK_OPT_WAIT?";
    let link = "set enableServiceLinks: false in the spec of the pod";
    let maybe = "invalid value 'maybe' for 'DLOCK_OPT_NONBLOCK (--nonblock)': write true or false";
    let soon = "invalid value 'soon' for 'DLOCK_OPT_TTL (--ttl <DURATION>)'";
    for (name, value, why) in [
        ("DLOCK_OPT_WIAT", "1s", unknown),
        ("DLOCK_PORT", "tcp://10.0.0.1:80", link),
        ("DLOCK_OPT_NONBLOCK", "maybe", maybe),
        ("DLOCK_OPT_TTL", "soon", soon),
    ] {
        let run = Dlock::new(["exec", "init", "--", "true"]).env(name, value);
        run.expect(64, "", why);
    }
    // The option on the command line replaces the invalid value of its variable.
    let run = Dlock::new(["setup", "--print", "--verbose"]).env("DLOCK_OPT_VERBOSE", "2");
    assert_eq!(run.run().status, Some(0));

    // Variables that dlock or Kubernetes sets are accepted.
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
fn empty_variable_of_an_option_and_variable_that_dlock_sets_have_no_effect() {
    let database = shared(Flavour::of_this_test()).database("empty");
    let variables = option_variables();
    let variables = variables.iter().filter(|it| it.starts_with("DLOCK_OPT_"));
    let variables: Vec<&String> = variables.collect();
    assert!(variables.len() > 30, "{variables:?}");
    for (words, status) in [
        ("exec init -- true", 0),
        ("status init", 0),
        ("wait init", 0),
        ("check init --token=1", 76),
        ("history init", 0),
        ("list", 0),
        ("setup", 0),
        ("release init --pause=1m --yes", 0),
        // The name is missing.
        ("exec -- true", 64),
    ] {
        let run = Dlock::typed(&database, words);
        let run = variables.iter().fold(run, |run, name| run.env(name, ""));
        let outcome = run.run();
        assert_eq!(outcome.status, Some(status), "{words}: {outcome:#?}");
    }

    // A variable that dlock sets for commands has no effect, so dlock warns if no dlock has set it.
    let warning = "dlock: the environment variable DLOCK_TTL has no effect, because dlock sets it for commands; \
         did you mean DLOCK_OPT_TTL?\n";
    let outcome = run(&database, "exec other -- true", "DLOCK_TTL", "10s");
    assert_eq!((outcome.status, &*outcome.stderr), (Some(0), warning));
    let inner = Dlock::on(&database, ["exec", "other", "--", "true"]).env("DLOCK_TTL", "10s");
    inner.env("DLOCK_TOKEN", "1").run().expect(0, "", "");
}
