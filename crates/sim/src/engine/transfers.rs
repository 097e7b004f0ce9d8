//! Connections that come and go: when they begin, what they are in the engine, and when they are over.
//!
//! A connection is a flow of the engine, which the next one of the same hosts takes over when it is over: there are as many flows as connections were ever
//! open at once. What is under way of the connection before shows by its timestamp, and is dropped as by a host that knows no such connection.

use machine::{Control as _, Span, Time, mix};
use transport::transfers::{self, Measured, Meter, OPEN_MAX, Outcome, Starts};
use transport::{Ack, receiver, sender};

use super::{Engine, FIRST_PORT, Flow, SERVER_PORT, STAMP_SHIFT, hash_of};
use crate::FlowOutcome;
use crate::medium::{Event, START};
use crate::pool::Content;

/// Ports of clients, of which Linux has so many.
const PORTS: u64 = 28_232;

/// The transfers of a run.
#[derive(Debug)]
pub(super) struct Transfers {
    size_bytes: u64,
    /// The same in whole segments.
    sent_bytes: u64,
    /// Of the last packet of each.
    last_packet_bytes: u32,
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

impl Transfers {
    pub(super) const fn last_packet_bytes(&self) -> u32 {
        self.last_packet_bytes
    }
}

impl Engine<'_> {
    /// Has the first transfer of each pair begin at its moment; the run begins at `origin`.
    pub(super) fn expect_transfers(&mut self, origin: Time) {
        let (Some(asked), spec) = (self.scenario.transfers, self.scenario.transport) else { return };
        let size_bytes = u64::from(asked.size_bytes.max(1));
        let segments = size_bytes.div_ceil(self.segment_bytes);
        let whole = (segments - 1) * self.segment_bytes;
        if size_bytes < whole + self.segment_bytes {
            self.whole_before = whole;
        }
        let measured = self.scenario.warm_up..self.scenario.warm_up + self.scenario.duration;
        let pair = |index| {
            let mut starts = Starts::new(transfers::seed(self.scenario.seed, index), asked.every);
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
        let pairs: Vec<Pair> = (0..self.scenario.flows.len()).map(pair).collect();
        for (index, pair) in pairs.iter().enumerate().filter(|(_, pair)| pair.next < pair.meter.end()) {
            let event = Event { packet: 0, header: index as u32, at: START };
            self.medium.calendar.push(origin + pair.next, event);
        }
        self.transfers = Some(Transfers {
            size_bytes,
            sent_bytes: segments * self.segment_bytes,
            last_packet_bytes: spec.header_bytes.saturating_add((size_bytes - whole) as u32),
            pairs,
            connections: Vec::new(),
        });
    }

    /// A transfer of the pair begins, unless too many are open.
    #[cold]
    pub(super) fn begin_transfer(&mut self, now: Time, number: u32) {
        let index = number as usize;
        let Some(transfers) = &mut self.transfers else { return };
        let pair = &mut transfers.pairs[index];
        let at = pair.next;
        let measured = pair.meter.begin(at);
        pair.next = pair.starts.next_start();
        if pair.next < pair.meter.end() {
            let interval = Span::from_ps(pair.next.as_ps() - at.as_ps());
            self.medium.calendar.push(now + interval, Event { packet: 0, header: number, at: START });
        }
        if pair.open == OPEN_MAX {
            return;
        }
        pair.open += 1;
        let begun = pair.begun;
        pair.begun += 1;
        let connection = Connection { pair: index, began: now, measured, is_complete: false, is_over: false };
        let sent_bytes = transfers.sent_bytes;
        let flow = if let Some(flow) = pair.free.pop() {
            transfers.connections[flow as usize] = connection;
            self.renew(flow, index, begun);
            flow
        } else {
            transfers.connections.push(connection);
            self.add_flow(&self.scenario.flows[index], begun % PORTS);
            self.flows.len() as u32 - 1
        };
        let sender = &mut self.flows[flow as usize].sender;
        sender.write(now, sent_bytes);
        sender.handle(now, sender::Input::Connect);
        self.poll_sender(now, 2 * flow);
    }

    /// A flow whose connection is over has another one, with other ports.
    fn renew(&mut self, flow: u32, pair: usize, number: u64) {
        let did = self.outcome_of(flow as usize);
        if let Some(transfers) = &mut self.transfers {
            transfers.pairs[pair].did.add(&did);
        }
        let seed = mix(self.scenario.seed ^ mix((pair as u64) << 32 | (number + 1)));
        self.flows[flow as usize] = Flow::new(self.scenario.transport, seed);
        let number = number % PORTS;
        let port = FIRST_PORT.wrapping_add(number as u16);
        for (direction, ports) in [(2 * flow, (port, SERVER_PORT)), (2 * flow + 1, (SERVER_PORT, port))] {
            let direction = &mut self.directions[direction as usize];
            direction.is_accepted = false;
            self.medium.headers.renew(direction.header, hash_of((direction.from, direction.to), number), ports);
        }
    }

    /// What the connection of a flow has done so far. Its last segment is shorter than it seems to be.
    fn outcome_of(&mut self, flow: usize) -> FlowOutcome {
        let did = self.flows[flow].outcome();
        let most = self.transfers.as_ref().map_or(u64::MAX, |transfers| transfers.size_bytes);
        FlowOutcome { delivered_bytes: did.delivered_bytes.min(most), ..did }
    }

    #[inline(never)]
    pub(super) fn transferred_segment_arrives(&mut self, now: Time, direction: u32, id: u32) {
        let segment = self.medium.packets.take(id).segment(self.medium.packets.ecn(id));
        let index = direction as usize / 2;
        let Some(transfers) = &self.transfers else { return };
        if segment.stamp < transfers.connections[index].began {
            return;
        }
        let flow = &mut self.flows[index];
        if segment.carries_data() {
            let end = (segment.seq + self.segment_bytes).min(transfers.size_bytes);
            flow.meter.observe(segment.seq as u32, end as u32, (segment.stamp.as_ps() >> STAMP_SHIFT) as u32);
        }
        if self.joining.is_some() {
            self.join(now, direction, segment);
            return self.note_complete(now, index);
        }
        flow.receiver.handle(now, receiver::Input::Data(segment));
        self.note_complete(now, index);
        self.poll_receiver(now, direction);
    }

    /// The receiving application has read what has come: perhaps it was the last byte.
    fn note_complete(&mut self, now: Time, flow: usize) {
        let Some(transfers) = &mut self.transfers else { return };
        let connection = &mut transfers.connections[flow];
        if connection.is_complete || self.flows[flow].receiver.delivered_bytes() < transfers.sent_bytes {
            return;
        }
        connection.is_complete = true;
        if let Some(measured) = connection.measured {
            transfers.pairs[connection.pair].meter.complete(measured, now.since(connection.began));
        }
    }

    #[inline(never)]
    pub(super) fn transfers_ack_arrives(&mut self, now: Time, direction: u32, id: u32) {
        let Content { number: ack, stamp: echo } = self.medium.packets.take(id);
        let index = direction as usize / 2;
        let Some(transfers) = &self.transfers else { return };
        // Who has had nothing in order echoes nothing yet.
        if echo != Time::ZERO && echo < transfers.connections[index].began {
            return;
        }
        let (blocks, ecn) = (self.medium.packets.blocks(id), self.medium.packets.ecn(id));
        self.flows[index].sender.handle(now, sender::Input::Ack(Ack { ack, echo, blocks, ecn }));
        self.poll_sender(now, direction - 1);
        self.end_transfer(index);
    }

    /// If all is acknowledged, the next connection may have the flow.
    fn end_transfer(&mut self, flow: usize) {
        let Some(transfers) = &mut self.transfers else { return };
        let connection = &mut transfers.connections[flow];
        let is_over = connection.is_complete && self.flows[flow].sender.unacknowledged() >= transfers.sent_bytes;
        if is_over && !connection.is_over {
            connection.is_over = true;
            let pair = &mut transfers.pairs[connection.pair];
            pair.open -= 1;
            pair.free.push(flow as u32);
        }
    }

    /// What the connections of each pair have done so far; `None` if none come and go.
    pub(crate) fn pairs(&mut self) -> Option<Vec<FlowOutcome>> {
        let transfers = self.transfers.as_mut()?;
        let mut pairs: Vec<FlowOutcome> = transfers.pairs.iter().map(|pair| pair.did.clone()).collect();
        for pair in &mut transfers.pairs {
            pair.did.reordering = transport::reordering::Counters::default();
        }
        for flow in 0..self.flows.len() {
            let did = self.outcome_of(flow);
            let pair = self.transfers.as_ref()?.connections[flow].pair;
            pairs[pair].add(&did);
        }
        Some(pairs)
    }

    /// What became of the transfers of each pair.
    pub(crate) fn transfers(&self) -> Vec<Outcome> {
        self.transfers.iter().flat_map(|transfers| &transfers.pairs).map(|pair| pair.meter.outcome()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fabric::Transfers;
    use topology::{NodeId, Routes};
    use transport::{TransportKind, TransportSpec};
    use vswitch::{Pipelines, Spread};

    use super::super::network::{self, GIGABIT};
    use super::*;
    use crate::{FlowSpec, Scenario};

    /// Memory is that of what is open at once, not of what has ended.
    #[test]
    fn connections_take_over_what_ended_ones_had() {
        let fabric = network::network(2, 1, &[(0, 2, GIGABIT), (1, 2, GIGABIT)]);
        for kind in [TransportKind::Linux, TransportKind::Sack] {
            let transport = TransportSpec { kind, initial_window: 10, ..network::reno(100) };
            let scenario = Scenario {
                pipelines: &Pipelines::default(),
                fabric: &fabric,
                routes: &Arc::new(Routes::compute(&fabric.topology)),
                spread: Spread::Single,
                transport: &transport,
                flows: &[FlowSpec { from: NodeId(0), to: NodeId(1), start: Time::ZERO }],
                warm_up: Span::ZERO,
                duration: Span::from_secs(5),
                rate_pps: None,
                transfers: Some(Transfers { size_bytes: 3_500, every: Span::from_ms(1) }),
                faults: &[],
                seed: 1,
            };
            let mut engine = Engine::new(&scenario);
            let mut most = [0; 2];
            for second in 1..=6 {
                engine.run_before(Time::ZERO + Span::from_secs(second));
                let now = [engine.flows.len(), engine.medium.headers.len()];
                most = if second == 1 { now.map(|size| size + size / 2) } else { most };
                assert!(now[0] <= most[0].max(12) && now[1] <= most[1].max(60), "{kind:?}: {now:?} at {second} s");
            }
            let outcome = engine.transfers().remove(0);
            assert!(outcome.started > 4_500 && outcome.unfinished == 0, "{kind:?}: {outcome:?}");
            assert_eq!(engine.in_flight(), 0, "{kind:?}");
            let did = &engine.pairs().expect("connections come and go")[0];
            let bytes = outcome.started * 3_500;
            assert_eq!((did.delivered_bytes, did.arrived_bytes, did.segments), (bytes, bytes, outcome.started * 4));
        }
    }
}
