//! Compiles the C programs and libraries of the tests. The tests use C for faults that cannot be caused in another way,
//! and for code that safe Rust does not allow. Every machine that builds dlock has a C compiler, since dlock's TLS
//! library needs a compiler.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::Stage;

/// Compiler options for a library that is loaded before the C library of a program under test (`LD_PRELOAD`).
pub const LIBRARY: &[&str] = &["-shared", "-fPIC"];

/// Compiles the C source code `source` with the compiler options `options` to the file `target`.
#[track_caller]
pub fn compile(options: &[&str], source: &str, target: &Path) {
    let mut compiler = Command::new("cc")
        .args(options)
        .args(["-w", "-x", "c", "-", "-o"])
        .arg(target)
        .stdin(Stdio::piped())
        .spawn()
        .expect("cc, the C compiler, is installed");
    let mut stdin = compiler.stdin.take().expect("stdin is a pipe");
    stdin
        .write_all(source.as_bytes())
        .expect("cc reads the source code");
    drop(stdin);
    assert!(compiler.wait().expect("cc runs").success(), "cc failed");
}

/// Compiles the C source code `source` to a library for `LD_PRELOAD` and returns the path of the library. Dropping
/// `stage` deletes the library.
#[track_caller]
pub fn preload(stage: &Stage, source: &str) -> PathBuf {
    let library = stage.path("preload.so");
    compile(LIBRARY, source, &library);
    library
}
