//! Ethernet II (IEEE 802.3, clause 3) with at most one 802.1Q tag.

use crate::Error;
use crate::error::{room, split, split_mut};

const NAME: &str = "Ethernet";
const HEADER: usize = 14;
const TAG: usize = 4;

/// Where a frame's first 802.1Q tag is, if it has one: behind both addresses.
pub const TAG_AT: usize = 12;

/// An 802.1Q tag with this control information, as it stands in a frame.
pub const fn vlan_tag(tci: u16) -> [u8; TAG] {
    let (tpid, tci) = (ethertype::VLAN.to_be_bytes(), tci.to_be_bytes());
    [tpid[0], tpid[1], tci[0], tci[1]]
}

/// Ethertypes that Heddle distinguishes. A value below 0x0600 is a length (IEEE 802.3, 3.2.6), not a type.
pub mod ethertype {
    /// IPv4 (RFC 791).
    pub const IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// An 802.1Q tag follows.
    pub const VLAN: u16 = 0x8100;
    /// IPv6 (RFC 8200).
    pub const IPV6: u16 = 0x86dd;
    /// The slow protocols: LACP and markers among them.
    pub const SLOW: u16 = 0x8809;
    /// A service tag of a provider's bridge follows (IEEE 802.1Q, 9.5).
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// LLDP (IEEE 802.1AB).
    pub const LLDP: u16 = 0x88cc;
    /// A label stack follows (RFC 3032).
    pub const MPLS: u16 = 0x8847;
    /// A label stack follows, whose uppermost label was assigned upstream (RFC 5332).
    pub const MPLS_UPSTREAM: u16 = 0x8848;

    /// Whether a label stack follows.
    pub const fn is_mpls(ethertype: u16) -> bool {
        matches!(ethertype, MPLS | MPLS_UPSTREAM)
    }

    /// Whether a tag follows. Linux takes off all that have no VLAN, however many there are, and looks at what is behind them.
    pub const fn is_tag(ethertype: u16) -> bool {
        matches!(ethertype, VLAN | SERVICE_VLAN)
    }
}

/// The broadcast address: all stations.
pub const BROADCAST: [u8; 6] = [0xff; 6];

/// Whether `mac` names a group of stations: broadcast or multicast.
pub const fn is_group(mac: [u8; 6]) -> bool {
    mac[0] & 1 == 1
}

/// Flips a bit of what is behind the header of a frame, if there is anything: `bits`, a number of any size, says which. Addresses and ethertype stay.
pub fn flip_bit(frame: &mut [u8], bits: u64) {
    let payload = frame.get_mut(HEADER..).unwrap_or_default();
    let Some(bit) = bits.checked_rem(8 * payload.len() as u64) else { return };
    payload[(bit / 8) as usize] ^= 1 << (bit % 8);
}

/// A view of a frame. Checked: the header, with its tag if there is one, lies within the bytes.
#[derive(Clone, Copy, Debug)]
pub struct EthernetPacket<'a> {
    header: &'a [u8; HEADER],
    /// Tag control information, and the ethertype behind it.
    vlan: Option<u16>,
    ethertype: u16,
    payload: &'a [u8],
}

impl<'a> EthernetPacket<'a> {
    /// Checks the bytes from the destination address to the last byte of payload (no frame check sequence).
    ///
    /// # Errors
    /// [`Error::Truncated`]
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Error> {
        let (header, payload) = split::<HEADER>(NAME, bytes)?;
        let ethertype = u16::from_be_bytes([header[12], header[13]]);
        if ethertype != ethertype::VLAN {
            return Ok(Self { header, vlan: None, ethertype, payload });
        }
        let Some((tag, payload)) = payload.split_first_chunk::<TAG>() else {
            return Err(Error::Truncated { header: NAME, need: HEADER + TAG, have: bytes.len() });
        };
        let vlan = Some(u16::from_be_bytes([tag[0], tag[1]]));
        Ok(Self { header, vlan, ethertype: u16::from_be_bytes([tag[2], tag[3]]), payload })
    }

    /// Destination address.
    pub const fn dst(&self) -> [u8; 6] {
        let h = self.header;
        [h[0], h[1], h[2], h[3], h[4], h[5]]
    }

    /// Source address.
    pub const fn src(&self) -> [u8; 6] {
        let h = self.header;
        [h[6], h[7], h[8], h[9], h[10], h[11]]
    }

    /// Tag control information of the 802.1Q tag (priority, drop eligibility, VLAN identifier), if there is a tag.
    pub const fn vlan(&self) -> Option<u16> {
        self.vlan
    }

    /// What the payload is; behind a tag, the tagged type.
    pub const fn ethertype(&self) -> u16 {
        self.ethertype
    }

    /// What follows the header, with any padding.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A view of a frame that may be changed. Checked as an [`EthernetPacket`].
#[derive(Debug)]
pub struct EthernetPacketMut<'a> {
    header: &'a mut [u8; HEADER],
    /// Tag control information and the ethertype behind it; empty without a tag.
    tag: &'a mut [u8],
    payload: &'a mut [u8],
}

impl<'a> EthernetPacketMut<'a> {
    /// Checks the bytes from the destination address to the last byte of payload (no frame check sequence).
    ///
    /// # Errors
    /// [`Error::Truncated`]
    #[inline]
    pub fn new_checked(bytes: &'a mut [u8]) -> Result<Self, Error> {
        let header_len = bytes.len() - EthernetPacket::new_checked(bytes)?.payload().len();
        let (header, rest) = split_mut::<HEADER>(NAME, bytes)?;
        let (tag, payload) = rest.split_at_mut(header_len - HEADER);
        Ok(Self { header, tag, payload })
    }

