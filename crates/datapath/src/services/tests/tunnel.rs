//! IP in IP: which packets go through tunnels, and which come out of them.

use super::super::tunnel::{OuterPlace, outer};
use super::*;

fn tunnels(service: &mut Service) {
    service.forwarding = ForwardingMethod::Tunnel;
}

/// A first segment to the service, as it comes to a server's host.
fn packed(bed: &Bed, server: u32) -> Vec<u8> {
    let frame = frame(bed.client(4_000), Endpoint(VIRTUAL, 80), SYN, (1_000, 0));
    let server = [bed.address(server).to_bits().into(), 0];
    let outer = outer(&frame, (frame.len() as u32, None), server, 1_500).expect("it fits");
    [&frame[..14], outer.bytes(), &frame[14..]].concat()
}

#[test]
fn packets_of_connections_whose_addresses_are_translated_need_no_tunnel() {
    let mut bed = Bed::new(1, &[80]);
    let (translated, other) = (bed.client(4_000), bed.client(4_001));
    assert_eq!(bed.send(translated, 80, SYN, 1_000, 0).0, Decision::To(host(1)));
    assert_eq!(bed.state.take_tunnel(), None);
    let mut service = service(&bed.topology, 1, 80);
    tunnels(&mut service);
    let other_services = Services::new(&bed.topology, &[service], 1_500);
    let mut made = ServiceState::new(bed.now, &other_services, 8);
    let nodes = (0..2).map(|number| Some(host(number))).collect();
    made.take_over(bed.now, &mut bed.state, (&other_services, &nodes));
    (bed.services, bed.state) = (other_services, made);
    assert_eq!(bed.send(translated, 80, SYN, 1_000, 0).0, Decision::To(host(1)));
    assert_eq!(bed.state.take_tunnel(), None);
    for _ in 0..2 {
        let (decision, fields) = bed.send(other, 80, SYN, 1_000, 0);
        assert_eq!((decision, fields.len(), bed.state.take_tunnel()), (Decision::To(host(1)), 0, Some(0)));
    }
    bed.state.note_too_big(0);
    assert_eq!(bed.state.views().next().expect("it is there").counters.too_big, 1);
    // Its answers are the service's own.
    let from = Endpoint(VIRTUAL, 80);
    let answer = frame(from, other, SYN | ACK, (5_000, 1_001));
    let mut fields = Vec::new();
    let decision = bed.state.process_from_server(bed.now, host(1), (&answer, answer.len() as u32), &mut fields);
    assert_eq!((decision, fields.len()), (Decision::Pass, 0));
    assert_eq!(bed.counts(0), (2, 0));
}

/// What comes out of a tunnel is from the service, for it, and for this server; nothing else is touched.
#[test]
fn only_what_a_service_has_sent_is_unpacked() {
    let bed = Bed::with(2, &[80], tunnels);
    assert!(bed.services.has_tunnels() && !Bed::new(1, &[80]).services.has_tunnels());
    let packet = packed(&bed, 1);
    let found = |frame: &[u8], number| bed.services.outer_header(host(number), frame);
    assert_eq!(found(&packet, 1), Some(OuterPlace { at: 14, length: 20, is_marked: false }));
    assert_eq!(found(&packet, 2), None, "it is another one's");
    for at in 14..34 {
        let mut other = packet.clone();
        other[at] ^= 4;
        assert_eq!(found(&other, 1), None, "byte {at} of its outer header is wrong");
    }
    // The inner destination is not the outer source.
    let mut other = packet.clone();
    other[34 + 19] ^= 1;
    assert_eq!(found(&other, 1), None);
    assert_eq!(found(&packet[..40], 1), None);
    let without = Bed::new(2, &[80]);
    assert_eq!(without.services.outer_header(host(1), &packet), None);
    // Congestion on the way is seen.
    let mut marked = packet;
    wire::Ipv4PacketMut::new_checked(&mut marked[14..]).expect("it is one").set_traffic_class(3, 3);
    assert_eq!(found(&marked, 1).map(|found| found.is_marked), Some(true));
}
