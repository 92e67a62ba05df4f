//! The start of each command. dlock starts this program with [`BEGIN`], which reports the start to the harness, waits
//! until the harness has looked at the sessions of the server, and then replaces itself with the command. The command
//! has no session before this, so every session of the application at this time belongs to an earlier command.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

pub(crate) const BEGIN: &str = "--begin";

/// Environment variables of a replica: its number, and the path of the harness's socket.
pub(crate) const REPLICA: &str = "MIGRATIONS_REPLICA";
pub(crate) const SOCKET: &str = "MIGRATIONS_SOCKET";

/// Environment variables with the statement of the third migration, and with the statement that replaces it in commands
/// that start after the kill.
pub(crate) const ADD_CURRENCY: &str = "ADD_CURRENCY";
pub(crate) const ADD_CURRENCY_FAST: &str = "ADD_CURRENCY_FAST";

/// The answers of the harness to a command that starts before the kill or after the kill.
const BEFORE: &str = "before";
const AFTER: &str = "after";

/// The line that ends [`listen`].
const END: &str = "end";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// Number of the replica, from 0.
    pub(crate) replica: usize,
    pub(crate) at: Instant,
}

/// Reports the start, waits for the harness, and executes the command `words`.
pub(crate) fn begin(words: &[String]) -> ! {
    let (program, arguments) = words.split_first().expect("a command");
    let variable = |name| std::env::var(name).expect("the replica has the variable");
    let mut stream = UnixStream::connect(variable(SOCKET)).expect("the harness listens");
    writeln!(stream, "{}", variable(REPLICA)).expect("the harness reads");
    let mut answer = String::new();
    BufReader::new(&stream)
        .read_line(&mut answer)
        .expect("the harness answers");
    let mut command = Command::new(program);
    if answer.trim_end() == AFTER
        && let Some(statement) = std::env::var_os(ADD_CURRENCY_FAST)
    {
        command.env(ADD_CURRENCY, statement);
    }
    let error = command.args(arguments).exec();
    panic!("{program}: {error}");
}

/// Calls `on_start` for each command that starts, until [`end`]. A command continues when `on_start` has returned.
/// `on_start` returns true if the command starts after the kill.
pub(crate) fn listen(socket: &UnixListener, mut on_start: impl FnMut(Start) -> bool) {
    for stream in socket.incoming() {
        let mut stream = stream.expect("a connection can be accepted");
        let at = Instant::now();
        let mut line = String::new();
        // A command that is killed at its start sends nothing.
        let length = BufReader::new(&stream).read_line(&mut line).unwrap_or(0);
        if line.trim_end() == END {
            return;
        }
        if length > 0 {
            let replica = line.trim_end().parse().expect("the number of a replica");
            let answer = match on_start(Start { replica, at }) {
                true => AFTER,
                false => BEFORE,
            };
            // The write fails if the command was killed.
            let _ = writeln!(stream, "{answer}");
        }
    }
}

pub(crate) fn end(socket: &Path) {
    let mut stream = UnixStream::connect(socket).expect("the harness listens");
    writeln!(stream, "{END}").expect("the harness reads");
}
