//! Ends of bonds whose clock is set back now and then do what they do by a clock that is not: the same outputs at the same distance, whatever happens to
//! their members, in every mode. What is forgotten when the clock is set back is late by as much.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use bond::end::{End, Framed, Partner, Plan};
use bond::{Carrier, MemberId, MemberSet, Summary, Transmit, reorder};
use machine::{Rebase, Rng, Span, Step, Time};
use wire::tcp_flags::{ACK, SYN};
use wire::{ArpOperation, ArpRepr, BROADCAST, EthernetRepr, ethertype};

const MEMBERS: usize = 3;
/// The clock always shows more: no timeout is longer, and nobody looks further back.
const LEAST: Span = Span::from_secs(1_000);
const START: Span = Span::from_secs(200_000);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Packet {
    number: u32,
    bytes: Vec<u8>,
}

impl Framed for Packet {
    fn frame(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// What is on a cable: to which end, by which member, with which number of the sender's end.
struct Flying {
    to: usize,
    member: usize,
    sequence: u32,
    packet: Packet,
    is_control: bool,
}

/// Two ends on cables of different lengths, and a clock.
struct World {
    is_set_back: bool,
    /// By how much the clock has been set back.
    back: Span,
    /// Since the start, however often the clock was set back.
    now: Time,
    ends: [End<Packet>; 2],
    is_internal: bool,
    wakes: [Time; 2],
    up: [bool; MEMBERS],
    /// Nothing comes through until then.
    mute_until: Time,
    /// Until then, what is sent comes back by the same member.
    looped_until: Time,
    flying: BTreeMap<(Time, u32), Flying>,
    flown: u32,
    sent: u32,
    rng: Rng,
    /// When, and what.
    trace: Vec<(Time, String)>,
}

fn mac(system: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, 1 + system as u8]
}

fn address(system: usize) -> [u8; 4] {
    [10, 0, 0, 1 + system as u8]
}

fn plan(system: usize, options: &str, reorder: bool, is_internal: bool) -> Plan {
    let members =
        (0..MEMBERS as u8).map(|n| (format!("eth{n}"), [2, 1 + n, 0, 0, 0, system as u8], Carrier::up(1_000)));
    let hello = NonZeroU64::new(11 + system as u64);
    Plan {
        config: options.parse().unwrap_or_else(|error| panic!("{options}: {error}")),
        partner: if is_internal { Partner::Internal } else { Partner::External { hello } },
        reorder: reorder.then_some(reorder::Config { buffer: 64, timeout: Span::from_ms(300) }),
        mac: mac(system),
        members: members.collect(),
        addresses: vec![address(system).into()],
        partner_uses: MemberSet::EMPTY,
        seed: 1,
    }
}

fn ethernet(from: usize, dst: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14 + payload.len()];
    EthernetRepr { dst, src: mac(from), vlan: None, ethertype }.emit(&mut frame);
    frame[14..].copy_from_slice(payload);
    frame
}

/// The host at `from` sends: segments of a few connections most of the time.
fn frame(from: usize, number: u32, rng: &mut Rng) -> Vec<u8> {
    let to = 1 - from;
    match rng.below(12) {
        0 => {
            let operation = if rng.below(2) == 0 { ArpOperation::Request } else { ArpOperation::Reply };
            let is_reply = operation == ArpOperation::Reply;
            let message = ArpRepr {
                operation,
                sender_mac: mac(from),
                sender_ipv4: address(from).into(),
                target_mac: if is_reply { mac(to) } else { [0; 6] },
                target_ipv4: address(to).into(),
            };
            let mut payload = vec![0; message.buffer_len()];
            message.emit(&mut payload);
            ethernet(from, if is_reply { mac(to) } else { BROADCAST }, ethertype::ARP, &payload)
        }
        1 => {
            // An IGMPv2 report, with router alert.
            let mut ip = vec![0x46, 0, 0, 32, 0, 0, 0, 0, 1, 2, 0, 0];
            ip.extend(address(from));
            ip.extend([239, 1, 2, 3, 0x94, 4, 0, 0]);
            let mut igmp = vec![0x16, 0, 0, 0, 239, 1, 2, 3];
            let sum = wire::checksum::internet(&igmp);
            igmp[2..4].copy_from_slice(&sum.to_be_bytes());
            ip.extend(igmp);
            ethernet(from, [1, 0, 0x5e, 1, 2, 3], ethertype::IPV4, &ip)
        }
        kind => {
            let mut ip = vec![0x45, 0, 0, 140, 0, 0, 0, 0, 64, 6, 0, 0];
            ip.extend(address(from));
            ip.extend(address(to));
            ip.extend((40_000 + kind as u16 % 3).to_be_bytes());
            ip.extend(5_201_u16.to_be_bytes());
            ip.extend((number * 100).to_be_bytes());
            ip.extend([
                0,
                0,
                0,
                0,
                0x50,
                if kind == 3 && number.is_multiple_of(8) { SYN } else { ACK },
                1,
                0,
                0,
                0,
                0,
                0,
            ]);
            ip.extend([7; 100]);
            ethernet(from, mac(to), ethertype::IPV4, &ip)
        }
    }
}

