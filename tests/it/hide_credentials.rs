//! Tests of `exec --hide-credentials`: neither the command nor a hook gets the variables of the connection options.

use std::fs;

use dlock::config::connection_variables;
use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::{Database, Flavour, shared};

use crate::connection::private;

/// A command that prints the environment with which the kernel started it.
const ENVIRONMENT: &str = r"tr '\0' '\n' < /proc/$$/environ";

/// Returns the variables of each set of sources. Each set contains all settings for a connection.
fn sources(stage: &Stage, database: &Database, socket: String) -> [Vec<(&'static str, String)>; 6] {
    let file = |name: &str, text: &str| private(stage, name, text).display().to_string();
    let (url, port) = (database.url(), database.port.to_string());
    let password = &database.password;
    let single = [
        ("DLOCK_HOST", "127.0.0.1"),
        ("DLOCK_PORT", &port),
        ("DLOCK_USER", &database.user),
        ("DLOCK_DATABASE", &database.name),
        // Without TLS, dlock only checks that it can read the files.
        ("DLOCK_SSL_MODE", "disabled"),
        ("DLOCK_SSL_CA", "/dev/null"),
        ("DLOCK_SSL_CERT", "/dev/null"),
        ("DLOCK_SSL_KEY", "/dev/null"),
    ];
    let single = single.map(|(name, value)| (name, value.to_owned()));
    let with = |name, value| [&single[..], &[(name, value)]].concat();
    let options = format!("[client]\npassword = {password}\n");
    [
        vec![("DLOCK_URL", url.clone())],
        vec![("DLOCK_URL_FILE", file("url", &url))],
        vec![("DLOCK_URL", url), ("DLOCK_SOCKET", socket)],
        with("DLOCK_PASSWORD", password.clone()),
        with("DLOCK_PASSWORD_FILE", file("password", password)),
        with("DLOCK_DEFAULTS_FILE", file("options", &options)),
    ]
}

/// Returns the names of the connection variables in `environment`, which has one variable on each line.
fn connection_names(environment: &str) -> Vec<&str> {
    let names = environment.lines().filter_map(|line| line.split_once('='));
    let is_hidden = |name: &&str| connection_variables().iter().any(|hidden| hidden == name);
    let mut names: Vec<&str> = names.map(|(name, _)| name).filter(is_hidden).collect();
    names.sort_unstable();
    names
}

#[test]
fn neither_the_command_nor_a_hook_gets_a_connection_variable() {
    let mut seen = Vec::new();
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("hidden");
    let stage = Stage::new();
    let socket = shared(flavour).socket().display().to_string();
    for variables in sources(&stage, &database, socket) {
        let hook_file = stage.path("hook");
        let hook = format!("{ENVIRONMENT} > {}", hook_file.display());
        let run = |option: &str| {
            let dlock = Dlock::new(["exec", "-a", "x", "--on-event", &hook, option, "--"]);
            let dlock = dlock.args(["sh", "-c", ENVIRONMENT]).env("KEPT", "1");
            let set = |dlock: Dlock, (name, value): &(&str, String)| dlock.env(name, value);
            let outcome = variables.iter().fold(dlock, set).run();
            assert_eq!(outcome.status, Some(0), "{variables:?}: {outcome:#?}");
            let hook = fs::read_to_string(&hook_file).expect("the hook has run");
            [outcome.stdout, hook]
        };
        let mut wanted: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
        wanted.sort_unstable();
        for environment in run("-q") {
            assert_eq!(connection_names(&environment), wanted, "{variables:?}");
        }
        seen.extend(wanted);
        for environment in run("--hide-credentials") {
            assert_eq!(connection_names(&environment), [""; 0], "{variables:?}");
            assert!(!environment.contains(&database.password), "{variables:?}");
            for kept in ["KEPT=1\n", "DLOCK_ACTION=x\n", "DLOCK_TOKEN="] {
                assert!(environment.contains(kept), "{kept} {environment}");
            }
        }
    }
    for variable in connection_variables() {
        assert!(seen.iter().any(|name| *name == variable), "{variable:?}");
    }
}

#[test]
fn nested_dlock_without_connection_variables_uses_its_own_config_file() {
    let database = shared(Flavour::of_this_test()).database("nested");
    let stage = Stage::new();
    fs::create_dir(stage.path("dlock")).expect("the folder is writable");
    private(&stage, "dlock/dlock.cnf", &database.settings());
    let program = env!("CARGO_BIN_EXE_dlock");
    let nested = format!("'{program}' check && '{program}' exec -a x -- sh -c \"$0\"");
    let run = || {
        Dlock::on(&database, ["exec", "-a", "x", "--hide-credentials", "--"])
            .args(["sh", "-c", &nested, ENVIRONMENT])
            .env("DLOCK_OPT_HIDE_CREDENTIALS", "yes")
            .env("DLOCK_HOST", "127.0.0.1")
    };
    // Without the file, the nested dlock has no settings.
    run().expect(64, "", "no server (set --host");
    let outcome = run().env("XDG_CONFIG_HOME", stage.path("")).run();
    let is_granted = outcome.stdout.contains("DLOCK_TOKEN=");
    assert!(is_granted && outcome.status == Some(0), "{outcome:#?}");

    // A nested dlock can also be the one that hides the variables from its command.
    let outer = Dlock::on(&database, ["exec", "-a", "x", "--", program]);
    let nested = ["exec", "-a", "x", "--hide-credentials", "--"];
    let nested = outer.args(nested).args(["sh", "-c", ENVIRONMENT]);
    let outcome = nested.run();
    let is_granted = outcome.stdout.contains("DLOCK_TOKEN=");
    assert!(is_granted && outcome.status == Some(0), "{outcome:#?}");
    assert_eq!(connection_names(&outcome.stdout), [""; 0]);
}
