//! The integration tests: claims about what a user of the `dlock` program would notice, on real
//! servers. One binary, so that one server of each kind serves all of them.
//!
//! - `servers` starts MariaDB and MySQL, `dlock` runs the program, `command` is what it runs, `proxy` and
//!   `network` are what stands between them
//! - the rest is claims, one subject a file

mod bad_input;
mod command;
mod connection;
mod dlock;
mod network;
mod proxy;
mod secrets;
mod servers;

mod contract;
mod doctor;
mod documents;
mod exclusion;
mod exec;
mod generated;
mod layers;
mod lease;
mod limits;
mod line;
mod signals;
mod status;
mod tls;
mod tree;
mod waiting;
