//! Reads the command line of a test that has no test harness, and runs the parts of such a test.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::thread::{self, ScopedJoinHandle};

use fastrand::Rng;

/// Runs the test `test`: `read` reads its options, and `run` returns true if the test passes.
pub fn main<T>(
    test: &str,
    read: impl Fn(&Arguments) -> Result<T, String>,
    run: impl Fn(&T) -> bool,
) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(arguments) = Arguments::read(test, &arguments) else {
        return ExitCode::SUCCESS;
    };
    match read(&arguments).map(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{test}: {error}");
            ExitCode::from(2)
        }
    }
}

/// The options `--NAME=TEXT` on the command line.
pub struct Arguments<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Arguments<'a> {
    /// Reads the command line of the test `test`. Arguments that `cargo test` passes to every target are also accepted.
    /// Returns None if the command line does not select this test.
    fn read(test: &str, arguments: &'a [String]) -> Option<Self> {
        let mut options = BTreeMap::new();
        let mut filters = Vec::new();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.split_once('=').unwrap_or((argument, "")) {
                ("--list", _) => return None,
                ("--test-threads" | "--format" | "--color" | "--skip" | "-Z", "") => {
                    arguments.next();
                }
                (name, value) if name.starts_with('-') => {
                    options.insert(name, value);
                }
                (filter, _) => filters.push(filter),
            }
        }
        let is_selected = filters.is_empty() || filters.iter().any(|filter| test.contains(filter));
        is_selected.then_some(Self(options))
    }

    /// Returns true if the option is given, with or without a text.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the text of an option. None if it is empty, as `make` passes a variable that is not set.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).copied().filter(|text| !text.is_empty())
    }

    pub fn number<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, String> {
        let number = |text: &str| {
            let number = text.parse();
            number.map_err(|error| format!("{name}={text}: {error}"))
        };
        self.text(name).map(number).transpose()
    }

    /// Returns the words of an option, which commas separate.
    pub fn words(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let words = self.text(name).unwrap_or_default().split(',');
        words.filter(|word| !word.is_empty())
    }

    pub fn seed(&self) -> Result<u64, String> {
        let seed = self.number("--seed")?;
        Ok(seed.unwrap_or_else(|| fastrand::u64(..1_000_000)))
    }
}

/// Returns random numbers that depend only on `seed` and `name`.
pub fn random(seed: u64, name: &str) -> Rng {
    let mut hasher = DefaultHasher::new();
    (seed, name).hash(&mut hasher);
    Rng::with_seed(hasher.finish())
}

/// Returns the program of `DLOCK_UNDER_TEST`, or the dlock that Cargo has built.
pub fn dlock_under_test() -> Result<PathBuf, String> {
    let dlock = std::env::var_os("DLOCK_UNDER_TEST").map_or_else(crate::dlock, PathBuf::from);
    let found = dlock.canonicalize();
    found.map_err(|error| format!("{}: {error}", dlock.display()))
}

/// Calls `work` for each of `items`, in a thread for each, and returns the results. A thread that panicked has printed its
/// message.
pub fn concurrently<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<thread::Result<R>> {
    thread::scope(|scope| {
        let work = &work;
        let start = |item| scope.spawn(move || work(item));
        let threads: Vec<_> = items.into_iter().map(start).collect();
        let results = threads.into_iter().map(ScopedJoinHandle::join);
        results.collect()
    })
}
