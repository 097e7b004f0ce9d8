//! A frame as data: what its headers say, a value each.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};
use vswitch::FlowKey;
use wire::{EthernetPacket, ethertype, protocol};

use super::summary::{mac, protocol_name, summary, whole};

/// What they are called. What a frame does not have is null.
pub const FIELDS: [&str; 14] = [
    "time-ns",
    "port",
    "direction",
    "bytes",
    "vlan",
    "eth-source",
    "eth-destination",
    "ethertype",
    "source",
    "destination",
    "protocol",
    "source-port",
    "destination-port",
    "summary",
];

/// Where and when a frame was seen.
pub struct Seen<'a> {
    pub at_ns: u64,
    pub port: &'a str,
    pub direction: &'a str,
    /// How long it is; fewer bytes of it may have been captured.
    pub length: u32,
}

/// The values of a frame.
pub fn fields(seen: &Seen<'_>, bytes: &[u8]) -> [Value; FIELDS.len()] {
    let Seen { at_ns, port, direction, length } = seen;
    let frame = whole(bytes, *length);
    let ethernet = EthernetPacket::new_checked(&frame).ok();
    let key = FlowKey::parse(&frame).ok();
    let address = |of: fn(&FlowKey) -> u128| key.as_ref().and_then(|key| address(key.ethertype, of(key)));
    let port_of = |of: fn(&FlowKey) -> u16| key.as_ref().filter(|key| has_ports(key)).map(of);
    [
        json!(at_ns),
        json!(port),
        json!(direction),
        json!(length),
        json!(ethernet.as_ref().and_then(EthernetPacket::vlan).map(|tag| tag & vswitch::port::VID_MASK)),
        json!(ethernet.as_ref().map(|frame| mac(frame.src()))),
        json!(ethernet.as_ref().map(|frame| mac(frame.dst()))),
        json!(ethernet.as_ref().map(|frame| format!("0x{:04x}", frame.ethertype()))),
        json!(address(|key| key.src)),
        json!(address(|key| key.dst)),
        json!(key.as_ref().and_then(protocol_of)),
        json!(port_of(|key| key.src_port)),
        json!(port_of(|key| key.dst_port)),
        json!(summary(bytes, *length)),
    ]
}

fn address(of: u16, bits: u128) -> Option<IpAddr> {
    match of {
        ethertype::IPV4 | ethertype::ARP => Some(Ipv4Addr::from_bits(bits as u32).into()),
        ethertype::IPV6 => Some(Ipv6Addr::from_bits(bits).into()),
        _ => None,
    }
}

/// In lower case, as filters have them.
fn protocol_of(key: &FlowKey) -> Option<String> {
    match key.ethertype {
        ethertype::IPV4 | ethertype::IPV6 => Some(protocol_name(key.protocol).to_lowercase()),
        ethertype::ARP => Some("arp".to_owned()),
        ethertype::LLDP => Some("lldp".to_owned()),
        _ => None,
    }
}

/// Fragments have no ports that could be read; nothing real has 0 twice.
fn has_ports(key: &FlowKey) -> bool {
    matches!(key.ethertype, ethertype::IPV4 | ethertype::IPV6)
        && matches!(key.protocol, protocol::TCP | protocol::UDP)
        && (key.src_port, key.dst_port) != (0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(frame: &[u8]) -> Value {
        let seen = Seen { at_ns: 7, port: "h1 (to s1)", direction: "in", length: frame.len() as u32 };
        FIELDS.iter().map(|name| (*name).to_owned()).zip(fields(&seen, frame)).collect()
    }

    #[test]
    fn headers_are_values() {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0x20, 5, 8, 0];
        frame.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x9c, 0x40, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
        let expected = json!({
            "time-ns": 7, "port": "h1 (to s1)", "direction": "in", "bytes": 50, "vlan": 5,
            "eth-source": "02:00:00:00:00:01", "eth-destination": "02:00:00:00:00:02", "ethertype": "0x0800",
            "source": "10.0.0.1", "destination": "10.0.0.2", "protocol": "udp",
            "source-port": 40_000, "destination-port": 53,
            "summary": "vlan 5, p 1, IP 10.0.0.1.40000 > 10.0.0.2.53: UDP, length 4",
        });
        assert_eq!(values(&frame), expected);
        // Type and code of ICMP are no ports.
        frame[27] = 1;
        let ping = values(&frame);
        assert_eq!((&ping["protocol"], &ping["source-port"]), (&json!("icmp"), &Value::Null));
        let cut = values(&frame[..3]);
        assert!(cut["eth-source"].is_null() && cut["source"].is_null() && cut["bytes"] == 3, "{cut}");
    }
}
