//! Headers that simulated hosts do not write, but Linux's would have.
//!
//! A packet of a simulated flow is a number, and what its TCP says stands in the pool; frames of connections to services carry it beside their bytes. Here both become
//! headers with options, lengths and checksums over a payload of zeros. Acknowledgements have room for blocks (SACK), and SYNs for their options, that simulated links carry no bytes for:
//! such a frame is longer here by as much.
//!
//! Who sends no data itself, or sends flags only, is taken to have acknowledged, and to have sent, what was seen so far: that is not carried along, since no simulated host asks
//! for it.

use std::net::{Ipv4Addr, Ipv6Addr};

use machine::Time;
use transport::segment::Blocks;
use transport::udp::{FRAGMENTS, Fragment};
use transport::{Ecn, Offer, ReceiveWindow, Segment, TransportKind, TransportSpec};
use wire::{EthernetPacket, Pseudo, checksum, ethertype, protocol, tcp_flags};

use crate::carried::{self, Carried, Direction};
use crate::headers::{FIRST_PORT, Header, SERVER_PORT};
use crate::pool::Content;

const ETHERNET: usize = 14;
const TAG: usize = 4;
const IPV4: usize = 20;
const IPV6: usize = 40;
const TCP: usize = 20;
const UDP: usize = 8;

/// Options of TCP (RFC 9293, 3.2; RFC 7323; RFC 2018), filled up as Linux does.
mod option {
    pub const FILLER: u8 = 1;
    pub const MSS: [u8; 2] = [2, 4];
    pub const WINDOW_SCALE: [u8; 3] = [FILLER, 3, 3];
    pub const SACK_PERMITTED: [u8; 2] = [4, 2];
    pub const SACK: u8 = 5;
    pub const TIMESTAMPS: [u8; 2] = [8, 10];
}
/// What two fillers and the timestamps take.
const TIMESTAMPS_BYTES: usize = 12;
/// The largest shift of a window (RFC 7323, 2.3).
const SHIFT_MAX: u8 = 14;

/// A frame as it is written.
#[derive(Debug)]
pub(super) struct Frame {
    /// Its headers; of a frame that somebody wrote, all of it.
    pub(super) bytes: Vec<u8>,
    /// How long all of it is.
    pub(super) length: u32,
}

/// A packet on a link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen<'a> {
    /// A frame that has bytes.
    Frame {
        bytes: &'a [u8],
        /// How many more it has.
        more: u32,
        /// What it carries besides, if it is one of a connection to a service.
        carried: Option<Carried>,
    },
    /// A flow's packet.
    Packet {
        /// The bytes of its header as it is now.
        bytes: &'a [u8],
        header: &'a Header,
        content: Content,
        blocks: Blocks,
        ecn: Ecn,
        offer: Offer,
    },
}

/// Writes frames, and remembers of each connection what its headers need.
#[derive(Debug)]
pub(super) struct Writer {
    /// Simulated bytes of a packet besides its payload.
    header_bytes: u32,
    segment_bytes: u32,
    /// Whether there is room for timestamps, and whether anybody acknowledges selectively.
    has_timestamps: bool,
    is_selective: bool,
    /// Whether connections begin with a handshake, in which the scale of windows is announced.
    has_handshake: bool,
    /// What a receiver has room for that says nothing about it, bytes; `None`: all of them say it.
    window: Option<u32>,
    shift: u8,
    connections: Vec<Connection>,
}

/// Both ends of a connection: who has begun it first.
#[derive(Clone, Copy, Debug)]
struct Connection {
    /// Which one of those that had this place.
    generation: u32,
    ends: [EndState; 2],
}

/// What an end has said so far. Each begins to count at 0, with its SYN.
#[derive(Clone, Copy, Debug)]
struct EndState {
    /// Behind what it has sent.
    next: u32,
    acknowledged: u32,
    /// Where the segment began with which it has ended its stream.
    last: Option<u32>,
}

impl Connection {
    const fn new(generation: u32) -> Self {
        Self { generation, ends: [EndState { next: 1, acknowledged: 1, last: None }; 2] }
    }
}

/// What a segment of TCP is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Syn,
    SynAnswer,
    /// From this byte of the stream on.
    Data(u64),
    /// Of all before this byte.
    Ack(u64),
    /// Its flags only.
    Flags,
}

