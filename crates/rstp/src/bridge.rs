//! The bridge: its ports, and the order in which their machines run.

use std::collections::VecDeque;

use machine::{Rebase, Span, Step, Time};
use wire::{BPDU_FRAME, BpduKind, BpduPacket, BpduRepr, BpduRole};

use crate::config::BridgeConfig;
use crate::port::{InfoIs, MIGRATE_TIME, Port, PortState};
use crate::vector::{Times, Vector, span, units};

/// So often the machines of all ports may run in turn before they come to rest. They do after a few turns; whatever a BPDU says, nobody waits for longer.
const TURNS_MAX: usize = 1_000;

/// What a bridge hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// A frame to [`wire::BRIDGE_GROUP`] has come in by a port, from its destination address on.
    Frame {
        /// The number of the port.
        port: usize,
        /// The frame.
        frame: &'a [u8],
    },
    /// BPDUs have come in by a port and were not looked at, since there were too many: nobody knows what they said.
    Overrun {
        /// The number of the port.
        port: usize,
    },
    /// A port has a carrier, or has none. None has one when the bridge starts.
    Link {
        /// The number of the port.
        port: usize,
        /// Whether it has one.
        up: bool,
    },
}

/// What a bridge wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A frame is to leave by a port.
    Send {
        /// The number of the port.
        port: usize,
        /// From the destination address on.
        frame: [u8; BPDU_FRAME],
    },
    /// A port forwards, or learns, from now on, or does no longer.
    StateChanged {
        /// The number of the port.
        port: usize,
        /// What it does.
        state: PortState,
    },
    /// Addresses that were learned from a port are to be forgotten: they may be elsewhere.
    Flush {
        /// The number of the port.
        port: usize,
    },
}

/// A bridge.
#[derive(Debug)]
pub struct Bridge {
    pub(crate) config: BridgeConfig,
    /// Priority and address.
    pub(crate) id: u64,
    pub(crate) ports: Vec<Port>,
    /// Which port leads to the root, if this is not the root.
    pub(crate) root_port: Option<usize>,
    pub(crate) root: Vector,
    pub(crate) root_times: Times,
    pub(crate) topology_changes: u64,
    /// The path to a root that was lost, as this bridge announced it, and until when others that are no better are not believed.
    pub(crate) lost: Option<(Vector, Time)>,
    outputs: VecDeque<Output>,
    /// When the machines run again.
    next: Time,
}

impl Bridge {
    /// A bridge, none of whose ports has a carrier yet.
    pub fn new(config: BridgeConfig) -> Self {
        let address = config.address.into_iter().fold(0, |sum, byte| sum << 8 | u64::from(byte));
        let id = u64::from(config.priority) << 48 | address;
        let ports = config.ports.iter().enumerate().map(|(number, port)| Port::new(*port, number)).collect();
        let mut bridge = Self {
            id,
            ports,
            root_port: None,
            root: Vector { root: id, cost: 0, bridge: id, port: 0 },
            root_times: Times::default(),
            topology_changes: 0,
            lost: None,
            outputs: VecDeque::new(),
            next: Time::NEVER,
            config,
        };
        bridge.root_times = bridge.own_times();
        bridge
    }

    /// What it was made of, and the ports that were added.
    pub const fn config(&self) -> &BridgeConfig {
        &self.config
    }

    /// What it says of times where it is the root.
    pub(crate) fn own_times(&self) -> Times {
        let BridgeConfig { hello_time, max_age, forward_delay, .. } = self.config;
        Times {
            message_age: 0,
            max_age: units(max_age),
            hello_time: units(hello_time),
            forward_delay: units(forward_delay),
        }
    }

