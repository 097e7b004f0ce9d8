//! Bridges with links between them, whose BPDUs take a while; who forwards is looked at after each of them.

use std::collections::{BTreeMap, BTreeSet};

use machine::{Span, Step, Time};
use rstp::{Bridge, BridgeConfig, Input, Output, PRIORITY, PortConfig, PortState};

/// A bridge whose address ends in this number.
pub fn config(number: u8, priority: u16, ports: usize) -> BridgeConfig {
    BridgeConfig {
        priority,
        address: [2, 0, 0, 0, 0, number],
        hello_time: Span::from_secs(2),
        max_age: Span::from_secs(20),
        forward_delay: Span::from_secs(15),
        transmit_hold_count: 6,
        ports: vec![PortConfig::default(); ports],
    }
}

/// A port of a bridge.
pub type BridgePort = (usize, usize);

/// A link between two ports of bridges.
#[derive(Clone, Debug)]
pub struct Link {
    pub ends: [BridgePort; 2],
    pub delay: Span,
    pub up: bool,
    /// How often it has lost its carrier: what was under way is lost then.
    generation: u32,
}

struct Flying {
    to: BridgePort,
    link: usize,
    generation: u32,
    frame: Vec<u8>,
}

/// Bridges and their links.
pub struct Network {
    pub now: Time,
    pub bridges: Vec<Bridge>,
    configs: Vec<BridgeConfig>,
    pub links: Vec<Link>,
    /// What happens, in order: frames by their arrival, and bridges that are to be polled.
    events: BTreeMap<(Time, u64), Option<Flying>>,
    wakes: Vec<Time>,
    sequence: u64,
    /// When somebody's state changed last.
    pub changed: Time,
    /// Addresses were to be forgotten so often, by bridge.
    pub flushes: Vec<usize>,
    pub sent: u64,
    /// Whether frames may go round at no moment.
    pub looks_for_circles: bool,
}

impl Network {
    /// Bridges with these priorities, and links between them (bridge, bridge, delay). Ports are numbered as links come.
    pub fn new(priorities: &[u16], links: &[(usize, usize, Span)]) -> Self {
        Self::with(priorities, links, |_, _| {})
    }

    /// The same; `change` is shown each bridge's configuration.
    pub fn with(priorities: &[u16], links: &[(usize, usize, Span)], change: impl Fn(usize, &mut BridgeConfig)) -> Self {
        let mut used = vec![0; priorities.len()];
        let mut port = |bridge: usize| {
            used[bridge] += 1;
            (bridge, used[bridge] - 1)
        };
        let link =
            |&(a, b, delay): &(usize, usize, Span)| Link { ends: [port(a), port(b)], delay, up: false, generation: 0 };
        let links: Vec<Link> = links.iter().map(link).collect();
        let bridge = |(number, priority): (usize, &u16)| {
            // One more port is free for tests.
            let mut config = config(number as u8 + 1, *priority, used[number] + 1);
            change(number, &mut config);
            config
        };
        let configs: Vec<BridgeConfig> = priorities.iter().enumerate().map(bridge).collect();
        let bridges: Vec<Bridge> = configs.iter().cloned().map(Bridge::new).collect();
        let mut network = Self {
            now: Time::ZERO,
            wakes: vec![Time::NEVER; bridges.len()],
            flushes: vec![0; bridges.len()],
            bridges,
            configs,
            links,
            events: BTreeMap::new(),
            sequence: 0,
            changed: Time::ZERO,
            sent: 0,
            looks_for_circles: true,
        };
        for link in 0..network.links.len() {
            network.set_link(link, true);
        }
        network
    }

    /// A ring of bridges, with links of this delay.
    pub fn ring(bridges: usize, delay: Span) -> Self {
        let links: Vec<_> = (0..bridges).map(|at| (at, (at + 1) % bridges, delay)).collect();
        Self::new(&vec![PRIORITY; bridges], &links)
    }

    /// A link loses its carrier, or gets it back; both ends see that at once.
    pub fn set_link(&mut self, link: usize, up: bool) {
        if self.links[link].up == up {
            return;
        }
        self.links[link].up = up;
        self.links[link].generation += 1;
        for (bridge, port) in self.links[link].ends {
            self.bridges[bridge].handle(self.now, Input::Link { port, up });
            self.poll(bridge);
        }
    }

    /// Another link, at another port of each of both bridges.
    pub fn add_link(&mut self, a: usize, b: usize, delay: Span) {
        let ends = [a, b].map(|bridge| {
            self.configs[bridge].ports.push(PortConfig::default());
            (bridge, self.configs[bridge].ports.len() - 1)
        });
        for bridge in [a, b] {
            assert!(self.bridges[bridge].follow(&self.configs[bridge]));
            self.poll(bridge);
        }
        self.links.push(Link { ends, delay, up: false, generation: 0 });
        self.set_link(self.links.len() - 1, true);
    }