/// What a segment says.
#[derive(Clone, Copy, Debug)]
struct Speech {
    kind: Kind,
    flags: u8,
    payload: u32,
    /// Timestamps: its own one, and the echo.
    stamps: (u32, u32),
    blocks: Blocks,
    ecn: Ecn,
    /// What its sender has room for, if it says so.
    window: Option<u32>,
}

/// Milliseconds, as timestamps count.
const fn ms(time: Time) -> u32 {
    (time.as_ns() / 1_000_000) as u32
}

/// Where IP begins.
fn ip_at(bytes: &[u8]) -> usize {
    let is_tagged = bytes.get(12..14) == Some(&ethertype::VLAN.to_be_bytes());
    ETHERNET + if is_tagged { TAG } else { 0 }
}

impl Writer {
    pub(super) fn new(spec: &TransportSpec) -> Self {
        let most = u64::from(transport::window(spec)) * u64::from(spec.segment_bytes.max(1));
        let most = most.min(u64::from(u32::MAX)) as u32;
        let is_linux = spec.kind == TransportKind::Linux;
        let shift = (0..SHIFT_MAX).find(|shift| u16::try_from(most >> shift).is_ok()).unwrap_or(SHIFT_MAX);
        Self {
            header_bytes: spec.header_bytes,
            segment_bytes: spec.segment_bytes,
            has_timestamps: spec.header_bytes as usize >= ETHERNET + IPV4 + TCP + TIMESTAMPS_BYTES,
            is_selective: matches!(spec.kind, TransportKind::Linux | TransportKind::Sack),
            has_handshake: is_linux,
            window: (spec.window != ReceiveWindow::Auto).then_some(most),
            shift: if is_linux { shift } else { 0 },
            connections: Vec::new(),
        }
    }

    /// A packet that leaves at this moment, as bytes.
    pub(super) fn write(&mut self, seen: &Seen<'_>, at: Time) -> Frame {
        match *seen {
            Seen::Frame { bytes, more, carried } => {
                let written = carried.and_then(|carried| self.of_connection(bytes, more, carried, at));
                written.unwrap_or_else(|| Frame { bytes: bytes.to_vec(), length: bytes.len() as u32 + more })
            }
            Seen::Packet { bytes, header, content, blocks, ecn, offer } => {
                if bytes.get(ip_at(bytes) + 9) == Some(&protocol::TCP) {
                    let speech = self.speech_of_flow((bytes, header), content, (blocks, ecn, offer), at);
                    let side = header.direction % 2;
                    return self.segment(bytes, (header.direction / 2, 0), side as usize, &speech);
                }
                datagram(bytes, header, content)
            }
        }
    }

    /// Payload of a packet of so many simulated bytes.
    fn payload(&self, bytes: &[u8], length: u32) -> u32 {
        length.saturating_sub(self.header_bytes + (ip_at(bytes) - ETHERNET) as u32)
    }

    fn speech_of_flow(
        &self,
        (bytes, header): (&[u8], &Header),
        content: Content,
        (blocks, ecn, offer): (Blocks, Ecn, Offer),
        at: Time,
    ) -> Speech {
        let Content { number, stamp } = content;
        let is_back = header.direction % 2 == 1;
        let has_come = |connection: &Connection| connection.ends[0].next > 1;
        let has_begun = self.connections.get(header.direction as usize / 2).is_some_and(has_come);
        let answers_syn = self.has_handshake && number == 0 && blocks.as_slice().is_empty() && !has_begun;
        let (kind, flags) = match number {
            Content::FIN => (Kind::Flags, tcp_flags::FIN | tcp_flags::ACK),
            Content::CLOSED | Segment::SYN_ANSWERED => (Kind::Flags, tcp_flags::ACK),
            Segment::SYN => (Kind::Syn, tcp_flags::SYN),
            _ if is_back && answers_syn => (Kind::SynAnswer, tcp_flags::SYN | tcp_flags::ACK),
            acknowledged if is_back => (Kind::Ack(acknowledged), tcp_flags::ACK),
            _ => {
                let segment = content.segment(ecn, offer.stamp);
                (Kind::Data(segment.seq), tcp_flags::ACK | if segment.push { tcp_flags::PSH } else { 0 })
            }
        };
        let acknowledges = matches!(kind, Kind::Ack(_) | Kind::SynAnswer);
        let stamps = if acknowledges { (self.stamp_of(offer, at), ms(stamp)) } else { (ms(stamp), offer.stamp) };
        let blocks = if acknowledges { blocks } else { Blocks::NONE };
        let payload = self.payload(bytes, header.bytes);
        Speech { kind, flags, payload, stamps, blocks, ecn, window: acknowledges.then_some(offer.window) }
    }

