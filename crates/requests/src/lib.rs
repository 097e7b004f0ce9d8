//! The programs of a service: `heddle serve`, `heddle load`, `heddle agent`; and what serves one page, as `heddle metrics` does.
//!
//! | module | what of it |
//! |---|---|
//! | [`serve`] | a server whose requests take memory and time, and whose faults an experiment chooses |
//! | [`load`] | clients that ask it, closed and open loop, and measure |
//! | [`agent`] | how loaded a machine is, for balancers |
//! | [`page`] | a server of one page, which is made for each who asks |
//! | `load_report` | how loaded a server is, as ORCA writes it |
//! | `server` | the event loop of those that serve |
//! | [`http`] | requests and answers as bytes |
//! | `clock`, `descriptors` | the machine's time, and how many files a process may have open |
//!
//! What is asked, when, and which requests a server works on, is decided by the machines of `workload::service`; here are their sockets, clocks and threads.
#![forbid(unsafe_code)]

pub mod agent;
mod clock;
mod descriptors;
mod error;
pub mod http;
pub mod load;
mod load_report;
pub mod page;
pub mod serve;
mod server;

pub use error::Error;
pub use load_report::LoadReport;
pub use server::{Limits, ServerCounters, WhenFull};
