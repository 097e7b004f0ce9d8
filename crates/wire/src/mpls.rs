//! MPLS (RFC 3032): label stack entries between Ethernet and what they are put on.

use crate::error::split;
use crate::{Error, EthernetPacket, EthernetPacketMut, ethertype};

const NAME: &str = "MPLS";

/// One entry of a label stack (RFC 3032, 2.1; its traffic class: RFC 5462). Valid if label and traffic class have no more bits than their fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MplsRepr {
    /// 20 bits.
    pub label: u32,
    /// 3 bits.
    pub traffic_class: u8,
    /// Whether it is the last entry of the stack.
    pub is_bottom: bool,
    /// Time to live.
    pub ttl: u8,
}

impl MplsRepr {
    /// Bytes of an entry.
    pub const LEN: usize = 4;

    /// What an entry says.
    pub const fn parse(entry: u32) -> Self {
        Self {
            label: entry >> 12,
            traffic_class: (entry >> 9) as u8 & 7,
            is_bottom: entry >> 8 & 1 == 1,
            ttl: entry as u8,
        }
    }

    /// The entry as a number, whose first byte on the wire is the highest one. Of fields the bits that they have.
    pub const fn bits(self) -> u32 {
        let class = (self.traffic_class as u32 & 7) << 9;
        (self.label & 0xf_ffff) << 12 | class | (self.is_bottom as u32) << 8 | self.ttl as u32
    }
}

/// A view of the uppermost entry of a label stack. Checked: its four bytes are there.
#[derive(Clone, Copy, Debug)]
pub struct MplsPacket<'a> {
    entry: u32,
    payload: &'a [u8],
}

impl<'a> MplsPacket<'a> {
    /// Checks what follows an Ethernet header.
    ///
    /// # Errors
    /// [`Error::Truncated`]
    #[inline]
    pub const fn new_checked(bytes: &'a [u8]) -> Result<Self, Error> {
        match split::<{ MplsRepr::LEN }>(NAME, bytes) {
            Ok((entry, payload)) => Ok(Self { entry: u32::from_be_bytes(*entry), payload }),
            Err(error) => Err(error),
        }
    }

    /// The entry as a number.
    pub const fn bits(&self) -> u32 {
        self.entry
    }

    /// Whether no other entry is behind it.
    pub const fn is_bottom(&self) -> bool {
        MplsRepr::parse(self.entry).is_bottom
    }

    /// What is behind it: another entry, or what the stack was put on.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// What is behind the last entry of the stack, of which so many are looked at; `None` if there are more, or it is cut off.
    pub fn behind_stack(bytes: &'a [u8], entries: usize) -> Option<&'a [u8]> {
        let mut rest = bytes;
        for _ in 0..entries {
            let entry = Self::new_checked(rest).ok()?;
            if entry.is_bottom() {
                return Some(entry.payload);
            }
            rest = entry.payload;
        }
        None
    }
}

/// A view of the uppermost entry that may be changed. Checked as an [`MplsPacket`].
#[derive(Debug)]
pub struct MplsPacketMut<'a> {
    entry: &'a mut [u8; MplsRepr::LEN],
    payload: &'a mut [u8],
}

impl<'a> MplsPacketMut<'a> {
    /// Checks what follows an Ethernet header.
    ///
    /// # Errors
    /// [`Error::Truncated`]
    pub const fn new_checked(bytes: &'a mut [u8]) -> Result<Self, Error> {
        match crate::error::split_mut::<{ MplsRepr::LEN }>(NAME, bytes) {
            Ok((entry, payload)) => Ok(Self { entry, payload }),
            Err(error) => Err(error),
        }
    }

    /// What the entry says.
    pub const fn repr(&self) -> MplsRepr {
        MplsRepr::parse(u32::from_be_bytes(*self.entry))
    }

    /// Changes the entry.
    pub const fn set(&mut self, repr: MplsRepr) {
        *self.entry = repr.bits().to_be_bytes();
    }

    /// What is behind it.
    pub fn into_payload(self) -> &'a mut [u8] {
        self.payload
    }
}

