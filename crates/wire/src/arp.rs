//! Address resolution for IPv4 over Ethernet (RFC 826).

use std::net::Ipv4Addr;

use crate::error::{room, split};
use crate::{Error, ethertype};

const NAME: &str = "ARP";
const LEN: usize = 28;
const HARDWARE_ETHERNET: u16 = 1;
/// Hardware type, protocol type and both address lengths, as they must be.
const PREAMBLE: [u8; 6] = {
    let [h0, h1] = HARDWARE_ETHERNET.to_be_bytes();
    let [p0, p1] = ethertype::IPV4.to_be_bytes();
    [h0, h1, p0, p1, 6, 4]
};

/// Request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArpOperation {
    /// A request asks for the owner of the target address.
    Request,
    /// The sender has the sender address.
    Reply,
}

impl ArpOperation {
    /// Its number on the wire.
    pub const fn number(self) -> u16 {
        match self {
            Self::Request => 1,
            Self::Reply => 2,
        }
    }
}

/// A view of an ARP message. Checked: Ethernet and IPv4 with their address lengths; request or reply.
#[derive(Clone, Copy, Debug)]
pub struct ArpPacket<'a> {
    bytes: &'a [u8; LEN],
    operation: ArpOperation,
}

impl<'a> ArpPacket<'a> {
    /// Checks an Ethernet payload; what follows the message is padding.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for other hardware, other protocols, other operations.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Error> {
        let (bytes, _padding) = split::<LEN>(NAME, bytes)?;
        let word = |at: usize| u32::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        if bytes[..6] != PREAMBLE {
            return Err(if word(0) != u32::from(HARDWARE_ETHERNET) {
                Error::field(NAME, "hardware type", word(0), "1 (Ethernet)")
            } else if word(2) != u32::from(ethertype::IPV4) {
                Error::field(NAME, "protocol type", word(2), "0x0800 (IPv4)")
            } else {
                Error::field(NAME, "address lengths", word(4), "6 and 4")
            });
        }
        let operation = match word(6) {
            1 => ArpOperation::Request,
            2 => ArpOperation::Reply,
            other => return Err(Error::field(NAME, "operation", other, "1 (request) or 2 (reply)")),
        };
        Ok(Self { bytes, operation })
    }

    /// Request or reply.
    pub const fn operation(&self) -> ArpOperation {
        self.operation
    }

    /// The sender's hardware address.
    pub const fn sender_mac(&self) -> [u8; 6] {
        self.mac(8)
    }

    /// The sender's address; unspecified in a probe (RFC 5227).
    pub const fn sender_ipv4(&self) -> Ipv4Addr {
        self.ipv4(14)
    }

    /// The target's hardware address; without meaning in a request.
    pub const fn target_mac(&self) -> [u8; 6] {
        self.mac(18)
    }

    /// The target's address.
    pub const fn target_ipv4(&self) -> Ipv4Addr {
        self.ipv4(24)
    }

    const fn mac(&self, at: usize) -> [u8; 6] {
        let b = self.bytes;
        [b[at], b[at + 1], b[at + 2], b[at + 3], b[at + 4], b[at + 5]]
    }

    const fn ipv4(&self, at: usize) -> Ipv4Addr {
        let b = self.bytes;
        Ipv4Addr::new(b[at], b[at + 1], b[at + 2], b[at + 3])
    }
}

/// What an ARP message says. Every value is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpRepr {
    /// Request or reply.
    pub operation: ArpOperation,
    /// The sender's hardware address.
    pub sender_mac: [u8; 6],
    /// The sender's address.
    pub sender_ipv4: Ipv4Addr,
    /// The target's hardware address.
    pub target_mac: [u8; 6],
    /// The target's address.
    pub target_ipv4: Ipv4Addr,
}

impl ArpRepr {
    /// What the view says.
    pub const fn parse(packet: &ArpPacket<'_>) -> Self {
        Self {
            operation: packet.operation(),
            sender_mac: packet.sender_mac(),
            sender_ipv4: packet.sender_ipv4(),
            target_mac: packet.target_mac(),
            target_ipv4: packet.target_ipv4(),
        }
    }

    /// Bytes that [`ArpRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        LEN
    }

    /// Writes the message to the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` has less than `buffer_len()` bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let bytes = room::<LEN>(buffer);
        bytes[..6].copy_from_slice(&PREAMBLE);
        bytes[6..8].copy_from_slice(&self.operation.number().to_be_bytes());
        bytes[8..14].copy_from_slice(&self.sender_mac);
        bytes[14..18].copy_from_slice(&self.sender_ipv4.octets());
        bytes[18..24].copy_from_slice(&self.target_mac);
        bytes[24..].copy_from_slice(&self.target_ipv4.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_handled_is_named() {
        let repr = ArpRepr {
            operation: ArpOperation::Request,
            sender_mac: [2; 6],
            sender_ipv4: Ipv4Addr::new(10, 0, 0, 1),
            target_mac: [0; 6],
            target_ipv4: Ipv4Addr::new(10, 0, 0, 2),
        };
        let mut bytes = [0; LEN];
        repr.emit(&mut bytes);
        for (at, value, message) in [
            (1, 6, "ARP: hardware type is 6, 1 (Ethernet) expected"),
            (2, 0x86, "ARP: protocol type is 34304, 0x0800 (IPv4) expected"),
            (5, 16, "ARP: address lengths is 1552, 6 and 4 expected"),
            (7, 3, "ARP: operation is 3, 1 (request) or 2 (reply) expected"),
        ] {
            let mut changed = bytes;
            changed[at] = value;
            assert_eq!(ArpPacket::new_checked(&changed).unwrap_err().to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn emitted_and_parsed_is_the_same(
            reply: bool, sender_mac: [u8; 6], sender: u32, target_mac: [u8; 6], target: u32,
        ) {
            let operation = if reply { ArpOperation::Reply } else { ArpOperation::Request };
            let repr = ArpRepr {
                operation, sender_mac, sender_ipv4: sender.into(), target_mac, target_ipv4: target.into(),
            };
            let mut buffer = vec![0xa5; repr.buffer_len()];
            repr.emit(&mut buffer);
            prop_assert_eq!(ArpRepr::parse(&ArpPacket::new_checked(&buffer).unwrap()), repr);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(packet) = ArpPacket::new_checked(&bytes) {
                ArpRepr::parse(&packet);
            }
        }
    }
}
