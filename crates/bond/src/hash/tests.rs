use super::*;
use proptest::prelude::*;

const DST: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0b];
const SRC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];

fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&DST[..], &SRC, &ethertype.to_be_bytes(), payload].concat()
}

fn ipv4(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 192, 168, 7, 9];
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    [header, payload.to_vec()].concat()
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    header.extend([0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    header.extend([0xfd, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    [header, payload.to_vec()].concat()
}

const PORTS: [u8; 8] = [0x9c, 0x40, 0x14, 0x51, 0, 8, 0, 0];
/// 10.0.0.1 and 192.168.7.9 as little-endian numbers.
const ADDRESSES: u32 = 0x0100_000a ^ 0x0907_a8c0;
const V6_ADDRESSES: u32 = (0x0100_00fd ^ 0x0700_0000) ^ (0x0200_00fd ^ 0x0900_0000);
const LITTLE_PORTS: u32 = 0x5114_409c;

/// The driver's formula, written again from its document.
fn folded(start: u32, addresses: u32) -> u32 {
    let hash = start ^ addresses;
    let hash = hash ^ (hash >> 16);
    hash ^ (hash >> 8)
}

fn layer2(ethertype: u32) -> u32 {
    u32::from(DST[5] ^ SRC[5]) ^ ethertype
}

#[test]
fn the_document_s_formulas_hold() {
    let frame = ethernet(IPV4, &ipv4(UDP, 0, &PORTS));
    assert_eq!(hash(HashPolicy::Layer2, &frame), 0x0b ^ 0x56 ^ 0x0800);
    assert_eq!(hash(HashPolicy::Layer23, &frame), folded(layer2(0x0800), ADDRESSES));
    assert_eq!(hash(HashPolicy::Layer34, &frame), folded(LITTLE_PORTS, ADDRESSES) >> 1);
    assert_eq!(hash(HashPolicy::VlanSrcMac, &frame), 0x52_5400 ^ 0x12_3456);
    let frame = ethernet(IPV6, &ipv6(TCP, &PORTS));
    assert_eq!(hash(HashPolicy::Layer23, &frame), folded(layer2(0x86dd), V6_ADDRESSES));
    assert_eq!(hash(HashPolicy::Layer34, &frame), folded(LITTLE_PORTS, V6_ADDRESSES) >> 1);
}

#[test]
fn the_first_tag_stands_beside_the_frame() {
    let inner = ipv4(TCP, 0, &PORTS);
    let tagged = ethernet(VLAN, &[&[0x60, 0x07, 0x08, 0x00], &inner[..]].concat());
    let untagged = ethernet(IPV4, &inner);
    for policy in [HashPolicy::Layer2, HashPolicy::Layer23, HashPolicy::Layer34, HashPolicy::Encap34] {
        assert_eq!(hash(policy, &tagged), hash(policy, &untagged), "{policy}");
    }
    assert_eq!(hash(HashPolicy::VlanSrcMac, &tagged), 0x52_5400 ^ 0x12_3456 ^ 0x6007);
    // Behind a second tag only the dissector looks.
    let twice = ethernet(VLAN_SERVICE, &[&[0, 7, 0x81, 0, 0, 8, 8, 0], &inner[..]].concat());
    assert_eq!(hash(HashPolicy::Layer34, &twice), layer2(0x8100));
    assert_eq!(hash(HashPolicy::Encap34, &twice), hash(HashPolicy::Layer34, &untagged));
}

#[test]
fn before_mpls_the_tag_is_in_the_frame() {
    let label = [0, 1, 0x01, 64];
    for tags in [&[0x60, 0x07][..], &[0x60, 0x07, 0x81, 0x00, 0, 5]] {
        let frame = ethernet(VLAN, &[tags, &[0x88, 0x47], &label, &ipv4(TCP, 0, &PORTS)].concat());
        for policy in [HashPolicy::Layer2, HashPolicy::Layer23, HashPolicy::Layer34] {
            assert_eq!(hash(policy, &frame), layer2(0x8100), "{policy}");
        }
        assert_eq!(hash(HashPolicy::VlanSrcMac, &frame), 0x52_5400 ^ 0x12_3456);
    }
    assert_eq!(hash(HashPolicy::Layer2, &ethernet(MPLS, &label)), layer2(0x8847));
}

#[test]
fn fragments_have_no_ports() {
    for fragment in [0x2000, 0x2001, 0x0001] {
        let frame = ethernet(IPV4, &ipv4(TCP, fragment, &PORTS));
        assert_eq!(hash(HashPolicy::Layer34, &frame), folded(0, ADDRESSES) >> 1);
        assert_eq!(hash(HashPolicy::Encap34, &frame), folded(0, ADDRESSES) >> 1);
    }
    // "Don't fragment" is none.
    let frame = ethernet(IPV4, &ipv4(TCP, 0x4000, &PORTS));
    assert_eq!(hash(HashPolicy::Layer34, &frame), folded(LITTLE_PORTS, ADDRESSES) >> 1);
    let header = [[TCP, 0, 0, 1, 0, 0, 0, 9], PORTS].concat();
    let frame = ethernet(IPV6, &ipv6(44, &header));
    assert_eq!(hash(HashPolicy::Encap34, &frame), folded(0, V6_ADDRESSES) >> 1);
}

#[test]
fn echoes_go_by_their_identifier() {
    let echo = [8, 0, 0, 0, 0x12, 0x34, 0, 1];
    let frame = ethernet(IPV4, &ipv4(ICMP, 0, &echo));
    assert_eq!(hash(HashPolicy::Layer34, &frame), folded(0x1234_0008, ADDRESSES) >> 1);
    assert_eq!(hash(HashPolicy::Encap34, &frame), folded(0x1234_0008, ADDRESSES) >> 1);
    let frame = ethernet(IPV4, &ipv4(ICMP, 0, &[8, 0, 0, 0, 0, 0, 0, 1]));
    assert_eq!(hash(HashPolicy::Layer34, &frame), folded(0x0001_0008, ADDRESSES) >> 1);
    let frame = ethernet(IPV4, &ipv4(ICMP, 0, &echo[..7]));
    assert_eq!(hash(HashPolicy::Layer34, &frame), folded(0, ADDRESSES) >> 1);
}

#[test]
fn errors_go_with_the_flow_they_quote() {
    let quoted = ipv4(TCP, 0, &PORTS);
    let error = [&[3, 4, 0, 0, 0, 0, 5, 0xdc], &quoted[..]].concat();
    let mut outer = ipv4(ICMP, 0, &error);
    outer[12..20].copy_from_slice(&[9, 9, 9, 9, 8, 8, 8, 8]);
    let frame = ethernet(IPV4, &outer);
    assert_eq!(hash(HashPolicy::Layer34, &frame), folded(LITTLE_PORTS, ADDRESSES) >> 1);
    assert_eq!(hash(HashPolicy::Layer23, &frame), folded(layer2(0x0800), ADDRESSES));
    let cut = &frame[..14 + 20 + 8 + 19];
    assert_eq!(hash(HashPolicy::Layer34, cut), layer2(0x0800));
    let error = [&[2, 0, 0, 0, 0, 0, 5, 0], &ipv6(UDP, &PORTS)[..]].concat();
    let frame = ethernet(IPV6, &ipv6(ICMPV6, &error));
    assert_eq!(hash(HashPolicy::Layer34, &frame), folded(LITTLE_PORTS, V6_ADDRESSES) >> 1);
}

#[test]
fn what_is_not_ip_goes_by_the_link_layer() {
    let frame = ethernet(0x0806, &[0; 28]);
    for policy in [HashPolicy::Layer23, HashPolicy::Layer34] {
        assert_eq!(hash(policy, &frame), layer2(0x0806), "{policy}");
    }
    // The dissector knows ARP, and finds nothing in it.
    assert_eq!(hash(HashPolicy::Encap23, &frame), folded(layer2(0x0806), 0));
    assert_eq!(hash(HashPolicy::Encap34, &frame), 0);
    // It does not know this one.
    assert_eq!(hash(HashPolicy::Encap34, &ethernet(0x88cc, &[0; 28])), layer2(0x88cc));
    for len in 0..14 {
        assert_eq!(hash(HashPolicy::Layer34, &frame[..len]), 0);
    }
}

#[test]
fn ip_headers_that_are_cut_off_go_by_the_link_layer() {
    let frame = ethernet(IPV4, &ipv4(TCP, 0, &PORTS));
    assert_eq!(hash(HashPolicy::Layer34, &frame[..14 + 19]), layer2(0x0800));
    assert_eq!(hash(HashPolicy::Encap34, &frame[..14 + 19]), layer2(0x0800));
    assert_eq!(hash(HashPolicy::Layer34, &frame[..14 + 20 + 3]), folded(0, ADDRESSES) >> 1);
    // A header length below 5 words: the dissector gives up, the other policies read on at the wrong place as the driver does.
    let mut broken = frame.clone();
    broken[14] = 0x40;
    assert_eq!(hash(HashPolicy::Encap34, &broken), layer2(0x0800));
    assert_eq!(hash(HashPolicy::Layer34, &broken), folded(0x0000_0040, ADDRESSES) >> 1);
}

#[test]
fn tunnels_are_looked_into_by_the_encap_policies_only() {
    let inner4 = ipv4(TCP, 0, &PORTS);
    let inner6 = ipv6(UDP, &PORTS);
    let gre = |flags: u16, protocol: u16, more: &[u8], inner: &[u8]| {
        [&flags.to_be_bytes()[..], &protocol.to_be_bytes(), more, inner].concat()
    };
    let bridged = ethernet(IPV6, &inner6);
    let tunnels = [
        (4, inner4.clone(), ADDRESSES),
        (41, inner6.clone(), V6_ADDRESSES),
        (47, gre(0, IPV4, &[], &inner4), ADDRESSES),
        (47, gre(0xb000, IPV6, &[0; 12], &inner6), V6_ADDRESSES),
        (47, gre(0x2000, 0x6558, &[0; 4], &bridged), V6_ADDRESSES),
        (47, gre(0x3081, 0x880b, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 3, 0, 0x21], &inner4), ADDRESSES),
    ];
    for (protocol, payload, addresses) in tunnels {
        let mut outer = ipv4(protocol, 0, &payload);
        outer[12..20].copy_from_slice(&[9, 9, 9, 9, 8, 8, 8, 0x88]);
        let frame = ethernet(IPV4, &outer);
        assert_eq!(hash(HashPolicy::Encap34, &frame), folded(LITTLE_PORTS, addresses) >> 1, "{protocol} {frame:x?}");
        assert_eq!(hash(HashPolicy::Encap23, &frame), folded(layer2(0x0800), addresses));
        let outer_addresses = 0x0909_0909 ^ 0x8808_0808;
        assert_eq!(hash(HashPolicy::Layer34, &frame), folded(0, outer_addresses) >> 1);
    }
}

#[test]
fn gre_that_is_not_looked_into_keeps_the_outer_addresses() {
    for (flags, known) in [(0x4000_u16, true), (0x0002, true), (0x0001, true), (0x2001, false)] {
        let payload = [&flags.to_be_bytes()[..], &[0x88, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0x99]].concat();
        let frame = ethernet(IPV4, &ipv4(47, 0, &payload));
        let expected = if known { folded(0, ADDRESSES) >> 1 } else { layer2(0x0800) };
        assert_eq!(hash(HashPolicy::Encap34, &frame), expected, "{flags:x}");
    }
}

#[test]
fn no_more_than_sixteen_headers_are_followed() {
    let nested = |depth: usize| {
        let packet = (0..depth).fold(ipv6(TCP, &PORTS), |inner, _| {
            let mut outer = ipv6(41, &inner);
            outer[8] = 0xfe;
            outer
        });
        hash(HashPolicy::Encap34, &ethernet(IPV6, &packet))
    };
    assert_eq!(nested(15), folded(LITTLE_PORTS, V6_ADDRESSES) >> 1);
    assert_eq!(nested(16), folded(0, V6_ADDRESSES ^ 3) >> 1);
}

#[test]
fn extension_headers_are_followed_by_the_dissector_only() {
    let options = [&[TCP, 0, 1, 4, 0, 0, 0, 0], &PORTS[..]].concat();
    let frame = ethernet(IPV6, &ipv6(0, &options));
    assert_eq!(hash(HashPolicy::Encap34, &frame), folded(LITTLE_PORTS, V6_ADDRESSES) >> 1);
    assert_eq!(hash(HashPolicy::Layer34, &frame), folded(0, V6_ADDRESSES) >> 1);
}

#[test]
fn pppoe_is_looked_into_by_the_dissector() {
    let inner = ipv4(TCP, 0, &PORTS);
    let frame = ethernet(0x8864, &[&[0x11, 0, 0, 1, 0, 0, 0, 0x21], &inner[..]].concat());
    assert_eq!(hash(HashPolicy::Encap34, &frame), folded(LITTLE_PORTS, ADDRESSES) >> 1);
    // Another version, and a protocol that is compressed to a byte.
    for header in [&[0x12, 0, 0, 1, 0, 0, 0, 0x21][..], &[0x11, 0, 0, 1, 0, 0, 0x21]] {
        let frame = ethernet(0x8864, &[header, &inner].concat());
        assert_eq!(hash(HashPolicy::Encap34, &frame), layer2(0x8864));
    }
}

proptest! {
    #[test]
    fn any_bytes_have_a_hash(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
        start in 0_usize..6, protocol in 0_usize..8,
    ) {
        let kinds = [[8, 0, 0x45], [0x86, 0xdd, 0x60], [0x81, 0, 0], [0x88, 0x64, 0x11], [0x43, 5, 0x40], [8, 6, 0]];
        if let Some(place) = bytes.get_mut(12..15) {
            place.copy_from_slice(&kinds[start]);
        }
        if let Some(place) = bytes.get_mut(23) {
            *place = [1, 4, 6, 41, 47, 58, 51, 137][protocol];
        }
        for &policy in HashPolicy::ALL {
            prop_assert_eq!(hash(policy, &bytes), hash(policy, &bytes));
        }
    }

    #[test]
    fn payload_does_not_matter(payload in proptest::collection::vec(any::<u8>(), 0..64)) {
        let frame = ethernet(IPV4, &ipv4(UDP, 0, &PORTS));
        let longer = [&frame[..], &payload].concat();
        for &policy in HashPolicy::ALL {
            prop_assert_eq!(hash(policy, &frame), hash(policy, &longer));
        }
    }
}
