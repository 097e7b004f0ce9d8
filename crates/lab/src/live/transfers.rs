//! Connections that come and go, live: two `heddle transfers` for each pair of hosts.

use std::time::{Duration, Instant};

use fabric::Transfers;
use live::transfers::Sent;

use super::datagrams::{Load, Running, Times, arguments, arguments_to};
use super::flow::{FlowFailure, LiveFlow};

/// How long before its beginning a run's programs are started: all, and so much longer for each pair. They share the moment at which it begins.
const LEAD: Duration = Duration::from_millis(200);
const LEAD_A_FLOW: Duration = Duration::from_millis(25);

/// Transfers of a run.
#[derive(Clone, Debug)]
pub(crate) struct Short {
    pub transfers: Transfers,
    /// The seed of the run.
    pub seed: u64,
    /// The longest segment, where that is not what fits the MTU.
    pub segment: Option<u32>,
}

impl Load for Short {
    type Sent = Sent;
    /// It is ended when the sender has done.
    type Received = ();

    fn lead(&self, flows: usize) -> Duration {
        LEAD + LEAD_A_FLOW * flows as u32
    }

    fn receiver(&self, flow: &LiveFlow, _: Times, patience: Duration) -> Vec<String> {
        let numbers = [("--port", u64::from(flow.port)), ("--patience-ms", patience.as_millis() as u64)];
        arguments(&["transfers", "receive"], &numbers)
    }

    fn sender(&self, (index, flow): (usize, &LiveFlow), times: Times, _: Duration) -> Vec<String> {
        let mut numbers = vec![
            ("--every-ps", self.transfers.every.as_ps()),
            ("--seed", transport::transfers::seed(self.seed, index)),
            ("--origin-ns", times.origin.as_nanos() as u64),
            ("--warm-up-ps", times.warm_up.as_ps()),
            ("--for-ps", times.duration.as_ps()),
        ];
        numbers.extend(self.segment.map(|segment| ("--segment", u64::from(segment))));
        let sizes = self.transfers.size.to_string();
        arguments_to(&["transfers", "send", "--sizes", &sizes], &numbers, flow)
    }

    fn sent(sender: &mut Running, deadline: Instant) -> Result<Sent, FlowFailure> {
        sender.report(deadline)
    }

    fn received(_: &mut Running, _: Instant) -> Result<(), FlowFailure> {
        Ok(())
    }
}
