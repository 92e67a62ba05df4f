//! A child in a process group of its own, beside the command's tree, which one thread starts and waits for.
//!
//! The thread must wait for it: the kernel kills the child when the thread that has started it ends, and
//! the thread that reaps the command's tree leaves the children of other threads alone (`OWN_CHILDREN`).

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, getpid, pidfd_open, waitid};

use super::alarm::wait_for;
use super::inherited;
use super::link::Link;
use super::process::die_with;
use super::signal;
use super::tree::End;

/// Runs `sh -c script` with our environment and `variables`, for `limit` at most and as long as the other end
/// of `link` is open; then kills what is left of its group. It reads nothing and writes to our stderr. Returns
/// how the shell ended; none if it was killed.
///
/// # Errors
/// When the kernel gives no process or no descriptor, or there is no shell.
pub fn run(
    script: &str,
    variables: &[(&str, String)],
    limit: Duration,
    link: &Link,
) -> io::Result<Option<End>> {
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
            inherited::restore_signals();
            die_with(parent)
        });
    }
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    let has_ended = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(held) => {
            wait_for([held.as_fd(), link.as_fd()], Some(limit)).is_ok_and(|[ended, _]| ended)
        }
        // On a kernel before 5.3 nothing limits the wait.
        Err(_) => waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )
        .is_ok(),
    };
    // Until the child is reaped the number of its group is nobody else's.
    signal::send(-pid.as_raw_pid(), libc::SIGKILL);
    let end = child.wait()?.into();
    Ok(has_ended.then_some(end))
}
