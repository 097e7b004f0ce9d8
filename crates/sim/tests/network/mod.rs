//! Networks built by hand, so that what is simulated does not depend on how files are read.
#![allow(dead_code, reason = "each test uses some of it")]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use fabric::Fabric;
use link::LinkSpec;
use machine::Span;
use topology::{HostAddress, NodeId, TiVec, Topology};
use transport::{TransportKind, TransportSpec};
use vswitch::Spread;
use vswitch::chain::Chains;

/// 1 Gbit/s, 50 us, 250 packets: every link of spec 3.
pub const GIGABIT: LinkSpec = LinkSpec {
    rate_bps: Some(1_000_000_000),
    delay: Span::from_us(50),
    queue_packets: Some(250),
    ..LinkSpec::UNSHAPED
};

/// `hosts` hosts, then `switches` switches, then links between the nodes of these numbers.
pub fn network(hosts: u32, switches: u32, links: &[(u32, u32, LinkSpec)]) -> Fabric {
    let mut topology = Topology::default();
    for id in 0..hosts {
        topology.add_host(format!("n{id}"), address(id));
    }
    for id in hosts..hosts + switches {
        topology.add_switch(format!("n{id}"), 0, None);
    }
    for &(a, b, spec) in links {
        topology.connect(NodeId(a), NodeId(b), spec);
    }
    Fabric {
        name: "test".into(),
        description: String::new(),
        topology,
        bonds: TiVec::new(),
        spread: Spread::Single,
        rerouting: topology::Rerouting::Follow,
        kernel: datapath::KernelUse::No,
        mtu: 1_500,
        seed: 1,
        flow_tables: BTreeMap::new(),
        switches: BTreeMap::new(),
        chains: Chains::default(),
        simulated_functions: Vec::new(),
        services: Vec::new(),
        names: Vec::new(),
        setups: BTreeMap::new(),
        controllers: None,
        experiments: Vec::new(),
    }
}

fn address(id: u32) -> HostAddress {
    let [a, b, c, d] = (id + 1).to_be_bytes();
    HostAddress {
        mac: [2, 0, a, b, c, d],
        ipv4: Ipv4Addr::new(10, b, c, d),
        ipv4_prefix: 8,
        ipv6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, id as u16 + 1),
        ipv6_prefix: 64,
        pod: None,
    }
}

/// The fat-tree of spec 3: hosts, edge, aggregation, core switches, each from left to right.
pub fn fat_tree(k: u32, spec: LinkSpec) -> Fabric {
    let half = k / 2;
    let (hosts, per_tier) = (k * half * half, k * half);
    let (edge, aggregation, core) = (hosts, hosts + per_tier, hosts + 2 * per_tier);
    let mut links = Vec::new();
    for host in 0..hosts {
        links.push((host, edge + host / half, spec));
    }
    for e in 0..per_tier {
        for a in 0..half {
            links.push((edge + e, aggregation + e / half * half + a, spec));
        }
    }
    for a in 0..per_tier {
        for c in 0..half {
            links.push((aggregation + a, core + a % half * half + c, spec));
        }
    }
    network(hosts, 2 * per_tier + half * half, &links)
}

/// The transport of spec 3, as ns-2 runs it.
pub fn reno(window: u32) -> TransportSpec {
    TransportSpec {
        kind: TransportKind::Reno,
        window: window.into(),
        initial_window: 2,
        duplicate_ack_threshold: 3,
        delayed_ack: None,
        segment_bytes: 1_000,
        header_bytes: 40,
        rto_min: Span::from_ms(200),
        linux: transport::linux::Settings::default(),
    }
}
