//! Blocks of pcapng (draft-ietf-opsawg-pcapng), written and read again one by one, little-endian, of Ethernet with nanoseconds.

use super::Direction;
use super::kinds::NOT_MATCHED;

/// Block types.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// `LINKTYPE_ETHERNET`.
const ETHERNET: u16 = 1;

/// Type and length before the body, and the length again behind it.
const FRAME: usize = 12;

/// The longest block that is read: the longest packet, and what stands around it.
const BLOCK_MAX: usize = super::SNAPLEN_MAX as usize + 4_096;

/// Options: of all blocks, of interfaces, of packets, of statistics.
mod option {
    pub const END: u16 = 0;
    pub const COMMENT: u16 = 1;
    pub const SECTION_APPLICATION: u16 = 4;
    pub const INTERFACE_NAME: u16 = 2;
    pub const INTERFACE_RESOLUTION: u16 = 9;
    pub const INTERFACE_FILTER: u16 = 11;
    pub const PACKET_FLAGS: u16 = 2;
    pub const STATISTICS_RECEIVED: u16 = 4;
    pub const STATISTICS_DROPPED: u16 = 5;
}

/// Begins a block; what it returns is for [`end`].
fn begin(out: &mut Vec<u8>, kind: u32) -> usize {
    let at = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    at
}

fn end(out: &mut Vec<u8>, at: usize) {
    let length = (out.len() + 4 - at) as u32;
    out[at + 4..at + 8].copy_from_slice(&length.to_le_bytes());
    out.extend(length.to_le_bytes());
}

fn pad(out: &mut Vec<u8>, length: usize) {
    out.extend(&[0; 3][..length.wrapping_neg() % 4]);
}

fn put_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend(value);
    pad(out, value.len());
}

/// Time stamps are two halves, the high one first.
fn put_time(out: &mut Vec<u8>, ns: u64) {
    out.extend(((ns >> 32) as u32).to_le_bytes());
    out.extend((ns as u32).to_le_bytes());
}

/// Begins a file: by which program.
pub(super) fn put_section(out: &mut Vec<u8>, application: &str) {
    let at = begin(out, SECTION);
    out.extend(0x1a2b_3c4d_u32.to_le_bytes());
    // Version 1.0, and a length that nobody knows.
    out.extend([1, 0, 0, 0]);
    out.extend(u64::MAX.to_le_bytes());
    put_option(out, option::SECTION_APPLICATION, application.as_bytes());
    put_option(out, option::END, &[]);
    end(out, at);
}

/// Describes the next interface.
pub(super) fn put_interface(out: &mut Vec<u8>, name: &str, snaplen: u32, filter: &str) {
    let at = begin(out, INTERFACE);
    out.extend(ETHERNET.to_le_bytes());
    out.extend([0; 2]);
    out.extend(snaplen.to_le_bytes());
    put_option(out, option::INTERFACE_NAME, name.as_bytes());
    put_option(out, option::INTERFACE_RESOLUTION, &[9]);
    if !filter.is_empty() {
        // 0: it is a text for libpcap.
        let text: Vec<u8> = std::iter::once(0).chain(filter.bytes()).collect();
        put_option(out, option::INTERFACE_FILTER, &text);
    }
    put_option(out, option::END, &[]);
    end(out, at);
}

/// Adds a packet of which `bytes` were captured, and which is `length` bytes long.
pub(super) fn put_packet(
    out: &mut Vec<u8>,
    (interface, direction): (u32, Direction),
    at_ns: u64,
    length: u32,
    bytes: &[u8],
) {
    let at = begin(out, PACKET);
    out.extend(interface.to_le_bytes());
    put_time(out, at_ns);
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(length.to_le_bytes());
    out.extend(bytes);
    pad(out, bytes.len());
    let flags: u32 = match direction {
        Direction::Inbound => 1,
        Direction::Outbound => 2,
    };
    put_option(out, option::PACKET_FLAGS, &flags.to_le_bytes());
    put_option(out, option::END, &[]);
    end(out, at);
}

/// What is said of an interface at the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statistics {
    /// When, in nanoseconds since 1970.
    pub at_ns: u64,
    /// How many packets have passed its filter.
    pub received: u64,
    /// How many of those are not here.
    pub dropped: u64,
}

