//! Stdin and stdout as the pipes to another program, which ends something by the end of stdin.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use rustix::fs::{FileType, fstat};
use rustix::pipe::{PipeFlags, pipe_with};

/// Pause after a read that a terminal has refused, because this process is in the background.
const PAUSE: Duration = Duration::from_millis(200);

/// The kind of stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// A pipe or a socket. A program has the other end.
    Pipe,
    /// A terminal.
    Terminal,
    /// Something else, for example `/dev/null`. Its end has no meaning.
    Other,
}

/// Returns the kind of stdin.
#[must_use]
pub fn kind() -> InputKind {
    let stat = fstat(io::stdin());
    match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::Fifo | FileType::Socket) => InputKind::Pipe,
        Ok(FileType::CharacterDevice) if rustix::termios::isatty(io::stdin()) => {
            InputKind::Terminal
        }
        _ => InputKind::Other,
    }
}

/// Returns copies of stdin and stdout. They stay open when the inherited descriptors are closed.
///
/// # Errors
/// Fails if the kernel has no free descriptor.
pub fn copies() -> io::Result<(File, File)> {
    let copy = |stream: BorrowedFd| stream.try_clone_to_owned().map(File::from);
    Ok((copy(io::stdin().as_fd())?, copy(io::stdout().as_fd())?))
}

/// Returns the read end and the write end of a pipe that does not block.
///
/// # Errors
/// Fails if the kernel has no free descriptor.
pub fn pipe() -> io::Result<(File, File)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    Ok((reader.into(), writer.into()))
}

/// Reads `input` and ignores what it reads. Returns at the end of it.
pub fn wait_for_end(input: &mut File) {
    let mut ignored = [0; 4096];
    loop {
        match input.read(&mut ignored) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The signal for this case is blocked.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => thread::park_timeout(PAUSE),
            Err(_) => return,
        }
    }
}
