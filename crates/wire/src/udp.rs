//! The user datagram protocol (RFC 768).

use crate::Error;
use crate::checksum::{self, Pseudo};
use crate::error::{room, split};

const NAME: &str = "UDP";
const HEADER: usize = 8;

/// A view of a datagram. Checked: the length lies within the bytes. Not checked: the checksum, since with offloads it is
/// filled in later.
#[derive(Clone, Copy, Debug)]
pub struct UdpPacket<'a> {
    header: &'a [u8; HEADER],
    payload: &'a [u8],
}

impl<'a> UdpPacket<'a> {
    /// Checks an IP payload.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for a length below that of the header.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Error> {
        let (header, rest) = split::<HEADER>(NAME, bytes)?;
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let Some(payload_len) = len.checked_sub(HEADER) else {
            return Err(Error::field(NAME, "length", len as u32, "at least 8"));
        };
        match rest.get(..payload_len) {
            Some(payload) => Ok(Self { header, payload }),
            None => Err(Error::Truncated { header: NAME, need: len, have: bytes.len() }),
        }
    }

    /// Source port; 0 if none.
    pub const fn src_port(&self) -> u16 {
        u16::from_be_bytes([self.header[0], self.header[1]])
    }

    /// Destination port.
    pub const fn dst_port(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    /// Checksum as it stands in the header; 0 says that there is none.
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.header[6], self.header[7]])
    }

    /// The payload.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// What a header says. Valid while `payload_len` is at most 65,527; more is cut off by [`UdpRepr::emit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpRepr {
    /// Source port; 0 if none.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes of payload.
    pub payload_len: u16,
}

impl UdpRepr {
    /// What the view says.
    pub const fn parse(packet: &UdpPacket<'_>) -> Self {
        Self { src_port: packet.src_port(), dst_port: packet.dst_port(), payload_len: packet.payload().len() as u16 }
    }

    /// Bytes that [`UdpRepr::emit`] writes: the header alone.
    pub const fn buffer_len(&self) -> usize {
        HEADER
    }

    /// Writes the header to the start of `buffer`, its checksum zero: see [`UdpRepr::fill_checksum`].
    ///
    /// # Panics
    /// If `buffer` has less than `buffer_len()` bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let header = room::<HEADER>(buffer);
        header[..2].copy_from_slice(&self.src_port.to_be_bytes());
        header[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        header[4..6].copy_from_slice(&self.payload_len.saturating_add(HEADER as u16).to_be_bytes());
        header[6..].fill(0);
    }

    /// Writes the checksum of a whole datagram, header and payload. A sum of zero is sent as all ones, since zero says that
    /// there is no checksum.
    ///
    /// # Panics
    /// If `datagram` is shorter than a header.
    pub fn fill_checksum(datagram: &mut [u8], pseudo: &Pseudo) {
        room::<HEADER>(datagram)[6..].fill(0);
        let checksum = match checksum::transport(pseudo, datagram) {
            0 => 0xffff,
            sum => sum,
        };
        datagram[6..8].copy_from_slice(&checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol;
    use proptest::prelude::*;

    #[test]
    fn a_sum_of_zero_is_sent_as_ones() {
        let pseudo = Pseudo::V4 { src: 0.into(), dst: 0.into(), protocol: protocol::UDP };
        let repr = UdpRepr { src_port: 0, dst_port: 0xffff - 17 - 8 - 8, payload_len: 0 };
        let mut bytes = [0; HEADER];
        repr.emit(&mut bytes);
        assert_eq!(checksum::transport(&pseudo, &bytes), 0);
        UdpRepr::fill_checksum(&mut bytes, &pseudo);
        assert_eq!(UdpPacket::new_checked(&bytes).unwrap().checksum(), 0xffff);
    }

    proptest! {
        #[test]
        fn emitted_and_parsed_is_the_same(src_port: u16, dst_port: u16, payload_len in 0_u16..=65_527) {
            let repr = UdpRepr { src_port, dst_port, payload_len };
            let mut buffer = vec![0xa5; repr.buffer_len() + usize::from(payload_len)];
            repr.emit(&mut buffer);
            let pseudo = Pseudo::V6 { src: 7.into(), dst: 9.into(), protocol: protocol::UDP };
            UdpRepr::fill_checksum(&mut buffer, &pseudo);
            prop_assert_eq!(checksum::transport(&pseudo, &buffer), 0);
            prop_assert_eq!(UdpRepr::parse(&UdpPacket::new_checked(&buffer).unwrap()), repr);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40), len in 0_u8..40) {
            let mut bytes = bytes;
            if let Some(length) = bytes.get_mut(4..6) {
                length.copy_from_slice(&u16::from(len).to_be_bytes());
            }
            if let Ok(packet) = UdpPacket::new_checked(&bytes) {
                prop_assert_eq!(packet.payload().len() + HEADER, usize::from(len));
            }
        }
    }
}
