//! Connections that come and go, in the engine. A connection is a flow, which the next one of the same hosts takes over when it is over: there are as many
//! flows as connections were ever open at once. What is under way of the connection before shows by its timestamp, and is dropped as by a host that knows no such
//! connection.
//!
//! Linux's hosts shake hands before, and close afterwards as the programs of a live run do. The closing packets are load for links and nothing else: nobody
//! misses one that is lost.
//!
//! ```text
//!   sender: data ----> receiver: it has read the last byte
//!           <--- acknowledgement
//!           <--- answer of 8 bytes, end of the stream (FIN)
//!           FIN ---->
//!           <--- acknowledgement
//! ```

use machine::{Control as _, Span, Time, mix};
use transport::transfers::Outcome;
use transport::{Ack, Ecn, TransportKind, receiver, sender};

use super::{Engine, Flow, STAMP_SHIFT, hash_of};
use crate::FlowOutcome;
use crate::headers::{FIRST_PORT, SERVER_PORT};
use crate::medium::{Event, START};
use crate::pool::Content;
use crate::transfers::{Begun, Transfers};

/// Ports of clients, of which Linux has so many.
const PORTS: u64 = 28_232;
/// Payload of a live receiver's answer, which leaves with its [`Content::FIN`].
const ANSWER_BYTES: u32 = 8;

