//! LLDPDUs (IEEE 802.1AB-2016, clause 8), as far as two neighbours need them to recognise each other: who speaks, on which
//! port, for how long it holds, and one organisation's own information.

use crate::Error;
use crate::error::{split, split_at};

const NAME: &str = "LLDPDU";
const TLV_HEADER: usize = 2;
/// An organisation's identifier and its subtype.
const ORGANIZATION: usize = 4;
/// A subtype and an address.
const ADDRESS: usize = 7;
/// Bytes of value that a TLV's nine bits of length can announce, less what names the organisation.
pub const LLDP_VALUE_MAX: usize = 511 - ORGANIZATION;

/// Kinds of TLV that Heddle distinguishes (8.4.1).
mod kind {
    pub const END: u8 = 0;
    pub const CHASSIS: u8 = 1;
    pub const PORT: u8 = 2;
    pub const TIME_TO_LIVE: u8 = 3;
    pub const ORGANIZATION: u8 = 127;
}

/// Subtypes that say that a chassis (8.5.2) or a port (8.5.3) is named by a MAC address.
const CHASSIS_MAC: u8 = 4;
const PORT_MAC: u8 = 3;

/// Where frames for the neighbour at the other end of the cable go. No bridge forwards them.
pub const LLDP_NEAREST_BRIDGE: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];

/// A view of an LLDPDU. Checked: it begins with chassis, port and time to live, in this order and with lengths that the standard
/// allows; every TLV lies within the bytes up to the end that is marked, or else to that of the bytes.
#[derive(Clone, Copy, Debug)]
pub struct LldpPacket<'a> {
    chassis: &'a [u8],
    port: &'a [u8],
    time_to_live_s: u16,
    /// The other TLVs, without the mark of the end.
    rest: &'a [u8],
}

/// One TLV and what follows it.
fn tlv(bytes: &[u8]) -> Result<(u8, &[u8], &[u8]), Error> {
    let (header, rest) = split::<TLV_HEADER>(NAME, bytes)?;
    let (value, rest) = split_at(NAME, rest, usize::from(header[0] & 1) << 8 | usize::from(header[1]))?;
    Ok((header[0] >> 1, value, rest))
}

/// The value of a TLV that must come next.
fn mandatory<'a>(bytes: &'a [u8], wanted: u8, expected: &'static str) -> Result<(&'a [u8], &'a [u8]), Error> {
    let (kind, value, rest) = tlv(bytes)?;
    if kind == wanted { Ok((value, rest)) } else { Err(Error::field(NAME, "kind of TLV", u32::from(kind), expected)) }
}

/// The name of a chassis or port: a subtype and 1 to 255 bytes.
fn name<'a>(value: &'a [u8], field: &'static str) -> Result<&'a [u8], Error> {
    if (2..=256).contains(&value.len()) {
        Ok(value)
    } else {
        Err(Error::field(NAME, field, value.len() as u32, "2 to 256 bytes"))
    }
}

impl<'a> LldpPacket<'a> {
    /// Checks an Ethernet payload; what follows the mark of the end is padding.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for a TLV out of order or one whose length is not allowed.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Error> {
        let (chassis, bytes) = mandatory(bytes, kind::CHASSIS, "1 (chassis)")?;
        let chassis = name(chassis, "length of the chassis")?;
        let (port, bytes) = mandatory(bytes, kind::PORT, "2 (port)")?;
        let port = name(port, "length of the port")?;
        let (value, rest) = mandatory(bytes, kind::TIME_TO_LIVE, "3 (time to live)")?;
        let Some(time_to_live_s) = value.first_chunk::<2>().copied().map(u16::from_be_bytes) else {
            return Err(Error::field(NAME, "length of the time to live", value.len() as u32, "at least 2"));
        };
        let mut bytes = rest;
        while !bytes.is_empty() {
            let (kind, value, behind) = tlv(bytes)?;
            if kind == kind::END {
                break;
            }
            if kind == kind::ORGANIZATION && value.len() < ORGANIZATION {
                return Err(Error::field(NAME, "length of an organisation's TLV", value.len() as u32, "at least 4"));
            }
            bytes = behind;
        }
        Ok(Self { chassis, port, time_to_live_s, rest: &rest[..rest.len() - bytes.len()] })
    }

    /// The chassis: a subtype and its name.
    pub const fn chassis(&self) -> &'a [u8] {
        self.chassis
    }

    /// The port: a subtype and its name.
    pub const fn port(&self) -> &'a [u8] {
        self.port
    }

    /// For how many seconds this holds; 0 takes back what was said.
    pub const fn time_to_live_s(&self) -> u16 {
        self.time_to_live_s
    }

    /// What the first TLV of an organisation with this subtype carries.
    pub fn organization(&self, identifier: [u8; 3], subtype: u8) -> Option<&'a [u8]> {
        let mut bytes = self.rest;
        while let Ok((kind, value, rest)) = tlv(bytes) {
            bytes = rest;
            if kind != kind::ORGANIZATION {
                continue;
            }
            match value.split_first_chunk::<ORGANIZATION>() {
                Some((&[a, b, c, d], content)) if ([a, b, c], d) == (identifier, subtype) => return Some(content),
                _ => {}
            }
        }
        None
    }
}

/// An LLDPDU with one TLV of an organisation. Valid while `value` has at most [`LLDP_VALUE_MAX`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LldpRepr<'a> {
    /// The chassis, named by an address.
    pub chassis: [u8; 6],
    /// The port, named by an address.
    pub port: [u8; 6],
    /// For how many seconds this holds; 0 takes back what was said.
    pub time_to_live_s: u16,
    /// The organisation that defines it.
    pub identifier: [u8; 3],
    /// Which of the organisation's TLVs it is.
    pub subtype: u8,
    /// What the organisation says.
    pub value: &'a [u8],
}

