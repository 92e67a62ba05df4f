//! The options on the command line. Arguments that `cargo test` passes to every target are also accepted.

use std::path::PathBuf;

use crate::fault_kind::FaultKind;
use crate::topology::Topology;

/// The options of the command line.
#[derive(Debug)]
pub(crate) struct Options {
    /// Length of each chaos run. None uses the length of the topology's short run.
    pub(crate) seconds: Option<u64>,
    pub(crate) seed: u64,
    /// Topologies to test. The topologies in one element run concurrently.
    pub(crate) topologies: Vec<Vec<Topology>>,
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
            seconds: None,
            seed: 0,
            topologies: vec![Topology::SINGLE.into(), Topology::TESTED.into()],
            only: Vec::new(),
            dlock: dlock
                .canonicalize()
                .map_err(|error| format!("{}: {error}", dlock.display()))?,
            folder: None,
            only_checks: false,
        };
        let mut seed = None;
        let (mut flavour, mut topology) = (String::new(), None);
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
                "--seconds" => options.seconds = Some(number(&value()?)?),
                "--seed" => seed = Some(value()?).filter(|text| !text.is_empty()),
                "--flavour" => flavour = value()?,
                "--topology" => topology = Some(value()?),
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
        match topology.as_deref() {
            // `cargo test` passes no topology.
            None if flavour.is_empty() => {}
            None | Some("") => options.topologies = vec![flavours(&flavour)?],
            Some(name) => options.topologies = vec![vec![named(name)?]],
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

fn flavours(text: &str) -> Result<Vec<Topology>, String> {
    if ["", "both"].contains(&text) {
        return Ok(Topology::SINGLE.into());
    }
    let mut found = Vec::from(Topology::SINGLE);
    found.retain(|topology| topology.to_string() == text);
    match found.is_empty() {
        true => Err(format!("{text}: mariadb, mysql or both")),
        false => Ok(found),
    }
}

fn named(text: &str) -> Result<Topology, String> {
    let mut others = Topology::OTHERS.into_iter();
    let found = others.find(|topology| topology.to_string() == text);
    found.ok_or_else(|| {
        let names: Vec<String> = Topology::OTHERS.iter().map(Topology::to_string).collect();
        format!(
            "{text}: no such topology; the topologies are {}",
            names.join(", ")
        )
    })
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
