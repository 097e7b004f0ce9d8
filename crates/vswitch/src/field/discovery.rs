//! Writes neighbour solicitations and advertisements (RFC 4861, sections 4.3 and 4.4).

use std::net::Ipv6Addr;

use wire::{Coverage, Error, Ipv6Packet, Ipv6PacketMut, checksum, ethertype, kind, protocol};

use super::frame::payload;

/// What a message has in front of its options, and where in it the checksum and the target are.
const HEADER: usize = 24;
const CHECKSUM_AT: usize = 2;
const TARGET_AT: usize = 8;

/// Options have as many of so many bytes as their second byte says (RFC 4861, section 4.6).
const UNIT: usize = 8;

/// Whose link-layer address: the number of the option that has it (RFC 4861, section 4.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    Source = 1,
    Target = 2,
}

impl LinkLayer {
    const fn of(option: u8) -> Option<Self> {
        match option {
            1 => Some(Self::Source),
            2 => Some(Self::Target),
            _ => None,
        }
    }
}

/// The message that a frame is.
fn message(frame: &mut [u8]) -> Result<&mut [u8], Error> {
    let bytes = payload(frame, ethertype::IPV6, "34525 (IPv6)")?;
    let upper = Ipv6Packet::new_checked(bytes)?.upper_layer()?;
    if upper.protocol != protocol::ICMPV6 || upper.fragment.is_some() {
        let expected = "58 (ICMPv6), not in a fragment";
        return Err(Error::Field { header: "IP", field: "protocol", value: u32::from(upper.protocol), expected });
    }
    let message = Ipv6PacketMut::new_checked(bytes)?.into_upper_layer()?;
    let have = message.len();
    if have < HEADER {
        return Err(Error::Truncated { header: "neighbour discovery", need: HEADER, have });
    }
    if !matches!(message[0], kind::NEIGHBOUR_SOLICITATION | kind::NEIGHBOUR_ADVERTISEMENT) {
        let (value, expected) = (u32::from(message[0]), "135 or 136 (neighbour discovery)");
        return Err(Error::Field { header: "ICMPv6", field: "type", value, expected });
    }
    Ok(message)
}

/// Writes bytes at an even place of a message, whose checksum fits then if it did before.
fn put<const N: usize>(message: &mut [u8], at: usize, new: [u8; N], coverage: Coverage) {
    let Some(place) = message[at..].first_chunk_mut::<N>() else { return };
    let old = std::mem::replace(place, new);
    if coverage == Coverage::Complete {
        let sum = u16::from_be_bytes([message[CHECKSUM_AT], message[CHECKSUM_AT + 1]]);
        let sum = checksum::update(sum, &old, &new);
        message[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Writes whom a message asks for, or is about.
pub fn write_target(frame: &mut [u8], target: Ipv6Addr, coverage: Coverage) -> Result<(), Error> {
    put(message(frame)?, TARGET_AT, target.octets(), coverage);
    Ok(())
}

/// Writes a link-layer address of a message, if it has one. Of several options with such addresses only the first one is looked at, as in Open vSwitch: a message has one.
pub fn write_link_layer(frame: &mut [u8], (whose, mac): (LinkLayer, [u8; 6]), coverage: Coverage) -> Result<(), Error> {
    let message = message(frame)?;
    let mut at = HEADER;
    while let Some(&[option, units, ..]) = message.get(at..).and_then(|rest| rest.first_chunk::<UNIT>()) {
        if let Some(found) = LinkLayer::of(option).filter(|_| units == 1) {
            if found == whose {
                put(message, at + 2, mac, coverage);
            }
            break;
        }
        if units == 0 {
            break;
        }
        at += usize::from(units) * UNIT;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;
    use crate::testing::{address, solicitation, tcp_v6};

    #[test]
    fn messages_are_those_that_would_have_been_sent_so() {
        let (a, b, c) = (address(1), address(2), address(3));
        // The destination depends on whom it asks for: it is written as well.
        let mut frame = solicitation(&a, a.ipv6, b.ipv6, Some(a.mac));
        let wanted = solicitation(&a, a.ipv6, c.ipv6, Some(c.mac));
        let group = Ipv6Packet::new_checked(&wanted[14..]).unwrap().dst();
        for field in [
            Field::NdTarget(c.ipv6),
            Field::NdSourceLinkLayer(c.mac),
            Field::NdTargetLinkLayer([9; 6]),
            Field::Ipv6Dst(group),
            Field::EthDst(wire::multicast_mac(group)),
        ] {
            field.write(&mut frame, Coverage::Complete).unwrap();
        }
        assert_eq!(frame, wanted);
    }

    #[test]
    fn what_has_no_such_option_stays_as_it_is() {
        let (a, b) = (address(1), address(2));
        let without = solicitation(&a, a.ipv6, b.ipv6, None);
        let mut frame = without.clone();
        Field::NdSourceLinkLayer([9; 6]).write(&mut frame, Coverage::Complete).unwrap();
        assert_eq!(frame, without);
        let mut endless = solicitation(&a, a.ipv6, b.ipv6, Some(a.mac));
        endless[14 + 40 + HEADER + 1] = 0;
        let before = endless.clone();
        Field::NdSourceLinkLayer([9; 6]).write(&mut endless, Coverage::Complete).unwrap();
        assert_eq!(endless, before);
        let mut segment = tcp_v6(&a, &b, 1, 2, 0);
        assert!(Field::NdTarget(a.ipv6).write(&mut segment, Coverage::Complete).is_err());
        let mut short = solicitation(&a, a.ipv6, b.ipv6, None);
        short.truncate(14 + 40 + HEADER - 1);
        short[19] = HEADER as u8 - 1;
        assert!(Field::NdTarget(a.ipv6).write(&mut short, Coverage::Complete).is_err());
    }
}
