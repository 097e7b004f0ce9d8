//! Connections that come and go: when they begin, which flow of the engine each has, and when it is over.

use machine::{Span, Time};
use transport::transfers::{self, Measured, Meter, OPEN_MAX, Outcome, Starts};

use crate::{FlowOutcome, Scenario};

/// The transfers of a run.
#[derive(Debug)]
pub(crate) struct Transfers {
    /// Payload of each.
    pub(crate) size_bytes: u64,
    /// The same in whole segments.
    pub(crate) sent_bytes: u64,
    /// Where a segment begins that is not full; `None` where all are.
    pub(crate) short_from: Option<u64>,
    /// Of the last packet of each.
    pub(crate) last_packet_bytes: u32,
    /// In the order of the scenario's flows.
    pairs: Vec<Pair>,
    /// By flow.
    connections: Vec<Connection>,
}

/// The transfers of two hosts.
#[derive(Debug)]
struct Pair {
    starts: Starts,
    /// When the next one begins, since the run began.
    next: Span,
    meter: Meter,
    begun: u64,
    open: usize,
    /// Flows whose connection is over.
    free: Vec<u32>,
    /// What connections did whose flow another one has taken over.
    did: FlowOutcome,
}

/// What is known of a flow's connection.
#[derive(Clone, Copy, Debug)]
struct Connection {
    pair: usize,
    began: Time,
    measured: Option<Measured>,
    /// The receiver has all of it.
    is_complete: bool,
    /// The sender knows.
    is_over: bool,
}

/// A transfer that begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// How many of its pair were begun before.
    pub(crate) number: u64,
    /// The flow that it takes over; `None`: it has a new one, the next.
    pub(crate) flow: Option<u32>,
}

impl Transfers {
    /// Those of a scenario, if it has any.
    pub(crate) fn of(scenario: &Scenario<'_>) -> Option<Self> {
        let (asked, spec) = (scenario.transfers?, scenario.transport);
        let segment_bytes = u64::from(spec.segment_bytes.max(1));
        let size_bytes = u64::from(asked.size_bytes.max(1));
        let segments = size_bytes.div_ceil(segment_bytes);
        let last = (segments - 1) * segment_bytes;
        let measured = scenario.warm_up..scenario.warm_up + scenario.duration;
        let pair = |index| {
            let mut starts = Starts::new(transfers::seed(scenario.seed, index), asked.every);
            Pair {
                next: starts.next_start(),
                starts,
                meter: Meter::new(measured.clone()),
                begun: 0,
                open: 0,
                free: Vec::new(),
                did: FlowOutcome::default(),
            }
        };
        Some(Self {
            size_bytes,
            sent_bytes: segments * segment_bytes,
            short_from: (size_bytes < last + segment_bytes).then_some(last),
            last_packet_bytes: spec.header_bytes.saturating_add((size_bytes - last) as u32),
            pairs: (0..scenario.flows.len()).map(pair).collect(),
            connections: Vec::new(),
        })
    }

    /// When the next transfer of each pair begins, since the run began; `None`: no more do.
    pub(crate) fn next_starts(&self) -> impl Iterator<Item = Option<Span>> {
        self.pairs.iter().map(Pair::next_start)
    }

    /// When the next transfer of a pair begins after the one that begins now; `None`: no more do.
    pub(crate) fn next_after(&mut self, pair: usize) -> Option<Span> {
        let pair = &mut self.pairs[pair];
        let now = pair.next;
        pair.next = pair.starts.next_start();
        pair.next_start().map(|next| Span::from_ps(next.as_ps() - now.as_ps()))
    }

    /// The next transfer of a pair begins; `None`: it does not, since too many are open.
    pub(crate) fn begin(&mut self, now: Time, pair: usize) -> Option<Begun> {
        let of_pair = &mut self.pairs[pair];
        let measured = of_pair.meter.begin(of_pair.next);
        if of_pair.open == OPEN_MAX {
            return None;
        }
        of_pair.open += 1;
        let begun = Begun { number: of_pair.begun, flow: of_pair.free.pop() };
        of_pair.begun += 1;
        let connection = Connection { pair, began: now, measured, is_complete: false, is_over: false };
        match begun.flow {
            Some(flow) => self.connections[flow as usize] = connection,
            None => self.connections.push(connection),
        }
        Some(begun)
    }

    /// When the connection of a flow began: what is older is of the one before.
    pub(crate) fn began(&self, flow: usize) -> Time {
        self.connections[flow].began
    }

    /// The pair of a flow's connection.
    pub(crate) fn pair_of(&self, flow: usize) -> usize {
        self.connections[flow].pair
    }

    /// A receiving application has read so much in all. Whether the last byte was among it.
    pub(crate) fn note_read(&mut self, now: Time, flow: usize, bytes: u64) -> bool {
        let connection = &mut self.connections[flow];
        if connection.is_complete || bytes < self.sent_bytes {
            return false;
        }
        connection.is_complete = true;
        if let Some(measured) = connection.measured {
            self.pairs[connection.pair].meter.complete(measured, now.since(connection.began));
        }
        true
    }

    /// A sender has had so much acknowledged. If it is all, the next connection may have the flow.
    pub(crate) fn note_acknowledged(&mut self, flow: usize, bytes: u64) {
        let connection = &mut self.connections[flow];
        if connection.is_complete && !connection.is_over && bytes >= self.sent_bytes {
            connection.is_over = true;
            let pair = &mut self.pairs[connection.pair];
            pair.open -= 1;
            pair.free.push(flow as u32);
        }
    }

    /// What a connection did whose flow another one of the same pair takes over.
    pub(crate) fn keep(&mut self, flow: usize, did: &FlowOutcome) {
        self.pairs[self.connections[flow].pair].did.add(did);
    }

    /// What such connections did, by pair; their reordering since this was asked last.
    pub(crate) fn take_kept(&mut self) -> Vec<FlowOutcome> {
        let take = |pair: &mut Pair| {
            let did = pair.did.clone();
            pair.did.reordering = transport::reordering::Counters::default();
            did
        };
        self.pairs.iter_mut().map(take).collect()
    }

    /// What became of the transfers, by pair.
    pub(crate) fn outcomes(&self) -> Vec<Outcome> {
        self.pairs.iter().map(|pair| pair.meter.outcome()).collect()
    }
}

impl Pair {
    fn next_start(&self) -> Option<Span> {
        (self.next < self.meter.end()).then_some(self.next)
    }
}
