//! What a packet costs in the tables of flows of one switch: `cargo run --release -p heddle-vswitch --example lookups`. One flow by headers of layer 4, and packets of so many conversations that
//! differ by their address: those that the first cache has room for, and those for which it has none. Prints, for each, nanoseconds and cycles of the time stamp counter a packet, and how many packets
//! each cache has answered: the median of seven rounds. Pin it (`taskset -c 1`), and have nothing else run.
#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::error::Error;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use machine::Time;
use topology::{HostAddress, NodeId, PortId, Topology};
use vswitch::FlowKey;
use vswitch::flow_table::{Flow, FlowTables, Ports, TableChange};
use wire::{EthernetRepr, Ipv4Repr, UdpRepr, ethertype, protocol};

const FRAME: usize = 60;
const ROUNDS: usize = 7;
const PACKETS: usize = 1 << 20;

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
    let hosts: Vec<NodeId> = ["a", "b"].map(|host| topology.add_host(host.to_owned(), address.clone())).into();
    let switch = topology.add_switch("s".to_owned(), 1, None);
    for host in hosts {
        topology.connect(host, switch, Default::default());
    }
    Ports::of(&topology, switch)
}

/// Frames of so many conversations, one behind the other.
fn frames(conversations: usize) -> Vec<[u8; FRAME]> {
    let frame = |number: usize| {
        let mut frame = [0; FRAME];
        EthernetRepr { dst: [2, 0, 0, 0, 0, 2], src: [2, 0, 0, 0, 0, 1], vlan: None, ethertype: ethertype::IPV4 }
            .emit(&mut frame);
        let to = Ipv4Addr::from(0x0a00_0002 + number as u32);
        Ipv4Repr::new([10, 0, 0, 1].into(), to, protocol::UDP, (FRAME - 34) as u16).emit(&mut frame[14..34]);
        UdpRepr { src_port: 1_024, dst_port: 9, payload_len: (FRAME - 42) as u16 }.emit(&mut frame[34..]);
        frame
    };
    (0..conversations).map(frame).collect()
}

/// Nanoseconds of `act` a packet, the median of the rounds.
fn measure(frames: &[[u8; FRAME]], mut act: impl FnMut(&[u8])) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            for number in 0..PACKETS {
                act(&frames[number % frames.len()]);
            }
            began.elapsed().as_secs_f64() * 1e9 / PACKETS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let ghz = cycles_a_nanosecond()?;
    let ports = ports();
    println!("{ghz:.2} GHz");
    for conversations in [1, 1_024, 100_000] {
        let frames = frames(conversations);
        let mut tables = FlowTables::new(Time::ZERO, ports.clone(), 7.into(), &[])?;
        let flow = Flow::parse("priority=10,in_port=0,udp,tp_dst=9,actions=output:1", &ports)?;
        tables.change(Time::ZERO, &TableChange::Add(Arc::new(flow)))?;
        let mut actions = Vec::new();
        let parsed = measure(&frames, |frame| {
            black_box(FlowKey::parse(black_box(frame)).is_ok());
        });
        let looked_up = measure(&frames, |frame| {
            actions.clear();
            tables.process(Time::ZERO, PortId(0), (frame, FRAME as u32), &mut actions).expect("it is well formed");
            assert_eq!(actions.len(), 1);
        });
        let counters = tables.cache_counters();
        println!(
            "{conversations:>7} conversations: key of spreading {parsed:.1} ns ({:.0} cycles), tables {looked_up:.1} ns ({:.0} cycles); first cache {}, megaflows {}, tables {}",
            parsed * ghz,
            looked_up * ghz,
            counters.exact_hits,
            counters.megaflow_hits,
            counters.misses
        );
    }
    Ok(())
}

/// As /proc/cpuinfo has it.
fn cycles_a_nanosecond() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/cpuinfo")?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz")).ok_or("no speed in /proc/cpuinfo")?;
    Ok(line.split(':').nth(1).ok_or("no speed")?.trim().parse::<f64>()? / 1e3)
}
