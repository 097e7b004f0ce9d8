//! Switches that speak RSTP: BPDUs come to their machine, and what comes in or leaves by a port that does not forward goes no further.
//!
//! Where a switch has one, all switches have pipelines, so no path is remembered past it, and each packet comes by here.

use machine::{Rebase, Span, Step, Time};
use rstp::{Bridge, BridgeConfig, BridgeStatus, Input, Output, PortState};
use topology::{NetPort, NodeId, PortId};
use wire::{BRIDGE_GROUP, BpduPacket};

use crate::driver::{Driver, Loss, Tag, Timer};
use crate::flood::Passed;
use crate::graph::{Graph, Moment, Tables};
use crate::pipeline::lose;

/// So many BPDUs of a switch are looked at within a tenth of a second, for each of its ports; its neighbours send ten at once, and then one a second.
const ALLOWED: u32 = 16;
const INTERVAL: Span = Span::from_ms(100);

/// The machine of a switch.
#[derive(Debug)]
pub struct BridgeState {
    bridge: Bridge,
    /// By port: how many BPDUs have come.
    heard: Vec<Passed>,
    /// When it is to be woken.
    armed: Time,
}

impl BridgeState {
    pub(crate) fn new(config: &BridgeConfig) -> Self {
        let heard = vec![Passed::default(); config.ports.len()];
        Self { bridge: Bridge::new(config.clone()), heard, armed: Time::NEVER }
    }

    /// How it stands.
    pub fn status(&self) -> BridgeStatus {
        self.bridge.status()
    }

    /// Goes on at a switch for which the other one was made, if it can: with the ports that it has now.
    pub(crate) fn follow(&mut self, made: &Self) -> bool {
        let can = self.bridge.follow(made.bridge.config());
        if can {
            self.heard.resize(made.heard.len(), Passed::default());
        }
        can
    }
}

impl Rebase for BridgeState {
    fn rebase(&mut self, by: Span) {
        let Self { bridge, heard, armed } = self;
        bridge.rebase(by);
        heard.rebase(by);
        armed.rebase(by);
    }
}

/// The machines of all switches as they start; empty where none has one.
pub(crate) fn bridges(tables: &Tables) -> Vec<Option<BridgeState>> {
    if !tables.ports.has_bridges() {
        return Vec::new();
    }
    let made = |at| tables.ports.bridge(tables.map.node_of_switch(at)).map(BridgeState::new);
    (0..tables.map.switches()).map(made).collect()
}

