//! All tests from outside of this crate, in one program: what they share is compiled and linked once.

mod autotuning;
mod balancers;
mod bonds;
mod captures;
mod chains;
mod cluster;
mod congestion;
mod cores;
mod elections;
mod hosts;
mod impairments;
mod linearizability;
mod network;
mod pipelines;
mod requests;
mod reroute;
mod runs;
mod scenario;
mod spec3;
mod switches;
mod time_series;
mod transfers;