impl World {
    fn new(options: &str, reorder: bool, is_internal: bool, is_set_back: bool) -> Self {
        let now = Time::ZERO + START;
        let mut world = Self {
            is_set_back,
            back: Span::ZERO,
            now,
            ends: [0, 1].map(|system| End::new(now, &plan(system, options, reorder, is_internal))),
            is_internal,
            wakes: [Time::ZERO; 2],
            up: [true; MEMBERS],
            mute_until: Time::ZERO,
            looped_until: Time::ZERO,
            flying: BTreeMap::new(),
            flown: 0,
            sent: 0,
            rng: Rng::new(5),
            trace: Vec::new(),
        };
        world.poll(0);
        world.poll(1);
        world
    }

    /// What the clock shows.
    fn shown(&self) -> Time {
        Time::ZERO + (self.now - (Time::ZERO + self.back))
    }

    fn set_back(&mut self, by: Span) {
        if self.is_set_back && self.shown() - Time::ZERO > LEAST + by {
            self.ends.rebase(by);
            self.back = self.back + by;
        }
    }

    fn note(&mut self, what: String) {
        self.trace.push((self.now, what));
    }

    fn fly(&mut self, from: usize, member: usize, sequence: u32, packet: Packet, is_control: bool) {
        // The later members' cables are longer, so that what is sent in turn comes out of order; now and then something is later than anybody waits.
        let late = if self.rng.below(40) == 0 { Span::from_ms(400) } else { Span::ZERO };
        let at = self.now + Span::from_ms(20) * (1 + member as u64) + late;
        let to = if self.now < self.looped_until { from } else { 1 - from };
        self.flown += 1;
        self.flying.insert((at, self.flown), Flying { to, member, sequence, packet, is_control });
    }

    fn poll(&mut self, end: usize) {
        let now = self.shown();
        let mut left = Vec::new();
        self.ends[end].expire(now, &mut |packet| left.push(packet.number));
        if !left.is_empty() {
            self.note(format!("{end} hands on {left:?}"));
        }
        loop {
            match self.ends[end].poll(now) {
                Step::Do(output) => {
                    self.note(format!("{end}: {output:?}"));
                    if let bond::end::Output::Send { member, frame } = output {
                        let packet = Packet { number: 0, bytes: frame.as_bytes().to_vec() };
                        self.fly(end, member.index(), 0, packet, true);
                    }
                }
                Step::Wait(until) => {
                    let until = if until == Time::NEVER { until } else { until.max(now) + self.back };
                    self.wakes[end] = until;
                    return self.note(format!("{end} waits until {until:?}"));
                }
            }
        }
    }

    fn transmit(&mut self, from: usize) {
        self.sent += 1;
        let mut packet = Packet { number: self.sent, bytes: frame(from, self.sent, &mut self.rng) };
        let (chosen, sequence) = self.ends[from].transmit_frame(self.shown(), &mut packet.bytes);
        self.note(format!("{from} sends {} by {chosen:?}", self.sent));
        match chosen {
            Transmit::One(member) => self.fly(from, member.index(), sequence, packet, false),
            Transmit::All(all) => {
                all.iter().for_each(|member| self.fly(from, member.index(), sequence, packet.clone(), false));
            }
            Transmit::None(_) => {}
        }
        self.poll(from);
    }

