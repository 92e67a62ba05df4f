//! Where the stories happen: machines called web-1, web-2 and so on, whose dlock takes that name for
//! its host's, and an operator's; all on one database, in one folder with the script `migrate.sh`.
//!
//! What is typed is a line for a shell, in which `dlock` is the program under test. A session's
//! output is what both of its streams say, in their order.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mysql::prelude::Queryable;

use crate::command::{Stage, heard, tell};
use crate::compiler::preload;
use crate::dlock::{Dlock, Running, eventually};
use crate::servers::{Database, Flavour, shared};
use crate::terminal::Terminal;

/// The machine's name, and nothing else of it, is another.
const HOST: &str = r#"
#include <stdlib.h>
#include <stdio.h>

int gethostname(char *name, size_t size) {
    const char *host = getenv("WALKTHROUGH_HOST");
    return snprintf(name, size, "%s", host ? host : "nameless") < 0 ? -1 : 0;
}
"#;

/// Announces itself, and hangs until it is let go.
const MIGRATE: &str = r#"#!/bin/sh
echo "migrating, token $DLOCK_TOKEN"
echo up > ready
read word < go
echo "done"
"#;

/// The operator's machine, whose prompt is a bare `$`.
const OPERATOR: &str = "ops-1";

pub(super) struct Place {
    database: Database,
    stage: Stage,
    library: PathBuf,
    ttl: &'static str,
}

/// A line that was typed, and what it runs.
pub(super) struct Session {
    typed: String,
    running: Running,
}

impl Place {
    /// Machines with a database of their own, whose leases last for `ttl`.
    pub(super) fn with(flavour: Flavour, ttl: &'static str) -> Self {
        let database = shared(flavour).database("walkthrough");
        Dlock::on(&database, ["setup", "-q"])
            .run()
            .expect(0, "", "");
        let stage = Stage::new();
        let script = stage.path("migrate.sh");
        fs::write(&script, MIGRATE).expect("the script can be written");
        fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("it is ours");
        stage.fifo("ready");
        stage.fifo("go");
        Self {
            library: preload(&stage, HOST),
            database,
            stage,
            ttl,
        }
    }

    /// The same with a server that is down.
    pub(super) fn whose_server_is_down(mut self) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there are ports");
        self.database.port = listener.local_addr().expect("it has one").port();
        self
    }

    /// Types `line` on `host`, as the user of its deployments.
    pub(super) fn types(&self, host: &'static str, line: &str) -> Session {
        self.start(host, line, &format!("{host}$ "))
    }

    /// Types `line` as the operator; what is shown when it has ended with `status`.
    #[track_caller]
    pub(super) fn asks(&self, line: &str, status: i32) -> String {
        self.start(OPERATOR, line, "$ ").ends(status)
    }

    /// Types `line` as the operator again and again, until what it says has `text` in it.
    #[track_caller]
    pub(super) fn asks_until(&self, line: &str, text: &str) -> String {
        let mut shown = String::new();
        eventually(text, || {
            shown = self.asks(line, 0);
            shown.contains(text)
        });
        shown
    }

    /// Types `line` as the operator, on a terminal, and says yes when asked.
    #[track_caller]
    pub(super) fn agrees(&self, line: &str) -> String {
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

    /// Waits until a `migrate.sh` has begun, which then hangs.
    #[track_caller]
    pub(super) fn migrates(&self) {
        assert_eq!(heard(&self.stage.path("ready")), "up");
    }

    /// Lets it come to its end.
    #[track_caller]
    pub(super) fn lets_go(&self) {
        tell(&self.stage.path("go"), "on");
    }

    /// Makes a while have passed: the times in the tables, and the renewals, are as if the holder had come
    /// twelve minutes earlier and the waiters after it. Nothing that decides who holds what is touched.
    pub(super) fn ages(&self) {
        let mut admin = self.database.admin_conn();
        for statement in [
            "UPDATE dlock_lock SET acquired_at=acquired_at-INTERVAL 754 SECOND,renewals=renewals+150",
            "UPDATE dlock_waiter SET since=since-INTERVAL 701 SECOND WHERE host='web-2'",
            "UPDATE dlock_waiter SET since=since-INTERVAL 95 SECOND WHERE host='web-3'",
        ] {
            admin
                .query_drop(statement)
                .expect("the rows can be changed");
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

    /// `line` in the folder, in the shell's own process if it is one command, and all that it says on stderr.
    fn script(&self, line: &str) -> String {
        let folder = self.stage.path("");
        format!("exec 1>&2; cd '{}'; exec {line}", folder.display())
    }

    fn environment(&self, host: &'static str) -> [(&'static str, PathBuf); 7] {
        let program = Path::new(env!("CARGO_BIN_EXE_dlock"));
        let folder = program.parent().expect("it is in a folder");
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
            // The tests may run in a pod.
            ("POD_NAME", PathBuf::new()),
            ("KUBERNETES_SERVICE_HOST", PathBuf::new()),
        ]
    }
}

impl Session {
    /// Waits until `text` was said.
    #[track_caller]
    pub(super) fn heard(&self, text: &str) {
        self.running.heard(text);
    }

    #[track_caller]
    pub(super) fn signal(&self, signal: &str) {
        self.running.signal(signal);
    }

    /// What is shown when it has ended with `status`.
    #[track_caller]
    pub(super) fn ends(self, status: i32) -> String {
        let outcome = self.running.wait();
        assert_eq!(outcome.status, Some(status), "{}{outcome:#?}", self.typed);
        self.typed + &outcome.stderr
    }

    /// Waits for its end by a signal.
    #[track_caller]
    pub(super) fn dies(self) {
        assert_eq!(self.running.wait().status, None, "{}", self.typed);
    }
}
