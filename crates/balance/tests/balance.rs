//! All tests from outside of this crate, in one program: what they share is compiled and linked once.

mod health;
mod queueing;
mod service;
