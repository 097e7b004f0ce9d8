//! Reads captures: pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng), in either byte order, of Ethernet.
//!
//! A file may come from anybody. It is read as a stream, of which never more than a buffer is in memory; lengths are checked before they count.

use std::io::{self, BufRead, BufReader, Read};

use super::CaptureError;

/// The longest packet in a capture: what tcpdump and Wireshark take.
pub const PACKET_MAX: u32 = 262_144;

/// The most bytes between two packets, and behind one in its block. Who reads is a worker that carries others' frames meanwhile, and a sparse file of a
/// megabyte may have blocks of any length.
const BETWEEN_MAX: u32 = 1 << 20;

/// Interfaces in a section of a pcapng file; each takes memory.
const INTERFACES_MAX: usize = 4_096;

/// Bytes that are read at once.
const BUFFER: usize = 256 << 10;

/// `LINKTYPE_ETHERNET`.
pub(super) const ETHERNET: u32 = 1;

const NS_PER_S: u64 = 1_000_000_000;

/// Block types of pcapng.
mod block {
    /// The same in either byte order.
    pub const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
    pub const INTERFACE: u32 = 1;
    /// Obsolete; dumpcap wrote it until 2012.
    pub const PACKET: u32 = 2;
    pub const SIMPLE_PACKET: u32 = 3;
    pub const ENHANCED_PACKET: u32 = 6;
    /// Type, length, and the length again behind the body.
    pub const FRAME: u32 = 12;
}

/// A capture that is read from its beginning to its end.
#[derive(Debug)]
pub struct Reader<R> {
    input: BufReader<R>,
    order: Order,
    format: Format,
    /// Packets that have been read.
    packets: u64,
    /// The header of the packet that comes next, once it has been read.
    next: Option<Packet>,
    /// When the last packet was captured.
    last_ns: u64,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Little,
    Big,
}

#[derive(Debug)]
enum Format {
    /// With what a fraction of a second counts, nanoseconds.
    Pcap { unit_ns: u64 },
    /// With the interfaces of the section.
    Pcapng(Vec<Interface>),
}

/// How packets of an interface are described.
#[derive(Clone, Copy, Debug)]
struct Interface {
    snaplen: u32,
    /// `if_tsresol`: the exponent of the time stamps' unit, of ten, or with the highest bit of two.
    resolution: u8,
    /// `if_tsoffset`: what is added to them, seconds.
    offset_s: i64,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    captured_ns: u64,
    bytes: u32,
    /// Bytes between its data and what comes then.
    behind: u32,
}

