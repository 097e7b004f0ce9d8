//! All tests from outside of this crate, in one program: what they share is compiled and linked once.

mod access;
mod commands;
mod leadership;
mod map;
mod membership;
mod timeout;
