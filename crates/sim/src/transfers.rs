//! Connections that come and go: when they begin, which flow of the engine each has, and when it is over.

use machine::{Span, Time};
use transport::transfers::{self, Draws, Measured, Meter, OPEN_MAX, Outcome, Starts};

use crate::{FlowOutcome, Scenario};

/// The transfers of a run.
#[derive(Debug)]
pub(crate) struct Transfers {
    segment_bytes: u64,
    header_bytes: u32,
    /// Payload of each, where all have the same.
    same_size: Option<u64>,
    /// In the order of the scenario's flows.
    pairs: Vec<Pair>,
    /// By flow.
    connections: Vec<Connection>,
}

/// The transfers of two hosts.
#[derive(Debug)]
struct Pair {
    starts: Starts,
    sizes: Draws,
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
    size_bytes: u64,
    /// The same in whole segments.
    sent_bytes: u64,
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
    /// Its payload in whole segments.
    pub(crate) sent_bytes: u64,
    /// The flow that it takes over, and the payload of the connection that had it before; `None`: it has a new one, the next.
    pub(crate) flow: Option<(u32, u64)>,
}

impl Transfers {
    /// Those of a scenario, if it has any.
    pub(crate) fn of(scenario: &Scenario<'_>) -> Option<Self> {
        let (asked, spec) = (scenario.transfers?, scenario.transport);
        let measured = scenario.warm_up..scenario.warm_up + scenario.duration;
        let pair = |index| {
            let seed = transfers::seed(scenario.seed, index);
            let mut starts = Starts::new(seed, asked.every);
            Pair {
                next: starts.next_start(),
                starts,
                sizes: Draws::new(seed, asked.size.clone()),
                meter: Meter::new(measured.clone(), &asked.size),
                begun: 0,
                open: 0,
                free: Vec::new(),
                did: FlowOutcome::default(),
            }
        };
        Some(Self {
            segment_bytes: u64::from(spec.segment_bytes.max(1)),
            header_bytes: spec.header_bytes,
            same_size: asked.size.all_the_same().map(u64::from),
            pairs: (0..scenario.flows.len()).map(pair).collect(),
            connections: Vec::new(),
        })
    }

    /// Where a segment begins that may not be full; `None`: all are.
    pub(crate) fn short_from(&self) -> Option<u64> {
        let Some(size) = self.same_size else { return Some(0) };
        let last = self.last_segment(size);
        (size < last + self.segment_bytes).then_some(last)
    }

    /// Where the last segment of a transfer of so many bytes begins.
    const fn last_segment(&self, size_bytes: u64) -> u64 {
        size_bytes.saturating_sub(1) / self.segment_bytes * self.segment_bytes
    }

    /// Payload of the transfer that has a flow.
    pub(crate) fn size_bytes(&self, flow: usize) -> u64 {
        self.connections[flow].size_bytes
    }

    /// How long the packet is whose payload begins there.
    pub(crate) fn packet_bytes(&self, flow: usize, seq: u64) -> u32 {
        let payload = self.connections[flow].size_bytes.saturating_sub(seq).min(self.segment_bytes);
        self.header_bytes.saturating_add(payload as u32)
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
        let size = of_pair.sizes.next_size();
        let measured = of_pair.meter.begin(of_pair.next, size);
        if of_pair.open == OPEN_MAX {
            return None;
        }
        of_pair.open += 1;
        let size_bytes = u64::from(size);
        let sent_bytes = size_bytes.div_ceil(self.segment_bytes) * self.segment_bytes;
        let flow = of_pair.free.pop().map(|flow| (flow, self.connections[flow as usize].size_bytes));
        let begun = Begun { number: of_pair.begun, sent_bytes, flow };
        of_pair.begun += 1;
        let connection =
            Connection { pair, began: now, size_bytes, sent_bytes, measured, is_complete: false, is_over: false };
        match begun.flow {
            Some((flow, _)) => self.connections[flow as usize] = connection,
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
        if connection.is_complete || bytes < connection.sent_bytes {
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
        if connection.is_complete && !connection.is_over && bytes >= connection.sent_bytes {
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

    /// What such connections did, by pair; their reordering and delays since this was asked last.
    pub(crate) fn take_kept(&mut self) -> Vec<FlowOutcome> {
        let take = |pair: &mut Pair| {
            let did = pair.did.clone();
            pair.did.reordering = transport::reordering::Counters::default();
            pair.did.delays = transport::delay::Delays::default();
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
