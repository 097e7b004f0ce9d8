//! Datagrams in fragments go where their first ones go.

use proptest::prelude::*;
use wire::{Coverage, UdpRepr};

use super::*;

const OFFSET: u16 = 1_400 / 8;
const MORE: u16 = 0x2000;

fn of_udp(service: &mut Service) {
    service.addresses[0].protocol = protocol::UDP;
}

/// A fragment of a datagram with this identification; one without ports has something else in their place.
fn fragment(from: Endpoint, to: Endpoint, identification: u16, flags_and_offset: u16) -> Vec<u8> {
    let mut frame = frame(from, to, 0, (0, 0));
    frame[14 + 4..14 + 6].copy_from_slice(&identification.to_be_bytes());
    frame[14 + 6..14 + 8].copy_from_slice(&flags_and_offset.to_be_bytes());
    frame[14 + 9] = protocol::UDP;
    let ports = if matches!(flags_and_offset, 0 | MORE) { (from.1, to.1) } else { (0x6161, 0x6262) };
    UdpRepr { src_port: ports.0, dst_port: ports.1, payload_len: 3_000 }.emit(&mut frame[14 + 20..]);
    frame
}

impl Bed {
    fn send_frame(&mut self, frame: &[u8]) -> (Decision, Vec<Field>) {
        let mut fields = Vec::new();
        let (services, sender) = (&self.services, (&self.host_table, host(0)));
        let decision = self.state.process_from_client(self.now, (services, sender), &whole(frame), &mut fields);
        (decision, fields)
    }

    fn answer_frame(&mut self, frame: &[u8]) -> (Decision, Vec<Field>) {
        let mut fields = Vec::new();
        let decision = self.state.process_from_server(self.now, host(1), (frame, frame.len() as u32), &mut fields);
        (decision, fields)
    }

    fn fragments(&self) -> u64 {
        self.state.views().next().expect("it is there").counters.fragments
    }
}

#[test]
fn all_of_a_datagram_go_to_one_server_and_back() {
    let mut bed = Bed::with(3, &[80], of_udp);
    for number in 0..6 {
        let client = bed.client(4_000 + number);
        let to_service = |place| fragment(client, Endpoint(VIRTUAL, 80), number, place);
        // Nobody knows yet whose it is.
        assert_eq!(bed.send_frame(&to_service(OFFSET)).0, Decision::Drop);
        let (Decision::To(server), fields) = bed.send_frame(&to_service(MORE)) else { panic!("it is the first one") };
        assert!(fields.contains(&Field::DstPort(SERVER_PORT)), "{fields:?}");
        let own = Endpoint(bed.address(server.0), SERVER_PORT);
        for place in [OFFSET | MORE, 2 * OFFSET] {
            let (decision, fields) = bed.send_frame(&to_service(place));
            assert_eq!((decision, &fields[..]), (Decision::To(server), &[Field::Ipv4Dst(own.0)][..]));
            let mut frame = to_service(place);
            let before = frame[14 + 20..].to_vec();
            for field in fields {
                field.write(&mut frame, Coverage::Complete).expect("it has an address");
            }
            assert_eq!(frame[14 + 20..], before, "it has no ports and no checksum");
        }
        let (decision, fields) = bed.answer_frame(&fragment(own, client, number, MORE));
        assert_eq!(decision, Decision::Translated);
        assert!(fields.contains(&Field::SrcPort(80)), "{fields:?}");
        let (decision, fields) = bed.answer_frame(&fragment(own, client, number, OFFSET));
        assert_eq!((decision, &fields[..]), (Decision::Translated, &[Field::Ipv4Src(VIRTUAL)][..]));
    }
    assert_eq!((bed.counts(0), bed.fragments()), ((6, 0), 6));
}

#[test]
fn nobody_waits_for_long_or_knows_others_datagrams() {
    let mut bed = Bed::with(1, &[80], of_udp);
    let client = bed.client(4_000);
    let at = Endpoint(VIRTUAL, 80);
    assert_eq!(bed.send_frame(&fragment(client, at, 7, MORE)).0, Decision::To(host(1)));
    // Somebody makes up another first one before the others have come.
    bed.send_frame(&fragment(bed.client(4_001), at, 7, MORE));
    bed.send_frame(&fragment(bed.client(9), Endpoint(VIRTUAL, 81), 7, MORE));
    assert_eq!(bed.send_frame(&fragment(client, at, 7, OFFSET)).0, Decision::To(host(1)));
    let stranger = Endpoint(Ipv4Addr::new(10, 0, 0, 9), 4_000);
    for (from, to, number) in [(client, at, 8), (stranger, at, 7)] {
        assert_eq!(bed.send_frame(&fragment(from, to, number, OFFSET)).0, Decision::Drop);
    }
    // Of TCP, whose kernels send none.
    let mut of_tcp = fragment(client, at, 7, OFFSET);
    of_tcp[14 + 9] = protocol::TCP;
    assert_eq!(bed.send_frame(&of_tcp).0, Decision::Drop);
    bed.now += Span::from_secs(31);
    assert_eq!(bed.send_frame(&fragment(client, at, 7, OFFSET)).0, Decision::Drop);
    assert_eq!(bed.fragments(), 4);
    // What a server says of its own, to whom it likes, is not the service's.
    assert_eq!(bed.answer_frame(&fragment(Endpoint(bed.address(1), 9), client, 1, OFFSET)).0, Decision::Pass);
}

proptest! {
    #[test]
    fn any_fragment_is_read_or_not(flags_and_offset: u16, identification: u16, length in 14..54_usize, byte in 14..54_usize, value: u8) {
        let mut bed = Bed::with(1, &[80], of_udp);
        let mut frame = fragment(bed.client(4_000), Endpoint(VIRTUAL, 80), identification, flags_and_offset);
        frame[byte] = value;
        frame.truncate(length.max(byte));
        let _ = bed.send_frame(&frame);
        let _ = bed.answer_frame(&frame);
    }
}
