//! TCP as state machines: no sockets, no clock.
#![forbid(unsafe_code)]

pub mod reordering;
