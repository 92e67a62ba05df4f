//! The options on the command line. Arguments that `cargo test` passes to every target are also accepted.

use std::path::PathBuf;

use crate::fault_kind::FaultKind;
use crate::servers::Flavour;

/// Default length of a chaos run, in seconds. `cargo test` uses this length.
const DEFAULT_SECONDS: u64 = 75;

/// The options of the command line.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    /// Flavours to test. They run concurrently.
    pub(crate) flavours: Vec<Flavour>,
    /// Kinds of faults to inject. If the list is empty, all kinds are injected.
    pub(crate) only: Vec<FaultKind>,
    /// The program under test.
    pub(crate) dlock: PathBuf,
    /// Folder of the histories. None creates a folder in the target folder.
    pub(crate) folder: Option<PathBuf>,
    /// If true, the program starts no run, and only checks the histories in the folder again.
    pub(crate) only_checks: bool,
}

impl Options {
    /// Reads the command line. Returns None if the command line does not select this test.
    pub(crate) fn read(arguments: &[String]) -> Result<Option<Self>, String> {
        let dlock = std::env::var_os("DLOCK_UNDER_TEST")
            .map_or_else(|| env!("CARGO_BIN_EXE_dlock").into(), PathBuf::from);
        let mut options = Self {
            seconds: DEFAULT_SECONDS,
            seed: 0,
            flavours: Flavour::ALL.into(),
            only: Vec::new(),
            dlock: dlock
                .canonicalize()
                .map_err(|error| format!("{}: {error}", dlock.display()))?,
            folder: None,
            only_checks: false,
        };
        let mut seed = None;
        let mut is_selected = true;
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let mut value = || {
                let value = value.clone().or_else(|| arguments.next().cloned());
                value.ok_or_else(|| format!("{name} takes a value"))
            };
            match name {
                "--seconds" => options.seconds = number(&value()?)?,
                "--seed" => seed = Some(value()?).filter(|text| !text.is_empty()),
                "--flavour" => options.flavours = flavours(&value()?)?,
                "--only" => options.only = kinds(&value()?)?,
                "--folder" => options.folder = Some(value()?.into()),
                "--judge" => options.only_checks = true,
                "--test-threads" | "--format" | "--color" | "--skip" | "-Z" => {
                    value()?;
                }
                "--list" => return Ok(None),
                name if name.starts_with('-') => {}
                filter => is_selected = "chaos".contains(filter),
            }
        }
        options.seed = match seed {
            Some(text) => number(&text)?,
            None => getrandom::u64().expect("the system has random numbers") % 1_000_000,
        };
        Ok(is_selected.then_some(options))
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error| format!("{text}: {error}"))
}

fn flavours(text: &str) -> Result<Vec<Flavour>, String> {
    if ["", "both"].contains(&text) {
        return Ok(Flavour::ALL.into());
    }
    let named = |flavour: &Flavour| flavour.to_string() == text;
    let found: Vec<Flavour> = Flavour::ALL.into_iter().filter(named).collect();
    match found.is_empty() {
        true => Err(format!("{text}: mariadb, mysql or both")),
        false => Ok(found),
    }
}

fn kinds(text: &str) -> Result<Vec<FaultKind>, String> {
    let names = text.split(',').filter(|name| !name.is_empty());
    names
        .map(|name| {
            FaultKind::named(name).ok_or_else(|| {
                let all: Vec<String> = FaultKind::ALL.iter().map(FaultKind::to_string).collect();
                format!("{name}: no such fault; the faults are {}", all.join(", "))
            })
        })
        .collect()
}
