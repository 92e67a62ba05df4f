//! Simulated hosts: web-1, web-2 and so on, and an operator's host. A preloaded library returns these host names to
//! dlock. All hosts share one database and one folder with the script `migrate.sh`.
//!
//! A shell runs each typed line, and `dlock` in a line is the program under test. The output of a session contains
//! stdout and stderr in the order in which they were written.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mysql::prelude::Queryable;
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{Stage, read_message, write_message};
use testkit::compiler::preload;
use testkit::servers::{Database, Flavour, shared};
use testkit::terminal::Terminal;

/// C source of a library that replaces the host name.
const HOST: &str = r#"
#include <stdlib.h>
#include <stdio.h>

int gethostname(char *name, size_t size) {
    const char *host = getenv("WALKTHROUGH_HOST");
    return snprintf(name, size, "%s", host ? host : "nameless") < 0 ? -1 : 0;
}
"#;

/// A script that writes `up` to the fifo `ready` and waits for a line from the fifo `go`.
const MIGRATE: &str = r#"#!/bin/sh
echo "migrating, token $DLOCK_TOKEN"
echo up > ready
read word < go
echo "done"
"#;

/// The operator's host. The operator's prompt is `$` without a host name.
const OPERATOR: &str = "ops-1";

/// Simulated hosts that share one database.
pub(super) struct FakeHosts {
    database: Database,
    stage: Stage,
    library: PathBuf,
    ttl: &'static str,
}

/// A typed line and the process that runs the line.
pub(super) struct Session {
    typed: String,
    running: Running,
}

impl FakeHosts {
    /// Creates hosts that share a new database. The ttl of all leases is `ttl`.
    pub(super) fn with(flavour: Flavour, ttl: &'static str) -> Self {
        let database = shared(flavour).database("walkthrough");
        Dlock::on(&database, ["setup", "-q"])
            .run()
            .expect(0, "", "");
        let stage = Stage::new();
        let script = stage.path("migrate.sh");
        fs::write(&script, MIGRATE).expect("the script can be written");
        fs::set_permissions(&script, Permissions::from_mode(0o755))
            .expect("the test owns the script");
        stage.fifo("ready");
        stage.fifo("go");
        Self {
            library: preload(&stage, HOST),
            database,
            stage,
            ttl,
        }
    }

