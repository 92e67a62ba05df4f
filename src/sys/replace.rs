//! Becoming the command: this process ends and the command goes on in its place.
//!
//! On the main thread, when there is no other.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

use super::inherited;
use super::process::Unstartable;

/// Becomes `command`, a program and its arguments, with everything that this process was started
/// with: environment, streams, ignored and blocked signals. Returns only why it could not.
#[must_use]
pub fn with(command: &[OsString]) -> Unstartable {
    let texts: Result<Vec<CString>, _> = command
        .iter()
        .map(|text| CString::new(text.as_bytes()))
        .collect();
    let texts = match texts {
        Ok(texts) if !texts.is_empty() => texts,
        _ => return Unstartable::NotExecutable(io::ErrorKind::InvalidInput.into()),
    };
    let mut arguments: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
    arguments.push(std::ptr::null());
    inherited::restore_signals();
    inherited::restore_streams();
    // SAFETY: the texts live until the call returns, and a null pointer ends their list, which is not
    // empty.
    unsafe { libc::execvp(arguments[0], arguments.as_ptr()) };
    Unstartable::from_errno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
}
