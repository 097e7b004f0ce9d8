//! A flow as its hosts have it.

use machine::Time;
use transport::delay;
use transport::reordering::Meter;
use transport::{ReceivingEndpoint, SendingEndpoint, TransportSpec};

use crate::{FlowOutcome, FlowSample};

/// Both ends of a flow.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) sender: SendingEndpoint,
    pub(crate) receiver: ReceivingEndpoint,
    pub(crate) meter: Meter,
    pub(crate) delays: delay::Meter,
    /// When the timer events of the sender and of the receiver fire that are in the calendar.
    pub(super) armed: [Time; 2],
}

impl Flow {
    pub(super) fn new(spec: &TransportSpec, seed: u64) -> Self {
        Self {
            sender: SendingEndpoint::new(spec).with_seed(seed),
            receiver: ReceivingEndpoint::new(spec),
            meter: Meter::new(),
            delays: delay::Meter::default(),
            armed: [Time::NEVER; 2],
        }
    }

    /// What it has done since it began; its reordering and its delays since this was asked last.
    pub(crate) fn outcome(&mut self) -> FlowOutcome {
        let sent = self.sender.counters();
        FlowOutcome {
            delivered_bytes: self.receiver.delivered_bytes(),
            arrived_bytes: self.meter.delivered(),
            segments: sent.segments,
            retransmits: sent.retransmits,
            fast_retransmits: sent.fast_retransmits,
            timeouts: sent.timeouts,
            reordering: self.meter.take(),
            delays: self.delays.take(),
            datagrams: None,
            transfers: None,
        }
    }

    /// How it stands.
    pub(crate) fn sample(&self) -> FlowSample {
        FlowSample {
            delivered_bytes: self.receiver.delivered_bytes(),
            arrived_bytes: self.meter.delivered(),
            retransmits: self.sender.counters().retransmits,
            reordered: self.meter.counters().reordered,
            cwnd_bytes: Some(self.sender.cwnd()),
            rtt: self.sender.smoothed_rtt(),
        }
    }
}