impl Order {
    const fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    const fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u32_at(self, bytes: &[u8], at: usize) -> u32 {
        self.u32([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }

    fn u16_at(self, bytes: &[u8], at: usize) -> u16 {
        self.u16([bytes[at], bytes[at + 1]])
    }
}

/// Byte order and time stamps of a pcap file that begins so.
const fn pcap_of(magic: [u8; 4]) -> Option<(Order, u64)> {
    match magic {
        [0xd4, 0xc3, 0xb2, 0xa1] => Some((Order::Little, 1_000)),
        [0xa1, 0xb2, 0xc3, 0xd4] => Some((Order::Big, 1_000)),
        [0x4d, 0x3c, 0xb2, 0xa1] => Some((Order::Little, 1)),
        [0xa1, 0xb2, 0x3c, 0x4d] => Some((Order::Big, 1)),
        _ => None,
    }
}

/// The byte order of a section of pcapng.
const fn section_of(magic: [u8; 4]) -> Option<Order> {
    match magic {
        [0x4d, 0x3c, 0x2b, 0x1a] => Some(Order::Little),
        [0x1a, 0x2b, 0x3c, 0x4d] => Some(Order::Big),
        _ => None,
    }
}

/// Whether a file that begins with these bytes, twelve if it has so many, is a capture of either format, of whatever link type.
pub(super) fn is_capture(start: &[u8]) -> bool {
    match (start.first_chunk(), start.last_chunk()) {
        // The type of the first block could be four ends of lines.
        (Some(&block::SECTION), Some(&order)) => start.len() == 12 && section_of(order).is_some(),
        (Some(&magic), _) => pcap_of(magic).is_some(),
        (None, _) => false,
    }
}

impl<R: Read> Reader<R> {
    /// Reads what stands before the first packet.
    ///
    /// # Errors
    /// If it is no capture of Ethernet.
    pub fn new(input: R) -> Result<Self, CaptureError> {
        let input = BufReader::with_capacity(BUFFER, input);
        let format = Format::Pcapng(Vec::new());
        let mut reader = Self { input, order: Order::Little, format, packets: 0, next: None, last_ns: 0 };
        let mut magic = [0; 4];
        if !reader.fill(&mut magic)? {
            return Err(CaptureError::Empty);
        }
        (reader.order, reader.format) = match magic {
            block::SECTION => {
                reader.section()?;
                return Ok(reader);
            }
            other => match pcap_of(other) {
                Some((order, unit_ns)) => (order, Format::Pcap { unit_ns }),
                None => return Err(CaptureError::NotACapture(other)),
            },
        };
        let header: [u8; 20] = reader.array()?;
        reader.check_version(&header, 2)?;
        check_link_type(reader.order.u32_at(&header, 16))?;
        Ok(reader)
    }

    /// When the next packet was captured, nanoseconds since 1970; `None` at the end of the file.
    ///
    /// # Errors
    /// If the file is malformed there, or ends in the middle of something.
    pub fn peek(&mut self) -> Result<Option<u64>, CaptureError> {
        if self.next.is_none() {
            self.next = match self.format {
                Format::Pcap { unit_ns } => self.record(unit_ns)?,
                Format::Pcapng(_) => self.packet_block()?,
            };
        }
        Ok(self.next.map(|packet| packet.captured_ns))
    }

    /// Reads the next packet into `buffer`, or as much of it as there is room; how many bytes that is. `None` at the end of the file.
    ///
    /// # Errors
    /// As [`Reader::peek`].
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, CaptureError> {
        self.peek()?;
        let Some(Packet { captured_ns, bytes, behind }) = self.next.take() else { return Ok(None) };
        self.last_ns = captured_ns;
        let len = buffer.len().min(bytes as usize);
        if len > 0 && !self.fill(&mut buffer[..len])? {
            return Err(self.truncated());
        }
        self.skip(u64::from(bytes) - len as u64 + u64::from(behind))?;
        self.packets += 1;
        Ok(Some(len))
    }

    /// How many packets have been read.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// The header of a pcap file's next packet.
    fn record(&mut self, unit_ns: u64) -> Result<Option<Packet>, CaptureError> {
        let mut header = [0; 16];
        if !self.fill(&mut header)? {
            return Ok(None);
        }
        let [seconds, fraction, bytes] = [0, 4, 8].map(|at| self.order.u32_at(&header, at));
        let captured_ns = u64::from(seconds) * NS_PER_S + u64::from(fraction) * unit_ns;
        Ok(Some(Packet { captured_ns, bytes: self.checked(bytes)?, behind: 0 }))
    }

    /// The header of a pcapng file's next packet.
    fn packet_block(&mut self) -> Result<Option<Packet>, CaptureError> {
        let mut between = 0_u64;
        loop {
            if between > u64::from(BETWEEN_MAX) {
                return Err(self.malformed("more than a mebibyte without a packet"));
            }
            let mut kind = [0; 4];
            if !self.fill(&mut kind)? {
                return Ok(None);
            }
            if kind == block::SECTION {
                between += u64::from(self.section()?);
                continue;
            }
            let len = self.u32()?;
            if len < block::FRAME || !len.is_multiple_of(4) || len > PACKET_MAX + BETWEEN_MAX {
                return Err(self.malformed("the length of a block"));
            }
            between += u64::from(len);
            // What is left of it, with the length again.
            let left = len - 8;
            match self.order.u32(kind) {
                block::INTERFACE => self.interface(left)?,
                block::ENHANCED_PACKET => return self.enhanced_packet(left, true).map(Some),
                block::PACKET => return self.enhanced_packet(left, false).map(Some),
                block::SIMPLE_PACKET => return self.simple_packet(left).map(Some),
                _ => self.skip(left.into())?,
            }
        }
    }

    /// A section's header, behind its type: how long it is.
    fn section(&mut self) -> Result<u32, CaptureError> {
        let header: [u8; 8] = self.array()?;
        self.order = match section_of([header[4], header[5], header[6], header[7]]) {
            Some(order) => order,
            None => return Err(self.malformed("the byte order of a section")),
        };
        self.format = Format::Pcapng(Vec::new());
        let version: [u8; 4] = self.array()?;
        self.check_version(&version, 1)?;
        let len = self.order.u32_at(&header, 0);
        // Type, length, byte order and version have been read.
        if len < 28 || !len.is_multiple_of(4) || len > BETWEEN_MAX {
            return Err(self.malformed("the length of a section's header"));
        }
        self.skip(u64::from(len) - 16)?;
        Ok(len)
    }

    fn interface(&mut self, left: u32) -> Result<(), CaptureError> {
        let Some(mut left) = left.checked_sub(12) else {
            return Err(self.malformed("the description of an interface"));
        };
        let fixed: [u8; 8] = self.array()?;
        check_link_type(u32::from(self.order.u16_at(&fixed, 0)))?;
        let snaplen = self.order.u32_at(&fixed, 4);
        let mut interface = Interface { snaplen, resolution: 6, offset_s: 0 };
        while left >= 4 {
            let option: [u8; 4] = self.array()?;
            left -= 4;
            let (code, len) = (self.order.u16_at(&option, 0), self.order.u16_at(&option, 2));
            let padded = u32::from(len).next_multiple_of(4);
            if padded > left {
                return Err(self.malformed("an option of an interface"));
            }
            left -= padded;
            match (code, len) {
                (0, _) => {
                    self.skip(padded.into())?;
                    break;
                }
                (9, 1) => interface.resolution = self.array::<4>()?[0],
                (14, 8) => {
                    let bytes: [u8; 8] = self.array()?;
                    interface.offset_s = match self.order {
                        Order::Little => i64::from_le_bytes(bytes),
                        Order::Big => i64::from_be_bytes(bytes),
                    };
                }
                _ => self.skip(padded.into())?,
            }
        }
        self.skip(u64::from(left) + 4)?;
        let Format::Pcapng(interfaces) = &mut self.format else { unreachable!("only pcapng has interfaces") };
        if interfaces.len() == INTERFACES_MAX {
            return Err(self.malformed("the number of interfaces"));
        }
        interfaces.push(interface);
        Ok(())
    }

    /// An enhanced packet block, or the obsolete one, whose interface has a number of 16 bits.
    fn enhanced_packet(&mut self, left: u32, is_enhanced: bool) -> Result<Packet, CaptureError> {
        let Some(room) = left.checked_sub(24) else { return Err(self.malformed("the length of a packet's block")) };
        let fixed: [u8; 20] = self.array()?;
        let order = self.order;
        let number = if is_enhanced { order.u32_at(&fixed, 0) } else { order.u16_at(&fixed, 0).into() };
        let interface = self.interface_of(number)?;
        let bytes = self.checked(order.u32_at(&fixed, 12))?;
        if bytes > room {
            return Err(self.malformed("the length of a packet's block"));
        }
        let stamp = u64::from(order.u32_at(&fixed, 4)) << 32 | u64::from(order.u32_at(&fixed, 8));
        Ok(Packet { captured_ns: interface.captured_ns(stamp), bytes, behind: room - bytes + 4 })
    }

    /// A simple packet block, which has no time: that of the packet before it.
    fn simple_packet(&mut self, left: u32) -> Result<Packet, CaptureError> {
        let Some(room) = left.checked_sub(8) else { return Err(self.malformed("the length of a packet's block")) };
        let original = self.u32()?;
        let snaplen = match self.interface_of(0)?.snaplen {
            0 => u32::MAX,
            snaplen => snaplen,
        };
        let bytes = self.checked(original.min(snaplen))?;
        if bytes > room {
            return Err(self.malformed("the length of a packet's block"));
        }
        Ok(Packet { captured_ns: self.last_ns, bytes, behind: room - bytes + 4 })
    }

    fn interface_of(&self, number: u32) -> Result<Interface, CaptureError> {
        let Format::Pcapng(interfaces) = &self.format else { unreachable!("only pcapng has interfaces") };
        let found = interfaces.get(number as usize).copied();
        found.ok_or_else(|| self.malformed("the interface of a packet"))
    }

    fn check_version(&self, header: &[u8], expected: u16) -> Result<(), CaptureError> {
        match self.order.u16_at(header, 0) {
            found if found == expected => Ok(()),
            found => Err(CaptureError::Version { found, expected }),
        }
    }

    fn checked(&self, bytes: u32) -> Result<u32, CaptureError> {
        if bytes > PACKET_MAX {
            return Err(CaptureError::TooLong { packet: self.packets + 1, bytes });
        }
        Ok(bytes)
    }

    fn malformed(&self, what: &'static str) -> CaptureError {
        CaptureError::Malformed { packets: self.packets, what }
    }

    const fn truncated(&self) -> CaptureError {
        CaptureError::Truncated { packets: self.packets }
    }

    fn u32(&mut self) -> Result<u32, CaptureError> {
        let bytes = self.array()?;
        Ok(self.order.u32(bytes))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CaptureError> {
        let mut bytes = [0; N];
        if self.fill(&mut bytes)? { Ok(bytes) } else { Err(self.truncated()) }
    }

    /// Fills `buffer`; false if the file ends here.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<bool, CaptureError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(self.truncated()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CaptureError::Read(error)),
            }
        }
        Ok(true)
    }

