//! Tests that an unread stderr, a hung file or a hung resolver does not delay renewals, signals and releases.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, PipeReader, Read, Write, pipe};
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::cli_runner::{Dlock, PATIENCE, Running, eventually};
use testkit::command::{Stage, write_message};
use testkit::compiler::preload;
use testkit::holder::{Holder, is_free, renewals, wait_renewals};
use testkit::proxy::{Fault, Kind, Proxy};
use testkit::servers::database;
use testkit::terminal::{CTRL_Q, CTRL_S, Terminal};

use crate::logs::messages;

/// The ttl. It is short enough for a test to wait until the ttl has passed.
const TTL: &str = "--ttl=6s";

/// A number of renewals that takes longer than the ttl. dlock renews a lease six times per ttl.
const LONG: u64 = 7;

/// Maximum time from SIGTERM to the exit of dlock. dlock waits two seconds for the reader of stderr. The remaining
/// time is for a busy machine. If dlock blocked on stderr, it would never exit, because the test never reads stderr.
const EXIT_LIMIT: Duration = Duration::from_secs(10);

/// Returns both ends of a full pipe and the number of bytes in the pipe.
fn full_pipe() -> (PipeReader, Stdio, usize) {
    let (reader, mut writer) = pipe().expect("a pipe can be created");
    let size = rustix::pipe::fcntl_getpipe_size(&reader).expect("the pipe has a size");
    writer
        .write_all(&vec![b'.'; size])
        .expect("the pipe is empty");
    (reader, writer.into(), size)
}

#[test]
fn full_stderr_pipe_with_messages_about_failed_renewals_delays_no_renewal_signal_or_release() {
    let database = database();
    let proxy = Proxy::to(database.port);
    let (_reader, stderr, _) = full_pipe();
    let dlock = Dlock::typed(&database.through(proxy.port()), "exec -v --log-format=json");
    let mut holder = Holder::start(dlock.stderr(stderr), &[TTL]);
    for _ in 0..LONG {
        let before = renewals(&database);
        proxy.next(Kind::Renew, Fault::Reset).wait();
        eventually("the lease is renewed again", || {
            assert!(!holder.running.is_over(), "the lease was lost");
            renewals(&database) > before
        });
    }
    let sent = Instant::now();
    let outcome = holder.running.wait_after("TERM");
    let took = sent.elapsed();
    assert_eq!(outcome.status, Some(128 + 15), "{outcome:#?}");
    assert!(took < EXIT_LIMIT, "{took:?}");
    assert!(is_free(&database));
}

#[test]
fn stopped_terminal_delays_no_renewal_and_shows_all_messages_in_order_when_it_is_resumed() {
    let database = database();
    let holder = Holder::on(&database, &["--holder=web-1"]);
    let stage = Stage::new();
    let go = stage.fifo("go");
    let script = format!("read word < {}", go.display());
    let dlock = [env!("CARGO_BIN_EXE_dlock"), "exec", "-a", "init", "-v", TTL];
    let words = [&dlock[..], &["--", "sh", "-c", &script]].concat();
    let mut terminal = Terminal::with(&database, words);
    terminal.sees("init is held by web-1");
    let line = format!("/proc/{}/fd/2", terminal.leader());
    let line = File::options().write(true).open(line);
    let line = line.expect("the terminal can be opened");
    terminal.types(CTRL_S);
    let mut polled = [PollFd::new(&line, PollFlags::OUT)];
    eventually("the terminal accepts no output", || {
        let ready = poll(&mut polled, Some(&Timespec::default()));
        ready.expect("the terminal can be polled") == 0
    });
    assert_eq!(holder.end().status, Some(3));
    eventually("the waiter holds the lock", || !is_free(&database));
    wait_renewals(&database, LONG);
    terminal.types(CTRL_Q);
    write_message(&go, "on");
    assert_eq!(terminal.ends(), Some(0));
    let screen = terminal.screen().to_owned();
    let after = |text: &str| screen.find(text).unwrap_or_else(|| panic!("{screen:?}"));
    assert!(
        after("acquired init in") < after("exited with 0"),
        "{screen:?}"
    );
    assert!(after("exited with 0") < after("is released"), "{screen:?}");
    let line = screen.find("\r\u{1b}[Kdlock: acquired init in");
    assert!(line.is_some(), "{screen:?}");
}

#[test]
fn resumed_reader_gets_the_number_of_dropped_messages() {
    const SENT: usize = 600;
    let database = database();
    let (reader, stderr, size) = full_pipe();
    let exec = ["exec", "-v", "--log-format=json"];
    // The holder renews the lease only after the end of the test, and looks for no sessions of the command, so it prints
    // no messages about renewals.
    let options = ["--ttl=1h", "--server-sessions=ignore"];
    let holder = Holder::start(Dlock::on(&database, exec).stderr(stderr), &options);
    for _ in 0..SENT {
        signal_and_wait(&holder.running);
    }
    let lines = lines(reader, size);
    let mut read = Vec::new();
    let missing = loop {
        let line = lines.recv_timeout(PATIENCE).expect("the count arrives");
        let message = messages(&format!("{line}\n")).remove(0);
        if message["event"] == "messages-dropped" {
            break message;
        }
        read.push(message);
    };
    assert_eq!(missing["level"], "error");
    assert_eq!(missing["action"], "init");
    let text = missing["message"]
        .as_str()
        .expect("the message is a string");
    let count: usize = text
        .strip_suffix(" messages were dropped because stderr was not read in time")
        .and_then(|count| count.parse().ok())
        .unwrap_or_else(|| panic!("{text:?}"));
    let is = |message: &Value, event: &str| message["event"] == event;
    assert!(is(&read[0], "connected"), "{read:?}");
    assert!(is(&read[1], "granted"), "{read:?}");
    assert!(read[2..].iter().all(|message| is(message, "signal")));

    assert_eq!(holder.end().status, Some(3));
    let rest: Vec<String> = lines.iter().collect();
    let mut rest = messages(&(rest.join("\n") + "\n"));
    // Messages about the most recent signals may still arrive, because the monitor reports signals asynchronously.
    let late = rest.iter().filter(|message| is(message, "signal")).count();
    rest.retain(|message| !is(message, "signal"));
    // A test of `src/report/stderr.rs` shows that the count is exact. Here, dlock may have dropped other messages too.
    let unread = SENT - (read.len() - 2) - late;
    assert!(count >= unread && unread > 0, "{count} {unread}");
    assert!(is(&rest[0], "ended"), "{rest:?}");
    assert!(is(&rest[1], "released"), "{rest:?}");
    assert_eq!(rest.len(), 2, "{rest:?}");
}

