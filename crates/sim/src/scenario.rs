//! What is simulated in one run.

use std::sync::Arc;

use fabric::{Fabric, LinkFault, RequestLoad, Transfers};
use machine::{Span, Time};
use topology::{NodeId, Routes};
use transport::TransportSpec;
use vswitch::{Pipelines, Spread};

use crate::HostCosts;

/// What to simulate. Links' overrides have already been applied to `fabric`.
#[derive(Clone, Copy, Debug)]
pub struct Scenario<'a> {
    /// The network to simulate.
    pub fabric: &'a Fabric,
    /// The routes of the network.
    pub routes: &'a Arc<Routes>,
    /// How packets are spread.
    pub spread: Spread,
    /// The flows' transport.
    pub transport: &'a TransportSpec,
    /// The flows: which host sends to which, from when on; each sends without end.
    pub flows: &'a [FlowSpec],
    /// When measuring starts.
    pub warm_up: Span,
    /// How long it is measured.
    pub duration: Span,
    /// Of UDP: numbered datagrams a second of each flow, at an even pace. `None`: as fast as it goes.
    pub rate_pps: Option<u64>,
    /// Of TCP: connections that come and go between the hosts of each flow, in place of one without end. The flows' starts don't count then.
    pub transfers: Option<&'a Transfers>,
    /// Requests to a service, in place of flows.
    pub requests: Option<&'a RequestLoad>,
    /// The step in which the measured time is recorded; `None`: it is not.
    pub time_series: Option<Span>,
    /// Faults of links, by the time since measuring began.
    pub faults: &'a [LinkFault],
    /// What hosts cost the machine that all of them are on. `None`: nothing, they answer at once.
    pub hosts: Option<HostCosts>,
    /// What switches do besides forwarding along the routes.
    pub pipelines: &'a Pipelines,
    /// The seed of all randomness.
    pub seed: u64,
}

/// A flow that sends without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// The host that sends.
    pub from: NodeId,
    /// The host that receives.
    pub to: NodeId,
    /// When it starts.
    pub start: Time,
}
