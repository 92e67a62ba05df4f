//! The integration tests check the behaviour that a user of the `dlock` program sees, on real servers. They are one
//! binary, so that all tests share one server of each kind.
//!
//! - Tools: `servers` starts MariaDB and MySQL, `dlock` runs the program, `command` and `recorder` are commands for it
//!   to run, `holder` is a run that a test controls, `terminal` is a pseudo-terminal, `proxy` and `network` are the
//!   connection to the server, `multiplexer` shares one session among clients, and `compiler` builds C programs and
//!   libraries.
//! - Every other file tests one subject.

mod bad_input;
mod cli_runner;
mod command;
mod compiler;
mod connection;
mod holder;
mod multiplexer;
mod network;
mod proxy;
mod recorder;
mod secrets;
mod servers;
mod terminal;

mod clocks;
mod cron;
mod crowd;
mod deadline_properties;
mod diagnosis;
mod doctor;
mod documents;
mod examples;
mod exec;
mod faults;
mod fence;
mod generated;
mod handoff;
mod history;
mod hook;
mod inherited_state;
mod job_control;
mod late_grant;
mod layers;
mod lease;
mod logs;
mod metrics;
mod mutants;
mod mutual_exclusion;
mod nested;
mod once;
mod pid_one;
mod queue;
mod regressions;
mod release;
mod runtime_limits;
mod sessions;
mod signals;
mod slow_reader;
mod snapshots;
mod static_build;
mod status;
mod store_contract;
mod tls;
mod tree;
mod versions;
mod vocabulary;
mod wait_command;
mod waiting;
mod walkthrough;
mod watch;
