//! What clients ask of controllers, as a machine: requests are drawn, kept until they are answered, timed, and understood.
//!
//! `heddle cluster bench` and `check perf` put a [`Load`] on running controllers; `lab` lets [`Clients`] go through an experiment's operations,
//! live and simulated; the simulated clients that torment servers say with the same [`Layout`] what they ask for and were told.
//!
//! ```text
//!            next: ask, wait, pause, done                       drivers
//!   Script <------------------------------> node::drive (sockets), sim::cluster::session (event queue)
//!    ^  ^            answered
//!    |  └── Load: one operation, evenly spread or as fast as it is answered
//!    └───── lab's script: operations one after another, or all at once
//!   both hold Clients: who waits for what since when, and a Layout: entries as paths and bytes
//! ```
//!
//! What clients ask of a service behind a load balancer is [`service`].
//!
//! What always holds: a client waits for one answer at most, and all that it does follows from the times and answers that it is given.
#![forbid(unsafe_code)]

mod cars;
mod clients;
pub mod entry;
mod known;
mod layout;
mod load;
mod script;
pub mod service;
mod tally;

pub use cars::{ADD_PERSON, CARS, Cars, PEOPLE, container, person};
pub use clients::{Answered, Clients};
pub use known::Known;
pub use layout::Layout;
pub use load::{Load, LoadConfig, Operation};
pub use script::{Next, Script};
pub use tally::{Failures, Tally};
