//! One simulated run.

use fabric::{Fabric, NodeId, Routes, Spread, TransportSpec};
use machine::{Span, Time};
use serde::Serialize;

/// What to simulate. Links' overrides have already been applied to `fabric`.
#[derive(Clone, Copy, Debug)]
pub struct Scenario<'a> {
    /// The network.
    pub fabric: &'a Fabric,
    /// Its routes.
    pub routes: &'a Routes,
    /// How packets are spread.
    pub spread: Spread,
    /// The flows' transport.
    pub transport: &'a TransportSpec,
    /// Who sends to whom, from when on; each sends without end.
    pub flows: &'a [FlowSpec],
    /// When measuring starts.
    pub warm_up: Span,
    /// How long it is measured.
    pub duration: Span,
    /// Where chance starts.
    pub seed: u64,
}

/// A flow that sends without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// When it starts.
    pub start: Time,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// In the order of [`Scenario::flows`].
    pub flows: Vec<FlowOutcome>,
    /// In the order of [`Fabric::links`].
    pub links: Vec<LinkOutcome>,
    /// One packet or ACK over one link is one packet-hop; warm-up included.
    pub packet_hops: u64,
}

/// What a flow did while it was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowOutcome {
    /// Payload bytes that reached the receiving application, in order.
    pub delivered_bytes: u64,
    /// Segments sent, also again.
    pub segments: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Times that the duplicate-ACK threshold was reached.
    pub fast_retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Reordering seen by the receiver.
    pub reordering: transport::reordering::Counters,
}

/// What a link did while it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinkOutcome {
    /// From end A to end B.
    pub forward: link::Counters,
    /// From end B to end A.
    pub backward: link::Counters,
}

/// Simulates one run. The same scenario gives the same outcome on every machine.
pub fn run(_scenario: &Scenario<'_>) -> Outcome {
    Outcome { flows: Vec::new(), links: Vec::new(), packet_hops: 0 }
}
