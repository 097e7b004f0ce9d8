//! What is kept of a connection to a service beside its place in the table: who serves it, and what schedulers and other balancers know of it.

use balance::ServerId;
use machine::{Rebase, Span, Time};
use topology::NodeId;

use super::offload::Offloading;
use super::syn_cookies::Proxied;
use super::sync::Stage;

/// A connection, as schedulers see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    pub running: u32,
    pub server: ServerId,
    /// When its client asked last.
    pub asked_at: Time,
    /// An answer is waited for.
    pub waits: bool,
    /// The server has answered at all.
    pub is_answered: bool,
    /// Whether its silence says anything of its server: whoever makes up addresses makes connections that nobody can answer.
    pub is_from_host: bool,
    pub phase: Phase,
    /// Where its client is, as long as the network has that host, and its MAC address.
    pub client: Option<NodeId>,
    pub client_mac: [u8; 6],
    pub handshake: Handshake,
    pub shared: Shared,
    pub offloading: Offloading,
}

/// How a connection was opened, or is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    /// It is being opened, and counts as such.
    HalfOpen,
    /// It began with a cookie.
    Proxied(Proxied),
    /// It is open, or has no handshake.
    Done,
}

/// What other balancers know of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shared {
    /// How far they have heard that it is, or are about to.
    pub stage: Stage,
    /// Whether it is among `ServiceState::changes`.
    pub is_changed: bool,
    /// Whether only they know if it is still there.
    pub is_doubted: bool,
    /// The number of the datagram in which they have heard of it last.
    pub sent_in: u32,
}

impl Opened {
    /// What is known of it if it began with a cookie.
    pub(super) const fn proxied(&self) -> Option<&Proxied> {
        match &self.handshake {
            Handshake::Proxied(proxied) => Some(proxied),
            Handshake::HalfOpen | Handshake::Done => None,
        }
    }
}

/// How a connection counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is a load.
    Active,
    /// Both sides have said all.
    Idle,
    /// It has ended: its place is kept for what still comes of it, or for another one.
    Closed,
}

impl Rebase for Opened {
    fn rebase(&mut self, by: Span) {
        let Self {
            running: _,
            server: _,
            asked_at,
            waits: _,
            is_answered: _,
            is_from_host: _,
            phase: _,
            client: _,
            client_mac: _,
            handshake: _,
            shared: _,
            offloading,
        } = self;
        asked_at.rebase(by);
        offloading.rebase(by);
    }
}