impl<P> Graph<P> {
    /// A packet has come to a switch that has a pipeline. It is returned unless it was for the switch's machine, or its port does not forward.
    #[inline]
    pub(crate) fn pass_bridge<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (at, node, port): (usize, NodeId, NetPort),
        packet: P,
    ) -> Option<P> {
        if self.bridges.is_empty() {
            return Some(packet);
        }
        let number = usize::from(moment.tables.map.number(port).0);
        let Some(state) = &mut self.bridges[at] else { return Some(packet) };
        if driver.destination(&packet) == BRIDGE_GROUP {
            let frame = driver.frame(&packet).unwrap_or_default();
            // What is none is seen at once, and takes nobody's place.
            let is_bpdu = BpduPacket::new_checked(frame).is_ok();
            if is_bpdu && !state.heard[number].take(moment.now, INTERVAL, ALLOWED) {
                state.bridge.handle(moment.now, Input::Overrun { port: number });
                return lose(driver, Loss::Storm, packet);
            }
            state.bridge.handle(moment.now, Input::Frame { port: number, frame });
            driver.free(packet);
            self.poll_bridge(moment, driver, at);
            return None;
        }
        debug_assert_eq!(moment.tables.map.node_of_switch(at), node, "a switch has its own machine");
        if state.bridge.state(number) == PortState::Forwarding {
            Some(packet)
        } else {
            lose(driver, Loss::Discarding, packet)
        }
    }

    /// Sends a packet off by a port of a switch as [`Graph::put`] does, unless the port does not forward.
    pub(crate) fn put_forwarding<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packet: P,
    ) {
        if let Some((port, packet)) = self.leave_bridge(moment.tables, driver, (port, packet)) {
            self.put(moment, driver, port, packet);
        }
    }

    /// A packet is to leave a switch by a port. It is returned if the port forwards.
    #[inline]
    pub(crate) fn leave_bridge<D: Driver<Packet = P>>(
        &self,
        tables: &Tables,
        driver: &mut D,
        (port, packet): (NetPort, P),
    ) -> Option<(NetPort, P)> {
        if self.bridges.is_empty() || self.forwards(tables, port) {
            Some((port, packet))
        } else {
            lose(driver, Loss::Discarding, packet)
        }
    }

    /// Whether addresses are learned from what comes in by a port of a switch, as far as that is known in this part of the graph.
    pub fn learns(&self, tables: &Tables, port: NetPort) -> bool {
        self.bridges.is_empty() || self.state(tables, port) != PortState::Discarding
    }

    /// Whether a port forwards, as far as that is known in this part of the graph.
    fn forwards(&self, tables: &Tables, port: NetPort) -> bool {
        self.state(tables, port) == PortState::Forwarding
    }

    fn state(&self, tables: &Tables, port: NetPort) -> PortState {
        let map = &tables.map;
        let state = map.switch(map.node(port)).and_then(|at| self.bridges.get(at)?.as_ref());
        let Some(state) = state else { return PortState::Forwarding };
        // A bond is known by its first member.
        let first = map.bond(port).map_or(port, |end| map.members(end)[0]);
        state.bridge.state(usize::from(map.number(first).0))
    }

    /// Whether it is known here that a port of a switch does not forward.
    pub fn is_closed(&self, tables: &Tables, port: NetPort) -> bool {
        !self.bridges.is_empty() && !self.forwards(tables, port)
    }

    /// Has all machines hear of their links, and say what they have to say; what they were to be woken for is forgotten.
    pub(crate) fn start_bridges<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D) {
        for at in 0..self.bridges.len() {
            let node = moment.tables.map.node_of_switch(at);
            let Some(state) = &mut self.bridges[at] else { continue };
            state.armed = Time::NEVER;
            let ports = state.heard.len();
            for number in 0..ports {
                let Some(port) = moment.tables.map.port_of(node, PortId(number as u16)) else { continue };
                self.report_carrier_to_bridge(moment, driver, port);
            }
            self.poll_bridge(moment, driver, at);
        }
    }

    /// A switch's machine hears of the carrier of a port.
    pub(crate) fn report_carrier_to_bridge<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
    ) {
        if self.bridges.is_empty() {
            return;
        }
        let map = &moment.tables.map;
        // A bond has a carrier as long as any of its members has one.
        let members = map.bond(port).map_or(std::slice::from_ref(&port), |end| map.members(end));
        let up = members.iter().any(|port| self.egress[*port].is_up());
        let Some(at) = map.switch(map.node(port)) else { return };
        let Some(state) = &mut self.bridges[at] else { return };
        let number = usize::from(map.number(members[0]).0);
        state.bridge.handle(moment.now, Input::Link { port: number, up });
        self.poll_bridge(moment, driver, at);
    }

    /// Carries out what the machine of a switch wants.
    fn poll_bridge<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, at: usize) {
        let Moment { tables, now } = moment;
        let node = tables.map.node_of_switch(at);
        let port_of = |port: usize| tables.map.port_of(node, PortId(port as u16));
        loop {
            let Some(Some(state)) = self.bridges.get_mut(at) else { return };
            match state.bridge.poll(now) {
                Step::Wait(until) => {
                    if until < state.armed {
                        state.armed = until;
                        driver.wake_at(until, Timer::Bridge(at as u32));
                    }
                    return;
                }
                Step::Do(Output::Send { port, frame }) => {
                    // Whoever is there does not pass it on.
                    let packet = driver.make(&frame, self.flooding(), Tag::None);
                    if let (Some(port), Some(packet)) = (port_of(port), packet) {
                        self.put(moment, driver, port, packet);
                    }
                }
                Step::Do(Output::StateChanged { port, state }) => {
                    if let Some(port) = port_of(port) {
                        driver.port_changed(now, port, state);
                    }
                }
                Step::Do(Output::Flush { port }) => {
                    if let Some(port) = port_of(port) {
                        driver.flush(port);
                    }
                }
            }
        }
    }

    /// The time has come that the machine of a switch has wanted.
    pub(crate) fn wake_bridge<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, at: usize) {
        let Some(Some(state)) = self.bridges.get_mut(at) else { return };
        if state.armed != moment.now {
            // An earlier one was armed in its place.
            return;
        }
        state.armed = Time::NEVER;
        self.poll_bridge(moment, driver, at);
    }
}
