//! `dlock copy-to`: copies this program to another folder, without connecting to the server. An image that contains
//! only dlock has no `cp`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::Context;

use crate::cli::copy_to::CopyToArgs;
use crate::exit::Status;

/// This program, even if its file has been removed or is in another root directory.
const PROGRAM: &str = "/proc/self/exe";

/// Copies this program to the path in `args`.
///
/// The copy appears under this path only when it is complete, so that a container that is restarted in the middle never
/// leaves half a program. The copy gets the mode of this program's file, which includes the permission to execute it.
///
/// # Errors
/// Fails if the program cannot be read, or if the new file cannot be written.
pub fn run(args: &CopyToArgs) -> anyhow::Result<Status> {
    let unfinished = unfinished(&args.path);
    let copied = fs::copy(PROGRAM, &unfinished)
        .and_then(|_| fs::rename(&unfinished, &args.path))
        .with_context(|| format!("cannot copy {PROGRAM} to {}", args.path.display()));
    if copied.is_err() {
        // The error of the copy is more useful than an error of the removal.
        let _ = fs::remove_file(&unfinished);
    }
    copied?;
    Ok(Status::OK)
}

/// Returns the path of the unfinished copy, in the same folder as `path`, so that it can be renamed to `path`.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", process::id()));
    PathBuf::from(name)
}
