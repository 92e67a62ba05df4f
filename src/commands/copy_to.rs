//! `dlock copy-to`: copies this program to another folder, without connecting to the server. An image that contains
//! only dlock has no `cp`.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Context;

use crate::cli::copy_to::CopyToArgs;
use crate::exit::Status;
use crate::sys::output_file;

/// This program, even if its file has been removed or is in another root directory.
const PROGRAM: &str = "/proc/self/exe";

/// Copies this program to the path in `args`.
///
/// The copy appears under this path only when it is complete, so that a container that is restarted in the middle never
/// leaves half a program. A new file gets the mode of this program's file, and an existing file gets its execute
/// permissions.
///
/// # Errors
/// Fails if the program cannot be read, or if the new file cannot be written.
pub fn run(args: &CopyToArgs) -> anyhow::Result<Status> {
    copy(&args.path)
        .with_context(|| format!("cannot copy {PROGRAM} to {}", args.path.display()))?;
    Ok(Status::OK)
}

fn copy(path: &Path) -> io::Result<()> {
    let mut program = File::open(PROGRAM)?;
    let mode = program.metadata()?.mode();
    output_file::write(path, mode, |copy| io::copy(&mut program, copy).map(drop))
}
