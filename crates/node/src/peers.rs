//! Connections to other servers: one each, made by us, for what we have to say. What they say comes by theirs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use machine::nanos::{Span, Time};
use machine::{Rng, ServerId};
use mio::{Token, Waker};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpUserTimeout;
use store::protocol::{VERSION, VERSION_MIN};

use super::caller::resolve;

/// The first pause before a connection is tried again.
const PAUSE_MIN: Span = Span::from_ms(20);

/// The longest: a server that is back is found after this at the latest.
const PAUSE_MAX: Span = Span::from_ms(500);

/// A connection that is not made and welcomed by then is given up.
const WELCOME_PATIENCE: Span = Span::from_secs(1);

/// A peer that acknowledges nothing for so long is cut off: TCP alone would send again after ever longer pauses, and go
/// on with them when the network has healed.
const UNACKNOWLEDGED_MS_MAX: u32 = 2_000;

/// Where a connection stands.
#[derive(Debug)]
enum State {
    /// Nothing is tried before this.
    Pause(Time),
    /// The name is being looked up.
    Resolving,
    /// It is there, or being made.
    Open { token: Token, welcomed: bool, since: Time },
}

#[derive(Debug)]
struct Link {
    address: String,
    state: State,
    failures: u32,
    /// It has refused the local version, and said which one it speaks: this one is asked for, once.
    older: bool,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Connect to one of these addresses.
    Dial { peer: ServerId, address: String, targets: Vec<SocketAddr>, attempt: u64, version: u32 },
    /// Close this connection.
    Close(Token, &'static str),
}

/// A name that was looked up.
type Resolved = (ServerId, String, Result<Vec<SocketAddr>, String>);

#[derive(Debug)]
pub(super) struct Peers {
    links: BTreeMap<ServerId, Link>,
    rng: Rng,
    resolved: (Sender<Resolved>, Receiver<Resolved>),
    waker: Arc<Waker>,
}

impl Peers {
    pub fn new(rng: Rng, waker: Arc<Waker>) -> Self {
        Self { links: BTreeMap::new(), rng, resolved: mpsc::channel(), waker }
    }

    /// These are the others from now on. Connections that are over are to be closed.
    pub fn set(&mut self, now: Time, peers: BTreeMap<ServerId, String>) -> Vec<Action> {
        let mut over = Vec::new();
        self.links.retain(|id, link| {
            let stays = peers.get(id) == Some(&link.address);
            if let (false, State::Open { token, .. }) = (stays, &link.state) {
                over.push(Action::Close(*token, "the peer has left, or moved"));
            }
            stays
        });
        for (id, address) in peers {
            self.links.entry(id).or_insert(Link { address, state: State::Pause(now), failures: 0, older: false });
        }
        over
    }

    /// Where a peer is, as far as that is known.
    pub fn address(&self, peer: ServerId) -> Option<&str> {
        self.links.get(&peer).map(|link| link.address.as_str())
    }

    /// What is due, and when to ask again at the latest.
    pub fn due(&mut self, now: Time) -> (Vec<Action>, Time) {
        let mut actions = Vec::new();
        while let Ok((peer, address, outcome)) = self.resolved.1.try_recv() {
            self.resolved(now, peer, address, outcome, &mut actions);
        }
        let mut wake = Time::NEVER;
        for (id, link) in &mut self.links {
            match link.state {
                State::Pause(until) if until <= now => {
                    link.state = State::Resolving;
                    look_up(*id, link.address.clone(), self.resolved.0.clone(), Arc::clone(&self.waker));
                }
                State::Open { token, welcomed: false, since } if since + WELCOME_PATIENCE <= now => {
                    actions.push(Action::Close(token, "no welcome in time"));
                }
                State::Pause(until) => wake = wake.min(until),
                State::Open { welcomed: false, since, .. } => wake = wake.min(since + WELCOME_PATIENCE),
                State::Resolving | State::Open { .. } => {}
            }
        }
        // Addresses that are numbers need no thread: their answer is there.
        while let Ok((peer, address, outcome)) = self.resolved.1.try_recv() {
            self.resolved(now, peer, address, outcome, &mut actions);
        }
        (actions, wake)
    }