/// Sends a harmless signal and waits until dlock has received the signal. The kernel would merge two pending copies of
/// the signal.
fn signal_and_wait(running: &Running) {
    let pid = Pid::from_raw(running.pid().cast_signed()).expect("an id");
    kill_process(pid, Signal::URG).expect("dlock lives");
    let is_received = || {
        let status = fs::read_to_string(format!("/proc/{}/status", running.pid()));
        let status = status.expect("dlock lives");
        let waiting = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        waiting.is_some_and(|waiting| waiting.trim().chars().all(|digit| digit == '0'))
    };
    eventually("the signal is received", is_received);
}

/// Skips `filling` bytes of `reader` and returns a channel that receives the remaining lines.
fn lines(reader: PipeReader, filling: usize) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        reader
            .read_exact(&mut vec![0; filling])
            .expect("the pipe is full");
        // If the test has failed, the receiver no longer exists and the send fails.
        for line in reader.lines() {
            let _ = sender.send(line.expect("the text is UTF-8"));
        }
    });
    lines
}

#[test]
fn unread_last_message_does_not_block_the_exit() {
    let database = database();
    let holder = Holder::on(&database, &[]);
    for words in [
        &["exec", "-a", "init", "-w", "50ms", "--", "true"][..],
        &["wait", "init", "--timeout=50ms"],
    ] {
        let (_reader, stderr, _) = full_pipe();
        let outcome = Dlock::on(&database, words).stderr(stderr).run();
        assert_eq!(outcome.status, Some(75), "{words:?}");
    }
    holder.end();
}

#[test]
fn closed_stderr_does_not_fail_the_run() {
    let database = database();
    let (reader, writer) = pipe().expect("a pipe can be created");
    drop(reader);
    let dlock = Dlock::on(&database, ["exec", "-v"]).stderr(writer.into());
    assert_eq!(Holder::start(dlock, &[]).end().status, Some(3));
    assert!(is_free(&database));
}

/// The source of a library whose `statx` never returns for the file `$HANGS`, as on a dead network disk.
const HANGING: &str = r#"
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/stat.h>
    #include <unistd.h>
    int statx(int folder, const char *path, int flags, unsigned mask, struct statx *facts) {
        if (path && strcmp(path, getenv("HANGS")) == 0)
            for (;;) pause();
        int (*real)(int, const char *, int, unsigned, struct statx *) = dlsym(RTLD_NEXT, "statx");
        return real(folder, path, flags, mask, facts);
    }
"#;

#[test]
fn hung_heartbeat_file_does_not_delay_the_command() {
    let database = database();
    let stage = Stage::new();
    let file = stage.path("heartbeat");
    let dlock = Dlock::on(&database, ["exec"])
        .env("LD_PRELOAD", preload(&stage, HANGING))
        .env("HANGS", &file);
    let option = format!("--heartbeat-file={}", file.display());
    let holder = Holder::start(dlock, &["--ttl=30s", &option]);
    assert_eq!(holder.end().status, Some(3));
    assert!(is_free(&database));
}

/// The source of a library that resolves `db.test` to 127.0.0.1. The resolver does not return while the file `$HANGS`
/// exists.
pub(crate) const RESOLVER: &str = r#"
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <netdb.h>
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    typedef int resolver(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                    struct addrinfo **found) {
        if (name && strcmp(name, "db.test") == 0) {
            while (access(getenv("HANGS"), F_OK) == 0) pause();
            name = "127.0.0.1";
        }
        return ((resolver *)dlsym(RTLD_NEXT, "getaddrinfo"))(name, service, hints, found);
    }
"#;

#[test]
fn hung_resolver_delays_no_signal_or_deadline() {
    let database = database();
    let proxy = Proxy::to(database.port);
    let url = database.url_through(proxy.port());
    let url = url.replace("127.0.0.1", "db.test") + "?ssl-mode=disabled";
    let stage = Stage::new();
    let (hangs, library) = (stage.path("hangs"), preload(&stage, RESOLVER));
    let start = || {
        // The file of the previous holder is removed.
        let _ = fs::remove_file(&hangs);
        let dlock = Dlock::new(["exec"])
            .env("DLOCK_URL", &url)
            .env("LD_PRELOAD", &library)
            .env("HANGS", &hangs);
        let holder = Holder::start(dlock, &["--ttl=6s"]);
        fs::write(&hangs, "").expect("the file can be written");
        proxy.reset();
        eventually("dlock reports that the connection is closed", || {
            let stderr = holder.running.stderr_so_far();
            // The second text is printed if a renewal was in flight.
            stderr.contains("the server has closed the connection")
                || stderr.contains("cannot renew init")
        });
        holder
    };

    let holder = start();
    (holder.running.wait_after("TERM")).expect(143, "", "cannot release init");
    start().running.wait().expect(76, "", "cannot keep init");
}
