//! The machine that a figure comes from, and how busy it is. No name and no path of it.

use std::fs;
use std::thread;

/// Its processor, and how many of them.
pub(crate) fn processor() -> String {
    let cpuinfo = read("/proc/cpuinfo");
    // arm64 has no such line.
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or(std::env::consts::ARCH, |line| {
        line.trim_start_matches([' ', '\t', ':'])
    });
    let cores = thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {cores} cores")
}

pub(crate) fn kernel() -> String {
    format!("Linux {}", read("/proc/sys/kernel/osrelease").trim())
}

/// How many processes ran or wanted to: the averages over 1, 5 and 15 minutes.
pub(crate) fn load() -> [f64; 3] {
    let text = read("/proc/loadavg");
    let mut words = text.split(' ').map(str::parse);
    [(); 3].map(|()| match words.next() {
        Some(Ok(average)) => average,
        _ => panic!("these are no load averages: {text}"),
    })
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
