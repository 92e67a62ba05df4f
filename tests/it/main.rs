//! The integration tests check the behaviour of the `dlock` program on real servers. All integration tests are in one
//! binary, so that they share one server of each kind.
//!
//! - Tools that run programs: `servers` starts MariaDB and MySQL, `clusters` starts clusters of them, `cli_runner` runs dlock, `holder` starts a holder
//!   that a test controls, and `terminal` provides a pseudo-terminal.
//! - Tools that provide commands: `command` and `recorder` contain commands for dlock to run, and `compiler` builds C
//!   programs and libraries.
//! - Network tools: `proxy` and `network` inject faults, `middle` starts HAProxy and MySQL Router, and `multiplexer` shares one session among clients.
//! - Tests: each other module tests one subject.

mod bad_input;
mod browser;
mod cli_runner;
mod clusters;
mod command;
mod compiler;
mod connection;
mod contract;
mod holder;
mod middle;
mod multiplexer;
mod network;
mod old_replica;
mod proxy;
mod prune;
mod read_only_server;
mod recorder;
mod secrets;
mod servers;
mod terminal;

mod clients;
mod clocks;
mod completions;
mod cron;
mod crowd;
mod deadline_properties;
mod diagnosis;
mod doctor;
mod documents;
mod driver_patterns;
mod examples;
mod exec;
mod faults;
mod fence;
mod first_steps;
mod generated;
mod handoff;
mod hidden_processes;
mod hide_credentials;
mod history;
mod hold;
mod hold_pid;
mod hook;
mod hosts;
mod inherited_state;
mod job_control;
mod late_grant;
mod layers;
mod leader;
mod lease;
mod logs;
mod metrics;
mod mutants;
mod mutual_exclusion;
mod nested;
mod once;
mod operator;
mod option_precedence;
mod output_files;
mod own_socket;
mod pid_one;
mod queue;
mod regressions;
mod release;
mod reminders;
mod runtime_limits;
mod serve;
mod server_sessions;
mod session_settings;
mod sessions;
mod several;
mod signals;
mod slots;
mod slow_reader;
mod snapshots;
mod start_failures;
mod static_build;
mod status;
mod status_sessions;
mod stop_signal;
mod store_contract;
mod tables;
mod tls;
mod topologies;
mod translation;
mod tree;
mod true_messages;
mod two_servers;
mod unproven_success;
mod versions;
mod vocabulary;
mod wait_command;
mod waiting;
mod waiting_line;
mod walkthrough;
mod watch;
