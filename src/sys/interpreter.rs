//! The interpreter of a program: the program in the first line of a script (`#!`), or the loader of an ELF file. If the
//! interpreter is missing, `execve(2)` fails with the same error as for a missing program.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::process::candidates;

/// The number of bytes of a script that the kernel reads.
const SCRIPT_HEAD: usize = 256;

/// Maximum number of program headers that are searched for the loader. Ordinary programs have about ten.
const MAX_HEADERS: u64 = 64;

/// The type of the program header of the loader (`PT_INTERP`).
const LOADER: u64 = 3;

/// Returns the interpreter of `program`, which is looked up like in `execvp(3)`, if the interpreter does not exist. None
/// if it exists, or if the file cannot be read or has no interpreter. Reads the file, and can therefore block.
#[must_use]
pub fn missing(program: &OsStr, path: Option<&OsStr>) -> Option<String> {
    let file = candidates(program, path).find(|file| file.is_file())?;
    let file = File::open(file).ok()?;
    let name = of_script(&file).or_else(|| of_elf(&file))?;
    let is_missing = !Path::new(OsStr::from_bytes(&name)).exists();
    is_missing.then(|| String::from_utf8_lossy(&name).into_owned())
}

fn of_script(file: &File) -> Option<Vec<u8>> {
    let mut head = [0; SCRIPT_HEAD];
    let length = file.read_at(&mut head, 0).ok()?;
    let line = head[..length]
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let is_separator = |byte: &u8| matches!(byte, b' ' | b'\t' | 0);
    let name = line.split(is_separator).find(|word| !word.is_empty())?;
    Some(name.to_vec())
}

/// Reads the loader of a 64-bit little-endian ELF file. The programs of all supported machines have this format.
fn of_elf(file: &File) -> Option<Vec<u8>> {
    let bytes = |at: u64, length: u64| {
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    };
    let number = |at: u64, length: u64| {
        let digits = bytes(at, length)?.into_iter().rev();
        Some(digits.fold(0, |number, digit| number << 8 | u64::from(digit)))
    };
    if bytes(0, 6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (first, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut headers = (0..count.min(MAX_HEADERS)).filter_map(|n| first.checked_add(n * size));
    let header = headers.find(|header| number(*header, 4) == Some(LOADER))?;
    let length = number(header.checked_add(32)?, 8)?;
    // The kernel refuses a longer name.
    let length = (1..=libc::PATH_MAX as u64)
        .contains(&length)
        .then_some(length)?;
    let mut name = bytes(number(header + 8, 8)?, length)?;
    name.truncate(name.iter().position(|byte| *byte == 0)?);
    Some(name)
}
