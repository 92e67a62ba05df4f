//! The example clients in `examples/clients/`, each with the same tests.
//!
//! The programs in `tests/it/clients/` use a client. They read commands from stdin, and print an answer for each
//! command, and a line `lost` when the client reports a loss.

mod rounds;

use std::env;
use std::fs;
use std::io::{self, PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::Stage;
use testkit::holder::Holder;
use testkit::repository;
use testkit::servers::{Database, Flavour, fetched, shared};

use crate::examples::installed;

/// Options of `dlock hold` for locks that are lost in a test.
const SHORT: &[&str] = &["--ttl=10s"];

/// Options of `dlock hold` for locks that only a release frees during a test.
const LONG: &[&str] = &["--ttl=1h"];

/// The first lock of a program. Its name is also the name of a field of the events.
const FIRST: &str = "stop_at_ms";

/// A language with an example client.
#[derive(Debug, Clone, Copy)]
enum Language {
    Python,
    Node,
    Rust,
    Go,
}

impl Language {
    const ALL: [Self; 4] = [Self::Python, Self::Node, Self::Rust, Self::Go];

    /// Returns the program that uses the client, and its first arguments.
    fn program(self) -> (PathBuf, Vec<PathBuf>) {
        static RUST: OnceLock<PathBuf> = OnceLock::new();
        static GO: OnceLock<PathBuf> = OnceLock::new();
        match self {
            // -B: Python writes no compiled files into the folder of the example.
            Self::Python => (fetched("python3"), vec!["-B".into(), driver("driver.py")]),
            Self::Node => (fetched("node"), vec![driver("driver.mjs")]),
            Self::Rust => (RUST.get_or_init(compile_rust).clone(), vec![]),
            Self::Go => (GO.get_or_init(compile_go).clone(), vec![]),
        }
    }
}

fn driver(name: &str) -> PathBuf {
    repository().join("tests/it/clients").join(name)
}

/// Returns the folder for the compiled programs.
fn target() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients");
    fs::create_dir_all(&folder).expect("the target folder is writable");
    folder
}

/// Compiles a program with `compiler`, and returns its path. Another run of the tests may use the program at the same
/// time.
fn compile(compiler: &mut Command, name: &str, advice: &str) -> PathBuf {
    let program = target().join(name);
    let new = target().join(format!("{name}.{}", process::id()));
    let result = compiler.arg("-o").arg(&new).output();
    let output = result.unwrap_or_else(|error| panic!("no compiler: {error}; {advice}"));
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {why}");
    fs::rename(&new, &program).expect("the file can be renamed");
    program
}

fn compile_rust() -> PathBuf {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut rustc = Command::new(rustc);
    rustc.args(["--edition=2024", "--deny=warnings"]);
    rustc.arg(driver("driver.rs"));
    compile(&mut rustc, "rust", "install Rust, as for dlock itself")
}

/// Copies the example, a package, and the program into a module, because the packages of Go have folders of their own.
fn compile_go() -> PathBuf {
    let stage = Stage::new();
    let module = stage.path("");
    fs::create_dir(module.join("dlock")).expect("the folder is new");
    let copy = |from: &Path, to: &str| {
        fs::copy(from, module.join(to)).expect("the file can be copied");
    };
    let example = repository().join("examples/clients/dlock.go");
    copy(&example, "dlock/dlock.go");
    copy(&driver("driver.go"), "driver.go");
    fs::write(module.join("go.mod"), "module clients\n\ngo 1.20\n").expect("the folder is new");
    let mut go = Command::new(fetched("go"));
    go.current_dir(&module)
        .arg("build")
        .env("CGO_ENABLED", "0")
        .env("GOCACHE", target().join("go-cache"))
        .env("XDG_CONFIG_HOME", target().join("go-config"))
        .env("GOFLAGS", "")
        .env("GOPROXY", "off")
        .env("GOTOOLCHAIN", "local");
    compile(&mut go, "go", "tests/servers/fetch go")
}

/// A program that uses a client for two locks, [`FIRST`] and `second`.
struct Program {
    running: Running,
    commands: PipeWriter,
    answers: usize,
}

impl Program {
    fn start(language: Language, database: &Database, options: &[&str]) -> Self {
        let (program, arguments) = language.program();
        let (stdin, commands) = io::pipe().expect("a pipe");
        let running = Dlock::of(&program, arguments)
            .args([FIRST, "second"])
            .args(options)
            .env("DLOCK_URL", database.url())
            .env("PATH", path())
            .stdin(stdin.into())
            .start();
        Self {
            running,
            commands,
            answers: 0,
        }
    }

    #[track_caller]
    fn ask(&mut self, command: &str) -> String {
        writeln!(self.commands, "{command}").expect("the program reads its commands");
        let mut answer = None;
        eventually(command, || {
            let is_over = self.running.is_over();
            let stdout = self.running.stdout_so_far();
            // The last line may be incomplete.
            let lines = stdout.split_inclusive('\n');
            let lines = lines.filter_map(|line| line.strip_suffix('\n'));
            let mut answers = lines.filter(|line| !["lost", "2:lost"].contains(line));
            answer = answers.nth(self.answers).map(str::to_owned);
            let stderr = self.running.stderr_so_far();
            assert!(answer.is_some() || !is_over, "{command}: the end: {stderr}");
            answer.is_some()
        });
        self.answers += 1;
        answer.expect("the loop ends with an answer")
    }

