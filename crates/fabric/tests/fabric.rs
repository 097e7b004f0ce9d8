//! All tests from outside of this crate, in one program: what they share is compiled and linked once.

mod bonds;
mod chains;
mod cluster;
mod faults;
mod files;
mod flows;
mod hints;
mod hostile;
mod interfaces;
mod messages;
mod names;
mod network;
mod parameters;
mod requests;
mod routes;
mod schema;
mod services;
mod setups;
mod switched_by;
mod switches;
mod time_series;
mod transfers;
mod vms;