impl<'a> LldpRepr<'a> {
    /// What the view says. `None`: it names chassis or port otherwise than by an address, or has no such TLV.
    pub fn parse(packet: &LldpPacket<'a>, identifier: [u8; 3], subtype: u8) -> Option<Self> {
        let address = |named: &[u8], wanted: u8| match *named {
            [kind, ref address @ ..] if kind == wanted => <[u8; 6]>::try_from(address).ok(),
            _ => None,
        };
        Some(Self {
            chassis: address(packet.chassis, CHASSIS_MAC)?,
            port: address(packet.port, PORT_MAC)?,
            time_to_live_s: packet.time_to_live_s,
            identifier,
            subtype,
            value: packet.organization(identifier, subtype)?,
        })
    }

    /// Bytes that an LLDPDU takes whose organisation's TLV carries so much.
    pub const fn len_with(value: usize) -> usize {
        2 * (TLV_HEADER + ADDRESS) + TLV_HEADER + 2 + TLV_HEADER + ORGANIZATION + value + TLV_HEADER
    }

    /// Bytes that [`LldpRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        Self::len_with(self.value.len())
    }

    /// Writes the LLDPDU with the mark of its end to the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` has less than `buffer_len()` bytes, or `value` more than [`LLDP_VALUE_MAX`].
    pub fn emit(&self, buffer: &mut [u8]) {
        assert!(self.value.len() <= LLDP_VALUE_MAX, "the value fits a TLV");
        let [a, b, c] = self.identifier;
        let mut at = 0;
        let mut put = |kind: u8, parts: [&[u8]; 2]| {
            let length = parts[0].len() + parts[1].len();
            buffer[at] = kind << 1 | (length >> 8) as u8;
            buffer[at + 1] = length as u8;
            at += TLV_HEADER;
            for part in parts {
                buffer[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
        };
        put(kind::CHASSIS, [&[CHASSIS_MAC], &self.chassis]);
        put(kind::PORT, [&[PORT_MAC], &self.port]);
        put(kind::TIME_TO_LIVE, [&self.time_to_live_s.to_be_bytes(), &[]]);
        put(kind::ORGANIZATION, [&[a, b, c, self.subtype], self.value]);
        put(kind::END, [&[], &[]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEDDLE: [u8; 3] = [2, 7, 7];

    #[test]
    fn what_a_switch_sends_is_walked_through() {
        // Chassis and port by address, 120 s, a system name, an 802.3 TLV, Heddle's, the end, and padding.
        let mut bytes = vec![2, 7, 4, 2, 0, 0, 0, 0, 1, 4, 3, 5, b'e', b'0', 6, 2, 0, 120, 10, 2, b's', b'1'];
        bytes.extend([254, 5, 0, 0x12, 0x0f, 3, 9, 254, 6, 2, 7, 7, 1, 42, 43, 0, 0, 0xff, 0xff]);
        let packet = LldpPacket::new_checked(&bytes).unwrap();
        assert_eq!((packet.time_to_live_s(), packet.port()), (120, &[5, b'e', b'0'][..]));
        assert_eq!(packet.organization(HEDDLE, 1), Some(&[42, 43][..]));
        assert_eq!(packet.organization(HEDDLE, 2), None);
        assert_eq!(LldpRepr::parse(&packet, HEDDLE, 1), None, "its port is not named by an address");
    }

    #[test]
    fn what_is_out_of_order_or_cut_off_is_named() {
        let repr = LldpRepr {
            chassis: [2; 6],
            port: [4; 6],
            time_to_live_s: 4,
            identifier: HEDDLE,
            subtype: 1,
            value: &[1, 2, 3],
        };
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes);
        for (at, value, message) in [
            (0, 4, "LLDPDU: kind of TLV is 2, 1 (chassis) expected"),
            (1, 1, "LLDPDU: length of the chassis is 1, 2 to 256 bytes expected"),
            (9, 0, "LLDPDU: kind of TLV is 0, 2 (port) expected"),
            (18, 255, "LLDPDU: kind of TLV is 127, 3 (time to live) expected"),
            (19, 1, "LLDPDU: length of the time to live is 1, at least 2 expected"),
            (23, 3, "LLDPDU: length of an organisation's TLV is 3, at least 4 expected"),
            (23, 200, "LLDPDU: 9 bytes, at least 200 expected"),
        ] {
            let mut changed = bytes.clone();
            changed[at] = value;
            // The length's ninth bit is the kind's neighbour.
            changed[18] &= if at == 18 { 0xfe } else { 0xff };
            assert_eq!(LldpPacket::new_checked(&changed).unwrap_err().to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn emitted_and_parsed_is_the_same(
            chassis: [u8; 6], port: [u8; 6], time_to_live_s: u16, identifier: [u8; 3], subtype: u8,
            value in proptest::collection::vec(any::<u8>(), 0..=LLDP_VALUE_MAX), padding in 0..4_usize,
        ) {
            let repr = LldpRepr { chassis, port, time_to_live_s, identifier, subtype, value: &value };
            let mut buffer = vec![0xa5; repr.buffer_len() + padding];
            repr.emit(&mut buffer);
            let packet = LldpPacket::new_checked(&buffer).unwrap();
            prop_assert_eq!(LldpRepr::parse(&packet, identifier, subtype), Some(repr));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80), likely: bool) {
            let start = [2, 2, 7, 7, 4, 2, 7, 7, 6, 2, 0, 9];
            let bytes = if likely { [&start[..], &bytes].concat() } else { bytes };
            if let Ok(packet) = LldpPacket::new_checked(&bytes) {
                packet.organization(HEDDLE, 1);
                LldpRepr::parse(&packet, HEDDLE, 1);
            }
        }
    }
}
