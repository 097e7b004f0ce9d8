//! `heddle load`: clients that ask a service, and measure.
//!
//! ```text
//!   workload::service::Generator -- Start --> Client (a connection) --> Finished --> Generator
//! ```

mod client;
mod config;
mod connect;
mod parted;
mod run;

pub use config::{Connections, LoadConfig, Progress};
pub use run::{run, run_following};