    /// A frame comes in by a port from outside.
    pub fn inject(&mut self, (bridge, port): BridgePort, frame: &[u8]) {
        self.bridges[bridge].handle(self.now, Input::Frame { port, frame });
        self.poll(bridge);
    }

    /// Carries out what a bridge wants; nothing goes round at any moment.
    pub fn poll(&mut self, bridge: usize) -> Vec<Output> {
        let mut outputs = Vec::new();
        loop {
            match self.bridges[bridge].poll(self.now) {
                Step::Wait(until) => {
                    self.wakes[bridge] = until;
                    break;
                }
                Step::Do(output) => {
                    outputs.push(output);
                    match output {
                        Output::Send { port, frame } => self.send((bridge, port), frame.to_vec()),
                        Output::StateChanged { .. } => self.changed = self.now,
                        Output::Flush { .. } => self.flushes[bridge] += 1,
                    }
                }
            }
        }
        let goes_round = self.looks_for_circles && self.circle().is_some();
        assert!(!goes_round, "frames go round at {:?}: {:?}", self.now, self.circle());
        outputs
    }

    fn send(&mut self, from: BridgePort, frame: Vec<u8>) {
        self.sent += 1;
        let leads = |link: &Link| link.ends.contains(&from);
        let Some(number) = self.links.iter().position(leads) else { return };
        let link = &self.links[number];
        if link.up {
            let to = link.ends[usize::from(link.ends[0] == from)];
            self.sequence += 1;
            let flying = Flying { to, link: number, generation: link.generation, frame };
            self.events.insert((self.now + link.delay, self.sequence), Some(flying));
        }
    }

    /// Lets time pass.
    pub fn run_for(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            let frame = self.events.keys().next().map_or(Time::NEVER, |(at, _)| *at);
            let (bridge, wake) =
                self.wakes.iter().copied().enumerate().min_by_key(|(_, at)| *at).expect("there are bridges");
            if frame.min(wake) > until {
                break;
            }
            self.now = frame.min(wake);
            if wake <= frame {
                self.wakes[bridge] = Time::NEVER;
                self.poll(bridge);
                assert!(self.wakes[bridge] > self.now, "a bridge wants to be woken at once, for ever");
            } else if let Some((_, Some(flying))) = self.events.pop_first()
                && self.links[flying.link].generation == flying.generation
            {
                let (bridge, port) = flying.to;
                self.bridges[bridge].handle(self.now, Input::Frame { port, frame: &flying.frame });
                self.poll(bridge);
            }
        }
        self.now = until;
    }

    pub fn forwards(&self, (bridge, port): BridgePort) -> bool {
        self.bridges[bridge].state(port) == PortState::Forwarding
    }

    /// The links over which frames go: both ends forward.
    pub fn open_links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(|link| link.up && link.ends.iter().all(|end| self.forwards(*end)))
    }

    /// A link that closes a circle of links over which frames go.
    pub fn circle(&self) -> Option<&Link> {
        let mut parts = Partition::new(self.bridges.len());
        self.open_links().find(|link| !parts.join(link.ends[0].0, link.ends[1].0))
    }

    /// Which bridges reach each other by links that are up.
    pub fn parts(&self) -> Partition {
        let mut parts = Partition::new(self.bridges.len());
        for link in self.links.iter().filter(|link| link.up) {
            parts.join(link.ends[0].0, link.ends[1].0);
        }
        parts
    }

    /// Frames go from each bridge to each one that it is linked with, all agree about the root, and it is the right one.
    pub fn assert_converged(&self) {
        let (mut linked, mut open) = (self.parts(), Partition::new(self.bridges.len()));
        for link in self.open_links() {
            open.join(link.ends[0].0, link.ends[1].0);
        }
        let statuses: Vec<_> = self.bridges.iter().map(Bridge::status).collect();
        for (a, status) in statuses.iter().enumerate() {
            for b in 0..a {
                assert_eq!(linked.same(a, b), open.same(a, b), "bridges {a} and {b}: {statuses:#?}");
            }
            let own = (0..statuses.len()).filter(|b| linked.same(a, *b)).map(|b| &statuses[b].bridge);
            assert_eq!(Some(&status.root), own.min(), "the root of {a}");
        }
        let roots: BTreeSet<&str> = statuses.iter().map(|status| status.root.as_str()).collect();
        let without = statuses.iter().filter(|status| status.root_port.is_none());
        assert_eq!(without.count(), roots.len(), "each part has one bridge without a root port");
    }
}

/// Sets of bridges.
pub struct Partition(Vec<usize>);

impl Partition {
    fn new(bridges: usize) -> Self {
        Self((0..bridges).collect())
    }

    fn of(&mut self, at: usize) -> usize {
        let mut at = at;
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    /// Whether they were in two parts before.
    fn join(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.of(a), self.of(b));
        self.0[a] = b;
        a != b
    }

    pub fn same(&mut self, a: usize, b: usize) -> bool {
        self.of(a) == self.of(b)
    }
}
