//! All tests from outside of this crate, in one program: what they share is compiled and linked once.

mod access;
mod batches;
mod bed;
mod cluster;
mod commits;
mod departure;
mod disk;
mod greeting;
mod hostile;
mod leases;
mod parts;
mod places;
mod quota;
mod removal;
mod version1;
mod wire;
