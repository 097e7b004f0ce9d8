//! Devices with nobody behind them.

use crate::bed::{self, Bed, source};
use fabric::Overrides;
use live::Instance;

const ONE_TO_TWO: &str = "
name: nobody
nodes:
  h1: { kind: host, devices: ['null:64'] }
  h2: { kind: host, devices: ['null:'] }
  h3: { kind: host, devices: ['null:'] }
  s1: switch
links:
  - { between: [h1, s1] }
  - { between: [h2, s1] }
  - { between: [h3, s1] }
";

/// Packets and bytes that a host has been handed.
fn received(network: &Instance, host: &str) -> (u64, u64) {
    let counters = network.counters().unwrap();
    let port = counters.ports.iter().find(|port| port.host == host).unwrap();
    (port.traffic.received_packets, port.traffic.received_bytes)
}

#[test]
fn a_null_device_sends_to_all_others_in_turn() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(1);
    let network = bed.up("nobody", ONE_TO_TWO);
    bed::wait_until("frames have come to both", || ["h2", "h3"].iter().all(|host| received(&network, host).0 > 1_000));
    let (packets, bytes) = received(&network, "h2");
    assert_eq!(bytes, packets * 64);
    assert_eq!(received(&network, "h1"), (0, 0));
    // A host that comes later is sent to, too, and none that is gone.
    let text = ONE_TO_TWO.replace("h3", "h4");
    network.apply(&source(&text), &Overrides::default()).unwrap();
    bed::wait_until("frames have come to the new one", || received(&network, "h4").0 > 1_000);
    assert_eq!(network.counters().unwrap().refused.unknown_destination, 0);
}
