//! Reads the processor, the kernel and the load of the machine. The host name is not read.

use std::fs;
use std::thread;

/// Returns the model of the processor and the number of cores.
pub fn processor() -> String {
    let cpuinfo = read("/proc/cpuinfo");
    // arm64 has no line with the model.
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or(std::env::consts::ARCH, |line| {
        line.trim_start_matches([' ', '\t', ':'])
    });
    let cores = thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {cores} cores")
}

pub fn kernel() -> String {
    format!("Linux {}", read("/proc/sys/kernel/osrelease").trim())
}

/// Returns the load averages over 1, 5 and 15 minutes.
pub fn load() -> [f64; 3] {
    let text = read("/proc/loadavg");
    let mut words = text.split(' ').map(str::parse);
    [(); 3].map(|()| match words.next() {
        Some(Ok(average)) => average,
        _ => panic!("not load averages: {text}"),
    })
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