    /// When an acknowledgement was sent that says so only where windows change.
    const fn stamp_of(&self, offer: Offer, at: Time) -> u32 {
        if self.window.is_none() { offer.stamp } else { ms(at) }
    }

    /// A frame of a connection to a service; `None`: it is not of TCP any more.
    fn of_connection(&mut self, bytes: &[u8], more: u32, carried: Carried, at: Time) -> Option<Frame> {
        let ethernet = EthernetPacket::new_checked(bytes).ok()?;
        let ip = ip_at(bytes);
        let (protocol_at, tcp) = match ethernet.ethertype() {
            ethertype::IPV4 if bytes.get(ip)? & 0xf == 5 => (ip + 9, ip + IPV4),
            ethertype::IPV6 => (ip + 6, ip + IPV6),
            _ => return None,
        };
        if *bytes.get(protocol_at)? != protocol::TCP || bytes.len() < tcp + TCP {
            return None;
        }
        let flags = bytes[tcp + 13];
        let Carried { connection, generation, content } = carried;
        let payload = self.payload(bytes, bytes.len() as u32 + more);
        let speech = Speech {
            kind: Kind::Flags,
            flags,
            payload,
            stamps: (ms(at), 0),
            blocks: Blocks::NONE,
            ecn: Ecn::NONE,
            window: None,
        };
        let (side, speech) = match content {
            carried::Content::Segment(direction, segment) => {
                let kind = match segment.seq {
                    Segment::SYN => Kind::Syn,
                    Segment::SYN_ANSWERED => Kind::Flags,
                    seq => Kind::Data(seq),
                };
                let stamps = (ms(segment.stamp), segment.echo);
                (usize::from(direction == Direction::Down), Speech { kind, stamps, ecn: segment.ecn, ..speech })
            }
            carried::Content::Ack(of, ack) => {
                let is_first = flags & tcp_flags::SYN != 0;
                let kind = if is_first { Kind::SynAnswer } else { Kind::Ack(ack.ack) };
                let stamps = (self.stamp_of(ack.offer, at), ms(ack.echo));
                let window = Some(ack.offer.window);
                let says = Speech { kind, stamps, blocks: ack.blocks, ecn: ack.ecn, window, ..speech };
                (usize::from(of == Direction::Up), says)
            }
            carried::Content::Flags(direction) => (usize::from(direction == Direction::Down), speech),
        };
        Some(self.segment(bytes, (connection, generation), side, &speech))
    }

    /// A segment that one side of a connection sends, with headers like these.
    fn segment(&mut self, like: &[u8], connection: (u32, u32), side: usize, speech: &Speech) -> Frame {
        let (seq, ack) = self.numbers(connection, side, speech);
        let ip = ip_at(like);
        let is_v4 = like[ip] >> 4 == 4;
        let tcp = ip + if is_v4 { IPV4 } else { IPV6 };
        let mut bytes = like[..tcp + TCP].to_vec();
        let options = self.options(speech, ack);
        let header = &mut bytes[tcp..];
        header[4..8].copy_from_slice(&seq.to_be_bytes());
        header[8..12].copy_from_slice(&ack.to_be_bytes());
        header[12] = ((TCP + options.len()) as u8 / 4) << 4;
        let flag = |says: Ecn, flag: u8| if speech.ecn.has(says) { flag } else { 0 };
        header[13] = speech.flags | flag(Ecn::ECE, tcp_flags::ECE) | flag(Ecn::CWR, tcp_flags::CWR);
        header[14..16].copy_from_slice(&self.window_field(speech).to_be_bytes());
        header[16..20].fill(0);
        bytes.extend(options);
        if is_v4 {
            // Linux's TCP lets nobody cut its segments.
            bytes[ip + 6..ip + 8].copy_from_slice(&0x4000_u16.to_be_bytes());
        }
        finish(bytes, speech.payload, speech.ecn, (tcp, tcp + 16))
    }

