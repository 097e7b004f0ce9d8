//! All that a controller that runs has at hand.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use machine::nanos::Time;
use machine::{Control, Rng, ServerId};
use mio::net::TcpListener;
use mio::unix::SourceFd;
use mio::{Interest, Poll, Token, Waker};
use nix::sys::signalfd::SignalFd;
use store::protocol::Admin;
use store::{Input, Server};

use super::accepting::Accepting;
use super::alarms::Noted;
use super::connections::{Clients, Connection};
use super::half_closed::HalfClosed;
use super::handshake::Handshakes;
use super::peer_refusals::PeerRefusals;
use super::requests::{OWN_CLIENT, Requests};
use super::turn_queue::Turns;
use super::waiting::Waiting;
use super::writes::Writes;
use crate::audit::Audit;
use crate::caller::Tokens;
use crate::clock::BootClock;
use crate::crowd::Crowd;
use crate::descriptors::Shares;
use crate::disk::Disk;
use crate::http::Question;
use crate::logins::Logins;
use crate::peers::Peers;
use crate::refusals::Refusals;
use crate::secret::Secrets;
use crate::{Error, Tls};

pub(super) const LISTENER: Token = Token(0);
pub(super) const SIGNALS: Token = Token(1);
/// Rung by other threads.
pub(super) const WAKER: Token = Token(2);
const FIRST_CONNECTION: usize = 3;

/// What the loop needs from outside.
pub(crate) struct LoopParts {
    pub poll: Poll,
    pub waker: Arc<Waker>,
    pub listener: TcpListener,
    pub signals: SignalFd,
    pub questions: Receiver<Question>,
    pub disk: Disk,
    pub server: Server,
    pub clock: BootClock,
    pub tls: Option<Tls>,
    pub secrets: Secrets,
    pub rng: Rng,
    /// What is noted of what clients do.
    pub audit: Option<Audit>,
    pub cluster: u64,
    pub name: String,
    /// How many connections each host and user may have.
    pub shares: Shares,
    /// Where others reach it, and its metrics: the map has to say so.
    pub address: String,
    pub metrics: Option<String>,
    /// How much is held for clients and peers at most.
    pub memory_bytes: usize,
}

/// A controller that runs.
pub(crate) struct EventLoop {
    pub(super) parts: LoopParts,
    pub(super) connections: HashMap<Token, Connection>,
    pub(super) clients: Clients,
    /// Connections that have not said who they are.
    pub(super) strangers: Crowd<Token>,
    /// Connections by which a peer talks to us; a new one replaces the old.
    pub(super) incoming: HashMap<ServerId, Token>,
    pub(super) peers: Peers,
    pub(super) logins: Logins,
    pub(super) tokens: Tokens,
    /// Connections with something to send.
    pub(super) dirty: Vec<Token>,
    pub(super) writes: Writes,
    /// Connections that have something to be received, and wait for their turn.
    pub(super) turns: Turns,
    /// Connections whose clients say nothing more.
    pub(super) half_closed: HalfClosed,
    pub(super) accepting: Accepting,
    pub(super) sweep_at: Time,
    pub(super) handshakes: Handshakes,
    pub(super) peer_refusals: PeerRefusals,
    /// Until when it hands over what it leads, if it is about to end.
    pub(super) ending: Option<Time>,
    pub(super) refusals: Refusals,
    pub(super) waiting: Waiting,
    pub(super) noted: Noted,
    /// When this server may announce again where it is.
    pub(super) announce_address_at: Time,
    pub(super) requests: Requests,
}

impl EventLoop {
    /// Listens and watches; [`EventLoop::run`] serves.
    pub fn new(mut parts: LoopParts) -> Result<Self, Error> {
        let registry = parts.poll.registry();
        let watch = Error::system("watch a socket");
        registry.register(&mut parts.listener, LISTENER, Interest::READABLE).map_err(watch)?;
        let signals = parts.signals.as_raw_fd();
        let watch = Error::system("watch for signals");
        registry.register(&mut SourceFd(&signals), SIGNALS, Interest::READABLE).map_err(watch)?;
        let peers = Peers::new(parts.rng.fork(1), Arc::clone(&parts.waker));
        let strangers = Crowd::new(parts.shares.strangers);
        Ok(Self {
            parts,
            connections: HashMap::new(),
            clients: Clients::new(),
            strangers,
            incoming: HashMap::new(),
            peers,
            logins: Logins::default(),
            tokens: Tokens::from(FIRST_CONNECTION),
            dirty: Vec::new(),
            writes: Writes::default(),
            turns: Turns::default(),
            half_closed: HalfClosed::default(),
            accepting: Accepting::default(),
            sweep_at: Time::ZERO,
            handshakes: Handshakes::default(),
            peer_refusals: PeerRefusals::default(),
            ending: None,
            refusals: Refusals::default(),
            waiting: Waiting::default(),
            noted: Noted::default(),
            announce_address_at: Time::ZERO,
            requests: Requests::new(),
        })
    }

    /// Where WAKER rings.
    pub fn waker(poll: &Poll) -> io::Result<Waker> {
        Waker::new(poll.registry(), WAKER)
    }

    /// Asks the server for something on our own behalf; the answer is of no interest.
    pub(super) fn ask(&mut self, admin: Admin) {
        let (id, message) = self.requests.own(self.parts.rng.fork(2).bits(), admin);
        self.parts.server.handle(self.parts.clock.now(), Input::Client { client: OWN_CLIENT, id, message });
    }
}