    fn resolved(
        &mut self,
        now: Time,
        peer: ServerId,
        address: String,
        outcome: Result<Vec<SocketAddr>, String>,
        actions: &mut Vec<Action>,
    ) {
        let Some(link) = self.links.get_mut(&peer).filter(|it| it.address == address) else { return };
        match outcome {
            Ok(targets) => {
                let attempt = u64::from(link.failures);
                let version = if std::mem::take(&mut link.older) { VERSION_MIN } else { VERSION };
                actions.push(Action::Dial { peer, address, targets, attempt, version });
            }
            Err(reason) => {
                tracing::warn!("server {peer} at {address}: {reason}");
                self.failed(now, peer);
            }
        }
    }

    /// A connection to a peer is being made.
    pub fn opened(&mut self, now: Time, peer: ServerId, token: Token) {
        if let Some(link) = self.links.get_mut(&peer) {
            link.state = State::Open { token, welcomed: false, since: now };
        }
    }

    /// A peer has accepted our connection.
    pub fn welcomed(&mut self, peer: ServerId) {
        if let Some(link) = self.links.get_mut(&peer) {
            link.failures = 0;
            if let State::Open { welcomed, .. } = &mut link.state {
                *welcomed = true;
            }
        }
    }

    /// A peer speaks only the oldest version: the next connection asks for that.
    pub fn fall_back(&mut self, peer: ServerId) {
        if let Some(link) = self.links.get_mut(&peer) {
            link.older = true;
        }
    }

    /// The connection by which messages reach a peer.
    pub fn token(&self, peer: ServerId) -> Option<Token> {
        match self.links.get(&peer)?.state {
            State::Open { token, welcomed: true, .. } => Some(token),
            _ => None,
        }
    }

    /// A connection could not be made, or is lost.
    pub fn failed(&mut self, now: Time, peer: ServerId) {
        if let Some(link) = self.links.get_mut(&peer) {
            if link.older {
                link.state = State::Pause(now);
                return;
            }
            let full = (PAUSE_MIN * (1 << link.failures.min(10))).min(PAUSE_MAX).as_ns();
            link.failures = link.failures.saturating_add(1);
            let pause = Span::from_ns(full / 2 + (self.rng.fraction() * (full / 2) as f64) as u64);
            link.state = State::Pause(now + pause);
        }
    }

    /// The peer has connected to us: it is there, so there is no need to wait.
    pub fn heard(&mut self, now: Time, peer: ServerId) {
        if let Some(link) = self.links.get_mut(&peer)
            && matches!(link.state, State::Pause(_))
        {
            link.state = State::Pause(now);
        }
    }
}

/// Looks a name up without making others wait.
fn look_up(peer: ServerId, address: String, results: Sender<Resolved>, waker: Arc<Waker>) {
    if address.parse::<SocketAddr>().is_ok() {
        let outcome = resolve(&address).map_err(|error| error.to_string());
        // Nobody listens to a server that ends.
        let _ = results.send((peer, address, outcome));
        return;
    }
    let name = address.clone();
    let failed = results.clone();
    let work = move || {
        let outcome = resolve(&address).map_err(|error| error.to_string());
        if results.send((peer, address, outcome)).is_ok() {
            let _ = waker.wake();
        }
    };
    if let Err(error) = thread::Builder::new().name("resolve".into()).spawn(work) {
        let _ = failed.send((peer, name, Err(error.to_string())));
    }
}

/// Has the kernel cut the connection off when the other side is silent.
pub(super) fn bound_silence(socket: &impl AsFd) {
    if let Err(error) = setsockopt(socket, TcpUserTimeout, &UNACKNOWLEDGED_MS_MAX) {
        tracing::debug!("TCP_USER_TIMEOUT: {error}");
    }
}
