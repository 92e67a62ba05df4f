//! Tools for benchmarks and long runs: the environment of compared programs, competitors, large databases, measurements,
//! and pages with results.

pub mod etcd;
pub mod fifo;
pub mod host;
pub mod machine;
pub mod markdown;
pub mod population;
pub mod pty;
pub mod sample;
pub mod spawn;
pub mod timing;
pub mod traffic;
