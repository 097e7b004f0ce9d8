//! All tests from outside of this crate, in one program: what they share is compiled and linked once.

mod common;
mod growth;
mod lease_parts;
mod leases;
mod moves;
mod past;
mod path;
mod sessions;
mod snapshot;
mod tree_model;
mod watch;