    fn skip(&mut self, mut bytes: u64) -> Result<(), CaptureError> {
        while bytes > 0 {
            let here = match self.input.fill_buf() {
                Ok([]) => return Err(self.truncated()),
                Ok(here) => bytes.min(here.len() as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(CaptureError::Read(error)),
            };
            self.input.consume(here as usize);
            bytes -= here;
        }
        Ok(())
    }
}

impl Interface {
    /// A time stamp of this interface in nanoseconds; what is beyond 64 bits is the last moment or the first.
    fn captured_ns(self, stamp: u64) -> u64 {
        let exponent = u32::from(self.resolution & 0x7f);
        let ns = u128::from(stamp) * u128::from(NS_PER_S);
        let ns = if self.resolution & 0x80 == 0 {
            10_u128.checked_pow(exponent).map_or(0, |unit| ns / unit)
        } else {
            ns >> exponent
        };
        let offset = i128::from(self.offset_s) * i128::from(NS_PER_S);
        let ns = i128::try_from(ns).unwrap_or(i128::MAX).saturating_add(offset);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

fn check_link_type(found: u32) -> Result<(), CaptureError> {
    if found == ETHERNET { Ok(()) } else { Err(CaptureError::LinkType(found)) }
}

#[cfg(test)]
mod tests;