    /// Changes the tag control information.
    ///
    /// # Errors
    /// [`Error::Field`] if there is no tag.
    pub fn set_vlan(&mut self, tci: u16) -> Result<(), Error> {
        let Some(old) = self.tag.first_chunk_mut::<2>() else {
            let ethertype = u16::from_be_bytes([self.header[12], self.header[13]]);
            return Err(Error::field(NAME, "ethertype", u32::from(ethertype), "33024 (802.1Q)"));
        };
        *old = tci.to_be_bytes();
        Ok(())
    }

    /// Changes what the payload is said to be; behind a tag, the tagged type.
    pub fn set_ethertype(&mut self, ethertype: u16) {
        let place = self.tag.last_chunk_mut::<2>().or_else(|| self.header.last_chunk_mut::<2>());
        if let Some(place) = place {
            *place = ethertype.to_be_bytes();
        }
    }

    /// Changes the destination address.
    pub const fn set_dst(&mut self, mac: [u8; 6]) {
        [self.header[0], self.header[1], self.header[2], self.header[3], self.header[4], self.header[5]] = mac;
    }

    /// Changes the source address.
    pub const fn set_src(&mut self, mac: [u8; 6]) {
        [self.header[6], self.header[7], self.header[8], self.header[9], self.header[10], self.header[11]] = mac;
    }

    /// The payload, which may be changed in place.
    pub fn into_payload(self) -> &'a mut [u8] {
        self.payload
    }
}

/// What an Ethernet header says. Valid unless an untagged header's type is that of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetRepr {
    /// Destination address.
    pub dst: [u8; 6],
    /// Source address.
    pub src: [u8; 6],
    /// Tag control information, if there is a tag.
    pub vlan: Option<u16>,
    /// What the payload is.
    pub ethertype: u16,
}

impl EthernetRepr {
    /// What the view says.
    pub const fn parse(packet: &EthernetPacket<'_>) -> Self {
        Self { dst: packet.dst(), src: packet.src(), vlan: packet.vlan(), ethertype: packet.ethertype() }
    }

    /// Bytes that [`EthernetRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        if self.vlan.is_some() { HEADER + TAG } else { HEADER }
    }

    /// Writes the header to the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` has less than `buffer_len()` bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let header = room::<HEADER>(buffer);
        header[..6].copy_from_slice(&self.dst);
        header[6..12].copy_from_slice(&self.src);
        let Some(vlan) = self.vlan else {
            header[12..].copy_from_slice(&self.ethertype.to_be_bytes());
            return;
        };
        header[12..].copy_from_slice(&ethertype::VLAN.to_be_bytes());
        let tag = room::<TAG>(&mut buffer[HEADER..]);
        tag[..2].copy_from_slice(&vlan.to_be_bytes());
        tag[2..].copy_from_slice(&self.ethertype.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tag_that_is_cut_off_is_an_error() {
        let mut frame = [0_u8; 17];
        frame[12..14].copy_from_slice(&ethertype::VLAN.to_be_bytes());
        let error = EthernetPacket::new_checked(&frame).unwrap_err();
        assert_eq!(error, Error::Truncated { header: "Ethernet", need: 18, have: 17 });
        assert_eq!(error.to_string(), "Ethernet: 17 bytes, at least 18 expected");
    }

    proptest! {
        #[test]
        fn emitted_and_parsed_is_the_same(dst: [u8; 6], src: [u8; 6], vlan: Option<u16>, ethertype: u16) {
            prop_assume!(vlan.is_some() || ethertype != ethertype::VLAN);
            let repr = EthernetRepr { dst, src, vlan, ethertype };
            let mut buffer = vec![0xa5; repr.buffer_len() + 3];
            repr.emit(&mut buffer);
            let packet = EthernetPacket::new_checked(&buffer).unwrap();
            prop_assert_eq!(EthernetRepr::parse(&packet), repr);
            prop_assert_eq!(packet.payload(), [0xa5; 3]);
        }

        #[test]
        fn a_tag_that_is_written_or_put_in_is_the_one_that_is_read(vlan: Option<u16>, new: u16, payload: [u8; 5]) {
            let repr = EthernetRepr { dst: [1; 6], src: [2; 6], vlan, ethertype: ethertype::IPV4 };
            let mut frame = vec![0; repr.buffer_len()];
            repr.emit(&mut frame);
            frame.extend(payload);
            let written = EthernetPacketMut::new_checked(&mut frame).unwrap().set_vlan(new);
            prop_assert_eq!(written.is_ok(), vlan.is_some());
            if vlan.is_none() {
                frame.splice(TAG_AT..TAG_AT, vlan_tag(new));
            }
            let packet = EthernetPacket::new_checked(&frame).unwrap();
            prop_assert_eq!(EthernetRepr::parse(&packet), EthernetRepr { vlan: Some(new), ..repr });
            prop_assert_eq!(packet.payload(), payload);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(packet) = EthernetPacket::new_checked(&bytes) {
                prop_assert_eq!(EthernetRepr::parse(&packet).buffer_len() + packet.payload().len(), bytes.len());
            }
        }
    }
}
