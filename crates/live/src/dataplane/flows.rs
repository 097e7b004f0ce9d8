//! TCP flows as they leave the fabric, and the order in which their segments arrive.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use transport::reordering::Meter;
use vswitch::spread::FlowHash;
use vswitch::{FlowKey, tcp_segment};
use wire::ethertype;

use crate::control::FlowCounters;

/// Flows that one worker watches at most. Later ones are counted as not watched.
pub const FLOWS_MAX: usize = 4_096;

/// Twice the flows, so that probing stays short.
const SLOTS: usize = FLOWS_MAX * 2;

/// The flows that end at one worker's hosts.
#[derive(Debug, Default)]
pub struct Flows {
    /// One more than the place in `flows`; 0 is free. Made with the first flow.
    slots: Vec<u16>,
    flows: Vec<Flow>,
}

/// A flow and its meter.
#[derive(Debug)]
pub struct Flow {
    hash: FlowHash,
    from: SocketAddr,
    to: SocketAddr,
    meter: Meter,
}

impl Flows {
    /// Shows a frame (without virtio-net header) to its flow's meter if it holds a data segment of TCP; false if there is no room for
    /// the flow. Flows are told apart by their 64-bit hash: of 4,096 flows, two share one with a chance of 2^-41.
    #[inline]
    pub fn observe(&mut self, hash: FlowHash, frame: &[u8]) -> bool {
        let Some(segment) = tcp_segment(frame) else { return true };
        let stamp = segment.timestamp.unwrap_or(0);
        if self.slots.is_empty() {
            self.slots = vec![0; SLOTS];
        }
        let slot = self.probe(hash);
        let at = match usize::from(self.slots[slot]).checked_sub(1) {
            Some(at) => at,
            None if self.flows.len() == FLOWS_MAX => return false,
            None => self.insert(slot, hash, frame),
        };
        self.flows[at].meter.observe(segment.seq, segment.end(), stamp);
        true
    }

    /// The slot of the flow, or else the free one where it would go. Half of the slots are free, so there always is one.
    #[inline]
    fn probe(&self, hash: FlowHash) -> usize {
        let mut slot = hash.0 as usize % SLOTS;
        while let Some(at) = usize::from(self.slots[slot]).checked_sub(1)
            && self.flows[at].hash != hash
        {
            slot = (slot + 1) % SLOTS;
        }
        slot
    }

    /// A flow that was not seen before. It allocates, once a flow.
    #[cold]
    fn insert(&mut self, slot: usize, hash: FlowHash, frame: &[u8]) -> usize {
        let key = FlowKey::parse(frame).unwrap_or_default();
        let address = |bits: u128| match key.ethertype {
            ethertype::IPV4 => IpAddr::from(Ipv4Addr::from_bits(bits as u32)),
            _ => IpAddr::from(Ipv6Addr::from_bits(bits)),
        };
        let from = SocketAddr::new(address(key.src), key.src_port);
        let to = SocketAddr::new(address(key.dst), key.dst_port);
        self.flows.push(Flow { hash, from, to, meter: Meter::new() });
        self.slots[slot] = self.flows.len() as u16;
        self.flows.len() - 1
    }

    /// Takes them out one by one, each with the address that it goes to.
    pub fn drain(&mut self) -> impl Iterator<Item = (IpAddr, Flow)> + '_ {
        self.slots.fill(0);
        self.flows.drain(..).map(|flow| (flow.to.ip(), flow))
    }

    /// Takes in one of another worker, if there is room.
    pub fn adopt(&mut self, flow: Flow) {
        if self.slots.is_empty() {
            self.slots = vec![0; SLOTS];
        }
        let slot = self.probe(flow.hash);
        if self.slots[slot] == 0 && self.flows.len() < FLOWS_MAX {
            self.flows.push(flow);
            self.slots[slot] = self.flows.len() as u16;
        }
    }

    /// What was seen, in the order of the flows' first segments.
    pub fn report(&self) -> Vec<FlowCounters> {
        let report = |flow: &Flow| FlowCounters { from: flow.from, to: flow.to, reordering: flow.meter.counters() };
        self.flows.iter().map(report).collect()
    }
}
