//! The two processes of `dlock hold --pid`: the one that the shell has started, called the front here, and the one in the
//! background, which acquires and holds the lock.
//!
//! The front waits for the grant, passes signals to the other process, prints commands for the shell, and exits. It prints
//! one list of commands that the shell runs with `eval`. The first part, `false ||`, is printed before the wait: if the front
//! is killed, the shell finds a syntax error instead of running on without the lock.

use std::fs::File;
use std::io::{self, PipeWriter, Read};
use std::os::fd::{AsFd, OwnedFd};

use crate::exit::Status;
use crate::outcome::RunOutcome;
use crate::process::supervisor::StopReason;
use crate::report;
use crate::sys::boot_timer::wait_for;
use crate::sys::process::{self, ForkedProcess};
use crate::sys::signal::{JobControl, SignalFd, is_fatal};
use crate::sys::tree::ExitReason;
use crate::sys::{inherited, input};

/// Printed before the wait. The shell runs the command that follows.
const BEFORE: &str = "false || ";

/// The last byte of the commands in the pipe.
pub(super) const END: u8 = 0;

/// The two processes.
pub(super) enum Side {
    /// The front, when it has printed its commands. Contains its exit status.
    Front(Status),
    /// The process in the background.
    Background(Link),
}

/// The connection of the process in the background to the front.
pub(super) struct Link {
    /// The pipe for the commands. A write does not block.
    pub(super) commands: File,
    /// A pipe that ends with the front.
    pub(super) front: File,
}

/// Starts the process in the background, which returns at once. Returns in this process when the other one holds the lock or
/// has ended. This process must not have started a thread.
///
/// # Errors
/// Fails if the kernel cannot create a process or a descriptor.
pub(super) fn split() -> io::Result<Side> {
    // The process in the background inherits the blocked signals, so none is lost.
    let signals = SignalFd::open(JobControl::Usual)?;
    let (reader, commands) = input::pipe()?;
    let (front, writer) = io::pipe()?;
    if let Some(background) = process::split()? {
        drop((commands, front));
        return run_front(&background, reader, &signals, writer).map(Side::Front);
    }
    drop((reader, writer, signals));
    process::begin_session(process::HOLDER)?;
    inherited::close_descriptors();
    Ok(Side::Background(Link {
        commands,
        front: File::from(OwnedFd::from(front)),
    }))
}

fn run_front(
    background: &ForkedProcess,
    mut commands: File,
    signals: &SignalFd,
    _alive: PipeWriter,
) -> io::Result<Status> {
    report::result(BEFORE)?;
    let (mut text, mut interrupted) = (Vec::new(), None);
    let status = loop {
        let ended = background.try_wait();
        // The pipe does not block. The monitor of the other process may keep it open.
        let at_end = commands.read_to_end(&mut text).is_ok();
        if interrupted.is_none()
            && let Some(commands) = text.strip_suffix(&[END])
        {
            report::result(&String::from_utf8_lossy(commands))?;
            return Ok(Status::OK);
        }
        if let Some(status) = ended {
            break RunOutcome::of(ExitReason::from(status), StopReason::None, None).status();
        }
        let source = match at_end {
            true => signals.as_fd(),
            false => commands.as_fd(),
        };
        // The end of the other process is a signal, too.
        let [_, has_signal] = wait_for([source, signals.as_fd()], None)?;
        if has_signal
            && let Ok(signal) = signals.take()
            && is_fatal(signal.number)
        {
            // From now on, the shell gets no grant, because the other process may release the lock.
            interrupted = Some(signal.number);
            background.signal(signal.number);
        }
    };
    let status = match interrupted {
        Some(number) if status == Status::OK => {
            RunOutcome::of(ExitReason::Killed(number), StopReason::None, None).status()
        }
        None if !text.is_empty() => Status::INTERNAL,
        _ => status,
    };
    print_failure(status)?;
    Ok(status)
}

/// Prints the command with which a shell stops under `set -e`, because it does not hold the lock.
///
/// # Errors
/// Fails if stdout cannot be written.
pub(super) fn print_failure(status: Status) -> io::Result<()> {
    report::result(&format!("(exit {})\n", status.code()))
}