impl Engine<'_> {
    /// Has the first transfer of each pair begin at its moment; the run begins at `origin`.
    pub(super) fn expect_transfers(&mut self, origin: Time, transfers: Transfers) {
        self.whole_before = transfers.short_from().unwrap_or(self.whole_before);
        for (pair, start) in transfers.next_starts().enumerate() {
            if let Some(start) = start {
                self.begin_later(origin, start, pair as u32);
            }
        }
        self.transfers = Some(transfers);
    }

    fn begin_later(&mut self, now: Time, after: Span, pair: u32) {
        self.medium.calendar.push(now + after, Event { packet: 0, header: pair, at: START });
    }

    /// A transfer of the pair begins, unless too many are open.
    #[cold]
    pub(super) fn begin_transfer(&mut self, now: Time, pair: u32) {
        let index = pair as usize;
        let Some(transfers) = &mut self.transfers else { return };
        // What connections did counts for their pair before another one has the flow.
        let begun = transfers.begin(now, index);
        if let Some(interval) = transfers.next_after(index) {
            self.begin_later(now, interval, pair);
        }
        let Some(Begun { number, sent_bytes, flow }) = begun else { return };
        let flow = if let Some((flow, bytes_before)) = flow {
            self.renew(flow, number, bytes_before);
            flow
        } else {
            self.add_flow(&self.scenario.flows[index], number % PORTS);
            self.flows.len() as u32 - 1
        };
        let sender = &mut self.flows[flow as usize].sender;
        sender.write(now, sent_bytes);
        sender.handle(now, sender::Input::Connect);
        self.poll_sender(now, 2 * flow);
    }

    /// A flow whose connection is over, which had so much payload, has another one, with other ports.
    fn renew(&mut self, flow: u32, number: u64, bytes_before: u64) {
        let index = flow as usize;
        let did = self.outcome_of(index, bytes_before);
        let Some(transfers) = &mut self.transfers else { return };
        transfers.keep(index, &did);
        let seed = mix(self.scenario.seed ^ mix((transfers.pair_of(index) as u64) << 32 | (number + 1)));
        self.flows[index] = Flow::new(self.scenario.transport, seed);
        let number = number % PORTS;
        let port = FIRST_PORT.wrapping_add(number as u16);
        for (direction, ports) in [(2 * index, (port, SERVER_PORT)), (2 * index + 1, (SERVER_PORT, port))] {
            let direction = &mut self.directions[direction];
            direction.is_accepted = false;
            self.medium.headers.renew(direction.header, hash_of((direction.from, direction.to), number), ports);
        }
    }

    /// What the connection of a flow with so much payload has done so far. Its last segment is shorter than it seems to be.
    fn outcome_of(&mut self, flow: usize, size_bytes: u64) -> FlowOutcome {
        let did = self.flows[flow].outcome();
        FlowOutcome { delivered_bytes: did.delivered_bytes.min(size_bytes), ..did }
    }

    pub(super) fn transferred_segment_arrives(&mut self, now: Time, direction: u32, id: u32) {
        let content = self.medium.packets.take(id);
        let index = direction as usize / 2;
        // Also if the flow has another connection by now.
        if content.number == Content::FIN {
            return self.send_closing(now, direction + 1, Content::CLOSED, 0);
        }
        let Some(transfers) = &self.transfers else { return };
        if content.stamp < transfers.began(index) {
            return;
        }
        let segment = content.segment(self.medium.packets.ecn(id), self.medium.packets.offer(id).stamp);
        let flow = &mut self.flows[index];
        if segment.carries_data() {
            let end = (segment.seq + self.segment_bytes).min(transfers.size_bytes(index));
            flow.meter.observe(segment.seq as u32, end as u32, (segment.stamp.as_ps() >> STAMP_SHIFT) as u32);
            flow.delays.record(now.since(segment.stamp));
        }
        let is_joined = self.joining.is_some();
        if is_joined {
            self.join(now, direction, segment);
        } else {
            flow.receiver.handle(now, receiver::Input::Data(segment));
        }
        let read = self.flows[index].receiver.delivered_bytes();
        let is_last = self.transfers.as_mut().is_some_and(|transfers| transfers.note_read(now, index, read));
        if !is_joined {
            self.poll_receiver(now, direction);
        }
        if is_last && self.scenario.transport.kind == TransportKind::Linux {
            self.send_closing(now, direction + 1, Content::FIN, ANSWER_BYTES);
        }
    }

    /// A packet that closes a connection leaves, with so much payload.
    fn send_closing(&mut self, now: Time, direction: u32, number: u64, payload: u32) {
        let id = self.medium.packets.put(Content { number, stamp: now }, None, Ecn::NONE);
        self.send_short(now, direction, id, self.scenario.transport.header_bytes.saturating_add(payload));
    }

    pub(super) fn transfers_ack_arrives(&mut self, now: Time, direction: u32, id: u32) {
        let Content { number: ack, stamp: echo } = self.medium.packets.take(id);
        let index = direction as usize / 2;
        match ack {
            Content::FIN => return self.send_closing(now, direction - 1, Content::FIN, 0),
            Content::CLOSED => return,
            _ => {}
        }
        let Some(transfers) = &self.transfers else { return };
        // Who has had nothing in order echoes nothing yet.
        if echo != Time::ZERO && echo < transfers.began(index) {
            return;
        }
        let packets = &self.medium.packets;
        let (blocks, ecn, offer) = (packets.blocks(id), packets.ecn(id), packets.offer(id));
        self.flows[index].sender.handle(now, sender::Input::Ack(Ack { ack, echo, blocks, ecn, offer }));
        self.poll_sender(now, direction - 1);
        let acknowledged = self.flows[index].sender.unacknowledged();
        if let Some(transfers) = &mut self.transfers {
            transfers.note_acknowledged(index, acknowledged);
        }
    }

    /// What the connections of each pair have done so far; `None` if none come and go.
    pub(crate) fn pairs(&mut self) -> Option<Vec<FlowOutcome>> {
        let mut pairs = self.transfers.as_mut()?.take_kept();
        for flow in 0..self.flows.len() {
            let size_bytes = self.transfers.as_ref()?.size_bytes(flow);
            let did = self.outcome_of(flow, size_bytes);
            pairs[self.transfers.as_ref()?.pair_of(flow)].add(&did);
        }
        Some(pairs)
    }

    /// What became of the transfers of each pair.
    pub(crate) fn transfers(&self) -> Vec<Outcome> {
        self.transfers.as_ref().map(Transfers::outcomes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fabric::Transfers;
    use topology::{NodeId, Routes};
    use transport::transfers::Sizes;
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
            let transfers = Transfers { size: Sizes::fixed(3_500), every: Span::from_ms(1) };
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
                transfers: Some(&transfers),
                requests: None,
                time_series: None,
                faults: &[],
                hosts: None,
                seed: 1,
            };
            let mut engine = Engine::new(&scenario, &[]);
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
