//! Several servers' RPC machines and a network between them that loses, doubles and delays.
#![allow(dead_code, reason = "each test uses its part")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use machine::nanos::{Span, Step, Time};
use machine::{Control, Rng, ServerId};
use rpc::{Config, DeliveryId, Input, Message, Output, ProviderId, Rpc};

/// What the network does to a message.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Messages of a hundred that are lost.
    pub lost: u32,
    /// Messages of a hundred that come twice.
    pub doubled: u32,
    /// A message takes this long at least.
    pub delay: Span,
    /// And up to so many ms more, so that messages overtake each other.
    pub jitter_ms: u32,
}

pub const PERFECT: Faults = Faults { lost: 0, doubled: 0, delay: Span::from_ms(1), jitter_ms: 0 };

pub struct Net {
    pub now: Time,
    pub servers: BTreeMap<ServerId, Rpc>,
    pub faults: Faults,
    /// Pairs of servers between which nothing passes, in that direction.
    pub cut: BTreeSet<(ServerId, ServerId)>,
    /// What came out besides messages: when, where.
    pub events: VecDeque<(Time, ServerId, Output)>,
    /// Deliveries that have not ended.
    delivered: BTreeSet<(ServerId, ProviderId, DeliveryId)>,
    wire: BTreeMap<(Time, u64), (ServerId, ServerId, Message)>,
    sent: u64,
    wake: BTreeMap<ServerId, Time>,
    rng: Rng,
}

impl Net {
    pub fn new(seed: u64) -> Self {
        Self {
            now: Time::ZERO,
            servers: BTreeMap::new(),
            faults: PERFECT,
            cut: BTreeSet::new(),
            events: VecDeque::new(),
            delivered: BTreeSet::new(),
            wire: BTreeMap::new(),
            sent: 0,
            wake: BTreeMap::new(),
            rng: Rng::new(seed),
        }
    }

    /// Starts a server, or starts it anew.
    pub fn start(&mut self, server: ServerId, incarnation: u64, config: Config) {
        let rng = self.rng.fork(server.0 ^ (incarnation << 32));
        self.servers.insert(server, Rpc::new(server, incarnation, config, rng));
        self.wake.insert(server, self.now);
    }

    /// Ends a server as by SIGKILL.
    pub fn crash(&mut self, server: ServerId) {
        self.servers.remove(&server);
        self.wake.remove(&server);
        self.delivered.retain(|(at, ..)| *at != server);
    }

    /// `count` servers that know and reach each other.
    pub fn cluster(seed: u64, count: u64, config: Config) -> Self {
        let mut net = Self::new(seed);
        let all: Vec<_> = (1..=count).map(ServerId).collect();
        for &server in &all {
            net.start(server, 1, config);
        }
        net.everybody(&all);
        net
    }

    /// All running servers learn that these are the members, and those of them that run are live.
    pub fn everybody(&mut self, members: &[ServerId]) {
        let running: Vec<_> = self.servers.keys().copied().collect();
        let live: Vec<_> = members.iter().filter(|server| running.contains(server)).copied().collect();
        for server in running {
            self.input(server, Input::Members(members.to_vec()));
            self.input(server, Input::Live(live.clone()));
        }
    }

    pub fn input(&mut self, server: ServerId, input: Input) {
        let Some(rpc) = self.servers.get_mut(&server) else { return };
        rpc.handle(self.now, input);
        self.drain(server);
    }

    fn drain(&mut self, server: ServerId) {
        let rpc = self.servers.get_mut(&server).expect("a running server");
        let mut outputs = Vec::new();
        let until = loop {
            match rpc.poll(self.now) {
                Step::Do(output) => outputs.push(output),
                Step::Wait(until) => break until,
            }
        };
        assert!(until > self.now, "a machine that waits for the past never rests");
        self.wake.insert(server, until);
        for output in outputs {
            match output {
                Output::Send { to, message } => self.send(server, to, &message),
                Output::Ended { provider, delivery } => {
                    assert!(
                        self.delivered.remove(&(server, provider, delivery)),
                        "{delivery} ends once, after it began"
                    );
                }
                other => {
                    if let Output::Deliver { provider, delivery, .. } = &other {
                        self.delivered.insert((server, *provider, *delivery));
                    }
                    self.events.push_back((self.now, server, other));
                }
            }
        }
        let under_way = self.delivered.iter().filter(|(at, ..)| *at == server).count();
        assert_eq!(self.servers[&server].deliveries_under_way(), under_way, "a delivery ended and nobody was answered");
    }

    fn send(&mut self, from: ServerId, to: ServerId, message: &Message) {
        let copies = 1 + u32::from(self.rng.below(100) < self.faults.doubled);
        for _ in 0..copies {
            if self.rng.below(100) < self.faults.lost {
                continue;
            }
            let jitter = Span::from_ms(u64::from(self.rng.below(self.faults.jitter_ms + 1)));
            self.wire.insert((self.now + self.faults.delay + jitter, self.sent), (from, to, message.clone()));
            self.sent += 1;
        }
    }

    /// Lets `span` pass.
    pub fn advance(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            let arrival = self.wire.first_key_value().map(|(&(time, _), _)| time);
            let wake = self.wake.iter().map(|(&server, &time)| (time, server)).min();
            let next = arrival.into_iter().chain(wake.map(|(time, _)| time)).min();
            let Some(next) = next.filter(|&next| next <= end) else { break };
            self.now = self.now.max(next);
            if arrival == Some(next) {
                let (_, (from, to, message)) = self.wire.pop_first().expect("looked at above");
                if !self.cut.contains(&(from, to)) {
                    self.input(to, Input::Message { from, message });
                }
            } else if let Some((_, server)) = wake {
                self.drain(server);
            }
        }
        self.now = end;
    }

    /// Whether all running servers hold equal buckets.
    pub fn agrees(&self) -> bool {
        let mut registries = self.servers.values().map(|rpc| rpc.registry().buckets());
        let Some(first) = registries.next() else { return true };
        registries.all(|other| other == first)
    }
}
