//! Very many packets through flow tables, caches, connection tracking, address translation and changes of the tables: whether every counter adds up and memory stays as it was.
//!
//! `cargo run --release -p heddle-vswitch --example soak -- [PACKETS [SEED [THREADS]]]` (10^10 and as many threads as there are processors, if not said). Each thread has tables of its own
//! and its share of the packets, which come in trains of eight. Every fourth train is of a conversation of TCP, which begins, talks and ends behind a firewall that translates addresses; the others meet one of a
//! thousand flows, one of which is taken away or put back every 65,536 packets, so that everything cached is decided anew. Packets come 100 ns apart. Every tenth of the way it is checked that
//!
//! - each packet has met one flow of the first table, and each one that went on has met one of the second;
//! - as many have left, and were dropped, as the flows say;
//! - caches have answered or been filled once for each look-up;
//! - connections that were kept are there, have expired, or have made room.
#![allow(clippy::disallowed_methods, reason = "it measures, and looks at this process's memory")]

use std::error::Error;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use machine::{Rng, Span, Time};
use topology::{HostAddress, NodeId, PortId, Topology};
use vswitch::Action;
use vswitch::flow_table::{Flow, FlowTables, Ports, Selection, TableChange};
use wire::{Coverage, EthernetRepr, Ipv4Repr, TcpRepr, UdpRepr, ethertype, protocol, tcp_flags};

const PACKETS: u64 = 10_000_000_000;
/// So often it is checked.
const STEPS: u64 = 10;
const TALKS: usize = 1 << 15;
/// So many packets of a conversation, or of what meets one of the flows, come in a row, as hosts send them. The changes of the tables are a multiple of it apart.
const TRAIN: u64 = 8;
const RULES: u16 = 1_000;
/// So many packets, and the tables change.
const CHANGE_EVERY: u64 = 1 << 16;
const APART: Span = Span::from_ns(100);
const HEADERS: usize = 14 + 20 + 20;
const TRANSLATED: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);
const FIREWALL: &str = "\
table=0,priority=10,tcp,actions=ct(table=1,zone=1,nat)
table=0,priority=1,actions=drop
table=1,priority=50,ct_state=+trk+new-inv,tcp,in_port=1,actions=ct(commit,zone=1,nat(src=10.0.0.100)),output:2
table=1,priority=50,ct_state=+trk+est+rpl,in_port=2,actions=output:1
table=1,priority=50,ct_state=+trk+est-rpl,in_port=1,actions=output:2
table=1,priority=1,actions=drop
";

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let packets: u64 = args.next().map_or(Ok(PACKETS), |text| text.parse())?;
    let seed: u64 = args.next().map_or(Ok(1), |text| text.parse())?;
    let threads = args.next().map_or_else(std::thread::available_parallelism, |text| {
        text.parse().map_err(|error| std::io::Error::other(format!("THREADS: {error}")))
    })?;
    let mut soaks: Vec<Soak> =
        (0..threads.get() as u64).map(|thread| Soak::new(seed + thread)).collect::<Result<_, _>>()?;
    let began = Instant::now();
    let every = (packets / STEPS / soaks.len() as u64).max(1);
    let mut resident = None;
    for step in 1..=STEPS {
        std::thread::scope(|scope| {
            let running: Vec<_> = soaks.iter_mut().map(|soak| scope.spawn(move || soak.run(step * every))).collect();
            running.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread has panicked".to_owned())?)
        })?;
        soaks.iter().try_for_each(Soak::check)?;
        let sent: u64 = soaks.iter().map(|soak| soak.sent).sum();
        let (kib, rate) = (resident_kib()?, sent as f64 / began.elapsed().as_secs_f64() / 1e6);
        println!("{sent:>14} packets, {rate:.2} M/s, {kib} KiB resident");
        // Once connections make room for others, everything has grown to what it needs.
        if soaks.iter().all(Soak::is_full) {
            let first = *resident.get_or_insert(kib);
            if kib > first + first / 20 + 1_024 {
                return Err(format!("memory has grown from {first} to {kib} KiB").into());
            }
        }
    }
    for soak in &soaks {
        println!("caches: {:?}", soak.tables.cache_counters());
        println!("connections: {:?}", soak.tables.conntrack().ok_or("nothing is tracked")?.counters());
        println!("{} left, {} dropped, nothing is missing", soak.left, soak.dropped);
    }
    Ok(())
}

