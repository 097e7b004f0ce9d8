//! Marks of congestion (RFC 3168) in frames.

use wire::{EthernetPacketMut, Ipv4PacketMut, Ipv6PacketMut, ethertype};

/// Marks the IP packet in a frame, unless whoever sent it would not understand that. Whether it is marked now.
pub fn mark_congestion(frame: &mut [u8]) -> bool {
    let Some(ethertype) = crate::field::ethertype_of(frame).ok() else { return false };
    let Ok(ethernet) = EthernetPacketMut::new_checked(frame) else { return false };
    let bytes = ethernet.into_payload();
    match ethertype {
        ethertype::IPV4 => Ipv4PacketMut::new_checked(bytes).is_ok_and(|mut packet| packet.mark_congestion()),
        ethertype::IPV6 => Ipv6PacketMut::new_checked(bytes).is_ok_and(|mut packet| packet.mark_congestion()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{address, arp, tcp, tcp_v6};
    use proptest::prelude::*;
    use wire::{ArpOperation, EthernetPacket, Ipv4Packet, Ipv6Packet};

    /// ECT(0), in frames of both versions.
    fn capable() -> [Vec<u8>; 2] {
        let [mut v4, mut v6] = [tcp, tcp_v6].map(|made| made(&address(1), &address(2), 1, 2, 40));
        v4[15] |= 2;
        v4[24..26].fill(0);
        let sum = wire::checksum::internet(&v4[14..34]);
        v4[24..26].copy_from_slice(&sum.to_be_bytes());
        v6[15] |= 2 << 4;
        [v4, v6]
    }

    #[test]
    fn both_versions_are_marked_once_and_their_checksums_fit() {
        let [mut v4, mut v6] = capable();
        for _ in 0..2 {
            assert!(mark_congestion(&mut v4) && mark_congestion(&mut v6));
        }
        let packet = Ipv4Packet::new_checked(EthernetPacket::new_checked(&v4).unwrap().payload()).unwrap();
        assert!(packet.traffic_class() == 3 && packet.is_checksum_right());
        let packet = Ipv6Packet::new_checked(EthernetPacket::new_checked(&v6).unwrap().payload()).unwrap();
        assert_eq!(packet.traffic_class(), 3);
    }

    #[test]
    fn what_does_not_understand_marks_stays_as_it_is() {
        let [a, b] = [1, 2].map(address);
        let request = arp(ArpOperation::Request, &a, b.ipv4, b.mac, None);
        for frame in [tcp(&a, &b, 1, 2, 40), tcp_v6(&a, &b, 1, 2, 40), request, Vec::new()] {
            let mut same = frame.clone();
            assert!(!mark_congestion(&mut same));
            assert_eq!(same, frame);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_marked_or_left(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), v6: bool) {
            if let Some(place) = bytes.get_mut(12..15) {
                place.copy_from_slice(if v6 { &[0x86, 0xdd, 0x60] } else { &[8, 0, 0x45] });
            }
            let before = bytes.clone();
            prop_assert_eq!(mark_congestion(&mut bytes) || before == bytes, true);
        }
    }
}
