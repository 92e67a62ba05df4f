//! A command that keeps a record of every signal that it gets, and dies of none.
//!
//! A C program: a shell cannot trap all signals, merges those that come together, and reacts only between two commands.
//! The compiler is there: dlock's TLS library could not have been built without it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::command::{Stage, tell};
use crate::compiler::compile;
use crate::dlock::eventually;

/// Every signal that a process can catch, but for two that the C library keeps for itself.
pub(crate) fn catchable() -> impl Iterator<Item = i32> {
    (1..=64).filter(|number| ![9, 19, 32, 33].contains(number))
}

/// Those of them that by default do nothing or stop a process: CHLD, CONT, TSTP, TTIN, TTOU, URG, WINCH.
pub(crate) const HARMLESS: [i32; 7] = [17, 18, 20, 21, 22, 23, 28];

/// Those of them that end a process by default.
pub(crate) fn deadly() -> impl Iterator<Item = i32> {
    catchable().filter(|number| !HARMLESS.contains(number))
}

/// `record LOG GO` appends the number of each signal that arrives to LOG, after a first line `up`, and exits with the
/// status that somebody writes to the fifo GO. `list FILE` writes to FILE which descriptors it has, the mode
/// and the file of each. `alarmed COMMAND…` becomes COMMAND with an alarm set: SIGALRM comes in
/// 3 seconds.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <unistd.h>

static int take(int signals, int log) {
    struct signalfd_siginfo info;
    if (read(signals, &info, sizeof info) != sizeof info) return 0;
    dprintf(log, "%u\n", info.ssi_signo);
    return 1;
}

static int list(const char *file) {
    static char text[65536];
    int length = 0;
    for (int number = 0; number < 1024; number++) {
        char path[32], target[256] = "";
        int flags = fcntl(number, F_GETFL);
        if (flags < 0) continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        if (readlink(path, target, sizeof target - 1) < 0) return 66;
        length += snprintf(text + length, sizeof text - length, "%d %x %s\n", number, flags, target);
    }
    int to = open(file, O_WRONLY | O_CREAT, 0600);
    return to < 0 || write(to, text, length) != length;
}

int main(int count, char **words) {
    if (count == 3 && strcmp(words[1], "list") == 0) return list(words[2]);
    if (count > 2 && strcmp(words[1], "alarmed") == 0) {
        struct itimerval timer = {{0, 0}, {3, 0}};
        setitimer(ITIMER_REAL, &timer, NULL);
        execvp(words[2], words + 2);
        return 127;
    }
    if (count != 4) return 64;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    int signals = signalfd(-1, &all, SFD_NONBLOCK);
    int log = open(words[2], O_WRONLY | O_APPEND | O_CREAT, 0600);
    int go = open(words[3], O_RDONLY | O_NONBLOCK);
    if (signals < 0 || log < 0 || go < 0) return 66;
    dprintf(log, "up\n");
    struct pollfd sources[] = {{signals, POLLIN, 0}, {go, POLLIN, 0}};
    int status = 0;
    char letter;
    for (;;) {
        poll(sources, 2, -1);
        while (take(signals, log)) {}
        if (read(go, &letter, 1) <= 0) continue;
        if (letter == '\n') return status;
        status = status * 10 + letter - '0';
    }
}
"#;

/// The program.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = PROGRAM.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("recorder");
        compile(&[], SOURCE, &path);
        (folder, path)
    });
    path
}

/// One run of it, by way of dlock.
pub(crate) struct Recorder {
    log: PathBuf,
    go: PathBuf,
}

impl Recorder {
    /// The recorder `name`; not running yet.
    pub(crate) fn on(stage: &Stage, name: &str) -> Self {
        Self {
            log: stage.path(&format!("log-{name}")),
            go: stage.fifo(&format!("go-{name}")),
        }
    }

    /// The command that runs it.
    pub(crate) fn command(&self) -> [PathBuf; 4] {
        [
            program().to_owned(),
            "record".into(),
            self.log.clone(),
            self.go.clone(),
        ]
    }

    /// The same as words that a shell takes as they are.
    pub(crate) fn words(&self) -> String {
        self.command()
            .map(|word| word.display().to_string())
            .join(" ")
    }

    /// What has arrived so far; none if it does not run yet.
    pub(crate) fn log(&self) -> Option<Vec<i32>> {
        let text = fs::read_to_string(&self.log).ok()?;
        let whole = text.rsplit_once('\n')?.0;
        let numbers = whole.strip_prefix("up")?.split_whitespace();
        Some(
            numbers
                .map(|number| number.parse().expect("a number"))
                .collect(),
        )
    }

    /// Waits until it runs.
    #[track_caller]
    pub(crate) fn is_up(&self) {
        eventually("the recorder is up", || self.log().is_some());
    }

    /// Waits until the last that has arrived is `number`.
    #[track_caller]
    pub(crate) fn got(&self, number: i32) {
        eventually(&format!("signal {number} arrives"), || {
            self.log().is_some_and(|log| log.last() == Some(&number))
        });
    }

    /// Lets it exit with `status`.
    #[track_caller]
    pub(crate) fn exit(&self, status: i32) {
        tell(&self.go, &status.to_string());
    }
}