/// Says what came of an interface, why nothing more does, and what the filter did not let pass.
pub(super) fn put_statistics(
    out: &mut Vec<u8>,
    interface: u32,
    counted: Statistics,
    (comment, unmatched): (&str, &str),
) {
    let at = begin(out, STATISTICS);
    out.extend(interface.to_le_bytes());
    put_time(out, counted.at_ns);
    if !comment.is_empty() {
        put_option(out, option::COMMENT, comment.as_bytes());
    }
    if !unmatched.is_empty() {
        put_option(out, option::COMMENT, format!("{NOT_MATCHED}{unmatched}").as_bytes());
    }
    put_option(out, option::STATISTICS_RECEIVED, &counted.received.to_le_bytes());
    put_option(out, option::STATISTICS_DROPPED, &counted.dropped.to_le_bytes());
    put_option(out, option::END, &[]);
    end(out, at);
}

/// Writes a capture whose times are not the machine's.
#[derive(Debug)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Begins one, by this program, with interfaces of these names, numbered from 0: of each frame that the filter lets pass, so many bytes.
    pub fn begin(application: &str, interfaces: &[String], snaplen: u32, filter: &str) -> Self {
        let mut out = Vec::new();
        put_section(&mut out, application);
        for name in interfaces {
            put_interface(&mut out, name, snaplen, filter);
        }
        Self(out)
    }

    /// Adds a packet of `length` bytes, the first of which are `bytes`, at a time in nanoseconds.
    pub fn put(&mut self, interface: (u32, Direction), at_ns: u64, length: u32, bytes: &[u8]) {
        put_packet(&mut self.0, interface, at_ns, length, bytes);
    }

    /// How many bytes are to be written.
    pub const fn length(&self) -> usize {
        self.0.len()
    }

    /// What is to be written.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// A block as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block<'a> {
    /// A packet.
    Packet {
        /// At which interface, by its number in the file.
        interface: u32,
        /// When, in nanoseconds since 1970.
        at_ns: u64,
        /// Which way, if it is said.
        direction: Option<Direction>,
        /// How long it is.
        length: u32,
        /// As much of it as was captured.
        bytes: &'a [u8],
    },
    /// An interface: they are numbered in this order, from 0.
    Interface {
        /// What people know it by.
        name: &'a str,
    },
    /// How many packets of an interface are not here.
    Statistics {
        /// Frames that found no room.
        dropped: u64,
        /// Why the capture ended, if its reader did not ask for it.
        comment: &'a str,
        /// Which frames the filter did not let pass, as [`super::FrameKinds`] writes them; empty: none, or another interface says it.
        unmatched: &'a str,
    },
    /// Something else.
    Other,
}

/// Cuts a stream into blocks.
#[derive(Debug, Default)]
pub struct Blocks {
    bytes: Vec<u8>,
    /// What has been taken of them.
    taken: usize,
}

/// What was read is no pcapng, or not as it is written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the network's process sent something else than a capture")]
pub struct NotABlock;

