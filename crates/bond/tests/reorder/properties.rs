//! What holds whatever comes: held against a model without any cleverness, over random links, and under hostile input.

use std::collections::{BTreeMap, BTreeSet};

use bond::reorder::{BySequence, ByTcp, Config, Numbered, Reorder, Segment, TcpConfig, Timeout};
use machine::{Span, Time};
use proptest::prelude::*;
use wire::tcp_flags::{ACK, FIN, RST, SYN};

use crate::reorder::links::{Link, come_back, drive, round_robin};

const BUFFER: i64 = 16;
const TIMEOUT: Span = Span::from_us(20);
/// The stream's first numbers; it wraps soon.
const BASE: u32 = u32::MAX - 60;

/// The rules, with sets instead of rings. Numbers are counted from [`BASE`] without wrapping.
#[derive(Default)]
struct Model {
    members: Vec<usize>,
    next: Option<i64>,
    /// When each frame came that waits, and as which.
    waits: BTreeMap<i64, (Time, usize, usize)>,
    came: BTreeSet<i64>,
    newest: [Option<i64>; 4],
    stale: u32,
    arrivals: usize,
}

impl Model {
    fn offer(&mut self, now: Time, member: usize, number: i64, packet: usize) -> Vec<usize> {
        let mut left = self.expire(now);
        self.arrivals += 1;
        let counted = i64::from(BASE.wrapping_add(number as u32));
        let start = if counted < BUFFER { number - counted } else { number };
        let next = *self.next.get_or_insert(start);
        if number + BUFFER < next {
            self.stale += 1;
            if self.stale == 32 {
                left.extend(self.flush());
                *self = Self {
                    members: self.members.clone(),
                    next: Some(number + 1),
                    came: [number].into(),
                    arrivals: self.arrivals,
                    ..Self::default()
                };
                self.newest[member] = Some(number);
            }
            left.push(packet);
            return left;
        }
        self.stale = 0;
        left.extend(self.give_up_to(number + 1 - BUFFER));
        self.newest[member] = self.newest[member].max(Some(number));
        if self.came.insert(number) {
            if Some(number) < self.next {
                left.push(packet);
            } else {
                self.waits.insert(number, (now, self.arrivals, packet));
                left.extend(self.give_up_to(i64::MIN));
            }
        }
        left.extend(self.skip());
        left
    }

    fn skip(&mut self) -> Vec<usize> {
        let least = self.members.iter().map(|&member| self.newest[member]).min().flatten();
        least.filter(|_| !self.waits.is_empty()).map_or(Vec::new(), |below| self.give_up_to(below))
    }

    fn give_up_to(&mut self, to: i64) -> Vec<usize> {
        let mut left = Vec::new();
        let Some(next) = &mut self.next else { return left };
        loop {
            if let Some((_, _, packet)) = self.waits.remove(next) {
                left.push(packet);
            } else if *next >= to {
                return left;
            }
            *next += 1;
        }
    }

    fn oldest(&self) -> Option<(i64, Time)> {
        let first = self.waits.iter().min_by_key(|(_, waits)| waits.1);
        first.map(|(&number, waits)| (number, waits.0))
    }

    fn expire(&mut self, now: Time) -> Vec<usize> {
        let mut left = Vec::new();
        while let Some((number, _)) = self.oldest().filter(|(_, came)| *came + TIMEOUT <= now) {
            left.extend(self.give_up_to(number));
        }
        left
    }

