//! Which processes `dlock hold --pid` may guard.

use std::io;

use crate::cli::hold::OnLost;
use crate::exit::{ExitError, Status};
use crate::sys::ward::Ward;

/// Opens the process with the id `pid`. `on_lost` is None if the user has not chosen it.
///
/// # Errors
/// Fails if there is no such process, or if dlock must not stop it.
pub(super) fn open(pid: u32, on_lost: Option<OnLost>) -> Result<Ward, ExitError> {
    let usage = |why: &str| ExitError::new(Status::USAGE, format!("--pid {pid}: {why}"));
    let ward = Ward::open(pid).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => usage("there is no such process in this process namespace"),
        _ => ExitError::new(
            Status::CONFIG,
            format!("cannot watch process {pid}: {error}"),
        ),
    })?;
    if pid == 1 {
        return Err(usage(
            "dlock cannot stop process 1; let process 1 run the script with dlock exec NAME -- SCRIPT",
        ));
    }
    if ward.is_of_kernel() {
        return Err(usage("the process is a part of the kernel"));
    }
    if ward.is_dlock() {
        return Err(usage("the process is dlock itself"));
    }
    if on_lost != Some(OnLost::Report) && !ward.may_be_stopped() {
        return Err(usage(
            "the process belongs to another user, so dlock cannot stop it; with --on-lost report, dlock only reports \
             that the lock is lost",
        ));
    }
    if on_lost.is_none() && ward.leads_terminal() {
        return Err(usage(
            "the process leads a session on a terminal, like an interactive shell, which dlock would kill if the lock \
             is lost; use dlock exec NAME -- bash for a shell that holds the lock, or choose --on-lost stop or report",
        ));
    }
    Ok(ward)
}
