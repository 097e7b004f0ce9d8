//! An event loop that serves HTTP, and lines to those who only connect: what `serve` and `agent` have in common.
//!
//! ```text
//!   sockets --> Connection --> Service::request --> now: the answer
//!      ^                                       \--> later: a Ticket, and Service::poll has the answer when there is one
//!      +----------- Connection <-------------------------+
//! ```
//!
//! What always holds: one request of a connection is answered after another; heads, bodies, connections and time are bounded; a client that reads slowly costs the
//! memory of one answer.

mod connection;
mod listener;
mod run;

pub use listener::{Listener, Protocol};
pub use run::{Limits, Server, ServerCounters, WhenFull};

use machine::Time;

use crate::http::{Request, Response};

/// A request that is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What becomes of a request.
#[derive(Debug)]
pub enum Reply {
    /// Its answer.
    Now(Response),
    /// The answer comes from [`Service::poll`], if it comes.
    Later,
}

/// What is served.
pub trait Service {
    /// A request has come.
    fn request(&mut self, now: Time, ticket: Ticket, request: &Request<'_>, counters: &ServerCounters) -> Reply;

    /// The client of a request that was to be answered later has gone: nobody waits for the answer.
    fn withdraw(&mut self, now: Time, ticket: Ticket);

    /// Does what is due by now, puts answers with their tickets into `answers`, and says when to come back at the latest.
    fn poll(&mut self, now: Time, answers: &mut Vec<(Ticket, Response)>) -> Time;

    /// What somebody is sent who connects to a port for lines; then the connection is closed.
    fn line(&mut self, now: Time) -> String;
}
