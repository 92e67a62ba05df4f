//! Tests that a stop signal reaches every process of a large process tree, even if dlock has few free descriptors or
//! none.
//!
//! The command is a C program, since a thousand shells would use too many resources.

use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::cli_runner::Dlock;
use testkit::command::{Stage, only_child, read_message};
use testkit::compiler::compile;
use testkit::holder::steal;
use testkit::servers::{Flavour, shared};

/// Source code of the program `crowd LEADERS EACH LOG READY`, which starts LEADERS Unix sessions, each with one leader
/// and EACH other processes. When all processes have started, the first process writes `up` to READY. A process that
/// gets SIGTERM writes a letter to LOG: `x` for the first process, `l` for a leader, `p` for any other process. A
/// parent process exits after its children.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int log_to, ready[2];
static sigset_t term;

static int stay(const char *letter) {
    int signal;
    write(ready[1], letter, 1);
    sigwait(&term, &signal);
    write(log_to, letter, 1);
    while (wait(NULL) > 0) {}
    return 0;
}

int main(int count, char **words) {
    int leaders = atoi(words[1]), each = atoi(words[2]);
    char letter;
    log_to = open(words[3], O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (log_to < 0 || pipe(ready) < 0) return 66;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    for (int leader = 0; leader < leaders; leader++) {
        if (fork() > 0) continue;
        setsid();
        for (int number = 0; number < each; number++) {
            if (fork() == 0) return stay("p");
        }
        return stay("l");
    }
    for (int number = 0; number < leaders * (each + 1); number++) {
        if (read(ready[0], &letter, 1) != 1) return 67;
    }
    int to = open(words[4], O_WRONLY);
    write(to, "up\n", 3);
    close(to);
    return stay("x");
}
"#;

/// In the second half of the test, dlock has 64 descriptors for 1001 processes.
#[test]
fn a_thousand_processes_get_sigterm_when_dlock_has_few_free_descriptors_again() {
    let database = shared(Flavour::of_this_test()).database("crowd");
    let stage = Stage::new();
    let (program, ready) = (stage.path("crowd"), stage.fifo("ready"));
    compile(&[], SOURCE, &program);
    let script = r#"ulimit -n 64; exec "$0" exec -a init -v --ttl=40s --grace=20s -- "$@""#;
    let running = Dlock::of(Path::new("/bin/sh"), ["-c", script])
        .env("DLOCK_URL", database.url())
        .arg(env!("CARGO_BIN_EXE_dlock"))
        .arg(program)
        .args(["10", "99"])
        .arg(stage.path("log"))
        .arg(&ready)
        .start();
    assert_eq!(read_message(&ready), "up");
    let log = || fs::read_to_string(stage.path("log")).expect("the command created the log");

    let monitor = only_child(running.pid()).to_string();
    let limit = |number: u32| {
        let set = Command::new("prlimit")
            .args(["--pid", &monitor, &format!("--nofile={number}:64")])
            .status();
        assert!(set.expect("prlimit is installed").success());
    };
    limit(3);
    steal(&database);
    running.wait_for_output("sending SIGTERM (15)");
    assert_eq!(log(), "", "processes got SIGTERM despite the limit");
    limit(64);
    running.wait().expect(76, "", "lost init: ");
    let log = log();
    let of = |letter| log.chars().filter(|it| *it == letter).count();
    assert_eq!((of('x'), of('l'), of('p')), (1, 10, 990));
    assert_eq!(log.len(), 1001);
}

#[test]
fn a_process_started_by_a_term_handler_gets_no_signal() {
    let database = shared(Flavour::of_this_test()).database("crowd");
    let stage = Stage::new();
    let cleanup = r#"trap "echo stopped" TERM; sleep 0.5 & wait; echo cleaned"#;
    let script = r#"
        trap 'sh -c "$cleanup"; exit 0' TERM
        sleep 600 &
        echo up > "$1"
        wait
    "#;
    let exec = ["exec", "-a", "init", "--ttl=40s", "--grace=20s"];
    let exec = Dlock::on(&database, exec).env("cleanup", cleanup);
    let run = stage.start(exec, script);
    steal(&database);
    run.wait().expect(76, "cleaned\n", "lost init: ");
}