impl Blocks {
    /// Takes what came in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole block: its bytes, and what it says; `None` if it has not all come.
    ///
    /// # Errors
    /// If it is none.
    pub fn take_block(&mut self) -> Result<Option<(&[u8], Block<'_>)>, NotABlock> {
        let rest = &self.bytes[self.taken..];
        let Some(length) = rest.get(4..8).and_then(|bytes| u32_at(bytes, 0)) else { return Ok(None) };
        let length = length as usize;
        if length < FRAME || !length.is_multiple_of(4) || length > BLOCK_MAX {
            return Err(NotABlock);
        }
        let Some(whole) = rest.get(..length) else { return Ok(None) };
        self.taken += length;
        let block = read(whole).ok_or(NotABlock)?;
        Ok(Some((whole, block)))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn read(whole: &[u8]) -> Option<Block<'_>> {
    let body = whole.get(8..whole.len() - 4)?;
    match u32_at(whole, 0)? {
        PACKET => {
            let captured = u32_at(body, 12)? as usize;
            let bytes = body.get(20..)?.get(..captured)?;
            let options = body.get(20 + captured.next_multiple_of(4)..)?;
            let flags = find_option(options, option::PACKET_FLAGS).and_then(|value| u32_at(value, 0));
            let direction = match flags.unwrap_or(0) & 3 {
                1 => Some(Direction::Inbound),
                2 => Some(Direction::Outbound),
                _ => None,
            };
            let at_ns = u64::from(u32_at(body, 4)?) << 32 | u64::from(u32_at(body, 8)?);
            Some(Block::Packet { interface: u32_at(body, 0)?, at_ns, direction, length: u32_at(body, 16)?, bytes })
        }
        STATISTICS => {
            let options = body.get(12..)?;
            let dropped = find_option(options, option::STATISTICS_DROPPED)?;
            let (mut comment, mut unmatched) = ("", "");
            for said in all_options(options, option::COMMENT).filter_map(|said| std::str::from_utf8(said).ok()) {
                match said.strip_prefix(NOT_MATCHED) {
                    Some(kinds) => unmatched = kinds,
                    None => comment = said,
                }
            }
            Some(Block::Statistics { dropped: u64::from_le_bytes(*dropped.first_chunk()?), comment, unmatched })
        }
        INTERFACE => Some(Block::Interface { name: text(body.get(8..)?, option::INTERFACE_NAME) }),
        _ => Some(Block::Other),
    }
}

/// The text of an option; empty if there is none.
fn text(options: &[u8], code: u16) -> &str {
    find_option(options, code).and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default()
}

fn find_option(options: &[u8], wanted: u16) -> Option<&[u8]> {
    all_options(options, wanted).next()
}

/// The values of all options of a code, in their order.
fn all_options(mut options: &[u8], wanted: u16) -> impl Iterator<Item = &[u8]> {
    let next = move || {
        let [a, b, c, d] = *options.first_chunk()?;
        let (code, length) = (u16::from_le_bytes([a, b]), usize::from(u16::from_le_bytes([c, d])));
        let value = options.get(4..)?.get(..length)?;
        options = options.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    };
    std::iter::from_fn(next).filter(move |(code, _)| *code == wanted).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::capture::Reader;

    /// A capture at two interfaces.
    fn capture() -> Vec<u8> {
        let mut out = Vec::new();
        put_section(&mut out, "heddle");
        put_interface(&mut out, "h1:0 (to leaf1)", 64, "tcp port 80");
        put_interface(&mut out, "h1:1 (to leaf2)", 64, "");
        put_packet(&mut out, (1, Direction::Outbound), 5_000_000_007, 1_514, &[3; 61]);
        put_packet(&mut out, (0, Direction::Inbound), 5_000_000_009, 60, &[4; 60]);
        let counted = Statistics { at_ns: 6_000_000_000, received: 3, dropped: 2 };
        put_statistics(&mut out, 1, counted, ("why", "3 ARP"));
        out
    }

    #[test]
    fn what_is_written_can_be_read_block_by_block() {
        let (capture, mut blocks, mut seen) = (capture(), Blocks::default(), Vec::new());
        for bytes in capture.chunks(7) {
            blocks.push(bytes);
            while let Some((_, block)) = blocks.take_block().unwrap() {
                seen.push(match block {
                    Block::Packet { interface, at_ns, direction, length, bytes } => {
                        format!("{interface} {at_ns} {direction:?} {length} {}x{}", bytes.len(), bytes[0])
                    }
                    other => format!("{other:?}"),
                });
            }
        }
        let expected = [
            "Other",
            "Interface { name: \"h1:0 (to leaf1)\" }",
            "Interface { name: \"h1:1 (to leaf2)\" }",
            "1 5000000007 Some(Outbound) 1514 61x3",
            "0 5000000009 Some(Inbound) 60 60x4",
            "Statistics { dropped: 2, comment: \"why\", unmatched: \"3 ARP\" }",
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn it_is_a_capture_as_others_are() {
        let capture = capture();
        let mut reader = Reader::new(capture.as_slice()).unwrap();
        let mut buffer = [0; 100];
        assert_eq!(reader.peek().unwrap(), Some(5_000_000_007));
        assert_eq!(reader.read(&mut buffer).unwrap(), Some(61));
        assert_eq!(reader.peek().unwrap(), Some(5_000_000_009));
        assert_eq!(reader.read(&mut buffer).unwrap(), Some(60));
        assert_eq!(buffer[..60], [4; 60]);
        assert_eq!(reader.peek().unwrap(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_blocks_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0_u32..8) {
            let mut blocks = Blocks::default();
            let mut block = kind.to_le_bytes().to_vec();
            block.extend(((bytes.len().next_multiple_of(4) + FRAME) as u32).to_le_bytes());
            block.extend(&bytes);
            block.resize(bytes.len().next_multiple_of(4) + FRAME, 0);
            for input in [&block, &bytes] {
                blocks.push(input);
                while let Ok(Some((whole, _))) = blocks.take_block() {
                    prop_assert!(whole.len() >= FRAME);
                }
            }
        }
    }
}
