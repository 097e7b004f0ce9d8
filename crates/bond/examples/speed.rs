//! How many frames a second one core sends through a bond, by mode, between null ports: frames of 64 bytes, in bursts, each in a
//! buffer of its own.
//!
//! `cargo run --release -p heddle-bond --example speed [MODE [SECONDS]]` (`benches/bond.sh` runs DPDK's `net_bonding` beside it)
//!
//! One turn is what DPDK's testpmd does between `net_null` devices in its `io` mode. The receiving port takes 32 buffers from the pool
//! and sets their lengths; what stands in them is left as it is: UDP over IPv4, of 256 flows. The bond reads the frames, chooses
//! members, and writes the source address where its mode wants it. Each member's port gets its frames in one go, counts them and puts their
//! buffers back.
//! The pool is a stack, as DPDK's cache of a core is: what was freed last is taken first.
#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bond::{Bond, Carrier, Config, DropReason, Framed, MemberId, Transmit};
use machine::{Rng, Step, Time};

const BURST: usize = 32;
const FLOWS: usize = 256;
const FRAME: usize = 64;
/// Buffers of the pool, and bytes of each: as `--total-num-mbufs=8192` and DPDK's default.
const BUFFERS: usize = 8_192;
const BUFFER: usize = 2_048 + 128;
const MEMBERS: usize = 2;
/// Turns between two looks at the clock.
const TURNS: usize = 1_024;
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 9];
const OWN: [u8; 6] = [2, 0, 0, 0, 1, 0];

/// What is measured, and the bond's options; none is what the ports cost without a bond.
const CASES: [(&str, &str); 10] = [
    ("none", ""),
    ("balance-rr", "mode=0"),
    ("active-backup", "mode=1"),
    ("balance-xor", "mode=2 xmit_hash_policy=layer3+4"),
    ("balance-xor-layer2", "mode=2"),
    ("balance-xor-encap", "mode=2 xmit_hash_policy=encap3+4"),
    ("balance-xor-rebalance", "mode=2 xmit_hash_policy=layer3+4 rebalance=1"),
    ("broadcast", "mode=3"),
    ("balance-tlb", "mode=5 xmit_hash_policy=layer3+4"),
    ("balance-alb", "mode=6"),
];

/// A buffer with a frame.
struct Packet {
    bytes: Box<[u8; BUFFER]>,
    len: usize,
}

impl Framed for Packet {
    fn frame(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl Packet {
    /// With a UDP frame over IPv4 of the flow `n`.
    fn new(n: usize) -> Self {
        let mut bytes = Box::new([0; BUFFER]);
        bytes[..6].copy_from_slice(&OTHER);
        bytes[6..12].copy_from_slice(&OWN);
        bytes[12..34].copy_from_slice(&[8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
        bytes[28] = (n % FLOWS) as u8;
        bytes[34..38].copy_from_slice(&[0, 9, 0, 9]);
        Self { bytes, len: 0 }
    }
}

/// A port that forgets what is sent.
#[derive(Default)]
struct Null {
    waiting: Vec<Packet>,
    sent: u64,
}

impl Null {
    fn flush(&mut self, pool: &mut Vec<Packet>) {
        self.sent += self.waiting.len() as u64;
        pool.append(&mut self.waiting);
    }
}

struct Bench {
    pool: Vec<Packet>,
    burst: Vec<Packet>,
    ports: [Null; MEMBERS],
}

impl Bench {
    fn new() -> Self {
        let pool = (0..BUFFERS).map(Packet::new).collect();
        Self { pool, burst: Vec::with_capacity(BURST), ports: std::array::from_fn(|_| Null::default()) }
    }

    /// What the receiving port has.
    fn receive(&mut self) {
        let rest = self.pool.len() - BURST;
        self.burst.extend(self.pool.drain(rest..));
        for packet in &mut self.burst {
            packet.len = FRAME;
        }
    }

    /// A copy on each of the others, the frame itself on the first.
    fn copy(&mut self, mut packet: Packet, members: impl Iterator<Item = MemberId>) {
        let mut members = members.map(MemberId::index);
        let Some(first) = members.next() else { return self.pool.push(packet) };
        for member in members {
            let mut copy = self.pool.pop().expect("the pool is larger than what is under way");
            copy.len = packet.len;
            copy.frame().copy_from_slice(packet.frame());
            self.ports[member].waiting.push(copy);
        }
        self.ports[first].waiting.push(packet);
    }

    /// One burst through the bond.
    fn turn(&mut self, bond: &mut Bond, now: Time) {
        self.receive();
        let mut chosen = [Transmit::None(DropReason::NoUsableMember); BURST];
        bond.transmit_packets(now, &mut self.burst, &mut chosen);
        let mut burst = std::mem::take(&mut self.burst);
        for (packet, place) in burst.drain(..).zip(chosen) {
            match place {
                Transmit::One(member) => self.ports[member.index() % MEMBERS].waiting.push(packet),
                Transmit::All(members) => self.copy(packet, members.iter()),
                Transmit::None(reason) => panic!("{reason:?}"),
            }
        }
        self.burst = burst;
        for port in &mut self.ports {
            port.flush(&mut self.pool);
        }
    }

    /// One burst to a port.
    fn turn_without(&mut self) {
        self.receive();
        let port = &mut self.ports[0];
        port.waiting.append(&mut self.burst);
        port.flush(&mut self.pool);
    }

    /// Millions of frames a second that came in and were sent.
    fn run(&mut self, options: &str, time: Duration) -> f64 {
        let mut bond = (!options.is_empty()).then(|| bond(options));
        let (mut turns, before) = (0, self.sent());
        let start = Instant::now();
        while start.elapsed() < time {
            let now = Time::from_ns(start.elapsed().as_nanos() as u64);
            if let Some(bond) = &mut bond {
                while let Step::Do(action) = bond.poll(now) {
                    black_box(action);
                }
            }
            for _ in 0..TURNS {
                match black_box(&mut bond) {
                    Some(bond) => self.turn(bond, now),
                    None => self.turn_without(),
                }
            }
            turns += TURNS;
        }
        let frames = turns * BURST;
        assert!(self.sent() - before >= frames as u64, "every frame leaves");
        frames as f64 / start.elapsed().as_secs_f64() / 1e6
    }

    fn sent(&self) -> u64 {
        self.ports.iter().map(|port| port.sent).sum()
    }
}

/// A bond whose members are the ports.
fn bond(options: &str) -> Bond {
    let config: Config = options.parse().expect("the options are right");
    let mut bond = Bond::new(Time::ZERO, config, Some(OWN), Rng::new(1));
    for n in 0..MEMBERS as u8 {
        let mac = [2, 0, 0, 0, 1, n];
        bond.add_member(Time::ZERO, &format!("null{n}"), mac, Carrier::up(10_000)).expect("it is new");
    }
    bond
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let seconds =
        arguments.get(1).map_or(Ok(1.0), |text| text.parse()).expect("the second argument is a number of seconds");
    let only = arguments.first();
    let mut bench = Bench::new();
    for (name, options) in CASES.iter().filter(|(name, _)| only.is_none_or(|only| only == name)) {
        println!("{name:24} {:7.1} Mpps", bench.run(options, Duration::from_secs_f64(seconds)));
    }
}
