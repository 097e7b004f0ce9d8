//! Who gets the next connection: a service's servers, how loaded and how well they are, and the schedulers that choose among them.
//!
//! [`Service`] is one virtual service as a state machine. It reads no clock and sends nothing: its driver says when a connection opens, is
//! answered and closes, what agents report and what health checks find; the answer to an opening is a server.
//!
//! ```text
//!  new connection ----> client limit -> persistence -> scheduler -> server, or why none
//!                                                         ^
//!  answered, closed --> counts, estimates, ejection ------+
//!  agents' reports ---> load, overload -------------------+
//!  health checks -----> up, down -------------------------+
//! ```
//!
//! | part | where |
//! |---|---|
//! | what a service is configured to do | [`config`] |
//! | one virtual service | `service` |
//! | its list of servers, and who of them may get connections | `servers`, `server` |
//! | what is learned of servers from their answers | `estimate` |
//! | what agents say, and when that is overload | `load` |
//! | servers whose connections fail | `ejection` |
//! | clients that stay with their server; how many connections each may open | `persistence`, `client_limit`, `client_table` |
//! | who gets the next one | `scheduler/`, a module each |
//!
//! | which clients may open connections at all | `source_filter` |
//! | when servers are probed, and what follows | [`health`] |
//! | agents' texts | [`agent`] |
//! | who of several balancers is active | `vrrp` |
//! | which site a name leads to | [`names`] |
//!
//! Invariants: a server that is out gets no connection unless the service is in panic; what was opened and not closed is active or
//! inactive at exactly one server; the same seed and the same calls give the same choices.
#![forbid(unsafe_code)]

mod address;
pub mod agent;
mod client_limit;
mod client_table;
pub mod config;
mod crowding;
mod ejection;
mod estimate;
mod event;
pub mod health;
mod load;
pub mod names;
mod persistence;
mod scheduler;
mod server;
mod server_id;
mod servers;
mod service;
mod silence;
mod source_filter;
mod vrrp;

pub use client_limit::ClientLimit;
pub use config::{CLIENTS_MAX, Panic, SERVERS_MAX, Scheduler, ServerSpec, ServiceSpec, SpecError, WEIGHT_MAX};
pub use ejection::{Ejection, EjectionReason, Failure};
pub use event::{EVENTS_MAX, Event};
pub use load::{LoadReport, Overload, Threshold};
pub use persistence::Persistence;
pub use server::{Outcome, ServerStatus, Unavailable};
pub use server_id::ServerId;
pub use service::{Client, Refusal, Refused, Service};
pub use source_filter::{
    AddressRange, Country, CountryError, CountryList, CountryRules, Denied, Overlap, SourceFilter,
};
pub use vrrp::{Advertisement, OWNER_PRIORITY, RESIGNED, Vrrp, VrrpInput, VrrpOutput, VrrpSpec, VrrpState};