    /// Sequence and acknowledgement number of a segment, and remembers what it says.
    fn numbers(&mut self, (connection, generation): (u32, u32), side: usize, speech: &Speech) -> (u32, u32) {
        let place = connection as usize;
        if place >= self.connections.len() {
            self.connections.resize(place + 1, Connection::new(generation));
        }
        let connection = &mut self.connections[place];
        if connection.generation != generation || speech.kind == Kind::Syn {
            *connection = Connection::new(generation);
        }
        let other = connection.ends[1 - side];
        let own = &mut connection.ends[side];
        let ends_stream = speech.flags & tcp_flags::FIN != 0;
        let so_far = if other.last.is_some() { other.next } else { own.acknowledged };
        let (seq, ack) = match speech.kind {
            Kind::Syn => (0, 0),
            Kind::SynAnswer => (0, 1),
            Kind::Data(first) => ((first as u32).wrapping_add(1), so_far),
            Kind::Ack(all_before) => (own.next, (all_before as u32).wrapping_add(1)),
            Kind::Flags => (own.last.filter(|_| ends_stream).unwrap_or(own.next), so_far),
        };
        // A SYN and a FIN count as a byte each.
        let counted = u32::from(matches!(speech.kind, Kind::Syn | Kind::SynAnswer)) + u32::from(ends_stream);
        own.next = later(own.next, seq.wrapping_add(speech.payload).wrapping_add(counted));
        own.acknowledged = later(own.acknowledged, ack);
        if ends_stream {
            own.last = Some(seq);
        }
        (seq, ack)
    }

    fn window_field(&self, speech: &Speech) -> u16 {
        let bytes = self.window.or(speech.window).unwrap_or(u32::from(u16::MAX));
        // The window of a SYN is never scaled (RFC 7323, 2.2).
        let shift = if matches!(speech.kind, Kind::Syn | Kind::SynAnswer) { 0 } else { self.shift };
        (bytes >> shift).min(u16::MAX.into()) as u16
    }

    fn options(&self, speech: &Speech, ack: u32) -> Vec<u8> {
        let mut options = Vec::with_capacity(40);
        let (value, echo) = speech.stamps;
        let stamps = [&option::TIMESTAMPS[..], &value.to_be_bytes(), &echo.to_be_bytes()].concat();
        if matches!(speech.kind, Kind::Syn | Kind::SynAnswer) {
            let filled = if self.has_timestamps { TIMESTAMPS_BYTES } else { 0 };
            let mss = (self.segment_bytes as usize + filled).min(u16::MAX.into()) as u16;
            options.extend(option::MSS);
            options.extend(mss.to_be_bytes());
            options.extend(option::SACK_PERMITTED);
            options.extend(if self.has_timestamps { stamps } else { vec![option::FILLER; 2] });
            options.extend(option::WINDOW_SCALE);
            options.push(self.shift);
            return options;
        }
        if self.has_timestamps {
            options.extend([option::FILLER; 2]);
            options.extend(stamps);
        }
        let blocks = speech.blocks.as_slice();
        if self.is_selective && !blocks.is_empty() {
            options.extend([option::FILLER, option::FILLER, option::SACK, 2 + 8 * blocks.len() as u8]);
            let edges = blocks.iter().flat_map(|block| [block.start, block.end]);
            options.extend(edges.flat_map(|edge| ack.wrapping_add(edge).to_be_bytes()));
        }
        options
    }
}

/// The later of two sequence numbers, which wrap.
const fn later(a: u32, b: u32) -> u32 {
    if b.wrapping_sub(a).cast_signed() > 0 { b } else { a }
}

