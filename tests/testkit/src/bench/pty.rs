//! A pseudo-terminal of a given size.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Opens a pseudo-terminal. Returns the side of the user and the side of the program.
pub fn open_pty(columns: u16, rows: u16) -> (File, File) {
    let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
        .expect("a pseudo-terminal is available");
    grantpt(&user).expect("this process owns the terminal");
    unlockpt(&user).expect("the terminal can be unlocked");
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&user, size).expect("the terminal has a size");
    let name = ptsname(&user, Vec::new()).expect("the terminal has a name");
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let program = open(OsStr::from_bytes(name.to_bytes()), flags, Mode::empty());
    (
        user.into(),
        program.expect("the terminal can be opened").into(),
    )
}