    #[track_caller]
    fn expect(&mut self, command: &str, answer: &str) {
        let found = self.ask(command);
        let stderr = self.running.stderr_so_far();
        assert_eq!(found, answer, "{command}: {stderr}");
    }

    /// Returns the token of the first lock.
    #[track_caller]
    fn token(&mut self) -> u64 {
        self.ask("token").parse().expect("a token")
    }

    /// Returns how often the program was told that the first lock is lost.
    fn losses(&self) -> usize {
        losses(&self.running.stdout_so_far())
    }

    /// Waits until the program was told that the lock is lost, and asserts that the other functions report it too.
    #[track_caller]
    fn expect_loss(mut self) {
        eventually("the program is told that the lock is lost", || {
            self.losses() == 1
        });
        self.expect("valid", "false");
        self.expect("unlock", "error: the lock was lost");
        self.expect("valid", "false");
        assert_eq!(self.end(), 1);
    }

    /// Ends the program, which holds no lock, and returns how often it was told that its lock is lost.
    #[track_caller]
    fn end(mut self) -> usize {
        writeln!(self.commands, "quit").expect("the program reads its commands");
        losses(&self.running.wait().exited(0).stdout)
    }

    /// Returns the id of the only dlock that the program has started.
    #[track_caller]
    fn dlock(&self) -> u32 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.running.pid()));
        let mut pids = Vec::new();
        for task in tasks.expect("the program runs") {
            let path = task.expect("a thread").path().join("children");
            // A thread may have ended.
            let children = fs::read_to_string(path).unwrap_or_default();
            let is_dlock = |pid: &&str| {
                let name = fs::read_to_string(format!("/proc/{pid}/comm"));
                name.is_ok_and(|name| name == "dlock\n")
            };
            let children = children.split_whitespace().filter(is_dlock);
            pids.extend(children.map(|pid| pid.parse::<u32>().expect("a process id")));
        }
        assert_eq!(pids.len(), 1, "{pids:?}");
        pids[0]
    }
}

fn losses(stdout: &str) -> usize {
    stdout.lines().filter(|line| *line == "lost").count()
}

fn path() -> String {
    let folder = installed().display();
    format!("{folder}:{}", env::var("PATH").unwrap_or_default())
}

/// Runs `test` for each language at the same time, with a database of its own on MariaDB or MySQL.
fn each(test: fn(Language, Database)) {
    let flavours = Flavour::ALL.into_iter().cycle();
    thread::scope(|scope| {
        for (language, flavour) in Language::ALL.into_iter().zip(flavours) {
            thread::Builder::new()
                .name(format!("{language:?} on {flavour}"))
                .spawn_scoped(scope, move || {
                    test(language, shared(flavour).database("clients"));
                })
                .expect("a thread can be started");
        }
    });
}

/// Returns a run that acquires the lock `name`, at most within `wait`.
fn contend(database: &Database, name: &str, wait: &str) -> Dlock {
    Dlock::on(database, ["exec", name, "--wait", wait, "--", "true"])
}

#[test]
fn program_waits_holds_its_locks_and_releases_them() {
    each(|language, database| {
        let holder = Holder::on(&database, &["--action", FIRST]);
        let mut program = Program::start(language, &database, LONG);
        program.expect("valid", "false");
        program.expect("try 0", "false");
        let started = Instant::now();
        program.expect("try 1", "false");
        assert!(started.elapsed() >= Duration::from_secs(1));
        program.expect("valid", "false");
        assert_eq!(holder.end().status, Some(3));

        let contends = |name, status| contend(&database, name, "0").run().exited(status);
        program.expect("try 0", "true");
        program.expect("valid", "true");
        let status = Dlock::on(&database, ["status", FIRST, "--json"])
            .run()
            .json();
        let first = program.token();
        assert_eq!(status["locks"][0]["token"], first, "{status}");
        contends(FIRST, 75);
        // The locks of a program are independent.
        program.expect("2:lock", "ok");
        program.expect("valid", "true");
        program.expect("unlock", "ok");
        program.expect("valid", "false");
        contends(FIRST, 0);
        program.expect("2:valid", "true");
        contends("second", 75);
        program.expect("2:unlock", "ok");
        contends("second", 0);

        program.expect("try 600", "true");
        assert!(program.token() > first);
        program.expect("unlock", "ok");
        program.expect("lock", "ok");
        program.expect("valid", "true");
        assert_eq!(program.losses(), 0);
        // The end of the program releases its lock.
        program.running.signal("KILL");
        contend(&database, FIRST, "10m").run().exited(0);
    });
}

#[test]
fn program_is_told_that_an_operator_has_released_its_lock() {
    each(|language, database| {
        let mut program = Program::start(language, &database, SHORT);
        program.expect("lock", "ok");
        let released = Dlock::on(&database, ["release", FIRST, "--yes", "--operator=ops"]).run();
        released.expect(0, "", "is released");
        program.expect_loss();
    });
}
