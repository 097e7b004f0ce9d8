//! What a switch does with a packet, where it does more than to forward along the routes.

use std::fmt;
use std::sync::Arc;

use machine::{Rebase, Step, Time};
use topology::{NodeId, PortId, Topology};
use wire::Error;

use crate::FlowKey;
use crate::action::Action;
use crate::flow_table::FlowTables;

/// What a switch does with each packet: the pipeline of `OpenFlow`'s model of a switch, and the control machine behind it. A switch without one
/// forwards along the routes, as [`Action::Normal`] does.
///
/// No clock, no socket: the same pipeline works on frames and on simulated packets. What it keeps of the times that it is given goes along when the clock is
/// set back ([`Rebase`]).
pub trait Pipeline: fmt::Debug + Send + Rebase {
    /// A packet has come in: adds what is to be done, in order. Without an action it is dropped.
    ///
    /// # Errors
    /// If a header is malformed that every switch reads ([`FlowKey::parse`]); the packet is dropped then.
    fn process(&mut self, now: Time, packet: &PacketIn<'_>, actions: &mut Vec<Action>) -> Result<(), Error>;

    /// Whether a meter has dropped the packet that was processed last, or a copy of it.
    fn has_metered(&self) -> bool {
        false
    }

    /// A port has lost its carrier, or has it back. Ports have one when the switch starts.
    fn set_carrier(&mut self, port: PortId, up: bool) {
        let _ = (port, up);
    }

    /// The tables of flows, if that is what it has.
    fn flow_tables(&mut self) -> Option<&mut FlowTables> {
        None
    }

    /// A packet is up to the control machine ([`Action::Controller`]). `frame` has the whole packet, with its checksums; a segment that a kernel left to
    /// others to cut is longer than an MTU. Of a simulated flow's packet it has the headers alone, without checksums.
    fn packet_in(&mut self, now: Time, in_port: PortId, frame: &[u8]) {
        let _ = (now, in_port, frame);
    }

    /// The next thing that the control machine does by itself. It is asked when the switch starts, after each [`Pipeline::packet_in`], and when it
    /// wanted to be, until it wants to wait.
    fn poll(&mut self, now: Time) -> Step<PacketOut> {
        let _ = now;
        Step::Wait(Time::NEVER)
    }
}

/// A packet that has come in.
#[derive(Clone, Copy, Debug)]
pub struct PacketIn<'a> {
    /// The port of the switch that it came in by. A bond is known by the port of its first member.
    pub in_port: PortId,
    /// The network of the tunnel by which it has come in; 0 if it has come by none.
    pub tunnel: u32,
    /// Its bytes from the destination address on, as many as there are; headers at least.
    pub headers: &'a [u8],
    /// Its length in bytes, from the destination address on, without frame check sequence.
    pub bytes: u32,
}

impl PacketIn<'_> {
    /// The fields by which switches spread packets.
    ///
    /// # Errors
    /// As [`FlowKey::parse`].
    pub fn key(&self) -> Result<FlowKey, Error> {
        FlowKey::parse(self.headers)
    }
}

/// What a control machine sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// The port of the switch that it leaves by.
    pub port: PortId,
    /// From the destination address on, without frame check sequence.
    pub frame: Vec<u8>,
}

impl Pipeline for FlowTables {
    fn process(&mut self, now: Time, packet: &PacketIn<'_>, actions: &mut Vec<Action>) -> Result<(), Error> {
        self.process_from(now, (packet.in_port, packet.tunnel), (packet.headers, packet.bytes), actions)
    }

    fn has_metered(&self) -> bool {
        Self::has_metered(self)
    }

    fn set_carrier(&mut self, port: PortId, up: bool) {
        Self::set_carrier(self, port, up);
    }

    fn flow_tables(&mut self) -> Option<&mut FlowTables> {
        Some(self)
    }

    fn poll(&mut self, now: Time) -> Step<PacketOut> {
        Step::Wait(self.expire(now))
    }
}

/// Makes the pipeline of a switch, or none.
type Make = dyn Fn(Time, &Topology, NodeId) -> Option<Box<dyn Pipeline>> + Send + Sync;

/// The pipelines of switches.
#[derive(Clone, Default)]
pub struct Pipelines(Option<Arc<Make>>);

impl Pipelines {
    /// Each switch gets what `make` makes for it.
    pub fn new(make: impl Fn(&Topology, NodeId) -> Option<Box<dyn Pipeline>> + Send + Sync + 'static) -> Self {
        Self::new_at(move |_, topology, switch| make(topology, switch))
    }

    /// The same, and `make` knows when the switch starts.
    pub fn new_at(make: impl Fn(Time, &Topology, NodeId) -> Option<Box<dyn Pipeline>> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(make)))
    }

    /// The pipeline of a switch as it starts at `now`.
    pub fn make(&self, now: Time, topology: &Topology, switch: NodeId) -> Option<Box<dyn Pipeline>> {
        self.0.as_ref()?(now, topology, switch)
    }

    /// Whether no switch has one.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Debug for Pipelines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "no pipelines" } else { "pipelines" })
    }
}
