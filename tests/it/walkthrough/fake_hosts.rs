//! Simulated hosts: web-1, web-2 and so on, and an operator's host. A preloaded library returns these host names to
//! dlock. All hosts share one database and one folder with the script `migrate.sh`.
//!
//! A shell runs each typed line, and `dlock` in a line is the program under test. The output of a session contains
//! stdout and stderr in the order in which they were written.

use std::path::{Path, PathBuf};

use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{Stage, read_message, write_message};
use testkit::compiler::preload;
use testkit::each_server::set_up;
use testkit::servers::{Database, Flavour};
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

/// The line that is typed on each contender's host.
pub(super) const EXEC: &str = "dlock exec init -- ./migrate.sh";

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
    pub(super) running: Running,
}

impl FakeHosts {
    /// Creates hosts that share a new database. The ttl of all leases is `ttl`.
    pub(super) fn with(flavour: Flavour, ttl: &'static str) -> Self {
        let database = set_up(flavour);
        let stage = Stage::new();
        stage.write("migrate.sh", 0o755, MIGRATE);
        stage.fifo("ready");
        stage.fifo("go");
        Self {
            library: preload(&stage, HOST),
            database,
            stage,
            ttl,
        }
    }

    /// Replaces the server with port 1, on which no server listens.
    pub(super) fn with_server_down(mut self) -> Self {
        self.database.port = 1;
        self
    }

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
        let words = [vec!["env".to_owned()], self.words(OPERATOR, line)].concat();
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

    #[track_caller]
    pub(super) fn holder_and_next(&self) -> [Session; 2] {
        let holder = self.user_starts("web-1", EXEC);
        self.wait_for_migration();
        let next = self.user_starts("web-2", EXEC);
        next.running.wait_for_output("you are next");
        [holder, next]
    }

    /// Waits until `session` migrates, makes `migrate.sh` exit and returns the line of the session with its output.
    #[track_caller]
    pub(super) fn ends_after_migration(&self, session: Session) -> String {
        session.running.wait_for_output("migrating");
        self.wait_for_migration();
        write_message(&self.stage.path("go"), "on");
        session.ends(0)
    }

    /// Waits until `dlock status` reports that the holder with a lease of 20 s does not renew it.
    #[track_caller]
    pub(super) fn wait_until_renewal_is_overdue(&self) {
        let overdue = "renewed_at<UTC_TIMESTAMP(6)-INTERVAL 5 SECOND FROM dlock_lock";
        self.database.wait_until(overdue);
    }

    /// Moves times in the tables to the past and adds renewals, as if the holder had started twelve minutes ago and the
    /// waiters later than the holder. Does not change columns on which grants depend.
    pub(super) fn shift_times_to_the_past(&self) {
        self.database.run(
            "UPDATE dlock_lock SET acquired_at=acquired_at-INTERVAL 754 SECOND,renewals=renewals+150; \
             UPDATE dlock_waiter SET enqueued_at=enqueued_at-INTERVAL 701 SECOND WHERE host='web-2'; \
             UPDATE dlock_waiter SET enqueued_at=enqueued_at-INTERVAL 95 SECOND WHERE host='web-3'",
        );
    }

    fn start(&self, host: &'static str, line: &str, prompt: &str) -> Session {
        let running = Dlock::of(Path::new("env"), self.words(host, line))
            .env("DLOCK_URL", self.database.url())
            .start();
        Session {
            typed: format!("{prompt}{line}\n"),
            running,
        }
    }

    /// Returns the arguments with which env(1) runs `line` in a shell on `host`. The shell redirects stdout to stderr and
    /// changes to the folder. If `line` is a single command, the command replaces the shell.
    fn words(&self, host: &'static str, line: &str) -> Vec<String> {
        let program = Path::new(env!("CARGO_BIN_EXE_dlock"));
        let program = program.parent().expect("the program is in a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        let user = match host {
            OPERATOR => "alice",
            _ => "deploy",
        };
        vec![
            format!("PATH={}:{path}", program.display()),
            format!("LD_PRELOAD={}", self.library.display()),
            format!("WALKTHROUGH_HOST={host}"),
            format!("USER={user}"),
            format!("DLOCK_OPT_TTL={}", self.ttl),
            // These variables are emptied because the tests may run in a pod.
            "POD_NAME=".to_owned(),
            "KUBERNETES_SERVICE_HOST=".to_owned(),
            "sh".to_owned(),
            "-c".to_owned(),
            format!(
                "exec 1>&2; cd '{}'; exec {line}",
                self.stage.path("").display()
            ),
        ]
    }
}

impl Session {
    /// Waits until the line exits, asserts that it exits with `status` and returns the line with its output.
    #[track_caller]
    pub(super) fn ends(self, status: i32) -> String {
        let outcome = self.running.wait();
        assert_eq!(outcome.status, Some(status), "{}{outcome:#?}", self.typed);
        self.typed + &outcome.stderr
    }

    #[track_caller]
    pub(super) fn dies(self) {
        assert_eq!(self.running.wait().status, None, "{}", self.typed);
    }
}
