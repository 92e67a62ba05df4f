//! A child in its own process group, outside the command's tree. The thread that starts the child must also wait for
//! it.
//!
//! There are two reasons. First, the kernel kills the child when the thread that started the child ends. Second, the
//! thread that reaps the command's tree does not reap the children of other threads (`OWN_CHILDREN`).

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, getpid, pidfd_open, waitid};

use super::boot_timer::wait_for;
use super::channel::Channel;
use super::inherited;
use super::process::die_with;
use super::signal;
use super::tree::ExitReason;

/// Runs `sh -c script` with this process's environment without `hidden`, and with `variables`. Waits until the shell exits, `limit` has
/// passed, or the other end of `link` is closed, and then kills all remaining processes in the shell's group. The
/// shell's stdin is empty. The shell's stdout and stderr are this process's stderr. Returns how the shell ended.
/// None if the limit passed or the link was closed before the shell exited.
///
/// # Errors
/// Fails if the kernel cannot create a process or a descriptor, or if there is no shell.
pub fn run(
    script: &str,
    variables: &[(&str, String)],
    hidden: &[OsString],
    limit: Duration,
    link: &Channel,
) -> io::Result<Option<ExitReason>> {
    let parent = getpid();
    let mut command = Command::new("sh");
    for name in hidden {
        command.env_remove(name);
    }
    command
        .args(["-c", script])
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .process_group(0)
        .stdin(inherited::null()?)
        .stdout(io::stderr().as_fd().try_clone_to_owned()?);
    // SAFETY: the closure makes only system calls, which are allowed in the child of a process that has several
    // threads.
    unsafe {
        command.pre_exec(move || {
            inherited::restore_signals();
            die_with(parent)
        });
    }
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    let has_ended = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => {
            wait_for([pidfd.as_fd(), link.as_fd()], Some(limit)).is_ok_and(|[ended, _]| ended)
        }
        // The kernel has created no pidfd, for example because the kernel is older than Linux 5.3, so this wait has no
        // limit.
        Err(_) => waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )
        .is_ok(),
    };
    // The kernel does not reuse the group's id before the child is reaped.
    signal::send(-pid.as_raw_pid(), libc::SIGKILL);
    let end = child.wait()?.into();
    Ok(has_ended.then_some(end))
}
