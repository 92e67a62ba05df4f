//! The options on the command line.

use std::path::PathBuf;
use std::str::FromStr;

use strum::VariantNames;
use testkit::arguments::{Arguments, dlock_under_test};

use crate::fault_kind::FaultKind;
use crate::topology::Topology;

#[derive(Debug)]
pub(crate) struct Options {
    /// Length of each chaos run. None uses the length of a short run.
    pub(crate) seconds: Option<u64>,
    pub(crate) seed: u64,
    /// Topologies to test. The topologies in one element run concurrently.
    pub(crate) topologies: Vec<Vec<Topology>>,
    /// Kinds of faults to inject. If the list is empty, all kinds are injected.
    pub(crate) only: Vec<FaultKind>,
    pub(crate) dlock: PathBuf,
}

impl Options {
    pub(crate) fn read(arguments: &Arguments) -> Result<Self, String> {
        let names = ["--topology", "--flavour"];
        let name = names.iter().find_map(|name| arguments.text(name));
        // `cargo test` passes neither.
        let is_full = names.iter().any(|name| arguments.has(name));
        let topologies = match name.filter(|name| *name != "both") {
            Some(name) => vec![vec![named(name)?]],
            None if is_full => vec![Topology::SINGLE.into()],
            None => vec![Topology::SINGLE.into(), Topology::TESTED.into()],
        };
        Ok(Self {
            seconds: arguments.number("--seconds")?,
            seed: arguments.seed()?,
            topologies,
            only: arguments
                .words("--only")
                .map(named)
                .collect::<Result<_, _>>()?,
            dlock: dlock_under_test()?,
        })
    }
}

fn named<T: FromStr + VariantNames>(name: &str) -> Result<T, String> {
    let names = T::VARIANTS.join(", ");
    name.parse()
        .map_err(|_| format!("{name}: not one of {names}"))
}
