//! Packets that are followed: the first one of a connection, and the one that answers it.

use wire::{EthernetRepr, Ipv4Repr, Ipv6Repr, Pseudo, TcpRepr, UdpRepr, checksum, ethertype, protocol, tcp_flags};

use vswitch::FlowKey;

/// ICMP echo requests and replies: the type, which stands where others have the source port.
pub const ECHO: u16 = 8;
pub const ECHO_V6: u16 = 128;
const ECHO_REPLY: u16 = 0;
const ECHO_REPLY_V6: u16 = 129;

/// The header of an ICMP echo message.
const ECHO_BYTES: usize = 8;

/// The hop limit of what Linux sends.
pub const HOP_LIMIT: u8 = 64;

/// The frame that begins a connection with these addresses and ports.
pub fn opening(key: &FlowKey, hop_limit: u8) -> Vec<u8> {
    frame(key, (false, hop_limit))
}

/// The frame that answers another one; `None` if that one is malformed.
pub fn answer(to: &[u8], hop_limit: u8) -> Option<Vec<u8>> {
    let key = FlowKey::parse(to).ok()?;
    Some(frame(&answering(&key), (true, hop_limit)))
}

/// What packets that answer those with this key have in theirs.
pub fn answering(key: &FlowKey) -> FlowKey {
    let (src_port, dst_port) = match key.protocol {
        protocol::ICMP => (ECHO_REPLY, 0),
        protocol::ICMPV6 => (ECHO_REPLY_V6, 0),
        _ => (key.dst_port, key.src_port),
    };
    let (eth_dst, eth_src, src, dst) = (key.eth_src, key.eth_dst, key.dst, key.src);
    FlowKey { eth_dst, eth_src, src, dst, src_port, dst_port, ..*key }
}

/// The key of the packet that packets with this key answer.
pub fn answered(key: &FlowKey) -> FlowKey {
    let opened = answering(key);
    match key.protocol {
        protocol::ICMP => FlowKey { src_port: ECHO, ..opened },
        protocol::ICMPV6 => FlowKey { src_port: ECHO_V6, ..opened },
        _ => opened,
    }
}

fn frame(key: &FlowKey, (is_answer, hop_limit): (bool, u8)) -> Vec<u8> {
    let ethernet = EthernetRepr { dst: key.eth_dst, src: key.eth_src, vlan: key.vlan, ethertype: key.ethertype };
    let mut bytes = vec![0; ethernet.buffer_len()];
    ethernet.emit(&mut bytes);
    let is_ipv4 = key.ethertype == ethertype::IPV4;
    let pseudo = if is_ipv4 {
        let (src, dst) = ((key.src as u32).into(), (key.dst as u32).into());
        Pseudo::V4 { src, dst, protocol: key.protocol }
    } else {
        Pseudo::V6 { src: key.src.into(), dst: key.dst.into(), protocol: key.protocol }
    };
    let upper = upper(key, is_answer, &pseudo);
    let mut header;
    match pseudo {
        Pseudo::V4 { src, dst, protocol } => {
            let repr = Ipv4Repr { ttl: hop_limit, ..Ipv4Repr::new(src, dst, protocol, upper.len() as u16) };
            header = vec![0; repr.buffer_len()];
            repr.emit(&mut header);
        }
        Pseudo::V6 { src, dst, protocol } => {
            let repr = Ipv6Repr { hop_limit, ..Ipv6Repr::new(src, dst, protocol, upper.len() as u16) };
            header = vec![0; repr.buffer_len()];
            repr.emit(&mut header);
        }
    }
    bytes.extend(header);
    bytes.extend(upper);
    bytes
}

/// What is above IP.
fn upper(key: &FlowKey, is_answer: bool, pseudo: &Pseudo) -> Vec<u8> {
    match key.protocol {
        protocol::TCP => {
            let flags = tcp_flags::SYN | if is_answer { tcp_flags::ACK } else { 0 };
            let repr = TcpRepr {
                src_port: key.src_port,
                dst_port: key.dst_port,
                seq: 0,
                ack: u32::from(is_answer),
                flags,
                window: u16::MAX,
                urgent: 0,
                timestamps: None,
            };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes);
            TcpRepr::fill_checksum(&mut bytes, pseudo);
            bytes
        }
        protocol::UDP => {
            let repr = UdpRepr { src_port: key.src_port, dst_port: key.dst_port, payload_len: 0 };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes);
            UdpRepr::fill_checksum(&mut bytes, pseudo);
            bytes
        }
        protocol::ICMP | protocol::ICMPV6 => {
            let mut bytes = vec![0; ECHO_BYTES];
            (bytes[0], bytes[1]) = (key.src_port as u8, key.dst_port as u8);
            let sum = match pseudo {
                Pseudo::V4 { .. } => checksum::internet(&bytes),
                Pseudo::V6 { .. } => checksum::transport(pseudo, &bytes),
            };
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
            bytes
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn an_answer_is_the_other_way_round() {
        let ends: [[SocketAddr; 2]; 2] = [["10.0.0.1:4000", "10.0.0.2:80"], ["[fd00::1]:4000", "[fd00::2]:80"]]
            .map(|it| it.map(|it| it.parse().unwrap()));
        for (number, [from, to]) in
            [protocol::TCP, protocol::UDP].into_iter().flat_map(|it| ends.map(|ends| (it, ends)))
        {
            let macs = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
            let key = FlowKey { eth_src: macs.0, eth_dst: macs.1, ..FlowKey::of_flow(number, from, to) };
            let frame = opening(&key, HOP_LIMIT);
            assert_eq!(FlowKey::parse(&frame), Ok(key));
            let back = FlowKey { eth_src: macs.1, eth_dst: macs.0, ..FlowKey::of_flow(number, to, from) };
            assert_eq!(answer(&frame, HOP_LIMIT).and_then(|frame| FlowKey::parse(&frame).ok()), Some(back));
            assert_eq!(answered(&back), key);
        }
        assert_eq!(answer(&[0; 4], HOP_LIMIT), None);
    }
}
