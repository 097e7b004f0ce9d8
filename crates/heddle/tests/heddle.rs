//! All tests from outside of this crate, in one program: what they share is compiled and linked once.

mod architecture;
mod audit;
mod cluster;
mod cluster_check;
mod cluster_runs;
mod command;
mod live;
mod program;
mod recipes;
mod users;
