//! What a frame costs at its way in: flow key, hash, destination.
#![allow(missing_docs)]

use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use topology::{HostAddress, Topology};
use vswitch::neighbour::ANSWER_BYTES;
use vswitch::{FlowKey, HostTable, classify, payload};
use wire::{EthernetRepr, Ipv4Repr, Ipv6Repr, TcpRepr, Timestamps, ethertype, protocol};

/// As many hosts as a fat-tree of k = 16 has.
const HOSTS: u32 = 1_024;

fn address(id: u32) -> HostAddress {
    let [_, _, high, low] = id.to_be_bytes();
    HostAddress {
        mac: [2, 0, 0, 0, high, low],
        ipv4: Ipv4Addr::new(10, 0, high, low),
        ipv4_prefix: 16,
        ipv6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, id as u16),
        ipv6_prefix: 64,
        pod: None,
    }
}

fn topology() -> Topology {
    let mut topology = Topology::default();
    for id in 0..HOSTS {
        topology.add_host(format!("h{id}"), address(id));
    }
    topology
}

/// A TCP segment from one host to another, `len` bytes with all headers.
fn frame(from: u32, to: u32, v6: bool, len: usize) -> Vec<u8> {
    let (from, to) = (address(from), address(to));
    let ethertype = if v6 { ethertype::IPV6 } else { ethertype::IPV4 };
    let mut frame = vec![0; len];
    let ethernet = EthernetRepr { dst: to.mac, src: from.mac, vlan: None, ethertype };
    ethernet.emit(&mut frame);
    let packet = &mut frame[ethernet.buffer_len()..];
    let payload_len = packet.len() as u16 - if v6 { 40 } else { 20 };
    let header_len = if v6 {
        let repr = Ipv6Repr::new(from.ipv6, to.ipv6, protocol::TCP, payload_len);
        repr.emit(packet);
        repr.buffer_len()
    } else {
        let repr = Ipv4Repr::new(from.ipv4, to.ipv4, protocol::TCP, payload_len);
        repr.emit(packet);
        repr.buffer_len()
    };
    let timestamps = (len > 100).then_some(Timestamps { value: 1, echo: 2 });
    let tcp =
        TcpRepr { src_port: 4_000, dst_port: 5_201, seq: 1, ack: 1, flags: 0x10, window: 100, urgent: 0, timestamps };
    tcp.emit(&mut packet[header_len..]);
    frame
}

/// A burst of frames between different hosts, so that the host table's slots differ from frame to frame.
fn burst(v6: bool, len: usize) -> Vec<Vec<u8>> {
    (0..64).map(|n| frame(n, (n * 397 + 11) % HOSTS, v6, len)).collect()
}

fn bench(c: &mut Criterion) {
    let host_table = HostTable::new(&topology(), &[]);
    let mut answer = [0; ANSWER_BYTES];
    let mut group = c.benchmark_group("ingress, 64 frames");
    group.throughput(Throughput::Elements(64));
    for (name, frames) in [("IPv4, 64 B", burst(false, 64)), ("IPv6, 78 B", burst(true, 78))] {
        group.bench_function(format!("classify {name}"), |b| {
            b.iter(|| {
                for frame in &frames {
                    black_box(classify(black_box(frame), topology::NodeId(0), &host_table, &mut answer));
                }
            });
        });
    }
    let frames = burst(false, 1_514);
    group.bench_function("flow key IPv4", |b| {
        b.iter(|| {
            for frame in &frames {
                black_box(FlowKey::parse(black_box(frame)).map(|key| key.hash())).ok();
            }
        });
    });
    group.bench_function("payload IPv4", |b| {
        b.iter(|| {
            for frame in &frames {
                black_box(payload(black_box(frame)));
            }
        });
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
