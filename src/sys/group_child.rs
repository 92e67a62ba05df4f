//! A child in a process group of its own, beside the command's tree, which one thread starts and waits for.
//!
//! It must live on the thread that has started it: the kernel kills the child when that thread ends, and
//! the thread that reaps the command's tree leaves the children of other threads alone
//! (`OWN_CHILDREN`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, getppid, pidfd_open,
    set_parent_process_death_signal, waitid,
};

use super::alarm::wait_for_at_most;
use super::inherited;
use super::link::Link;
use super::signal::{self, Mask};
use super::tree::End;

/// The child.
#[derive(Debug)]
pub struct GroupChild {
    child: Child,
    /// None on a kernel before 5.3: then nothing limits a wait.
    held: Option<OwnedFd>,
}

/// What a wait for a child came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The child has ended.
    Ended,
    /// The time is over.
    TimedOut,
    /// Nobody has the other end of the link any more.
    Closed,
}

impl GroupChild {
    /// Starts `sh -c script` with our environment and `variables`. It reads nothing, writes to our stderr,
    /// and has the signal mask `mask`.
    ///
    /// # Errors
    /// When the kernel gives no process or no descriptor, or there is no shell.
    pub fn spawn(script: &str, variables: &[(&str, String)], mask: Mask) -> io::Result<Self> {
        let parent = getpid();
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(io::stderr().as_fd().try_clone_to_owned()?);
        // SAFETY: these are system calls, which a process forked from one with threads may do.
        unsafe {
            command.pre_exec(move || {
                set_parent_process_death_signal(Some(Signal::KILL))?;
                inherited::restore_signals();
                mask.apply();
                match getppid() == Some(parent) {
                    true => Ok(()),
                    false => Err(io::ErrorKind::BrokenPipe.into()),
                }
            });
        }
        let child = command.spawn()?;
        let held = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
        Ok(Self { child, held })
    }

    /// Waits until the child has ended, for `limit` at most, and not after the other end of `link` is closed.
    #[must_use]
    pub fn wait(&self, limit: Duration, link: &Link) -> Wait {
        let Some(held) = &self.held else {
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            // Fails for no child that has not been waited for.
            let _ = waitid(WaitId::Pid(Pid::from_child(&self.child)), look);
            return Wait::Ended;
        };
        match wait_for_at_most([held.as_fd(), link.as_fd()], limit) {
            Ok(Some([true, _])) => Wait::Ended,
            Ok(Some(_)) => Wait::Closed,
            Ok(None) | Err(_) => Wait::TimedOut,
        }
    }

    /// Kills what is left of the group, and waits until the child itself is dead. Returns how it ended.
    ///
    /// # Errors
    /// None that the kernel is known to have.
    pub fn kill(mut self) -> io::Result<End> {
        // Until the child is reaped the number of its group is nobody else's.
        signal::send(
            -Pid::from_child(&self.child).as_raw_nonzero().get(),
            libc::SIGKILL,
        );
        let status = self.child.wait()?;
        Ok(match status.code() {
            Some(code) => End::Exited(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
            None => End::Killed(status.signal().unwrap_or(libc::SIGKILL)),
        })
    }
}
