//! Pipelines for tests, which work unchanged on simulated packets and on frames: the live tests have networks with them, too.
#![allow(dead_code, reason = "each test uses some of it")]

pub mod flows;

use std::collections::{BTreeSet, VecDeque};

use machine::{Rebase, Span, Step, Time};
use topology::{HostAddress, NodeId, PortId, Topology};
use vswitch::{Action, Field, PacketIn, PacketOut, Pipeline, Pipelines};
use wire::{Error, EthernetRepr, LLDP_NEAREST_BRIDGE, LldpRepr, ethertype};

/// The client of the virtual server.
pub const CLIENT: NodeId = NodeId(0);
/// A host whose address at [`VIRTUAL_PORT`] is the virtual server's.
pub const VIRTUAL: NodeId = NodeId(1);
/// The host that answers in its stead.
pub const SERVER: NodeId = NodeId(2);
/// The host that sees a copy of what is translated.
pub const MONITOR: NodeId = NodeId(3);
/// Where clients connect to.
pub const VIRTUAL_PORT: u16 = 5_201;
/// Where the server listens.
pub const SERVER_PORT: u16 = 5_202;

/// The first switch translates addresses ([`Translator`]).
pub fn translating() -> Pipelines {
    Pipelines::new(|topology, switch| {
        (switch.0 == topology.hosts).then(|| Box::new(Translator::new(topology, switch)) as Box<dyn Pipeline>)
    })
}

/// What is sent to [`VIRTUAL`] at its port goes to [`SERVER`], and what comes back seems to be from [`VIRTUAL`]. [`MONITOR`] gets a copy of both, as
/// the client sends and receives them.
#[derive(Debug)]
struct Translator {
    of: [HostAddress; 2],
    monitor: PortId,
}

impl Translator {
    fn new(topology: &Topology, switch: NodeId) -> Self {
        let of = [VIRTUAL, SERVER].map(|host| topology.address(host).expect("it is a host").clone());
        let monitor = topology.peers(switch).position(|peer| peer == MONITOR).expect("the monitor is at this switch");
        Self { of, monitor: PortId(monitor as u16) }
    }
}

impl Rebase for Translator {
    fn rebase(&mut self, _: Span) {
        let Self { of: _, monitor: _ } = self;
    }
}

impl Pipeline for Translator {
    fn process(&mut self, _: Time, packet: &PacketIn<'_>, actions: &mut Vec<Action>) -> Result<(), Error> {
        let ([own, server], key) = (&self.of, packet.key()?);
        let ip = |host: &HostAddress| u128::from(host.ipv4.to_bits());
        if key.ethertype == ethertype::IPV4 && (key.dst, key.dst_port) == (ip(own), VIRTUAL_PORT) {
            actions.extend([
                Action::Output(self.monitor),
                Action::Set(Field::EthDst(server.mac)),
                Action::Set(Field::Ipv4Dst(server.ipv4)),
                Action::Set(Field::DstPort(SERVER_PORT)),
                Action::Normal,
            ]);
        } else if key.ethertype == ethertype::IPV4 && (key.src, key.src_port) == (ip(server), SERVER_PORT) {
            actions.extend([
                Action::Set(Field::EthSrc(own.mac)),
                Action::Set(Field::Ipv4Src(own.ipv4)),
                Action::Set(Field::SrcPort(VIRTUAL_PORT)),
                Action::Output(self.monitor),
                Action::Normal,
            ]);
        } else {
            actions.push(Action::Normal);
        }
        Ok(())
    }
}

/// Each switch greets its neighbours and forwards nothing by a port where it has not heard one ([`Greeter`]).
pub fn greeting() -> Pipelines {
    Pipelines::new(|topology, switch| Some(Box::new(Greeter::new(topology, switch))))
}

/// How often switches greet.
const EVERY: Span = Span::from_ms(1);

/// Speaks LLDP by the ports that lead to switches, and takes nothing from a switch that it has not heard.
#[derive(Debug)]
struct Greeter {
    mac: [u8; 6],
    to_switches: Vec<PortId>,
    heard: BTreeSet<PortId>,
    next: Time,
    outbox: VecDeque<PacketOut>,
}

impl Greeter {
    fn new(topology: &Topology, switch: NodeId) -> Self {
        let peers = topology.peers(switch).enumerate().filter(|(_, peer)| !topology.is_host(*peer));
        let to_switches = peers.map(|(port, _)| PortId(port as u16)).collect();
        let mac = [2, 0xff, 0, 0, 0, switch.0 as u8];
        Self { mac, to_switches, heard: BTreeSet::new(), next: Time::ZERO + EVERY, outbox: VecDeque::new() }
    }

    fn greeting(&self) -> Vec<u8> {
        let ethernet = EthernetRepr { dst: LLDP_NEAREST_BRIDGE, src: self.mac, vlan: None, ethertype: ethertype::LLDP };
        let message = LldpRepr {
            chassis: self.mac,
            port: self.mac,
            time_to_live_s: 1,
            identifier: [0x02, 0, 0],
            subtype: 1,
            value: b"hello",
        };
        let mut frame = vec![0; ethernet.buffer_len() + message.buffer_len()];
        ethernet.emit(&mut frame);
        message.emit(&mut frame[ethernet.buffer_len()..]);
        frame
    }
}

impl Rebase for Greeter {
    fn rebase(&mut self, by: Span) {
        let Self { mac: _, to_switches: _, heard: _, next, outbox: _ } = self;
        next.rebase(by);
    }
}

impl Pipeline for Greeter {
    fn process(&mut self, _: Time, packet: &PacketIn<'_>, actions: &mut Vec<Action>) -> Result<(), Error> {
        let in_port = packet.in_port;
        if packet.key()?.ethertype == ethertype::LLDP {
            actions.push(Action::Controller);
        } else if !self.to_switches.contains(&in_port) || self.heard.contains(&in_port) {
            actions.push(Action::Normal);
        }
        Ok(())
    }

    fn packet_in(&mut self, _: Time, in_port: PortId, _: &[u8]) {
        self.heard.insert(in_port);
    }

    fn poll(&mut self, now: Time) -> Step<PacketOut> {
        if self.outbox.is_empty() && self.next <= now {
            self.next = now + EVERY;
            let frame = self.greeting();
            self.outbox.extend(self.to_switches.iter().map(|port| PacketOut { port: *port, frame: frame.clone() }));
        }
        self.outbox.pop_front().map_or(Step::Wait(self.next), Step::Do)
    }
}

/// Each switch sends all by its second port.
pub fn circling() -> Pipelines {
    #[derive(Debug)]
    struct Second;

    impl Rebase for Second {
        fn rebase(&mut self, _: Span) {}
    }

    impl Pipeline for Second {
        fn process(&mut self, _: Time, _: &PacketIn<'_>, actions: &mut Vec<Action>) -> Result<(), Error> {
            actions.push(Action::Output(PortId(1)));
            Ok(())
        }
    }
    Pipelines::new(|_, _| Some(Box::new(Second)))
}