    fn flush(&mut self) -> Vec<usize> {
        let end = self.waits.last_key_value().map_or(0, |(&number, _)| number + 1);
        if self.waits.is_empty() { Vec::new() } else { self.give_up_to(end) }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A frame after so many nanoseconds, so far from where the stream is.
    Offer {
        after_ns: u64,
        member: u8,
        ahead: i64,
    },
    Members(u32),
    ComeBack,
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ahead = prop_oneof![8 => -6_i64..7, 2 => -40_i64..40, 1 => -90_i64..-40];
    let offer = (0_u64..4_000, 0_u8..4, ahead);
    let offer = offer.prop_map(|(after_ns, member, ahead)| Step::Offer { after_ns, member, ahead });
    let others = prop_oneof![(0_u32..16).prop_map(Step::Members), Just(Step::ComeBack), Just(Step::Flush)];
    proptest::collection::vec(prop_oneof![20 => offer, 1 => others], 1..250)
}

/// One hostile segment: an action and a flow, where it lies, how it looks.
fn hostile() -> impl Strategy<Value = (u64, u8, Option<Segment>)> {
    let seq = prop_oneof![6 => 0_u32..3_000, 1 => any::<u32>(), 1 => u32::MAX - 2_000..=u32::MAX];
    let flags = prop_oneof![12 => Just(ACK), 1 => Just(SYN), 1 => Just(FIN | ACK), 1 => Just(RST), 1 => any::<u8>()];
    let segment = (0_u64..12, seq, prop_oneof![0_u32..4, Just(100), any::<u32>()], flags, prop::bool::weighted(0.1));
    let segment = segment.prop_map(|(flow, seq, payload_len, flags, has_sack)| Segment {
        flow,
        seq: seq / 100 * 100,
        payload_len,
        flags,
        has_sack,
    });
    (0_u64..30_000, 0_u8..4, prop::option::weighted(0.95, segment))
}

/// Whether it may have to wait.
fn may_wait(segment: Option<Segment>) -> bool {
    segment.is_some_and(|it| it.flags & (SYN | RST) == 0 && (it.payload_len > 0 || it.flags & FIN != 0) && !it.has_sack)
}

/// When each of the packets `0..count` left; each did, once.
fn departures(left: &[(Time, usize)], count: usize) -> Vec<Time> {
    let mut at = vec![None; count];
    for &(time, packet) in left {
        assert_eq!(at[packet].replace(time), None, "packet {packet} left twice");
    }
    at.into_iter().enumerate().map(|(packet, at)| at.unwrap_or_else(|| panic!("packet {packet} was lost"))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn numbered_frames_leave_as_the_model_says(steps in steps()) {
        let config = Config { buffer: BUFFER as u32, timeout: TIMEOUT };
        let (mut machine, mut model) = (BySequence::new(config).unwrap(), Model::default());
        let (mut now, mut at) = (Time::ZERO, 0);
        let mut came = Vec::new();
        let mut gone = 0;
        for (packet, step) in steps.into_iter().enumerate() {
            let mut left = Vec::new();
            let expected = match step {
                Step::Offer { after_ns, member, ahead } => {
                    now += Span::from_ns(after_ns);
                    at += 1;
                    let number = (at + ahead).max(-200);
                    let header = Numbered { epoch: 3, number: BASE.wrapping_add(number as u32) };
                    came.push(now);
                    machine.offer(now, member, header, packet, &mut |packet| left.push(packet));
                    model.offer(now, member.into(), number, packet)
                }
                Step::Members(members) => {
                    machine.set_members(now, members, &mut |packet| left.push(packet));
                    model.members = (0..4).filter(|member| members >> member & 1 == 1).collect();
                    model.skip()
                }
                Step::ComeBack => {
                    now = machine.deadline().map_or(now, |deadline| deadline.max(now));
                    machine.expire(now, &mut |packet| left.push(packet));
                    model.expire(now)
                }
                Step::Flush => {
                    machine.flush(now, &mut |packet| left.push(packet));
                    model.flush()
                }
            };
            gone += left.len();
            prop_assert_eq!(left, expected, "at step {}", packet);
            prop_assert_eq!(machine.waiting() as usize, model.waits.len());
            prop_assert_eq!(machine.deadline(), model.oldest().map(|(_, came)| came + TIMEOUT));
        }
        let counters = machine.counters();
        prop_assert_eq!(counters.offered as usize, gone + counters.duplicates as usize + machine.waiting() as usize);
        prop_assert_eq!(counters.holds.iter().sum::<u64>() + u64::from(machine.waiting()), counters.held);
        prop_assert!(counters.waiting_peak <= BUFFER as u32);
    }

    #[test]
    fn no_number_leaves_twice_nor_is_lost_nor_waits_too_long(
        frames in proptest::collection::vec((0_u64..9_000, 0_u8..4, 0_u32..3, any::<u16>()), 1..300),
        buffer in 1_u32..7,
        members in 0_u32..16,
    ) {
        // Any numbers at all, of few epochs.
        let mut machine = BySequence::new(Config { buffer: 1 << buffer, timeout: TIMEOUT }).unwrap();
        machine.set_members(Time::ZERO, members, &mut |_| unreachable!());
        let (mut now, mut left, mut came, mut dropped) = (Time::ZERO, Vec::new(), Vec::new(), BTreeSet::new());
        for (packet, &(after_ns, member, scale, raw)) in frames.iter().enumerate() {
            now += Span::from_ns(after_ns);
            come_back(&mut machine, now, &mut left);
            let number = u32::from(raw) << (scale * 8) >> (8 * (2 - scale));
            let copies = machine.counters().duplicates;
            let header = Numbered { epoch: u16::from(raw % 50 == 0), number };
            machine.offer(now, member, header, packet, &mut |packet| left.push((now, packet)));
            if machine.counters().duplicates > copies {
                dropped.insert(packet);
            }
            came.push(now);
            prop_assert!(machine.waiting() <= 1 << buffer);
        }
        come_back(&mut machine, Time::NEVER, &mut left);
        left.extend(dropped.iter().map(|&packet| (came[packet], packet)));
        for (left, came) in departures(&left, frames.len()).into_iter().zip(came) {
            prop_assert!(left.since(came) <= TIMEOUT, "waited for {}", left.since(came));
        }
        prop_assert!(machine.counters().hold_max <= TIMEOUT);
    }

    #[test]
    fn hostile_segments_all_leave_once_and_in_time(
        segments in proptest::collection::vec(hostile(), 1..300),
        log in 1_u32..6,
        members in 0_u32..16,
        measured: bool,
    ) {
        let ceiling = Span::from_us(100);
        let timeout = if measured { Timeout::Measured(ceiling) } else { Timeout::Fixed(ceiling) };
        let mut machine = ByTcp::new(TcpConfig { buffer: 1 << log, flows: 8, timeout, seed: 1 }).unwrap();
        machine.set_members(Time::ZERO, members, &mut |_| unreachable!());
        let (mut now, mut left, mut came) = (Time::ZERO, Vec::new(), Vec::new());
        let mut waits = BTreeSet::new();
        for (packet, &(after_ns, member, segment)) in segments.iter().enumerate() {
            now += Span::from_ns(after_ns);
            let seen = left.len();
            come_back(&mut machine, now, &mut left);
            waits.insert(packet);
            machine.offer(now, member, segment, packet, &mut |packet| left.push((now, packet)));
            came.push(now);
            for (_, packet) in &left[seen..] {
                prop_assert!(waits.remove(packet), "what leaves had waited");
            }
            prop_assert_eq!(waits.len(), machine.waiting() as usize);
            prop_assert!(machine.waiting() <= 1 << log);
            let Some(segment) = segment.filter(|_| !may_wait(segment)) else { continue };
            prop_assert!(!waits.contains(&packet), "{segment:?} must not wait");
            // What goes at once and has a place takes along what belongs before it.
            let carries = segment.payload_len > 0 || segment.flags & FIN != 0;
            for other in waits.iter().filter_map(|&packet| segments[packet].2).filter(|it| it.flow == segment.flow) {
                prop_assert!(segment.flags & (SYN | RST) == 0, "{segment:?} before {other:?}");
                let before = other.seq.wrapping_sub(segment.seq).cast_signed() < 0;
                prop_assert!(!(carries && before), "{segment:?} before {other:?}");
            }
        }
        come_back(&mut machine, Time::NEVER, &mut left);
        for (left, came) in departures(&left, segments.len()).into_iter().zip(came) {
            prop_assert!(left.since(came) <= ceiling, "waited for {}", left.since(came));
        }
        let counters = machine.counters();
        prop_assert_eq!(counters.holds.iter().sum::<u64>(), counters.held);
        prop_assert_eq!((counters.offered as usize, counters.duplicates), (segments.len(), 0));
    }

    #[test]
    fn links_that_keep_order_are_repaired_entirely(
        links in proptest::collection::vec((1_u64..11, 0_u64..300, 0_u64..100, 0_u32..50_000), 1..9),
        flows in 1_usize..4,
        seed: u64,
    ) {
        let links: Vec<_> = links
            .into_iter()
            .map(|(rate, delay, jitter, loss_ppm)| Link {
                rate_bps: rate * 100_000_000,
                delay: Span::from_us(delay),
                jitter: Span::from_us(jitter),
                loss_ppm,
            })
            .collect();
        let slowest = links.iter().map(|link| link.rate_bps).min().unwrap();
        let interval = Span::transmission(1_500, slowest * links.len() as u64);
        let arrivals = round_robin(&links, 1_000, interval, seed);
        // No two links differ by more: delay, jitter, and what a frame lasts on the slowest one.
        let timeout = Span::from_us(300 + 100 + 120);
        let came: BTreeMap<usize, Time> = arrivals.iter().map(|arrival| (arrival.frame, arrival.at)).collect();
        let check = |left: Vec<(Time, usize)>, flows: usize| {
            let mut last = vec![None; flows];
            for &(at, frame) in &left {
                assert!(last[frame % flows] < Some(frame), "frame {frame} is late");
                last[frame % flows] = Some(frame);
                assert!(at.since(came[&frame]) <= timeout, "frame {frame} waited for {}", at.since(came[&frame]));
            }
            assert_eq!(left.len(), arrivals.len());
        };

        let mut machine = BySequence::new(Config { buffer: 1_024, timeout }).unwrap();
        machine.set_members(Time::ZERO, (1 << links.len()) - 1, &mut |_| unreachable!());
        check(drive(&mut machine, &arrivals, |frame| Numbered { epoch: 1, number: frame as u32 }), 1);

        let config = TcpConfig { buffer: 1_024, timeout: Timeout::Fixed(timeout), ..TcpConfig::default() };
        let mut machine = ByTcp::new(config).unwrap();
        machine.set_members(Time::ZERO, (1 << links.len()) - 1, &mut |_| unreachable!());
        let start = u32::MAX - 50_000;
        for flow in 1..=flows as u64 {
            let syn = Segment { flow, seq: start - 1, payload_len: 0, flags: SYN, has_sack: false };
            machine.offer(Time::ZERO, 0, Some(syn), 0, &mut |_| ());
        }
        let segment = |frame: usize| {
            let seq = start.wrapping_add((frame / flows) as u32 * 1_448);
            Some(Segment { flow: (frame % flows) as u64 + 1, seq, payload_len: 1_448, flags: ACK, has_sack: false })
        };
        check(drive(&mut machine, &arrivals, segment), flows);
    }
}
