//! Why frames go nowhere.

use datapath::Loss;
use serde::{Deserialize, Serialize};

/// Frames that came in from a host and went nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// No host has the destination address.
    pub unknown_destination: u64,
    /// More broadcast or multicast than a host may send.
    pub storm_control: u64,
    /// Too short, or longer than the MTU.
    pub malformed: u64,
    /// No buffer was free.
    pub no_buffer: u64,
    /// The link had as many packets under way as it may have of the buffers.
    #[serde(default)]
    pub buffer_share: u64,
    /// A ring between two workers was full.
    pub ring_full: u64,
    /// Announced to everybody that the sender has another host's address (ARP or neighbour discovery).
    #[serde(default)]
    pub spoofed: u64,
    /// No route to the host: links on the way have no carrier.
    #[serde(default)]
    pub no_route: u64,
    /// Sent in a circle by the pipelines of switches, in no time.
    #[serde(default)]
    pub looped: u64,
    /// Dropped by the flow that it met, or since it met none.
    #[serde(default)]
    pub dropped_by_flow: u64,
    /// Dropped by a meter of a switch.
    #[serde(default)]
    pub dropped_by_meter: u64,
    /// Dropped by a built-in function of a chain, which has counted why.
    #[serde(default)]
    pub dropped_by_function: u64,
    /// For a chain that blocks while a function of it is down.
    #[serde(default)]
    pub function_down: u64,
    /// For a chain, or from a function of one, and for nobody or for everybody.
    #[serde(default)]
    pub stray: u64,
    /// In a VLAN that a port of a switch does not carry.
    #[serde(default)]
    pub vlan: u64,
    /// To or from a port of a switch that does not forward, by RSTP.
    #[serde(default)]
    pub discarding: u64,
    /// For a service that did not take it: it has counted why.
    #[serde(default)]
    pub service: u64,
    /// For a service with full NAT of whose own ports none is left.
    #[serde(default)]
    pub no_port: u64,
    /// For a service or a name server, with a wrong checksum.
    #[serde(default)]
    pub checksum: u64,
    /// The same, from an address that no station has: a group's, a service's, ..
    #[serde(default)]
    pub martian: u64,
    /// The same, with a TTL of 0.
    #[serde(default)]
    pub hop_limit: u64,
    /// A control message of a tunnel (Geneve's flag O), which no end forwards.
    #[serde(default)]
    pub tunnel_control: u64,
    /// For a bond of which no member may send.
    pub no_member: u64,
    /// Under way to a part that a new file removed.
    pub removed: u64,
    /// Frames of flows that were not watched because the table was full.
    pub unwatched_flows: u64,
}

impl Refusals {
    /// The counter of what the network itself has lost for this reason.
    pub const fn of(&mut self, loss: Loss) -> &mut u64 {
        match loss {
            Loss::NoRoute => &mut self.no_route,
            Loss::NoMember => &mut self.no_member,
            Loss::Cut => &mut self.removed,
            Loss::Storm => &mut self.storm_control,
            Loss::Malformed => &mut self.malformed,
            Loss::Vlan => &mut self.vlan,
            Loss::Discarding => &mut self.discarding,
            Loss::Service => &mut self.service,
            Loss::NoPort => &mut self.no_port,
            Loss::Loop => &mut self.looped,
            Loss::Pipeline => &mut self.dropped_by_flow,
            Loss::Meter => &mut self.dropped_by_meter,
            Loss::Function => &mut self.dropped_by_function,
            Loss::FunctionDown => &mut self.function_down,
            Loss::Stray => &mut self.stray,
            Loss::Checksum => &mut self.checksum,
            Loss::Martian => &mut self.martian,
            Loss::HopLimit => &mut self.hop_limit,
        }
    }

    /// Adds those of another worker.
    pub const fn add(&mut self, other: &Self) {
        self.unknown_destination += other.unknown_destination;
        self.storm_control += other.storm_control;
        self.malformed += other.malformed;
        self.no_buffer += other.no_buffer;
        self.buffer_share += other.buffer_share;
        self.ring_full += other.ring_full;
        self.spoofed += other.spoofed;
        self.dropped_by_flow += other.dropped_by_flow;
        self.dropped_by_meter += other.dropped_by_meter;
        self.dropped_by_function += other.dropped_by_function;
        self.function_down += other.function_down;
        self.stray += other.stray;
        self.no_route += other.no_route;
        self.looped += other.looped;
        self.vlan += other.vlan;
        self.discarding += other.discarding;
        self.service += other.service;
        self.no_port += other.no_port;
        self.checksum += other.checksum;
        self.martian += other.martian;
        self.hop_limit += other.hop_limit;
        self.tunnel_control += other.tunnel_control;
        self.no_member += other.no_member;
        self.removed += other.removed;
        self.unwatched_flows += other.unwatched_flows;
    }
}