    /// Replaces the server with a port on which no server listens.
    pub(super) fn with_server_down(mut self) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        self.database.port = listener
            .local_addr()
            .expect("the listener has an address")
            .port();
        self
    }

    /// Starts `line` on `host`, as the user `deploy`.
    pub(super) fn user_starts(&self, host: &'static str, line: &str) -> Session {
        self.start(host, line, &format!("{host}$ "))
    }

    /// Runs `line` as the operator, asserts that it exits with `status` and returns the line with its output.
    #[track_caller]
    pub(super) fn operator_runs(&self, line: &str, status: i32) -> String {
        self.start(OPERATOR, line, "$ ").ends(status)
    }

    /// Runs `line` as the operator repeatedly until its output contains `text`. Returns the line with its final output.
    #[track_caller]
    pub(super) fn operator_runs_until(&self, line: &str, text: &str) -> String {
        let mut shown = String::new();
        eventually(text, || {
            shown = self.operator_runs(line, 0);
            shown.contains(text)
        });
        shown
    }

    /// Runs `line` as the operator on a terminal, confirms its question and returns the line with its output.
    #[track_caller]
    pub(super) fn operator_confirms(&self, line: &str) -> String {
        let words = self.environment(OPERATOR).map(|(name, value)| {
            let value = value.to_str().expect("the paths are UTF-8").to_owned();
            format!("{name}={value}")
        });
        let words = ["env".to_owned()].into_iter().chain(words).chain([
            "sh".to_owned(),
            "-c".to_owned(),
            self.script(line),
        ]);
        let mut terminal = Terminal::with(&self.database, words);
        terminal.sees("[y/N] ");
        terminal.enters("y");
        assert_eq!(terminal.ends(), Some(0), "{}", terminal.screen());
        format!("$ {line}\n{}", terminal.screen().replace('\r', ""))
    }

    /// Waits until `migrate.sh` has started on a host. The script then waits for [`Self::end_migration`].
    #[track_caller]
    pub(super) fn wait_for_migration(&self) {
        assert_eq!(read_message(&self.stage.path("ready")), "up");
    }

    /// Makes the running `migrate.sh` exit.
    #[track_caller]
    pub(super) fn end_migration(&self) {
        write_message(&self.stage.path("go"), "on");
    }

    /// Moves times in the tables to the past and adds renewals, as if the holder had started twelve minutes ago and the
    /// waiters later than the holder. Does not change columns on which grants depend.
    pub(super) fn shift_times_to_the_past(&self) {
        let mut admin = self.database.admin_conn();
        for statement in [
            "UPDATE dlock_lock SET acquired_at=acquired_at-INTERVAL 754 SECOND,renewals=renewals+150",
            "UPDATE dlock_waiter SET enqueued_at=enqueued_at-INTERVAL 701 SECOND WHERE host='web-2'",
            "UPDATE dlock_waiter SET enqueued_at=enqueued_at-INTERVAL 95 SECOND WHERE host='web-3'",
        ] {
            admin
                .query_drop(statement)
                .expect("the rows can be updated");
        }
    }

    fn start(&self, host: &'static str, line: &str, prompt: &str) -> Session {
        let dlock = Dlock::of(Path::new("sh"), ["-c", &self.script(line)]);
        let environment = self.environment(host).into_iter();
        let running = environment
            .fold(dlock, |dlock, (name, value)| dlock.env(name, value))
            .env("DLOCK_URL", self.database.url())
            .start();
        Session {
            typed: format!("{prompt}{line}\n"),
            running,
        }
    }

    /// Returns a shell script that redirects stdout to stderr, changes to the folder and runs `line`. If `line` is a
    /// single command, the command replaces the shell.
    fn script(&self, line: &str) -> String {
        let folder = self.stage.path("");
        format!("exec 1>&2; cd '{}'; exec {line}", folder.display())
    }

    fn environment(&self, host: &'static str) -> [(&'static str, PathBuf); 7] {
        let program = Path::new(env!("CARGO_BIN_EXE_dlock"));
        let folder = program.parent().expect("the program is in a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        let user = match host {
            OPERATOR => "alice",
            _ => "deploy",
        };
        [
            ("PATH", format!("{}:{path}", folder.display()).into()),
            ("LD_PRELOAD", self.library.clone()),
            ("WALKTHROUGH_HOST", host.into()),
            ("USER", user.into()),
            ("DLOCK_OPT_TTL", self.ttl.into()),
            // These variables are emptied because the tests may run in a pod.
            ("POD_NAME", PathBuf::new()),
            ("KUBERNETES_SERVICE_HOST", PathBuf::new()),
        ]
    }
}

impl Session {
    /// Waits until the output contains `text`.
    #[track_caller]
    pub(super) fn wait_for_output(&self, text: &str) {
        self.running.wait_for_output(text);
    }

    /// Sends a signal to the process.
    #[track_caller]
    pub(super) fn signal(&self, signal: &str) {
        self.running.signal(signal);
    }

    pub(super) fn crash(&self) {
        self.running.crash();
    }

    /// Waits until the line exits, asserts that it exits with `status` and returns the line with its output.
    #[track_caller]
    pub(super) fn ends(self, status: i32) -> String {
        let outcome = self.running.wait();
        assert_eq!(outcome.status, Some(status), "{}{outcome:#?}", self.typed);
        self.typed + &outcome.stderr
    }

    /// Waits until a signal has killed the process.
    #[track_caller]
    pub(super) fn dies(self) {
        assert_eq!(self.running.wait().status, None, "{}", self.typed);
    }
}
