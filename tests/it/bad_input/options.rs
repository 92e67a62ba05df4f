//! Invalid and incomplete command lines.

use testkit::cli_runner::Dlock;
use testkit::proxy::Proxy;
use testkit::servers::{Flavour, shared};

use super::{Form, refused};

#[test]
fn an_invalid_command_line_is_rejected_before_dlock_connects() {
    let database = shared(Flavour::MariaDb).database("usage");
    let proxy = Proxy::to(shared(Flavour::MariaDb).port());
    let url = database.url_through(proxy.port());
    let run = |options: &[&str]| {
        let dlock = Dlock::new(["exec", "-a", "init"]).env("DLOCK_URL", &url);
        options.iter().fold(dlock, Dlock::arg)
    };
    for (options, form, why) in [
        (&["--ttl", "1s"][..], Form::Line, "ttl 1s is too short"),
        (&["--ttl", "0"], Form::Line, "too short"),
        (
            &["--ttl", "10s", "--grace", "9s"],
            Form::Line,
            "raise --ttl or lower --grace",
        ),
        (&["--ttl", "25h"], Form::Line, "ttl must be at most"),
        (&["--ttl", "abc"], Form::Usage, "'--ttl <DURATION>'"),
        (&["--ttl", "30"], Form::Usage, "'--ttl <DURATION>'"),
        (&["--ttl", "-1s"], Form::Usage, "'-1'"),
        (
            &["--ttl", "99999999999999999999s"],
            Form::Usage,
            "'--ttl <DURATION>'",
        ),
        (&["--grace", ""], Form::Usage, "'--grace <DURATION>'"),
        (
            &["--wait", "ever"],
            Form::Usage,
            "'--wait <DURATION|forever>'",
        ),
        (
            &["--connect-timeout", "5 minuets"],
            Form::Usage,
            "'--connect-timeout <DURATION>'",
        ),
        (&["-E", "256"], Form::Usage, "'--conflict-exit-code <N>'"),
        (&["-E", "-1"], Form::Usage, "'-1'"),
        (
            &["--holder", &"x".repeat(256)],
            Form::Usage,
            "255 are allowed",
        ),
        (
            &["--note", &"x".repeat(1024)],
            Form::Usage,
            "1023 are allowed",
        ),
        (
            &["--lease", "30s"],
            Form::Usage,
            "tip: --ttl sets the length of the lease",
        ),
        (&["--port", "65536"], Form::Usage, "'--port <PORT>'"),
        (&["--port", "0"], Form::Line, "--port must be"),
        (&["--host", "a b"], Form::Line, "--host is not"),
        (
            &["--host", "db", "--socket", "/s"],
            Form::Line,
            "--host and --socket are both set; set only one of them",
        ),
        (
            &["--url", "mysql://u@h/d", "--url-file", "/f"],
            Form::Line,
            "--url and --url-file are both set; set only one of them",
        ),
        (
            &["--ssl-mode", "preferred"],
            Form::Usage,
            "'--ssl-mode <MODE>'",
        ),
    ] {
        refused(run(options), form, 64, why);
    }
    refused(
        run(&[]).env("DLOCK_OPT_TTL", "soon"),
        Form::Usage,
        64,
        "'DLOCK_OPT_TTL (--ttl <DURATION>)'",
    );
    refused(
        run(&[]).env("DLOCK_PASSWORD", ""),
        Form::Line,
        64,
        "DLOCK_PASSWORD is empty",
    );
    assert!(proxy.sessions().is_empty(), "dlock connected");
}

#[test]
fn an_incomplete_command_line_is_rejected_and_corrected() {
    let usage = "Usage: dlock exec [OPTIONS] <NAME> -- <COMMAND> [ARG]...";
    let marker = "tip: the command must come after --";
    for (line, why) in [
        (&["exec", "-a", "init"][..], usage),
        (&["exec", "init", "--"], usage),
        (&["exec", "--", "true"], usage),
        (&["history", "--since"], "a value is required for '--since"),
        (&["exec", "./migrate.sh"], marker),
        (&["exec", "init", "true", "-x"], marker),
        (&["exec", "./migrate.sh", "-x"], marker),
        (&["exec", "-a", "init", "-a", "other", "true"], marker),
        (&["run"], "tip: did you mean dlock exec NAME -- COMMAND?"),
        (&[], "Usage"),
    ] {
        let outcome = Dlock::new(line)
            .env("DLOCK_URL", "mysql://nobody@127.0.0.1:9/none")
            .run();
        outcome.expect(64, "", why);
    }
}

#[test]
fn a_stop_signal_that_does_not_end_a_command_is_rejected() {
    for signal in ["SIGSTOP", "CONT", "tstp", "19", "0", "64", "RTMIN", ""] {
        let option = format!("--stop-signal={signal}");
        for why in [
            format!("invalid value '{signal}' for '--stop-signal <SIGNAL>'"),
            "name or the number of a signal that ends a process: HUP, INT, QUIT".to_owned(),
        ] {
            let run = Dlock::new(["exec", "-a", "init", &option]);
            refused(run, Form::Usage, 64, &why);
        }
    }
}

#[test]
fn all_missing_connection_settings_are_reported_in_one_message() {
    let run = || Dlock::new(["exec", "-a", "init"]);
    refused(
        run(),
        Form::Line,
        64,
        "no server (set --host or DLOCK_HOST, --socket or DLOCK_SOCKET), no user",
    );
    refused(
        run().env("DLOCK_URL", "mysql://db"),
        Form::Line,
        64,
        "no user (set --user or DLOCK_USER), no database",
    );
    refused(
        run().env("DLOCK_URL", "mysql://me@db"),
        Form::Line,
        64,
        "no database (set --database or DLOCK_DATABASE)",
    );
    refused(
        run().env("DLOCK_URL", "db/dlock"),
        Form::Line,
        64,
        "must begin with mysql://",
    );
    refused(
        run().env("DLOCK_URL", ""),
        Form::Line,
        64,
        "must begin with mysql://",
    );
}
