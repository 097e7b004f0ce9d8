//! What a switch does with a packet, where it does more than to forward along the routes.

use std::fmt;
use std::sync::Arc;

use machine::{Rebase, Step, Time};
use topology::{NodeId, PortId, Topology};

use crate::{Field, FlowKey};

/// What a switch does with each packet: the pipeline of `OpenFlow`'s model of a switch, and the control machine behind it. A switch without one
/// forwards along the routes, as [`Action::Normal`] does.
///
/// No clock, no socket: the same pipeline works on frames and on simulated packets. What it keeps of the times that it is given goes along when the clock is
/// set back ([`Rebase`]).
pub trait Pipeline: fmt::Debug + Send + Rebase {
    /// A packet has come in by this port of the switch: adds what is to be done, in order. Without an action it is dropped.
    ///
    /// A bond is known by the port of its first member.
    fn process(&mut self, now: Time, in_port: PortId, key: &FlowKey, actions: &mut Vec<Action>);

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

/// One thing that is done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A header field is written: what comes after sees the packet so.
    Set(Field),
    /// It leaves by this port, as it is now.
    Output(PortId),
    /// It goes where the routes say, as it is now: to its destination address, or to everybody.
    Normal,
    /// It is shown to the control machine, as it is now.
    Controller,
}

/// What a control machine sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// The port of the switch that it leaves by.
    pub port: PortId,
    /// From the destination address on, without frame check sequence.
    pub frame: Vec<u8>,
}

/// Makes the pipeline of a switch, or none.
type Make = dyn Fn(&Topology, NodeId) -> Option<Box<dyn Pipeline>> + Send + Sync;

/// The pipelines of switches.
#[derive(Clone, Default)]
pub struct Pipelines(Option<Arc<Make>>);

impl Pipelines {
    /// Each switch gets what `make` makes for it.
    pub fn new(make: impl Fn(&Topology, NodeId) -> Option<Box<dyn Pipeline>> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(make)))
    }

    /// The pipeline of a switch as it starts.
    pub fn make(&self, topology: &Topology, switch: NodeId) -> Option<Box<dyn Pipeline>> {
        self.0.as_ref()?(topology, switch)
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
