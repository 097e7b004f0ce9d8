//! Networks with devices of DPDK.

use crate::bed::{self, Bed};

/// Three hosts; one behind a ring of DPDK's that gives back what it is given, one behind a bond of two.
const NETWORK: &str = "
name: dpdk
nodes:
  h1: { kind: host, ipv4: 10.0.0.1 }
  ring: { kind: host, ipv4: 10.0.0.2, devices: ['dpdk:net_ring0'] }
  pair: { kind: host, ipv4: 10.0.0.3, devices: ['dpdk:net_ring1', 'dpdk:net_ring2'] }
  s1: switch
links:
  - { between: [h1, s1] }
  - { between: [ring, s1] }
  - { between: [pair, s1] }
bonds: [{ host: pair, members: 2, mode: balance-rr }]
flows:
  s1:
    - 'priority=10,udp,in_port=ring,actions=output:pair'
    - 'priority=10,udp,in_port=pair,actions=drop'
";

#[test]
fn frames_pass_devices_of_dpdk_and_bonds_of_them() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("dpdk", NETWORK);
    let port = |host: &str| network.counters().unwrap().ports.into_iter().find(|port| port.host == host).unwrap();
    let send = "for n in $(seq 20); do echo $n > /dev/udp/10.0.0.2/9; done; echo all";
    assert_eq!(bed::output(network.command("h1", "bash", ["-c", send])), "all\n");
    // Each goes to the ring, comes back from it, goes on to the pair, whose rings give it back as well.
    for host in ["ring", "pair"] {
        let passed = || {
            let traffic = port(host).traffic;
            // Others may have asked for somebody meanwhile.
            traffic.received_packets >= 20 && traffic.sent_packets >= 20
        };
        bed::wait_until("all have passed", passed);
        assert_eq!(port(host).traffic.drops, 0, "{host}");
    }
    // The network comes up again with the same devices.
    drop(network);
    bed::wait_until("the network has gone", || bed.is_empty());
    let network = bed.up("dpdk", NETWORK);
    assert_eq!(bed::output(network.command("h1", "bash", ["-c", send])), "all\n");
}