#[allow(clippy::default_trait_access, reason = "no machine knows another: what a link does has no name here")]
fn ports() -> Ports {
    let mut topology = Topology::default();
    let address = HostAddress {
        mac: [2, 0, 0, 0, 0, 1],
        ipv4: [10, 0, 0, 1].into(),
        ipv4_prefix: 8,
        ipv6: [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(),
        ipv6_prefix: 64,
        pod: None,
    };
    let hosts: Vec<NodeId> = (0..=3).map(|host| topology.add_host(format!("p{host}"), address.clone())).collect();
    let switch = topology.add_switch("s".to_owned(), 1, None);
    for host in hosts {
        topology.connect(host, switch, Default::default());
    }
    Ports::of(&topology, switch)
}

/// A conversation behind the firewall.
#[derive(Clone, Copy, Default)]
struct Talk {
    /// How many packets it has had.
    step: u32,
    port: u16,
    /// What the firewall has made of the port.
    translated: u16,
    sent: [u32; 2],
}

/// Data goes to and fro so often.
const ROUNDS: u32 = 40;
const PAYLOAD: u32 = 100;

struct Soak {
    tables: FlowTables,
    ports: Ports,
    talks: Vec<Talk>,
    rng: Rng,
    now: Time,
    actions: Vec<Action>,
    frame: [u8; HEADERS + PAYLOAD as usize],
    /// The rule that has been taken away.
    absent: Option<u16>,
    /// What rules that were taken away had counted.
    forgotten: u64,
    sent: u64,
    left: u64,
    dropped: u64,
}

impl Soak {
    fn new(seed: u64) -> Result<Self, Box<dyn Error>> {
        let ports = ports();
        let mut tables = FlowTables::new(Time::ZERO, ports.clone(), seed.into(), &[])?;
        let rules = (0..RULES).map(rule);
        for line in FIREWALL.lines().map(str::to_owned).chain(rules) {
            let flow = Flow::parse(&line, &ports).map_err(|error| format!("{line}: {error}"))?;
            tables.change(Time::ZERO, &TableChange::Add(Arc::new(flow)))?;
        }
        Ok(Self {
            tables,
            ports,
            talks: vec![Talk::default(); TALKS],
            rng: Rng::new(seed),
            now: Time::ZERO,
            actions: Vec::new(),
            frame: [0; HEADERS + PAYLOAD as usize],
            absent: None,
            forgotten: 0,
            sent: 0,
            left: 0,
            dropped: 0,
        })
    }

    /// Goes on until so many packets have been sent. The error is text, since it goes to another thread.
    fn run(&mut self, packets: u64) -> Result<(), String> {
        while self.sent < packets {
            let of_a_talk = self.rng.bits().is_multiple_of(4);
            let number = self.rng.bits() as usize;
            let src_port = self.rng.bits() as u16;
            for _ in 0..TRAIN {
                if of_a_talk {
                    self.talk(number % TALKS);
                } else {
                    self.send_to_rule(number, src_port);
                }
                self.now += APART;
            }
            if self.sent.is_multiple_of(CHANGE_EVERY) {
                self.change().map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Whether connections make room for others.
    fn is_full(&self) -> bool {
        self.tables.conntrack().is_some_and(|conntrack| conntrack.counters().evicted > 0)
    }

    /// A packet for one of the rules.
    fn send_to_rule(&mut self, number: usize, src_port: u16) {
        let ports = UdpRepr { src_port, dst_port: (number % usize::from(RULES)) as u16, payload_len: 0 };
        let from = Ipv4Addr::from(0x0a03_0000 | (number as u32 >> 16 & 0xff));
        let length = HEADERS - 12;
        ipv4(&mut self.frame, from, [10, 4, 0, 1].into(), protocol::UDP, 8);
        ports.emit(&mut self.frame[34..length]);
        self.send(PortId(1), length);
    }

    /// The next packet of a conversation.
    fn talk(&mut self, number: usize) {
        use tcp_flags::{ACK, FIN, PSH, SYN};
        let talk = &mut self.talks[number];
        let last = 3 + ROUNDS;
        if talk.step > last + 2 {
            *talk = Talk::default();
        }
        if talk.step == 0 {
            talk.port = self.rng.bits() as u16 | 0x400;
            talk.sent = [self.rng.bits() as u32, self.rng.bits() as u32];
        }
        let (is_back, flags, payload) = match talk.step {
            0 => (false, SYN, 0),
            1 => (true, SYN | ACK, 0),
            2 => (false, ACK, 0),
            step if step < last => (step % 2 == 1, ACK | PSH, PAYLOAD),
            step if step == last => (false, FIN | ACK, 0),
            step if step == last + 1 => (true, FIN | ACK, 0),
            _ => (false, ACK, 0),
        };
        let own = usize::from(is_back);
        let is_first = talk.step == 0;
        let (seq, ack) = (talk.sent[own], if is_first { 0 } else { talk.sent[1 - own] });
        talk.sent[own] = seq.wrapping_add(payload + u32::from(flags & (SYN | FIN) != 0));
        talk.step += 1;
        let inside = Ipv4Addr::from(0x0a00_8000 | (number as u32 & 0x7fff));
        let outside = Ipv4Addr::from(0x0a01_0000 | (number as u32 & 0xff));
        let (src, dst) = if is_back { (outside, TRANSLATED) } else { (inside, outside) };
        let (src_port, dst_port) = if is_back { (80, talk.translated) } else { (talk.port, 80) };
        let repr = TcpRepr { src_port, dst_port, seq, ack, flags, window: 60_000, urgent: 0, timestamps: None };
        ipv4(&mut self.frame, src, dst, protocol::TCP, 20 + payload as u16);
        repr.emit(&mut self.frame[34..HEADERS]);
        self.send(PortId(if is_back { 2 } else { 1 }), HEADERS + payload as usize);
        if is_first {
            // What the firewall has written is what answers are for.
            self.talks[number].translated = u16::from_be_bytes([self.frame[34], self.frame[35]]);
        }
    }

    /// One packet, which is in the frame.
    fn send(&mut self, port: PortId, length: usize) {
        self.actions.clear();
        let frame = (&self.frame[..length], length as u32);
        self.tables.process(self.now, port, frame, &mut self.actions).expect("it is well formed");
        let before = self.left;
        for action in &self.actions {
            match action {
                Action::Set(field) => {
                    let _ = field.write(&mut self.frame[..length], Coverage::Complete);
                }
                Action::Output(_) => self.left += 1,
                other => unreachable!("no flow asks for {other:?}"),
            }
        }
        self.sent += 1;
        self.dropped += u64::from(self.left == before);
    }

    /// One rule is taken away, and the one before it is back.
    fn change(&mut self) -> Result<(), Box<dyn Error>> {
        let number = (self.rng.bits() % u64::from(RULES)) as u16;
        if let Some(absent) = self.absent.take() {
            self.tables.change(self.now, &TableChange::Add(Arc::new(Flow::parse(&rule(absent), &self.ports)?)))?;
        }
        let text = format!("table=0,priority=20,udp,tp_dst={number}");
        let selection = Selection::parse(&text, &self.ports, true)?;
        self.forgotten += self.tables.entries(self.now, &selection).iter().map(|entry| entry.packets).sum::<u64>();
        self.tables.change(self.now, &TableChange::Delete(selection))?;
        self.absent = Some(number);
        self.tables.expire(self.now);
        Ok(())
    }

    fn check(&self) -> Result<(), Box<dyn Error>> {
        let entries = self.tables.entries(self.now, &Selection::ALL);
        let met = |wanted: &dyn Fn(&str) -> bool| -> u64 {
            let wanted = entries.iter().filter(|entry| wanted(&entry.flow.to_string()));
            wanted.map(|entry| entry.packets).sum()
        };
        let first = met(&|text| !text.starts_with("table=1,")) + self.forgotten;
        let (tracked, second) = (met(&|text| text.contains("ct(table=1")), met(&|text| text.starts_with("table=1,")));
        same("packets and what the first table has counted", self.sent, first)?;
        same("packets that were tracked and what the second table has counted", tracked, second)?;
        same("packets, and those that left or were dropped", self.sent, self.left + self.dropped)?;
        same("drops and what flows say of them", self.dropped, met(&|text| text.ends_with("actions=drop")))?;
        let caches = self.tables.cache_counters();
        let answers = caches.exact_hits + caches.megaflow_hits + caches.misses + caches.revalidations;
        same("look-ups and what caches say of them", self.sent + tracked, answers)?;
        let connections = self.tables.conntrack().ok_or("nothing is tracked")?.counters();
        let gone = connections.expired + connections.evicted + connections.reopened;
        same("connections and what has become of them", connections.committed, connections.connections + gone)
    }
}

fn same(what: &str, left: u64, right: u64) -> Result<(), Box<dyn Error>> {
    if left == right { Ok(()) } else { Err(format!("{what}: {left} and {right}").into()) }
}

fn rule(number: u16) -> String {
    format!("table=0,priority=20,udp,tp_dst={number},actions=output:{}", 2 + number % 2)
}

fn ipv4(frame: &mut [u8], src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, payload_len: u16) {
    let ethernet =
        EthernetRepr { dst: [2, 0, 0, 0, 0, 2], src: [2, 0, 0, 0, 0, 1], vlan: None, ethertype: ethertype::IPV4 };
    ethernet.emit(frame);
    Ipv4Repr::new(src, dst, protocol, payload_len).emit(&mut frame[14..34]);
}

/// Memory of this process that is in use, in KiB.
fn resident_kib() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
