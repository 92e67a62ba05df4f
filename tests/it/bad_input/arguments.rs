//! Invalid and incomplete command lines and names. The unit tests of `cli`, `config` and `lease` test which values are valid, and a
//! snapshot in `cli::words` contains the hints.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use testkit::cli_runner::Dlock;
use testkit::holder::Holder;
use testkit::proxy::Proxy;
use testkit::servers::{Flavour, shared};

use super::{actions, exec, free, misused, refused};
use crate::faults::on_each;
use crate::session_settings::worst;

#[test]
fn an_invalid_command_line_is_rejected_before_dlock_connects() {
    let database = shared(Flavour::MariaDb).database("usage");
    let proxy = Proxy::to(database.port);
    let run = |options: &[&str]| {
        Dlock::through(&database, proxy.port(), ["exec", "-a", "init"]).args(options)
    };
    let two_servers = "--host and --socket are both set; set only one of them";
    let two_urls = "--url and --url-file are both set; set only one of them";
    for (options, why) in [
        (&["--ttl", "1s"][..], "ttl 1s is too short"),
        (&["--ttl=10s", "--grace=9s"], "raise --ttl or lower --grace"),
        (&["--ttl", "25h"], "ttl must be at most"),
        (&["--port", "0"], "--port must be"),
        (&["--host", "a b"], "--host is not"),
        (&["--host=db", "--socket=/s"], two_servers),
        (&["--url=mysql://u@h/d", "--url-file=/f"], two_urls),
    ] {
        refused(run(options), 64, why);
    }
    for (options, why) in [
        (&["--ttl", "30"][..], "'--ttl <DURATION>'"),
        (&["--ttl", "-1s"], "'-1'"),
        (&["--ttl", "99999999999999999999s"], "'--ttl <DURATION>'"),
        (&["--grace", ""], "'--grace <DURATION>'"),
        (&["--wait", "ever"], "'--wait <DURATION|forever>'"),
        (&["--connect-timeout", "5 minuets"], "'--connect-timeout <"),
        (&["-E", "256"], "'--conflict-exit-code <N>'"),
        (&["--holder", &"x".repeat(256)], "255 are allowed"),
        (&["--note", &"x".repeat(1024)], "1023 are allowed"),
        (&["--port", "65536"], "'--port <PORT>'"),
        (&["--ssl-mode", "preferred"], "'--ssl-mode <MODE>'"),
        (&["--once=a\nb"], "the key contains a control character"),
        (&["--once="], "the key is empty"),
        (&["--slots=0"], "0 is not in 1..=1000"),
        (&["--slots=1001"], "1001 is not in 1..=1000"),
        (&["--min-hold=25h"], "at most 1day"),
        (&["--once", "--once-per=1m"], "cannot be used with"),
        (&["--slots=2", "--shared"], "cannot be used with"),
        (&["--slots=2", "--fence"], "cannot be used with"),
        (&["--shared", "--fence"], "cannot be used with"),
        (&["--on-event="], "--on-event"),
        (&["--metrics-file="], "--metrics-file"),
        (&["--metrics-file=/"], "--metrics-file"),
        (&["--metrics-file=.."], "--metrics-file"),
    ] {
        misused(run(options), why);
    }
    for signal in ["SIGSTOP", "CONT", "tstp", "19", "0", "64", "RTMIN", ""] {
        let option = format!("--stop-signal={signal}");
        let invalid = format!("invalid value '{signal}' for '--stop-signal <SIGNAL>'");
        misused(run(&[&option]), &invalid);
        let valid = "name or the number of a signal that ends a process: HUP, INT, QUIT";
        misused(run(&[&option]), valid);
    }
    let once = run(&[]).env("DLOCK_OPT_ONCE", "a\nb");
    misused(once, "the key contains a control character");
    let empty = run(&[]).env("DLOCK_PASSWORD", "");
    refused(empty, 64, "DLOCK_PASSWORD is empty");
    assert!(proxy.sessions().is_empty(), "dlock connected");
}

#[test]
fn an_incomplete_command_line_is_rejected_and_corrected() {
    let usage = "Usage: dlock exec [OPTIONS] <NAME> -- <COMMAND> [ARG]...";
    let marker = "tip: the command must come after --";
    for (words, why) in [
        ("exec -a init", usage),
        ("exec init --", usage),
        ("exec -a init -a other true", marker),
        ("run", "tip: did you mean dlock exec NAME -- COMMAND?"),
    ] {
        Dlock::new(words.split(' ')).expect(64, "", why);
    }
    Dlock::new([""; 0]).run().expect(64, "", "Usage");

    // All missing connection settings are reported in one message.
    let run = || Dlock::new(["exec", "-a", "init"]);
    let no_user = "no user (set --user or DLOCK_USER), no database";
    let no_server =
        format!("no server (set --host or DLOCK_HOST, --socket or DLOCK_SOCKET), {no_user}");
    refused(run(), 64, &no_server);
    let no_database = "no database (set --database or DLOCK_DATABASE)";
    for (url, why) in [
        ("mysql://db", no_user),
        ("mysql://me@db", no_database),
        ("db/dlock", "must begin with mysql://"),
        ("", "must begin with mysql://"),
    ] {
        refused(run().env("DLOCK_URL", url), 64, why);
    }
}

#[test]
fn invalid_action_names_are_rejected() {
    let database = shared(Flavour::of_this_test()).set_up("names");
    let names: [(&[u8], &str); 4] = [
        (b"", "the name is empty"),
        (&[b'x'; 256], "256 bytes; at most 255 are allowed"),
        (b"a\tb", "control character"),
        (b"a\xffb", "UTF-8"),
    ];
    for (name, why) in names {
        let name = OsStr::from_bytes(name);
        let run = || Dlock::on(&database, ["exec", "--nonblock"]);
        misused(run().arg("--action").arg(name), why);
        if !name.is_empty() {
            misused(run().env("DLOCK_OPT_ACTION", name), why);
        }
    }
    assert_eq!(actions(&database), [""; 0]);
}

#[test]
fn unusual_names_are_accepted_and_compared_as_bytes() {
    on_each(|flavour| {
        let database = worst(flavour).database("bytes");
        let holder = Holder::on(&database, &["--action=Init"]);
        // These are similar names, the longest valid names, and names that need quoting in a shell or in SQL.
        let longest = [&*"é".repeat(127), &"x".repeat(255)];
        let similar = ["init", "Init ", "Ínit", "INIT", "Init\u{200d}"];
        let names = [&longest[..], &similar, &["'; --", "%", "größe 数"]].concat();
        for name in &names {
            free(&database, name);
        }
        let run = Dlock::on(&database, ["exec", "--nonblock", "--action=-"]);
        run.args(["--", "true"]).expect(0, "", "");
        refused(exec(&database, "Init"), 75, "Init is held by");
        assert_eq!(actions(&database).len(), names.len() + 2, "{flavour}");
        for (words, shown) in [
            ("status --json", 1),
            ("status --json --all", names.len() + 2),
            ("status --json init", 1),
        ] {
            let document = Dlock::on(&database, words.split(' ')).run().json();
            let locks = document["locks"].as_array().expect("an array");
            assert_eq!(locks.len(), shown, "{words}: {document}");
        }
        assert_eq!(holder.end().status, Some(3));
    });
}
