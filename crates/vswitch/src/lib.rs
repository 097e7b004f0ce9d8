//! A switch's decisions: which flow a packet belongs to, where its destination lies, which of the equal ways it takes.
//!
//! The same functions decide for a frame of bytes (live) and for a packet that is only a record (simulated).
#![forbid(unsafe_code)]

pub mod spread;
mod switch;

pub use switch::{Forwarding, Switch};
