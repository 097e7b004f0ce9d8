//! A sender and a receiver, and between them a network of which the test says what it does to each packet.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use machine::{Control, Span, Step, Time};
use transport::TransportSpec;
use transport::{Ack, ReceivingEndpoint, Segment, SendingEndpoint, receiver, sender};

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives after this time.
    Arrive(Span),
    /// It is lost.
    Lose,
    /// It arrives twice, after these times.
    Duplicate(Span, Span),
}

/// Segments that have come and were not taken.
fn discarded(receiver: &ReceivingEndpoint) -> u64 {
    match receiver {
        ReceivingEndpoint::Study(receiver) => receiver.discarded(),
        ReceivingEndpoint::Linux(receiver) => receiver.discarded(),
    }
}

/// A packet under way.
#[derive(Clone, Copy, Debug)]
enum Packet {
    Data(Segment),
    Ack(Ack),
}

/// Both ends and what is under way.
pub struct Pair<F> {
    pub now: Time,
    pub sender: SendingEndpoint,
    pub receiver: ReceivingEndpoint,
    spec: TransportSpec,
    /// Segments that have arrived beyond `in_order`, below which all have.
    arrived: BTreeSet<u64>,
    in_order: u64,
    under_way: BinaryHeap<Reverse<(Time, usize)>>,
    packets: Vec<Packet>,
    deadlines: [Time; 2],
    fate: F,
}

impl<F: FnMut(Time, bool) -> Fate> Pair<F> {
    /// `fate` is asked for each packet that is sent: when, and whether it carries data.
    pub fn new(spec: &TransportSpec, fate: F) -> Self {
        let mut pair = Self {
            now: Time::ZERO,
            sender: SendingEndpoint::new(spec),
            receiver: ReceivingEndpoint::new(spec),
            spec: spec.clone(),
            arrived: BTreeSet::new(),
            in_order: 0,
            under_way: BinaryHeap::new(),
            packets: Vec::new(),
            deadlines: [Time::NEVER; 2],
            fate,
        };
        pair.sender.handle(pair.now, sender::Input::Start);
        pair.drain();
        pair
    }

    fn send(&mut self, packet: Packet) {
        let (first, second) = match (self.fate)(self.now, matches!(packet, Packet::Data(_))) {
            Fate::Lose => return,
            Fate::Arrive(after) => (after, None),
            Fate::Duplicate(after, again) => (after, Some(again)),
        };
        for after in [Some(first), second].into_iter().flatten() {
            self.under_way.push(Reverse((self.now + after, self.packets.len())));
            self.packets.push(packet);
        }
    }

    /// Polls both ends until they wait.
    fn drain(&mut self) {
        self.deadlines[0] = loop {
            match self.sender.poll(self.now) {
                Step::Do(segment) => self.send(Packet::Data(segment)),
                Step::Wait(until) => break until,
            }
        };
        self.deadlines[1] = loop {
            match self.receiver.poll(self.now) {
                Step::Do(ack) => self.send(Packet::Ack(ack)),
                Step::Wait(until) => break until,
            }
        };
        self.check();
    }

    /// What must hold at any time.
    fn check(&mut self) {
        let segment = u64::from(self.spec.segment_bytes);
        while self.arrived.remove(&self.in_order) {
            self.in_order += segment;
        }
        assert_eq!(self.receiver.delivered_bytes(), self.in_order, "delivered is what has arrived in order");
        assert!(
            self.sender.flight() <= u64::from(transport::window(&self.spec)) * segment,
            "the receive window bounds the flight"
        );
        assert!(self.sender.unacknowledged() <= self.receiver.delivered_bytes(), "only what arrived is acknowledged");
        assert!(self.sender.flight() > 0, "a sender with endless data has something in flight");
        assert!(self.deadlines[0] < Time::NEVER, "what is in flight is timed");
    }

    /// Lets the next thing happen; false if it lies behind `end`.
    pub fn step(&mut self, end: Time) -> bool {
        let arrival = self.under_way.peek().map_or(Time::NEVER, |next| next.0.0);
        let next = arrival.min(self.deadlines[0]).min(self.deadlines[1]);
        if next > end {
            return false;
        }
        assert!(next >= self.now, "time runs forwards");
        self.now = next;
        if arrival == next {
            let Some(Reverse((_, id))) = self.under_way.pop() else { return false };
            match self.packets[id] {
                Packet::Data(segment) => {
                    let before = discarded(&self.receiver);
                    self.receiver.handle(self.now, receiver::Input::Data(segment));
                    if before == discarded(&self.receiver) {
                        self.arrived.insert(segment.seq);
                    }
                }
                Packet::Ack(ack) => self.sender.handle(self.now, sender::Input::Ack(ack)),
            }
        } else {
            self.sender.handle(self.now, sender::Input::Tick);
            self.receiver.handle(self.now, receiver::Input::Tick);
        }
        self.drain();
        true
    }
}
