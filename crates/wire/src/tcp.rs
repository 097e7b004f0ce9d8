//! TCP's header (RFC 9293, section 3.1) with the timestamps option (RFC 7323, section 3).

use crate::Error;
use crate::checksum::{self, Pseudo};
use crate::error::{room, split};

const NAME: &str = "TCP";
const HEADER: usize = 20;
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_WINDOW_SCALE: u8 = 3;
const WINDOW_SCALE_LEN: u8 = 3;
const OPTION_TIMESTAMPS: u8 = 8;
const TIMESTAMPS_LEN: u8 = 10;
/// How RFC 7323, appendix A, lays the option out, and how every common stack does: two NOPs, then the option.
const ALIGNED: [u8; 4] = [OPTION_NOP, OPTION_NOP, OPTION_TIMESTAMPS, TIMESTAMPS_LEN];
const ALIGNED_LEN: usize = 12;

/// Bits of [`TcpPacket::flags`].
pub mod tcp_flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronises sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Resets the connection.
    pub const RST: u8 = 0x04;
    /// Push: the receiver hands the data to the application at once.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// ECN echo (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;
}

/// The timestamps option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// `TSval`: the sender's clock, in a unit of its own choice.
    pub value: u32,
    /// `TSecr`: the latest value that came from the other side.
    pub echo: u32,
}

/// A view of a segment. Checked: the header with its options lies within the bytes. Not checked: the checksum, since with
/// offloads it is filled in later.
#[derive(Clone, Copy, Debug)]
pub struct TcpPacket<'a> {
    header: &'a [u8; HEADER],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> TcpPacket<'a> {
    /// Checks an IP payload.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for a data offset outside of the segment.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Error> {
        let (header, rest) = split::<HEADER>(NAME, bytes)?;
        let offset = usize::from(header[12] >> 4) * 4;
        let Some((options, payload)) = offset.checked_sub(HEADER).and_then(|len| rest.split_at_checked(len)) else {
            return Err(Error::field(NAME, "data offset", offset as u32, "20 to the segment's length"));
        };
        Ok(Self { header, options, payload })
    }

    /// Source port.
    pub const fn src_port(&self) -> u16 {
        u16::from_be_bytes([self.header[0], self.header[1]])
    }

    /// Destination port.
    pub const fn dst_port(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    /// Sequence number of the first byte of payload (of the SYN, if that is set).
    pub const fn seq(&self) -> u32 {
        self.word(4)
    }

    /// Acknowledgement number.
    pub const fn ack(&self) -> u32 {
        self.word(8)
    }

    /// The control bits, see [`tcp_flags`].
    pub const fn flags(&self) -> u8 {
        self.header[13]
    }

    /// Receive window as it stands in the header, not scaled.
    pub const fn window(&self) -> u16 {
        u16::from_be_bytes([self.header[14], self.header[15]])
    }

    /// Checksum as it stands in the header.
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.header[16], self.header[17]])
    }

    /// Urgent pointer.
    pub const fn urgent(&self) -> u16 {
        u16::from_be_bytes([self.header[18], self.header[19]])
    }

    /// The options, padded to whole words.
    pub const fn options(&self) -> &'a [u8] {
        self.options
    }

    /// The payload.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    const fn word(&self, at: usize) -> u32 {
        let h = self.header;
        u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]])
    }

    /// The timestamps option; `None` if there is none, or the options before it are malformed.
    #[inline]
    pub fn timestamps(&self) -> Option<Timestamps> {
        match self.options.first_chunk::<ALIGNED_LEN>() {
            Some(start) if start[..4] == ALIGNED => Some(read_timestamps(&start[4..])),
            _ => self.find_timestamps(),
        }
    }

    /// By how many bits windows are to be shifted (RFC 7323, 2.2); `None` if it does not say so, or the options before that are malformed.
    pub fn window_scale(&self) -> Option<u8> {
        let mut rest = self.options;
        loop {
            rest = match *rest {
                [] | [OPTION_END, ..] => return None,
                [OPTION_NOP, ref next @ ..] => next,
                [OPTION_WINDOW_SCALE, WINDOW_SCALE_LEN, scale, ..] => return Some(scale),
                // A length below 2 would not move on.
                [_, len @ 2..=u8::MAX, ..] => rest.get(usize::from(len)..)?,
                _ => return None,
            };
        }
    }

    #[cold]
    fn find_timestamps(&self) -> Option<Timestamps> {
        let mut rest = self.options;
        loop {
            rest = match *rest {
                [] | [OPTION_END, ..] => return None,
                [OPTION_NOP, ref next @ ..] => next,
                [OPTION_TIMESTAMPS, TIMESTAMPS_LEN, ref body @ ..] if body.len() >= 8 => {
                    return Some(read_timestamps(&body[..8]));
                }
                // A length below 2 would not move on.
                [_, len @ 2..=u8::MAX, ..] => rest.get(usize::from(len)..)?,
                _ => return None,
            };
        }
    }
}

/// Reads the option's two values.
fn read_timestamps(body: &[u8]) -> Timestamps {
    let word = |at: usize| u32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
    Timestamps { value: word(0), echo: word(4) }
}

