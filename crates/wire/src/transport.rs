//! What an address translator changes of TCP, UDP and `ICMPv6`: ports, and the checksum that covers addresses and ports.

use crate::checksum::{Coverage, update_for_address, update_for_header};
use crate::{Error, protocol};

/// A view of the beginning of a transport header, to be changed. Checked: ports and checksum lie within the bytes. That the rest of the header
/// does is not: the first fragment of a datagram may end before.
#[derive(Debug)]
pub struct TransportPacketMut<'a> {
    header: &'a mut [u8],
    protocol: u8,
    checksum_at: usize,
    coverage: Coverage,
}

impl<'a> TransportPacketMut<'a> {
    /// Checks what follows the IP header of this protocol; `None` for one whose checksum does not cover addresses. `coverage` is what the checksum
    /// field holds.
    ///
    /// # Errors
    /// [`Error::Truncated`]
    #[inline]
    pub fn new_checked(protocol: u8, bytes: &'a mut [u8], coverage: Coverage) -> Result<Option<Self>, Error> {
        let (name, checksum_at) = match protocol {
            protocol::TCP => ("TCP", 16),
            protocol::UDP => ("UDP", 6),
            protocol::ICMPV6 => ("ICMPv6", 2),
            _ => return Ok(None),
        };
        let (need, have) = (checksum_at + 2, bytes.len());
        if have < need {
            return Err(Error::Truncated { header: name, need, have });
        }
        Ok(Some(Self { header: bytes, protocol, checksum_at, coverage }))
    }

    /// Changes the source port. `ICMPv6` has none.
    #[inline]
    pub fn set_src_port(&mut self, port: u16) {
        self.set_port(0, port);
    }

    /// Changes the destination port. `ICMPv6` has none.
    #[inline]
    pub fn set_dst_port(&mut self, port: u16) {
        self.set_port(2, port);
    }

    fn set_port(&mut self, at: usize, port: u16) {
        if self.protocol == protocol::ICMPV6 {
            return;
        }
        let (old, new) = ([self.header[at], self.header[at + 1]], port.to_be_bytes());
        self.header[at..at + 2].copy_from_slice(&new);
        self.correct(|field, coverage| update_for_header(field, coverage, &old, &new));
    }

    /// Has the checksum fit an IP address that was changed: its bytes before and after.
    #[inline]
    pub fn address_changed(&mut self, old: &[u8], new: &[u8]) {
        self.correct(|field, coverage| update_for_address(field, coverage, old, new));
    }

    fn correct(&mut self, update: impl FnOnce(&mut [u8; 2], Coverage)) {
        let Some(field) = self.header[self.checksum_at..].first_chunk_mut::<2>() else { return };
        let is_udp = self.protocol == protocol::UDP && self.coverage == Coverage::Complete;
        if is_udp && *field == [0; 2] {
            // It says that there is none (RFC 768).
            return;
        }
        update(field, self.coverage);
        if is_udp && *field == [0; 2] {
            *field = [0xff; 2];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pseudo, TcpRepr, UdpRepr, checksum, tcp_flags};
    use proptest::prelude::*;

    fn segment(protocol: u8, (src_port, dst_port): (u16, u16), payload: &[u8], pseudo: &Pseudo) -> Vec<u8> {
        let mut bytes;
        if protocol == protocol::TCP {
            let repr = TcpRepr {
                src_port,
                dst_port,
                seq: 1,
                ack: 2,
                flags: tcp_flags::ACK,
                window: 3,
                urgent: 0,
                timestamps: None,
            };
            bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes);
            bytes.extend(payload);
            TcpRepr::fill_checksum(&mut bytes, pseudo);
        } else {
            let repr = UdpRepr { src_port, dst_port, payload_len: payload.len() as u16 };
            bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes);
            bytes.extend(payload);
            UdpRepr::fill_checksum(&mut bytes, pseudo);
        }
        bytes
    }

    /// What the kernel leaves in the field when somebody else is to add the rest.
    fn leave_to_others(bytes: &mut [u8], at: usize, pseudo: &Pseudo) {
        let mut zeros = bytes.to_vec();
        zeros.fill(0);
        let sum = !checksum::transport(pseudo, &zeros);
        bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    proptest! {
        #[test]
        fn a_translated_segment_has_the_checksum_of_one_that_was_sent_so(
            is_tcp: bool, partial: bool, payload in proptest::collection::vec(any::<u8>(), 0..40),
            before in any::<(u32, u32, u16, u16)>(), after in any::<(u32, u32, u16, u16)>(),
        ) {
            let protocol = if is_tcp { protocol::TCP } else { protocol::UDP };
            let at = if is_tcp { 16 } else { 6 };
            let pseudo = |(src, dst, ..): (u32, u32, u16, u16)| Pseudo::V4 { src: src.into(), dst: dst.into(), protocol };
            let mut bytes = segment(protocol, (before.2, before.3), &payload, &pseudo(before));
            let coverage = if partial {
                leave_to_others(&mut bytes, at, &pseudo(before));
                Coverage::PseudoHeader
            } else {
                Coverage::Complete
            };
            let mut packet = TransportPacketMut::new_checked(protocol, &mut bytes, coverage).unwrap().unwrap();
            packet.address_changed(&before.0.to_be_bytes(), &after.0.to_be_bytes());
            packet.address_changed(&before.1.to_be_bytes(), &after.1.to_be_bytes());
            packet.set_src_port(after.2);
            packet.set_dst_port(after.3);
            if partial {
                let mut expected = segment(protocol, (after.2, after.3), &payload, &pseudo(after));
                leave_to_others(&mut expected, at, &pseudo(after));
                // Zero has two forms in one's complement; whoever adds the rest does not care which.
                let value = |bytes: &[u8]| u32::from(u16::from_be_bytes([bytes[at], bytes[at + 1]])) % 0xffff;
                prop_assert_eq!(value(&bytes), value(&expected));
            } else {
                prop_assert_eq!(checksum::transport(&pseudo(after), &bytes), 0);
                prop_assert!(is_tcp || bytes[6..8] != [0, 0], "it says that there is none");
            }
            prop_assert_eq!(&bytes[..2], after.2.to_be_bytes());
            prop_assert_eq!(&bytes[2..4], after.3.to_be_bytes());
        }
    }

    #[test]
    fn a_datagram_without_checksum_gets_none() {
        let mut bytes = [0, 1, 0, 2, 0, 8, 0, 0];
        let packet = TransportPacketMut::new_checked(protocol::UDP, &mut bytes, Coverage::Complete);
        packet.unwrap().unwrap().set_dst_port(9);
        assert_eq!(bytes, [0, 1, 0, 9, 0, 8, 0, 0]);
    }

    #[test]
    fn what_ends_before_its_checksum_is_refused() {
        let mut bytes = [0; 17];
        let error = TransportPacketMut::new_checked(protocol::TCP, &mut bytes, Coverage::Complete).unwrap_err();
        assert_eq!(error.to_string(), "TCP: 17 bytes, at least 18 expected");
        assert!(TransportPacketMut::new_checked(protocol::ICMP, &mut [], Coverage::Complete).unwrap().is_none());
    }
}
