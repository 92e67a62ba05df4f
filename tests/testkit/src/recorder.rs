//! A command that records every signal that it can catch. None of these signals ends the command.
//!
//! It is a C program because a shell cannot trap all signals, merges signals that arrive together, and reacts only
//! between two commands. A C compiler is available, because the build of dlock's TLS library needs a C compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::cli_runner::eventually;
use crate::command::{Stage, write_message};
use crate::compiler::compile;

/// Returns every signal that a process can catch, except the two signals that the C library reserves.
pub fn catchable() -> impl Iterator<Item = i32> {
    (1..=64).filter(|number| ![9, 19, 32, 33].contains(number))
}

/// The catchable signals that do not end a process by default: CHLD, CONT, TSTP, TTIN, TTOU, URG, WINCH.
pub const HARMLESS: [i32; 7] = [17, 18, 20, 21, 22, 23, 28];

/// Returns the catchable signals that end a process by default.
pub fn fatal() -> impl Iterator<Item = i32> {
    catchable().filter(|number| !HARMLESS.contains(number))
}

/// The source of the program:
/// - `record LOG GO` writes the line `up` to LOG and then appends the number of each signal that arrives. It exits with
///   the status that a test writes to the fifo GO.
/// - `list FILE` writes the number, the flags and the path of each of its open descriptors to FILE.
/// - `alarmed COMMAND…` sets an alarm that sends SIGALRM after 10 seconds, and then executes COMMAND. On a busy
///   machine, dlock may need seconds to start its command.
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
        struct itimerval timer = {{0, 0}, {10, 0}};
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

/// Returns the path of the program. The first call compiles the program.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = PROGRAM.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let path = folder.path().join("recorder");
        compile(&[], SOURCE, &path);
        (folder, path)
    });
    path
}

pub struct Recorder {
    log: PathBuf,
    go: PathBuf,
}

impl Recorder {
    /// Prepares the recorder `name` without starting it.
    pub fn on(stage: &Stage, name: &str) -> Self {
        Self {
            log: stage.path(&format!("log-{name}")),
            go: stage.fifo(&format!("go-{name}")),
        }
    }

    pub fn command(&self) -> [PathBuf; 4] {
        [
            program().to_owned(),
            "record".into(),
            self.log.clone(),
            self.go.clone(),
        ]
    }

    /// Returns the command as words for a shell. The words need no quotes.
    pub fn words(&self) -> String {
        self.command()
            .map(|word| word.display().to_string())
            .join(" ")
    }

    /// Returns the signals that have arrived so far. Returns None if the recorder has not started.
    pub fn log(&self) -> Option<Vec<i32>> {
        let text = fs::read_to_string(&self.log).ok()?;
        let whole = text.rsplit_once('\n')?.0;
        let numbers = whole.strip_prefix("up")?.split_whitespace();
        Some(
            numbers
                .map(|number| number.parse().expect("the string is a number"))
                .collect(),
        )
    }

    #[track_caller]
    pub fn is_up(&self) {
        eventually("the recorder is up", || self.log().is_some());
    }

    /// Waits until the most recent signal that has arrived is `number`.
    #[track_caller]
    pub fn got(&self, number: i32) {
        eventually(&format!("signal {number} arrives"), || {
            self.log().is_some_and(|log| log.last() == Some(&number))
        });
    }

    #[track_caller]
    pub fn exit(&self, status: i32) {
        write_message(&self.go, &status.to_string());
    }
}