/// What a header says; of the options only the timestamps. Every value is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpRepr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// The control bits, see [`tcp_flags`].
    pub flags: u8,
    /// Receive window, not scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// The timestamps option.
    pub timestamps: Option<Timestamps>,
}

impl TcpRepr {
    /// What the view says.
    pub fn parse(packet: &TcpPacket<'_>) -> Self {
        Self {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            seq: packet.seq(),
            ack: packet.ack(),
            flags: packet.flags(),
            window: packet.window(),
            urgent: packet.urgent(),
            timestamps: packet.timestamps(),
        }
    }

    /// Bytes that [`TcpRepr::emit`] writes: the header alone.
    pub const fn buffer_len(&self) -> usize {
        if self.timestamps.is_some() { HEADER + ALIGNED_LEN } else { HEADER }
    }

    /// Writes the header to the start of `buffer`, its checksum zero: see [`TcpRepr::fill_checksum`].
    ///
    /// # Panics
    /// If `buffer` has less than `buffer_len()` bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let words = (self.buffer_len() / 4) as u8;
        let header = room::<HEADER>(buffer);
        header[..2].copy_from_slice(&self.src_port.to_be_bytes());
        header[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        header[4..8].copy_from_slice(&self.seq.to_be_bytes());
        header[8..12].copy_from_slice(&self.ack.to_be_bytes());
        header[12] = words << 4;
        header[13] = self.flags;
        header[14..16].copy_from_slice(&self.window.to_be_bytes());
        header[16..18].fill(0);
        header[18..].copy_from_slice(&self.urgent.to_be_bytes());
        if let Some(timestamps) = self.timestamps {
            let option = room::<ALIGNED_LEN>(&mut buffer[HEADER..]);
            option[..4].copy_from_slice(&ALIGNED);
            option[4..8].copy_from_slice(&timestamps.value.to_be_bytes());
            option[8..].copy_from_slice(&timestamps.echo.to_be_bytes());
        }
    }

    /// Writes the checksum of a whole segment, header and payload.
    ///
    /// # Panics
    /// If `segment` is shorter than a header.
    pub fn fill_checksum(segment: &mut [u8], pseudo: &Pseudo) {
        room::<HEADER>(segment)[16..18].fill(0);
        let checksum = checksum::transport(pseudo, segment);
        segment[16..18].copy_from_slice(&checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol;
    use proptest::prelude::*;

    fn with_options(options: &[u8]) -> Vec<u8> {
        assert_eq!(options.len() % 4, 0);
        let mut bytes = vec![0; HEADER];
        bytes[12] = ((HEADER + options.len()) / 4) as u8 * 16;
        bytes.extend_from_slice(options);
        bytes
    }

    #[test]
    fn timestamps_are_found_behind_other_options() {
        // A SYN of Linux: MSS, SACK permitted, timestamps, NOP, window scale.
        let syn = with_options(&[2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9, 1, 3, 3, 7]);
        let packet = TcpPacket::new_checked(&syn).unwrap();
        assert_eq!(packet.timestamps(), Some(Timestamps { value: 7, echo: 9 }));
    }

    #[test]
    fn malformed_options_end_the_search() {
        for options in [
            &[][..],
            &[0, 0, 8, 10],
            &[2, 0, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9],
            &[2, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9],
            &[1, 1, 1, 2],
            &[2, 200, 0, 0],
            &[8, 10, 1, 2],
            &[8, 9, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0],
        ] {
            let segment = with_options(options);
            assert_eq!(TcpPacket::new_checked(&segment).unwrap().timestamps(), None, "{options:?}");
        }
    }

    #[test]
    fn a_data_offset_outside_of_the_segment_is_refused() {
        for (words, message) in [
            (4, "TCP: data offset is 16, 20 to the segment's length expected"),
            (7, "TCP: data offset is 28, 20 to the segment's length expected"),
        ] {
            let mut bytes = with_options(&[1, 1, 1, 1]);
            bytes[12] = words << 4;
            assert_eq!(TcpPacket::new_checked(&bytes).unwrap_err().to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn emitted_and_parsed_is_the_same(
            (src_port, dst_port, seq, ack) in any::<(u16, u16, u32, u32)>(),
            (flags, window, urgent) in any::<(u8, u16, u16)>(),
            timestamps in proptest::option::of((any::<u32>(), any::<u32>())),
            payload in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let timestamps = timestamps.map(|(value, echo)| Timestamps { value, echo });
            let repr = TcpRepr { src_port, dst_port, seq, ack, flags, window, urgent, timestamps };
            let mut buffer = vec![0xa5; repr.buffer_len()];
            repr.emit(&mut buffer);
            buffer.extend_from_slice(&payload);
            let pseudo = Pseudo::V4 { src: 7.into(), dst: 9.into(), protocol: protocol::TCP };
            TcpRepr::fill_checksum(&mut buffer, &pseudo);
            prop_assert_eq!(checksum::transport(&pseudo, &buffer), 0);
            let packet = TcpPacket::new_checked(&buffer).unwrap();
            prop_assert_eq!(TcpRepr::parse(&packet), repr);
            prop_assert_eq!(packet.payload(), payload);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(packet) = TcpPacket::new_checked(&bytes) {
                TcpRepr::parse(&packet);
            }
        }
    }
}
