//! A timer on the boot clock, and a function that waits for several descriptors.
//!
//! The time limits of system calls stop while the machine sleeps, but this timer does not. If the set instant passes
//! while the machine sleeps, the timer expires as soon as the machine wakes up.

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

/// A timer, whose descriptor becomes readable at the instant to which the timer is set.
#[derive(Debug)]
pub struct BootTimer(OwnedFd);

impl BootTimer {
    /// Creates a timer that is not set.
    ///
    /// # Errors
    /// Fails if the kernel has no free descriptor.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self(timerfd_create(TimerfdClockId::Boottime, flags)?))
    }

    /// Sets the timer to `instant` and replaces any earlier setting. None disarms the timer.
    ///
    /// # Errors
    /// Fails if the kernel refuses the setting. No cause of such a failure is known.
    pub fn set(&self, instant: Option<BootInstant>) -> io::Result<()> {
        // Zero would disarm the timer, so the earliest instant is one nanosecond after boot.
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

impl AsFd for BootTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits up to `limit` for one of `sources` to become readable or closed. A limit of None waits forever. Returns true
/// for each source that is readable or closed. Returns false for all sources after a timeout.
///
/// # Errors
/// Fails if the kernel is out of memory.
pub fn wait_for<const N: usize>(
    sources: [BorrowedFd<'_>; N],
    limit: Option<Duration>,
) -> io::Result<[bool; N]> {
    let sources = sources.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN));
    wait_for_flags(sources, limit)
}

/// Waits like [`wait_for`], but for the flags in `polled`.
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
