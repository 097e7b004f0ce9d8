//! What a host may send: flow key, reordering meter's view, and the decision with its answer, which must be well-formed.
#![no_main]

use std::sync::LazyLock;

use fabric::Source;
use libfuzzer_sys::fuzz_target;
use topology::NodeId;
use vswitch::neighbour::{ANSWER_BYTES, claim};
use vswitch::{FLOOD, FlowKey, HostTable, Ingress, Payload, classify, payload};

/// The frames in `seeds/ingress` use the addresses of this file's hosts.
const FABRIC: &str = "\
name: fuzz
nodes:
  a: { kind: host, mac: '02:00:00:00:00:01', ipv4: 10.0.0.1, ipv6: 'fd68:6564:646c::1' }
  b: { kind: host, mac: '02:00:00:00:00:02', ipv4: 10.0.0.2, ipv6: 'fd68:6564:646c::2' }
  s: switch
links:
  - between: [a, s]
  - between: [b, s]
";

/// The host `a`.
const SENDER: NodeId = NodeId(0);

static HOST_TABLE: LazyLock<HostTable> = LazyLock::new(|| {
    let source = Source { name: "fuzz".into(), text: FABRIC.into() };
    let fabric = fabric::parse(&source).expect("the file is right");
    HostTable::new(&fabric.topology, &fabric.host_bonds())
});

fuzz_target!(|frame: &[u8]| {
    let key = FlowKey::parse(frame);
    if let Some(payload) = payload(frame) {
        let bytes = match payload {
            Payload::Segment(segment) => segment.payload_len,
            Payload::Datagram(bytes) => bytes,
            Payload::Fragment(fragment) => fragment.len,
        };
        assert!(key.is_ok() && bytes > 0 && bytes as usize <= frame.len());
    }
    if let Some(claim) = claim(frame, &HOST_TABLE) {
        assert!(claim.host.0 < 2, "only hosts of the file have addresses");
        HOST_TABLE.learn(claim.host, 0, claim.mac);
        assert_eq!(HOST_TABLE.learned().count(), 0, "nothing is learned of hosts that are made");
    }
    let mut answer = [0; ANSWER_BYTES];
    match classify(frame, SENDER, &HOST_TABLE, &mut answer) {
        Ingress::Answer(len) => {
            let key = FlowKey::parse(&answer[..len]).expect("an answer is well-formed");
            assert!(!key.asks_for_neighbour() || key.ethertype == wire::ethertype::ARP);
            assert!(HOST_TABLE.by_mac(key.eth_src).is_some(), "an answer comes from the owner");
        }
        Ingress::Forward(forwarding) => {
            let key = key.expect("only what can be read is forwarded");
            let flooded = wire::is_group(key.eth_dst).then_some(FLOOD);
            assert_eq!(HOST_TABLE.by_mac(key.eth_dst).or(flooded), Some(forwarding.to));
            let is_spoofed = claim(frame, &HOST_TABLE).is_some_and(|claim| claim.host != SENDER);
            assert!(forwarding.to != FLOOD || !is_spoofed, "nobody tells everybody that he has another host's address");
            assert_eq!(key.hash(), forwarding.hash);
        }
        Ingress::Drop(_) => {}
    }
});
