//! What came of one run.

use std::collections::BTreeMap;

use bond::End;
use machine::Span;
use serde::Serialize;
use transport::{paced, transfers};

use crate::RequestOutcome;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// In the order of [`Scenario::flows`](crate::Scenario::flows).
    pub flows: Vec<FlowOutcome>,
    /// What came of requests to a service, where there were some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestOutcome>,
    /// In the order of [`Fabric::links`](fabric::Fabric::links).
    pub links: Vec<LinkOutcome>,
    /// In the order of [`Fabric::bonds`](fabric::Fabric::bonds); warm-up included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bonds: Vec<BondOutcome>,
    /// What each instance of each chain's functions has got and given back, on both courses, in the order of [`Fabric::chains`](fabric::Fabric::chains); warm-up
    /// included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<[FunctionOutcome; 2]>,
    /// The same of built-in functions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub built_in: Vec<[FunctionOutcome; 2]>,
    /// One packet or ACK over one link is one packet-hop; warm-up included.
    pub packet_hops: u64,
    /// How it stood when measuring began, after each step of [`Scenario::time_series`](crate::Scenario::time_series), and at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// Packets that came to hosts which had too many to handle; `None` where hosts cost nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_drops: Option<u64>,
    /// Packets that went nowhere and no link has counted, by the name of the reason: what flows, meters and functions dropped, and VLANs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lost: BTreeMap<&'static str, u64>,
}

/// What a function of a service chain has done on one course.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FunctionOutcome {
    /// Packets that went to it.
    pub in_packets: u64,
    /// Packets that came back from it.
    pub out_packets: u64,
    /// How long it took, on the mean of those that were timed; with the links to it.
    pub delay_mean: Option<Span>,
}

/// How a run stood at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Since measuring began.
    pub at: Span,
    /// In the order of [`Scenario::flows`](crate::Scenario::flows); none where connections come and go.
    pub flows: Vec<FlowSample>,
    /// In the order of [`Fabric::links`](fabric::Fabric::links), counted since measuring began.
    pub links: Vec<LinkOutcome>,
}

/// How a flow stood at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FlowSample {
    /// As in [`FlowOutcome::delivered_bytes`], since the flow began.
    pub delivered_bytes: u64,
    /// As in [`FlowOutcome::arrived_bytes`], since the flow began.
    pub arrived_bytes: u64,
    /// Segments sent again since the flow began.
    pub retransmits: u64,
    /// Segments that came late since measuring began.
    pub reordered: u64,
    /// The sender's congestion window in bytes; `None`: it has none.
    pub cwnd_bytes: Option<u64>,
    /// The smoothed round-trip time; `None`: none has been measured.
    #[serde(skip)]
    pub rtt: Option<Span>,
}

/// What a flow did while it was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowOutcome {
    /// Payload bytes that reached the receiving application, in order.
    pub delivered_bytes: u64,
    /// Payload bytes that reached the receiving host, in whatever order, each once: what links can have carried is held against these.
    #[serde(skip)]
    pub arrived_bytes: u64,
    /// Segments sent, also again.
    pub segments: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Times that the duplicate-ACK threshold was reached.
    pub fast_retransmits: u64,
    /// Retransmission timeouts that expired.
    pub timeouts: u64,
    /// Reordering seen by the receiver.
    pub reordering: transport::reordering::Counters,
    /// How long its packets took from host to host.
    #[serde(skip)]
    pub delays: transport::delay::Delays,
    /// What became of the datagrams, where they were sent at an even pace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<paced::Outcome>,
    /// What became of the connections that came and went, in place of one flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfers: Option<transfers::Outcome>,
}

impl FlowOutcome {
    /// Adds what another connection of the same hosts did.
    pub(crate) fn add(&mut self, other: &Self) {
        self.delivered_bytes += other.delivered_bytes;
        self.arrived_bytes += other.arrived_bytes;
        self.segments += other.segments;
        self.retransmits += other.retransmits;
        self.fast_retransmits += other.fast_retransmits;
        self.timeouts += other.timeouts;
        self.delays.add(&other.delays);
        self.reordering.segments += other.reordering.segments;
        self.reordering.reordered += other.reordering.reordered;
        self.reordering.extent_max = self.reordering.extent_max.max(other.reordering.extent_max);
    }
}

/// What a link did while it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinkOutcome {
    /// From end A to end B.
    pub forward: link::Counters,
    /// From end B to end A.
    pub backward: link::Counters,
}

/// What a bond's end has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BondOutcome {
    /// Frames handed on, or held until they were.
    pub accepted: u64,
    /// Frames dropped since their member did not receive.
    pub inactive: u64,
    /// What resequencing did, where it is on.
    pub reordering: Option<bond::reorder::Counters>,
}

impl BondOutcome {
    pub(crate) fn of<P>(end: &End<P>) -> Self {
        Self {
            accepted: end.counters().accepted,
            inactive: end.counters().inactive,
            reordering: end.reordering().copied(),
        }
    }
}
