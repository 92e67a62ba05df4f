//! An alarm on the boot clock, and waiting for whatever comes first.
//!
//! The time limits of system calls stop while the machine sleeps; this alarm does not, and goes off
//! at once when a machine wakes up past its time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
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
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: timespec(since_boot),
        };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until one of `sources` is readable or closed, for at most `limit`; none waits for ever. Returns which
/// are: none of them when the time is over.
///
/// # Errors
/// When the kernel is out of memory.
pub fn wait_for<const N: usize>(
    sources: [BorrowedFd<'_>; N],
    limit: Option<Duration>,
) -> io::Result<[bool; N]> {
    let sources = sources.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN));
    wait_for_flags(sources, limit)
}

/// Like [`wait_for`], for other flags.
pub(super) fn wait_for_flags<const N: usize>(
    mut polled: [PollFd<'_>; N],
    limit: Option<Duration>,
) -> io::Result<[bool; N]> {
    let limit = limit.map(timespec);
    retry_on_intr(|| poll(&mut polled, limit.as_ref()))?;
    Ok(polled.map(|source| !source.revents().is_empty()))
}

fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    })
}
