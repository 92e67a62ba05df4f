//! A pseudo-terminal that runs a program. A test types keys and reads the screen, as a user does.
//!
//! This file starts no thread, because the methods that check the screen also read the output. Dropping a [`Terminal`]
//! hangs up the terminal and ends its program.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, fcntl_setfl, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::cli_runner::{eventually, hear_all_signals, remove_settings};
use crate::servers::Database;

/// The keys that send signals.
pub const CTRL_C: &str = "\x03";
pub const CTRL_Z: &str = "\x1a";
pub const CTRL_BACKSLASH: &str = "\x1c";

/// The keys that stop and resume the output.
pub const CTRL_S: &str = "\x13";
pub const CTRL_Q: &str = "\x11";

/// The prompt of the shell.
const PROMPT: &str = "ready> ";

/// The user's side of a pseudo-terminal, and the program on the other side.
pub struct Terminal {
    /// The user's side of the pseudo-terminal. None after a hangup.
    keys: Option<File>,
    screen: String,
    written: Vec<u8>,
    /// The position in `screen` after the last string that [`Self::sees`] has found.
    seen: usize,
    leader: Child,
}

impl Terminal {
    /// Starts a shell with job control. In this shell, `$dlock` is the path of dlock, and dlock uses `database`.
    #[track_caller]
    pub fn shell(database: &Database) -> Self {
        let words = ["bash", "--norc", "--noprofile", "--noediting", "-i"];
        let mut terminal = Self::with(database, words);
        terminal.prompts();
        terminal
    }

    /// Starts the command `words` as the leader of the terminal's session, like `ssh -t` and `docker run -t`.
    #[track_caller]
    pub fn with<S: AsRef<OsStr>>(database: &Database, words: impl IntoIterator<Item = S>) -> Self {
        hear_all_signals();
        let (keys, line) = open_pty(0, 0);
        fcntl_setfl(&keys, OFlags::RDWR | OFlags::NONBLOCK)
            .expect("the flags of the terminal can be set");
        let stream = || Stdio::from(line.try_clone().expect("a descriptor is available"));
        let mut command = Command::new("setsid");
        remove_settings(&mut command);
        let leader = command
            .arg("--ctty")
            .args(words)
            .env("PS1", PROMPT)
            .env("TERM", "dumb")
            .env("HISTFILE", "")
            .env("dlock", crate::dlock())
            .env("DLOCK_URL", database.url())
            .stdin(stream())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .expect("setsid is installed");
        Self {
            keys: Some(keys),
            screen: String::new(),
            written: Vec::new(),
            seen: 0,
            leader,
        }
    }

    #[track_caller]
    pub fn types(&mut self, keys: &str) -> &mut Self {
        let mut terminal = self.keys.as_ref().expect("the terminal is not hung up");
        terminal
            .write_all(keys.as_bytes())
            .expect("the terminal accepts keys");
        self
    }

    #[track_caller]
    pub fn enters(&mut self, line: &str) -> &mut Self {
        self.types(&format!("{line}\n"))
    }

    /// Waits until `text` is on the screen, after the string that the previous call found.
    #[track_caller]
    pub fn sees(&mut self, text: &str) -> &mut Self {
        eventually(&format!("{text:?} on the screen"), || self.finds(text));
        self
    }

    /// Waits at most `time` until `text` is on the screen, and returns true if it is. Like [`sees`](Self::sees) otherwise.
    /// Checks the screen every millisecond, so that the caller can measure the time.
    pub fn sees_within(&mut self, time: Duration, text: &str) -> bool {
        let started = Instant::now();
        while !self.finds(text) {
            if started.elapsed() > time {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    fn finds(&mut self, text: &str) -> bool {
        self.read_output();
        let found = self.screen[self.seen..].find(text);
        self.seen += found.map_or(0, |at| at + text.len());
        found.is_some()
    }

    #[track_caller]
    pub fn prompts(&mut self) -> &mut Self {
        self.sees(PROMPT)
    }

    pub fn screen(&mut self) -> &str {
        self.read_output();
        &self.screen
    }

    /// Returns all output so far as bytes, including escape sequences.
    pub fn written(&mut self) -> &[u8] {
        self.read_output();
        &self.written
    }

    pub fn becomes(&self, columns: u16, rows: u16) {
        let terminal = self.keys.as_ref().expect("the terminal is not hung up");
        set_size(terminal, columns, rows);
    }

    /// Hangs up the terminal, as if its window were closed.
    pub fn hangs_up(&mut self) {
        self.keys = None;
    }

    /// Waits until the program exits, and returns its status. None if a signal has killed it.
    #[track_caller]
    pub fn ends(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("the program on the terminal ends", || {
            self.read_output();
            status = self.leader.try_wait().expect("a child can be waited for");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    pub fn leader(&self) -> u32 {
        self.leader.id()
    }

    fn read_output(&mut self) {
        let mut bytes = [0; 4096];
        // The loop ends when no more output is available, or when no process has the terminal open.
        while let Some(Ok(count @ 1..)) = self.keys.as_ref().map(|mut keys| keys.read(&mut bytes)) {
            self.written.extend_from_slice(&bytes[..count]);
            self.screen
                .push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.read_output();
            eprintln!("the screen:\n{}", self.screen);
        }
        self.hangs_up();
        // The hangup ends the program unless it has already exited. The kill ends a program that ignores the hangup.
        let _ = self.leader.kill();
        let _ = self.leader.wait();
    }
}

/// Opens a pseudo-terminal; a size of 0 is unknown. Returns the side of the user and the side of the program.
pub fn open_pty(columns: u16, rows: u16) -> (File, File) {
    let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
        .expect("a pseudo-terminal is available");
    grantpt(&user).expect("this process owns the terminal");
    unlockpt(&user).expect("the terminal can be unlocked");
    let name = ptsname(&user, Vec::new()).expect("the terminal has a name");
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let program = open(OsStr::from_bytes(name.to_bytes()), flags, Mode::empty());
    let (user, program) = (user.into(), program.expect("the terminal can be opened"));
    set_size(&user, columns, rows);
    (user, program.into())
}

fn set_size(terminal: &File, columns: u16, rows: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).expect("the terminal has a size");
}