    /// What a port does with frames.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn state(&self, port: usize) -> PortState {
        self.ports[port].state()
    }

    pub(crate) fn want(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    /// A BPDU has come in; whether it says anything.
    fn receive(&mut self, now: Time, port: usize, frame: &[u8]) -> bool {
        let id = self.id;
        let Some(own) = self.ports.get_mut(port).filter(|port| port.is_enabled()) else { return false };
        let Ok(packet) = BpduPacket::new_checked(frame) else {
            own.counters.bad += 1;
            return false;
        };
        own.counters.received += 1;
        if own.config.bpdu_guard {
            own.is_shut = true;
            own.counters.guarded += 1;
            return true;
        }
        let bpdu = BpduRepr::parse(&packet);
        if bpdu.kind != BpduKind::Tcn && bpdu.bridge == id && bpdu.port == own.id {
            self.hear_oneself(now, port);
            return true;
        }
        let is_bad = match bpdu.kind {
            BpduKind::Tcn => false,
            BpduKind::Config => bpdu.message_age >= bpdu.max_age,
            BpduKind::Rst => bpdu.flags.role() == BpduRole::Unknown,
        };
        if is_bad {
            own.counters.bad += 1;
            return false;
        }
        own.received = Some(bpdu);
        self.note_version(now, port, bpdu.kind);
        true
    }

    /// What was heard of the root does not become too old as long as what is said of it is not looked at, and nobody takes the port for one at which no bridge is: else whoever sends enough would have it forward.
    fn overrun(&mut self, now: Time, port: usize) {
        let Some(own) = self.ports.get_mut(port).filter(|port| port.is_enabled()) else { return };
        if own.info_is == InfoIs::Received {
            own.timers.received_info = own.timers.received_info.max(now + span(own.times.hello_time) * 3);
        }
        if !own.forwarding {
            own.timers.forward_delay = own.timers.forward_delay.max(now + self.config.forward_delay);
            own.timers.edge_delay = own.timers.edge_delay.max(now + MIGRATE_TIME);
        }
    }

    /// Has all machines run until none has anything to do.
    fn run(&mut self, now: Time) {
        self.end_hold_down(now);
        for _ in 0..TURNS_MAX {
            let mut has_changed = self.ports.iter().any(|port| port.reselect);
            if has_changed {
                self.select_roles(now);
            }
            for port in 0..self.ports.len() {
                has_changed |= self.detect_edge(now, port);
                has_changed |= self.update_information(now, port);
                has_changed |= self.change_role(now, port);
                has_changed |= self.change_state(port);
                has_changed |= self.follow_topology(now, port);
            }
            if !has_changed {
                break;
            }
        }
        for port in 0..self.ports.len() {
            self.transmit(now, port);
        }
        let enabled = self.ports.iter().filter(|port| port.is_enabled());
        let timers = enabled.map(|port| port.timers.next(now)).min().unwrap_or(Time::NEVER);
        self.next = self.lost.map_or(timers, |(_, until)| timers.min(until));
    }

    /// Learns and forwards as its role says (17.30).
    fn change_state(&mut self, port: usize) -> bool {
        let own = &mut self.ports[port];
        let before = own.state();
        (own.learning, own.forwarding) = (own.learn, own.learn && own.forward);
        let state = own.state();
        if state == before {
            return false;
        }
        self.want(Output::StateChanged { port, state });
        true
    }

    fn set_link(&mut self, now: Time, port: usize, up: bool) {
        let Some(own) = self.ports.get_mut(port).filter(|port| port.has_link != up) else { return };
        (own.has_link, own.is_shut, own.received) = (up, false, None);
        if up {
            own.oper_edge = own.config.admin_edge;
            self.start_migration(now, port);
        }
    }
}

impl Bridge {
    /// Takes one input at `now`. Afterwards [`Bridge::poll`] is to be called until it wants to wait.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        match input {
            Input::Frame { port, frame } => {
                if !self.receive(now, port, frame) {
                    return;
                }
            }
            // Its timers end later, which is seen when they would have ended.
            Input::Overrun { port } => return self.overrun(now, port),
            Input::Link { port, up } => self.set_link(now, port, up),
        }
        self.run(now);
    }

    /// Goes on with more ports behind those that it has, which have no carrier yet. `false`: it cannot be the same bridge with this configuration, and nothing has changed.
    pub fn follow(&mut self, config: &BridgeConfig) -> bool {
        let count = self.ports.len();
        if config.ports.len() < count {
            return false;
        }
        let first = BridgeConfig { ports: config.ports[..count].to_vec(), ..*config };
        if first != self.config {
            return false;
        }
        let added = config.ports.iter().enumerate().skip(count);
        self.ports.extend(added.map(|(number, port)| Port::new(*port, number)));
        self.config = config.clone();
        true
    }

    /// The next thing to do.
    pub fn poll(&mut self, now: Time) -> Step<Output> {
        if let Some(output) = self.outputs.pop_front() {
            return Step::Do(output);
        }
        if self.next > now {
            return Step::Wait(self.next);
        }
        self.run(now);
        self.outputs.pop_front().map_or(Step::Wait(self.next), Step::Do)
    }
}

impl Rebase for Bridge {
    fn rebase(&mut self, by: Span) {
        self.ports.rebase(by);
        if let Some((_, until)) = &mut self.lost {
            until.rebase(by);
        }
        self.next.rebase(by);
    }
}
