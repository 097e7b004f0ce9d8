//! What a switch's pipeline writes into a frame that a host has sent: the field is there then, all else is as it was, and sums of IPv4 and TCP in it that were right are right.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use libfuzzer_sys::fuzz_target;
use vswitch::{Field, FlowKey};
use wire::{Coverage, EthernetPacket, Ipv4Packet, Pseudo, checksum, ethertype, protocol};

/// The input is which field (a byte), its value (so many bytes), and the frame.
const VALUE: usize = 16;

fn field(which: u8, value: [u8; VALUE]) -> Field {
    let four: Ipv4Addr = <[u8; 4]>::try_from(&value[..4]).expect("it is as long").into();
    let mac = value[..6].try_into().expect("it is as long");
    let port = u16::from_be_bytes([value[0], value[1]]);
    match which % 24 {
        0 => Field::EthSrc(mac),
        1 => Field::EthDst(mac),
        2 => Field::Ipv4Src(four),
        3 => Field::Ipv4Dst(four),
        4 => Field::Ipv6Src(value.into()),
        5 => Field::Ipv6Dst(value.into()),
        6 => Field::SrcPort(port),
        7 => Field::DstPort(port),
        8 => Field::Dscp(value[0] & 0x3f),
        9 => Field::Ecn(value[0] & 0x03),
        10 => Field::VlanTci(port),
        11 => Field::QuotedSrc(IpAddr::V4(four)),
        12 => Field::QuotedDst(IpAddr::V6(value.into())),
        13 => Field::QuotedPorts(port, !port),
        14 => Field::TcpSeq(four.to_bits()),
        15 => Field::TcpAck(four.to_bits()),
        16 => Field::MplsLabel(four.to_bits() & 0xf_ffff),
        17 => Field::MplsTrafficClass(value[0] & 0x07),
        18 => Field::MplsTtl(value[0]),
        19 => Field::LabelledTtl(value[0]),
        20 => Field::NdTarget(value.into()),
        21 => Field::NdSourceLinkLayer(mac),
        22 => Field::NdTargetLinkLayer(mac),
        _ => Field::Ttl(value[0]),
    }
}

/// Whether an IPv4 packet's sums are right: its header's, and that of a whole TCP segment in it.
fn sums(frame: &[u8]) -> Option<(bool, Option<bool>)> {
    let ethernet = EthernetPacket::new_checked(frame).ok()?;
    let packet =
        (ethernet.ethertype() == ethertype::IPV4).then(|| Ipv4Packet::new_checked(ethernet.payload()).ok())??;
    let pseudo = Pseudo::V4 { src: packet.src(), dst: packet.dst(), protocol: packet.protocol() };
    let is_tcp = packet.protocol() == protocol::TCP && !packet.is_fragment() && packet.payload().len() >= 18;
    Some((packet.is_checksum_right(), is_tcp.then(|| checksum::transport(&pseudo, packet.payload()) == 0)))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, rest)) = bytes.split_first() else { return };
    let Some((&value, frame)) = rest.split_first_chunk::<VALUE>() else { return };
    let (field, mut frame) = (field(which, value), frame.to_vec());
    let (before, sums_before, len) = (FlowKey::parse(&frame), sums(&frame), frame.len());
    if field.write(&mut frame, Coverage::Complete).is_err() {
        return;
    }
    assert_eq!(frame.len(), len);
    assert_eq!(sums(&frame), sums_before);
    let Ok(mut expected) = before else { return };
    match field {
        Field::EthSrc(mac) => expected.eth_src = mac,
        Field::EthDst(mac) => expected.eth_dst = mac,
        Field::Ipv4Src(to) => expected.src = to.to_bits().into(),
        Field::Ipv4Dst(to) => expected.dst = to.to_bits().into(),
        Field::Ipv6Src(to) => expected.src = to.to_bits(),
        Field::Ipv6Dst(to) => expected.dst = to.to_bits(),
        Field::SrcPort(port) => expected.src_port = port,
        Field::DstPort(port) => expected.dst_port = port,
        Field::VlanTci(tci) => expected.vlan = Some(tci),
        // No flow is told from another by them.
        Field::Dscp(_)
        | Field::Ecn(_)
        | Field::Ttl(_)
        | Field::QuotedSrc(_)
        | Field::QuotedDst(_)
        | Field::QuotedPorts(..)
        | Field::TcpSeq(_)
        | Field::TcpAck(_)
        | Field::MplsLabel(_)
        | Field::MplsTrafficClass(_)
        | Field::MplsTtl(_)
        | Field::LabelledTtl(_)
        | Field::NdTarget(_)
        | Field::NdSourceLinkLayer(_)
        | Field::NdTargetLinkLayer(_)
        | Field::TunnelId(_) => {}
    }
    assert_eq!(FlowKey::parse(&frame), Ok(expected));
});
