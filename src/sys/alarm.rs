//! An alarm on the boot clock, and waiting for whatever comes first.
//!
//! The time limits of system calls stop while the machine sleeps; this alarm does not, and goes off
//! at once when a machine wakes up past its time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::lease::instant::BootInstant;

/// A descriptor that becomes readable at an instant.
#[derive(Debug)]
pub struct Alarm(OwnedFd);

impl Alarm {
    /// An alarm that is not set.
    ///
    /// # Errors
    /// When the kernel has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self(timerfd_create(TimerfdClockId::Boottime, flags)?))
    }

    /// Goes off at `instant` and not at any time set before; never, if there is none.
    ///
    /// # Errors
    /// None that the kernel is known to have.
    pub fn set(&self, instant: Option<BootInstant>) -> io::Result<()> {
        // All zeros would turn the alarm off: an instant that is past is a nanosecond after boot.
        let since_boot = instant.map_or(Duration::ZERO, |instant| {
            instant.since_boot().max(Duration::from_nanos(1))
        });
        let value = Timespec {
            tv_sec: i64::try_from(since_boot.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: since_boot.subsec_nanos().into(),
        };
        let once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        timerfd_settime(
            &self.0,
            TimerfdTimerFlags::ABSTIME,
            &Itimerspec {
                it_interval: once,
                it_value: value,
            },
        )?;
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until one of `sources` has something to say; tells which.
///
/// # Errors
/// When the kernel is out of memory.
pub fn wait_for<const N: usize>(sources: [BorrowedFd<'_>; N]) -> io::Result<[bool; N]> {
    wait(sources, None)
}

/// The same, for at most `patience`; none if none of them had anything to say by then.
///
/// # Errors
/// When the kernel is out of memory.
pub fn wait_for_at_most<const N: usize>(
    sources: [BorrowedFd<'_>; N],
    patience: Duration,
) -> io::Result<Option<[bool; N]>> {
    let limit = Timespec::try_from(patience).map_err(|_| io::ErrorKind::InvalidInput)?;
    let ready = wait(sources, Some(&limit))?;
    Ok(Some(ready).filter(|ready| ready.contains(&true)))
}

fn wait<const N: usize>(
    sources: [BorrowedFd<'_>; N],
    limit: Option<&Timespec>,
) -> io::Result<[bool; N]> {
    let mut polled = sources.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN));
    loop {
        match poll(&mut polled, limit) {
            Ok(_) => return Ok(polled.map(|source| !source.revents().is_empty())),
            Err(error) if error == rustix::io::Errno::INTR => {}
            Err(error) => return Err(error.into()),
        }
    }
}
