//! The path that a script describes. It carries segments of either world: frames or values.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use machine::{Span, Time};
use transport::Ecn;

use crate::segments::script::{Fate, Kind, SEGMENT, Script};
use crate::segments::trace::{Contents, Direction};

/// Bytes of a full segment on the link: Ethernet, IP, TCP with timestamps.
const FRAME: u64 = SEGMENT + 14 + 20 + 32;

/// Packets of a direction arrive no closer together: a host takes as long for one.
const APART: Span = Span::from_us(20);

/// What a path carries, and can mark.
pub trait Markable: Clone {
    /// Marks it (CE, RFC 3168), if it can be. Whether it is marked now.
    fn mark(&mut self) -> bool;
}

/// A packet that waits for others.
struct Held<P> {
    direction: Direction,
    /// Packets that are to be sent before it goes on.
    packets: u64,
    goes_first: bool,
    packet: P,
}

/// What is under way, and what has been.
pub struct Path<P> {
    script: Script,
    /// How often each segment was sent.
    sent: BTreeMap<u64, u32>,
    /// How many packets of the other kinds were.
    syns: u64,
    answers: u64,
    acks: u64,
    /// When the link has sent what waits for it.
    free: Time,
    /// When the last one arrives, by direction.
    last: [Time; 2],
    held: Vec<Held<P>>,
    order: BinaryHeap<Reverse<(Time, usize)>>,
    packets: Vec<Option<(Direction, P)>>,
}

impl<P: Markable> Path<P> {
    pub fn new(script: &Script) -> Self {
        Self {
            script: script.clone(),
            sent: BTreeMap::new(),
            syns: 0,
            answers: 0,
            acks: 0,
            free: Time::ZERO,
            last: [Time::ZERO; 2],
            held: Vec::new(),
            order: BinaryHeap::new(),
            packets: Vec::new(),
        }
    }

    /// The kind of a packet, its number, and how often it has been sent.
    fn count(&mut self, what: &Contents) -> Option<(Kind, u64, u32)> {
        let next = |count: &mut u64| {
            *count += 1;
            *count
        };
        Some(match what {
            Contents::Syn => (Kind::Syn, next(&mut self.syns), 1),
            Contents::SynAck { .. } => (Kind::SynAck, next(&mut self.answers), 1),
            Contents::Ack { .. } => (Kind::Ack, next(&mut self.acks), 1),
            Contents::Data { start, .. } => {
                let number = start / SEGMENT + 1;
                let times = self.sent.entry(number).or_default();
                *times += 1;
                (Kind::Data, number, *times)
            }
            Contents::Answer => return None,
        })
    }

    /// A packet is sent. [`Ecn::CE`] if it was marked.
    pub fn offer(&mut self, now: Time, what: &Contents, mut packet: P) -> Ecn {
        let direction = what.direction();
        let counted = self.count(what);
        let number = counted.map_or(0, |(_, number, _)| number);
        let fates =
            self.script.rules.iter().filter(|rule| counted.is_some_and(|(kind, n, t)| rule.applies(kind, n, t)));
        let (mut late, mut again, mut hold, mut mark) = (Span::ZERO, None, None, Ecn::NONE);
        for fate in fates.map(|rule| rule.fate) {
            match fate {
                Fate::Drop => {
                    self.release(now, direction);
                    return mark;
                }
                Fate::Mark => mark = Ecn::CE.only_if(packet.mark()),
                Fate::Delay(span) => late = late + span,
                Fate::Duplicate(after) => again = Some(after),
                Fate::Behind(packets) => hold = Some((packets, false)),
                Fate::With(last) => hold = Some((last - number, true)),
            }
        }
        match hold {
            Some((packets, goes_first)) if packets > 0 => {
                self.release(now, direction);
                self.held.push(Held { direction, packets, goes_first, packet });
            }
            _ => {
                self.release_those(now, direction, true);
                if let Some(after) = again {
                    self.send(now, direction, late + after, packet.clone());
                }
                self.send(now, direction, late, packet);
                self.release_those(now, direction, false);
            }
        }
        mark
    }

    fn release(&mut self, now: Time, direction: Direction) {
        self.release_those(now, direction, true);
        self.release_those(now, direction, false);
    }

    /// What has waited for this packet goes on.
    fn release_those(&mut self, now: Time, direction: Direction, first: bool) {
        let mut at = 0;
        while let Some(held) = self.held.get_mut(at) {
            if held.direction == direction && held.goes_first == first {
                held.packets -= 1;
                if held.packets == 0 {
                    let held = self.held.remove(at);
                    self.send(now, direction, Span::ZERO, held.packet);
                    continue;
                }
            }
            at += 1;
        }
    }

    fn send(&mut self, now: Time, direction: Direction, late: Span, packet: P) {
        let mut leaves = now;
        if direction == Direction::Forth && self.script.rate > 0 {
            let each = Span::from_ps(FRAME * 8 * 1_000_000_000_000 / self.script.rate);
            let waiting = self.free.since(now).as_ps().div_ceil(each.as_ps());
            if waiting > self.script.queue as u64 {
                return;
            }
            leaves = self.free.max(now) + each;
            self.free = leaves;
        }
        let mut arrives = leaves + self.script.delay + late;
        if late == Span::ZERO {
            let last = &mut self.last[usize::from(direction == Direction::Back)];
            arrives = arrives.max(*last + APART);
            *last = arrives;
        }
        self.order.push(Reverse((arrives, self.packets.len())));
        self.packets.push(Some((direction, packet)));
    }

    /// When the next packet arrives.
    pub fn next(&self) -> Time {
        self.order.peek().map_or(Time::NEVER, |next| next.0.0)
    }

    /// A packet that has arrived.
    pub fn take(&mut self, now: Time) -> Option<(Direction, P)> {
        let Reverse((at, number)) = *self.order.peek()?;
        if at > now {
            return None;
        }
        self.order.pop();
        self.packets[number].take()
    }
}
