//! What the slow protocols share (IEEE 802.3, annex 57A), and marker PDUs (IEEE 802.1AX-2014, 6.5.3).

use crate::Error;
use crate::error::{room, split};

const NAME: &str = "marker PDU";
/// Subtype, version and the marker's information: what is read. A terminator and padding follow.
const READ: usize = 18;
const VERSION: u8 = 1;
const INFORMATION: u8 = 16;

/// Where frames of slow protocols go. Bridges do not forward them.
pub const SLOW_PROTOCOLS: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x02];

/// Payload of a frame with an LACPDU, version 1, or a marker PDU: the least that such a frame may have.
pub const SLOW_PAYLOAD: usize = 110;

/// Slow protocols that Heddle distinguishes, by the first byte of the payload.
pub mod subtype {
    /// The Link Aggregation Control Protocol.
    pub const LACP: u8 = 1;
    /// The marker protocol.
    pub const MARKER: u8 = 2;
}

/// A view of a marker PDU. Checked: the subtype; marker or response; the length of its information.
#[derive(Clone, Copy, Debug)]
pub struct MarkerPacket<'a> {
    bytes: &'a [u8; READ],
}

impl<'a> MarkerPacket<'a> {
    /// Checks the payload of a slow protocols' frame. The version is not looked at (6.5.3.2).
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for another subtype, another kind, another length.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Error> {
        let (bytes, _rest) = split::<READ>(NAME, bytes)?;
        if bytes[0] != subtype::MARKER {
            return Err(Error::field(NAME, "subtype", u32::from(bytes[0]), "2 (marker)"));
        }
        if bytes[2] != 1 && bytes[2] != 2 {
            return Err(Error::field(NAME, "kind", u32::from(bytes[2]), "1 (marker) or 2 (response)"));
        }
        if bytes[3] != INFORMATION {
            return Err(Error::field(NAME, "length", u32::from(bytes[3]), "16"));
        }
        Ok(Self { bytes })
    }

    /// Whether it answers a marker.
    pub const fn is_response(&self) -> bool {
        self.bytes[2] == 2
    }
}

/// What a marker PDU says. Every value is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkerRepr {
    /// Whether it answers a marker.
    pub response: bool,
    /// The port that asked.
    pub requester_port: u16,
    /// The system that asked.
    pub requester_system: [u8; 6],
    /// What the asker knows the answer by.
    pub transaction: u32,
}

impl MarkerRepr {
    /// What the view says.
    pub const fn parse(packet: &MarkerPacket<'_>) -> Self {
        let b = packet.bytes;
        Self {
            response: packet.is_response(),
            requester_port: u16::from_be_bytes([b[4], b[5]]),
            requester_system: [b[6], b[7], b[8], b[9], b[10], b[11]],
            transaction: u32::from_be_bytes([b[12], b[13], b[14], b[15]]),
        }
    }

    /// Bytes that [`MarkerRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        SLOW_PAYLOAD
    }

    /// Writes the marker PDU with its padding to the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` has less than `buffer_len()` bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let bytes = room::<SLOW_PAYLOAD>(buffer);
        bytes.fill(0);
        bytes[..4].copy_from_slice(&[subtype::MARKER, VERSION, if self.response { 2 } else { 1 }, INFORMATION]);
        bytes[4..6].copy_from_slice(&self.requester_port.to_be_bytes());
        bytes[6..12].copy_from_slice(&self.requester_system);
        bytes[12..16].copy_from_slice(&self.transaction.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_a_marker_is_named() {
        let repr = MarkerRepr { response: false, requester_port: 1, requester_system: [2; 6], transaction: 3 };
        let mut bytes = [0; SLOW_PAYLOAD];
        repr.emit(&mut bytes);
        assert_eq!(bytes[..16], [2, 1, 1, 16, 0, 1, 2, 2, 2, 2, 2, 2, 0, 0, 0, 3]);
        for (at, value, message) in [
            (0, 1, "marker PDU: subtype is 1, 2 (marker) expected"),
            (2, 3, "marker PDU: kind is 3, 1 (marker) or 2 (response) expected"),
            (3, 15, "marker PDU: length is 15, 16 expected"),
        ] {
            let mut changed = bytes;
            changed[at] = value;
            assert_eq!(MarkerPacket::new_checked(&changed).unwrap_err().to_string(), message);
        }
        assert!(MarkerPacket::new_checked(&bytes[..17]).is_err());
    }

    proptest! {
        #[test]
        fn emitted_and_parsed_is_the_same(
            response: bool, requester_port: u16, requester_system: [u8; 6], transaction: u32,
        ) {
            let repr = MarkerRepr { response, requester_port, requester_system, transaction };
            let mut buffer = vec![0xa5; repr.buffer_len()];
            repr.emit(&mut buffer);
            prop_assert_eq!(MarkerRepr::parse(&MarkerPacket::new_checked(&buffer).unwrap()), repr);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(packet) = MarkerPacket::new_checked(&bytes) {
                prop_assert_eq!(MarkerRepr::parse(&packet).response, bytes[2] == 2);
            }
        }
    }
}
