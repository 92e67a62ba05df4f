//! The integration tests: claims about what a user of the `dlock` program would notice, on real
//! servers. One binary, so that one server of each kind serves all of them.
//!
//! - `servers` starts MariaDB and MySQL, `dlock` runs the program, `command` and `recorder` are what it runs,
//!   `holder` is a run that a test lets go, `terminal` is where it is typed, `proxy` and `network` are what stands
//!   between it and a server, `multiplexer` shares one session, `preload` what a program takes for its C library
//! - the rest is claims, one subject a file

mod bad_input;
mod command;
mod compiler;
mod connection;
mod dlock;
mod holder;
mod multiplexer;
mod network;
mod proxy;
mod recorder;
mod secrets;
mod servers;
mod terminal;

mod arithmetic;
mod clocks;
mod contract;
mod cron;
mod crowd;
mod diagnosis;
mod doctor;
mod documents;
mod examples;
mod exclusion;
mod exec;
mod faults;
mod fence;
mod generated;
mod history;
mod hook;
mod inherited;
mod jobs;
mod late;
mod layers;
mod lease;
mod limits;
mod line;
mod logs;
mod metrics;
mod nested;
mod notice;
mod once;
mod pid_one;
mod regressions;
mod release;
mod sessions;
mod signals;
mod slow_reader;
mod static_build;
mod status;
mod tls;
mod tree;
mod twins;
mod wait_command;
mod waiting;
mod walkthrough;
mod watch;
