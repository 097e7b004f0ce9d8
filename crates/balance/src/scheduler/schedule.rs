//! What a scheduler is.

use core::fmt::Debug;

use machine::{Rebase, Rng, Time};

use crate::server_id::ServerId;
use crate::servers::Servers;

/// Whose connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// As [`crate::config::address_bits`] gives it.
    pub address: u128,
    /// Its port.
    pub port: u16,
}

/// Chooses servers for new connections.
///
/// It takes one whose `is_candidate` is set. That at least one is, its caller has seen to.
pub(crate) trait Schedule: Debug + Send + Rebase {
    /// A server has come or gone, has got another weight, or is out or in again.
    fn changed(&mut self, _servers: &Servers) {}

    /// The same, once after all that changed together.
    fn rebuild(&mut self, _servers: &Servers) {}

    /// A server is about to leave the list.
    fn removing(&mut self, _servers: &Servers, _server: ServerId) {}

    /// Who gets the next connection; none if the client's own server is out and no other will do.
    fn choose(&mut self, now: Time, servers: &Servers, client: &Client, rng: &mut Rng) -> Option<ServerId>;
}