/// Where in a frame its label stack is, or would be: behind Ethernet and its tag.
///
/// # Errors
/// [`Error::Truncated`] if there is no Ethernet header.
pub fn mpls_at(frame: &[u8]) -> Result<usize, Error> {
    EthernetPacket::new_checked(frame).map(|ethernet| frame.len() - ethernet.payload().len())
}

/// Where in a frame the uppermost entry is that may be taken off.
///
/// # Errors
/// If there is none.
pub fn mpls_to_pop(frame: &[u8]) -> Result<usize, Error> {
    let ethernet = EthernetPacket::new_checked(frame)?;
    if !ethertype::is_mpls(ethernet.ethertype()) {
        let value = u32::from(ethernet.ethertype());
        return Err(Error::field("Ethernet", "ethertype", value, "34887 or 34888 (MPLS)"));
    }
    MplsPacket::new_checked(ethernet.payload())?;
    mpls_at(frame)
}

/// Puts an entry on a frame, which has this ethertype then.
///
/// # Errors
/// If there is no Ethernet header; the frame is as it was.
pub fn push_mpls(frame: &mut Vec<u8>, ethertype: u16, entry: u32) -> Result<(), Error> {
    let at = mpls_at(frame)?;
    EthernetPacketMut::new_checked(frame)?.set_ethertype(ethertype);
    frame.splice(at..at, entry.to_be_bytes());
    Ok(())
}

/// Takes the uppermost entry off a frame, which has this ethertype then.
///
/// # Errors
/// If there is none; the frame is as it was.
pub fn pop_mpls(frame: &mut Vec<u8>, ethertype: u16) -> Result<(), Error> {
    let at = mpls_to_pop(frame)?;
    EthernetPacketMut::new_checked(frame)?.set_ethertype(ethertype);
    frame.drain(at..at + MplsRepr::LEN);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 3032, 2.1: label 16, class 5, bottom of the stack, 64 hops.
    const ENTRY: [u8; 4] = [0x00, 0x01, 0x0b, 0x40];

    #[test]
    fn entries_lie_as_the_standard_says() {
        let repr = MplsRepr { label: 16, traffic_class: 5, is_bottom: true, ttl: 64 };
        assert_eq!(MplsRepr::parse(u32::from_be_bytes(ENTRY)), repr);
        assert_eq!(repr.bits().to_be_bytes(), ENTRY);
        assert!(MplsPacket::new_checked(&ENTRY[..3]).is_err());
    }

    #[test]
    fn a_stack_ends_at_its_bottom() {
        let stack = [&[0, 0, 0x10, 1][..], &ENTRY, b"rest"].concat();
        assert_eq!(MplsPacket::behind_stack(&stack, 2), Some(&b"rest"[..]));
        assert_eq!(MplsPacket::behind_stack(&stack, 1), None);
        assert_eq!(MplsPacket::behind_stack(&stack[..6], 3), None);
    }

    proptest! {
        #[test]
        fn what_is_put_on_is_taken_off(entry: u32, tag: Option<u16>, payload in proptest::collection::vec(any::<u8>(), 0..40)) {
            let repr = crate::EthernetRepr { dst: [1; 6], src: [2; 6], vlan: tag, ethertype: ethertype::IPV4 };
            let mut frame = vec![0; repr.buffer_len()];
            repr.emit(&mut frame);
            frame.extend(payload);
            let before = frame.clone();
            push_mpls(&mut frame, ethertype::MPLS, entry).unwrap();
            let ethernet = EthernetPacket::new_checked(&frame).unwrap();
            prop_assert_eq!((ethernet.ethertype(), ethernet.vlan()), (ethertype::MPLS, tag));
            prop_assert_eq!(MplsPacket::new_checked(ethernet.payload()).unwrap().bits(), entry);
            pop_mpls(&mut frame, ethertype::IPV4).unwrap();
            prop_assert_eq!(&frame, &before);
            prop_assert!(pop_mpls(&mut frame, ethertype::IPV4).is_err());
            prop_assert_eq!(frame, before);
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = MplsPacket::behind_stack(&bytes, 8);
            let length = bytes.len();
            let popped = pop_mpls(&mut bytes, ethertype::IPV4).is_ok();
            prop_assert_eq!(bytes.len(), if popped { length - MplsRepr::LEN } else { length });
        }
    }
}