    fn arrive(&mut self, Flying { to, member, sequence, packet, is_control }: Flying) {
        if self.now < self.mute_until || !self.up[member] {
            return;
        }
        let (now, member, mut left) = (self.shown(), MemberId::new(member), Vec::new());
        if !self.is_internal {
            self.ends[to].receive_frame(now, member, packet, &mut |packet| left.push(packet.number));
        } else if is_control {
            self.ends[to].receive_control(now, member, &packet.bytes);
        } else {
            let summary = Summary::of(self.ends[to].bond().config(), &packet.bytes);
            self.ends[to].receive(now, (member, sequence), &summary, packet, &mut |packet| left.push(packet.number));
        }
        self.note(format!("{to} gets {left:?}"));
        self.poll(to);
    }

    /// Something happens to the cables, or nothing.
    fn meddle(&mut self) {
        match self.rng.below(100) {
            0 => {
                let at = self.rng.below(MEMBERS as u32) as usize;
                self.up[at] = !self.up[at];
                let carrier = if self.up[at] { Carrier::up(1_000) } else { Carrier::DOWN };
                for end in [0, 1] {
                    self.ends[end].carrier(self.shown(), MemberId::new(at), carrier);
                    self.poll(end);
                }
            }
            1 => self.mute_until = self.now + Span::from_ms(u64::from(self.rng.below(10_000))),
            // Longer than anybody is waited for in LACP.
            2 if self.rng.below(5) == 0 => self.mute_until = self.now + Span::from_secs(100),
            3 => self.looped_until = self.now + Span::from_ms(u64::from(self.rng.below(2_000))),
            _ => {}
        }
    }

    fn run(mut self, steps: usize) -> (Vec<(Time, String)>, Span) {
        for _ in 0..steps {
            let until = self.now + Span::from_us(u64::from(self.rng.below(100_000)));
            loop {
                let arrival = self.flying.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at);
                let next = arrival.min(self.wakes[0]).min(self.wakes[1]);
                if next > until {
                    break;
                }
                self.now = next.max(self.now);
                if let Some(end) = (0..2).find(|end| self.wakes[*end] <= self.now) {
                    self.poll(end);
                } else if let Some((_, flying)) = self.flying.pop_first() {
                    self.arrive(flying);
                }
            }
            self.now = until;
            // Drawn whether the clock is set back or not, so that all else is the same.
            let by = Span::from_us(u64::from(self.rng.below(200_000_000)));
            if self.rng.below(20) == 0 {
                self.set_back(by);
            }
            let from = self.rng.below(2) as usize;
            self.transmit(from);
            self.meddle();
        }
        (self.trace, self.back)
    }
}

#[test]
fn no_end_sees_that_its_clock_is_set_back() {
    let cases = [
        ("mode=802.3ad lacp_rate=fast miimon=100 updelay=400 downdelay=200", false, false),
        ("mode=802.3ad lacp_rate=slow", true, true),
        ("mode=balance-rr", true, true),
        ("mode=balance-rr", false, false),
        ("mode=balance-rr", true, false),
        ("mode=balance-rr arp_interval=700 arp_ip_target=10.0.0.1,10.0.0.2", false, false),
        ("mode=active-backup arp_interval=500 arp_ip_target=10.0.0.1,10.0.0.2 arp_validate=all", false, false),
        ("mode=active-backup arp_interval=500 arp_ip_target=10.0.0.2 arp_all_targets=all", false, false),
        ("mode=active-backup miimon=50 updelay=1000 num_grat_arp=5 peer_notif_delay=500 resend_igmp=9", false, false),
        ("mode=balance-tlb miimon=100 updelay=2000 lp_interval=3", false, false),
        ("mode=balance-alb miimon=100 downdelay=1000 lp_interval=3", true, false),
        ("mode=balance-xor xmit_hash_policy=layer3+4 rebalance=1 rebalance_interval=1000", false, false),
        ("mode=broadcast", true, true),
    ];
    for (options, reorder, is_internal) in cases {
        let (expected, _) = World::new(options, reorder, is_internal, false).run(5_000);
        let (trace, back) = World::new(options, reorder, is_internal, true).run(5_000);
        assert!(back > Span::from_secs(3_600), "{options}: set back by {back} only");
        let first = trace.iter().zip(&expected).find(|(is, should)| is != should);
        assert_eq!(first, None, "{options} (order {reorder}, ours {is_internal})");
        assert_eq!(trace.len(), expected.len(), "{options}");
    }
}
