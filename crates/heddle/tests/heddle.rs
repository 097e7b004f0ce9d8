//! All tests from outside of this crate, in one program: what they share is compiled and linked once.

// Fuzz targets import their macro from a crate of that name.
extern crate self as libfuzzer_sys;

mod architecture;
mod audit;
mod capture;
mod chains;
mod cluster;
mod cluster_check;
mod cluster_runs;
mod command;
mod compare;
mod containers;
mod docs;
mod first_hour;
mod flow_tables;
mod fuzz_targets;
mod host_programs;
mod interrupted;
mod json;
mod live;
mod names;
mod network_commands;
mod other_switches;
mod paths;
mod ports;
mod program;
mod recipes;
mod routed;
mod service_programs;
mod service_runs;
mod services;
mod sysctl;
mod terminals;
mod users;
mod vms;

pub(crate) use fuzz_targets::{Corpus, fuzz_target};
