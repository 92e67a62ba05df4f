//! Libraries that go before the C library of a program under test, for what no real machine does on
//! demand. The compiler is there: dlock's TLS library could not have been built without it.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::command::Stage;

/// The C text `source` as a library for `LD_PRELOAD`, which lasts as long as `stage`.
#[track_caller]
pub(crate) fn compiled(stage: &Stage, source: &str) -> PathBuf {
    let library = stage.path("preload.so");
    let mut compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-x", "c", "-", "-o"])
        .arg(&library)
        .stdin(Stdio::piped())
        .spawn()
        .expect("cc, the C compiler, is installed");
    let mut stdin = compiler.stdin.take().expect("stdin is a pipe");
    stdin.write_all(source.as_bytes()).expect("cc reads it");
    drop(stdin);
    assert!(compiler.wait().expect("cc runs").success(), "cc failed");
    library
}