/// A datagram of UDP, a part of one, or the credit that comes back for it.
fn datagram(like: &[u8], header: &Header, content: Content) -> Frame {
    let ip = ip_at(like);
    let udp = ip + IPV4;
    if like.len() < udp + UDP {
        // Nobody keeps bytes of headers.
        return Frame { bytes: like.to_vec(), length: header.bytes };
    }
    let mut bytes = like[..udp + UDP].to_vec();
    let carried = (header.bytes as usize).saturating_sub(udp).max(UDP);
    let (mut total, mut is_first) = (carried, true);
    if bytes[ip + 6] != 0 {
        // Messages in fragments are told apart by their hosts only; their ports are as those of datagrams.
        let (mut fragments, mut id) = (0, 0);
        let client = FIRST_PORT.wrapping_add((header.direction / 2) as u16);
        let mut ports = [client, SERVER_PORT];
        if header.direction.is_multiple_of(2) {
            let Fragment { message, index } = Fragment::of(content.number);
            let offset = index as usize * (carried / 8);
            let more = if index + 1 < FRAGMENTS { 0x2000 } else { 0 };
            fragments = offset.min(0x1fff) as u16 | more;
            id = message as u16;
            total = FRAGMENTS as usize * carried;
            is_first = index == 0;
        } else {
            ports.reverse();
        }
        bytes[ip + 4..ip + 6].copy_from_slice(&id.to_be_bytes());
        bytes[ip + 6..ip + 8].copy_from_slice(&fragments.to_be_bytes());
        bytes[udp..udp + 4].copy_from_slice(&ports.map(u16::to_be_bytes).concat());
    }
    if !is_first {
        bytes.truncate(udp);
        return finish(bytes, carried as u32, Ecn::NONE, (udp, udp));
    }
    let length = total.min(u16::MAX.into()) as u16;
    bytes[udp + 4..udp + 6].copy_from_slice(&length.to_be_bytes());
    bytes[udp + 6..].fill(0);
    let of_ports = transport_checksum(&bytes, udp, total);
    let sum = if of_ports == 0 { u16::MAX } else { of_ports };
    bytes[udp + 6..].copy_from_slice(&sum.to_be_bytes());
    finish(bytes, (carried - UDP) as u32, Ecn::NONE, (udp, udp))
}

/// Writes lengths, marks and checksums of headers that so many bytes of payload follow. The header above IP begins at `upper`; its checksum, if that is still missing, stands elsewhere.
fn finish(mut bytes: Vec<u8>, payload: u32, ecn: Ecn, (upper, sum_at): (usize, usize)) -> Frame {
    let ip = ip_at(&bytes);
    let length = bytes.len() + payload as usize;
    if sum_at > upper {
        let sum = transport_checksum(&bytes, upper, length - upper);
        bytes[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    let mark = if ecn.has(Ecn::CE) { 3 } else { u8::from(ecn.has(Ecn::ECT)) * 2 };
    let clamped = |length: usize| (length.min(u16::MAX.into()) as u16).to_be_bytes();
    if bytes[ip] >> 4 == 4 {
        bytes[ip + 1] = bytes[ip + 1] & !3 | mark;
        bytes[ip + 2..ip + 4].copy_from_slice(&clamped(length - ip));
        bytes[ip + 10..ip + 12].fill(0);
        let sum = checksum::internet(&bytes[ip..ip + IPV4]);
        bytes[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    } else {
        // The traffic class lies across two bytes.
        bytes[ip + 1] = bytes[ip + 1] & !0x30 | mark << 4;
        bytes[ip + 4..ip + 6].copy_from_slice(&clamped(length - ip - IPV6));
    }
    Frame { bytes, length: length as u32 }
}

/// The checksum of a header above IP whose own one is zero, and of the zeros behind it: so many bytes together.
fn transport_checksum(bytes: &[u8], upper: usize, length: usize) -> u16 {
    let ip = ip_at(bytes);
    let pseudo = if bytes[ip] >> 4 == 4 {
        let address = |at: usize| Ipv4Addr::from(*bytes[ip + at..].first_chunk::<4>().expect("a header is whole"));
        Pseudo::V4 { src: address(12), dst: address(16), protocol: bytes[ip + 9] }
    } else {
        let address = |at: usize| Ipv6Addr::from(*bytes[ip + at..].first_chunk::<16>().expect("a header is whole"));
        Pseudo::V6 { src: address(8), dst: address(24), protocol: bytes[ip + 6] }
    };
    let of_header = checksum::internet(&bytes[upper..]);
    checksum::update(of_header, &[0, 0], &checksum::pseudo_header(&pseudo, length).to_be_bytes())
}
