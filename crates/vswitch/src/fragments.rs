//! Coalesces the IP fragments of one UDP datagram that arrive together, so that the receiving kernel is called once for them.
//!
//! A message longer than an MTU comes in fragments, and a kernel spends more on each of them than on its bytes. Where [`Coalescer`] puts
//! segments of TCP together, this puts fragments together: in any order, several datagrams at a time. What is complete becomes
//! the datagram. Of what is not, every fragment leaves as it came: a longer one could overlap with a copy of a part of it that comes later,
//! and kernels throw away datagrams whose fragments overlap otherwise than by being the same (RFC 5722). Nothing waits for what has not
//! come.
//!
//! It takes fragments whose headers differ in nothing but length and offset, without options and with a right checksum.
//!
//! [`Coalescer`]: crate::segmentation::Joiner

use wire::checksum::internet;
use wire::{VirtioNetLayout, protocol};

use crate::segmentation::{network_header, put, word};

/// Bytes of the virtio-net header.
const VNET: usize = VirtioNetLayout::Short.len();
/// An IPv4 header without options.
const IPV4: usize = 20;
/// The longest headers: virtio-net, Ethernet with two tags, IPv4.
const HEADERS_MAX: usize = VNET + 14 + 2 * 4 + IPV4;
/// The most payload that an IPv4 packet has.
const PAYLOAD_MAX: usize = 65_535 - IPV4;
/// Datagrams that are put together at a time.
const DATAGRAMS: usize = 4;
/// Fragments of one datagram: 64 KiB in frames of 1,500 bytes are 45.
const PIECES: usize = 48;
/// In the third word of an IPv4 header: more fragments follow, and the offset in units of eight bytes.
const MORE: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// Fragments that wait for others of their datagrams.
#[derive(Debug, Default)]
pub struct Fragments {
    datagrams: [Datagram; DATAGRAMS],
    /// How many of them are used.
    used: usize,
    /// What [`Fragments::take`] returns next: which piece of which datagram.
    next: (usize, usize),
}

/// Fragments that have been coalesced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesced<'a> {
    /// One frame behind its virtio-net header.
    pub frame: &'a [u8],
    /// How many frames it was made of.
    pub frames: u64,
    /// Their bytes, without virtio-net headers.
    pub bytes: u64,
}

/// One datagram, as far as it has come.
#[derive(Debug)]
struct Datagram {
    /// The first fragment's headers, of this length.
    headers: [u8; HEADERS_MAX],
    headers_len: usize,
    /// The payload, each byte at its offset behind room for the headers.
    bytes: Vec<u8>,
    /// What has come, by its offset.
    pieces: [Piece; PIECES],
    count: usize,
}

impl Default for Datagram {
    fn default() -> Self {
        let pieces = [Piece::default(); PIECES];
        Self { headers: [0; HEADERS_MAX], headers_len: 0, bytes: Vec::new(), pieces, count: 0 }
    }
}

/// Bytes of a datagram's payload from one offset up to another.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    start: usize,
    end: usize,
    /// Nothing follows it.
    is_last: bool,
}

/// A frame that is a fragment.
#[derive(Clone, Copy, Debug)]
struct Fragment<'a> {
    headers: &'a [u8],
    payload: &'a [u8],
    piece: Piece,
}

impl<'a> Fragment<'a> {
    /// Of a frame behind its virtio-net header; `None` if it is no fragment that can be coalesced.
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (vnet, frame) = bytes.split_at_checked(VNET)?;
        let (network, true) = network_header(frame)? else { return None };
        let (headers, payload) = bytes.split_at_checked(VNET + network + IPV4)?;
        let ip = &headers[VNET + network..];
        let offset = word(ip, 6);
        let is_last = offset & MORE == 0;
        let start = usize::from(offset & OFFSET) * 8;
        // One that must not be cut may have to be, later on, if it becomes longer: those have a flag of their own, and are left alone.
        let is_fragment = offset & !(MORE | OFFSET) == 0 && offset != 0;
        let is_plain = ip[0] == 0x45 && ip[9] == protocol::UDP && usize::from(word(ip, 2)) == IPV4 + payload.len();
        let fits =
            !payload.is_empty() && start + payload.len() <= PAYLOAD_MAX && (is_last || payload.len().is_multiple_of(8));
        let asks_nothing = vnet.iter().all(|byte| *byte == 0);
        (is_fragment && is_plain && fits && asks_nothing && internet(ip) == 0).then(|| Self {
            headers,
            payload,
            piece: Piece { start, end: start + payload.len(), is_last },
        })
    }
}

impl Datagram {
    /// Whether a fragment's headers are like the first one's, but for what says where it belongs.
    fn is_of(&self, headers: &[u8]) -> bool {
        let own = &self.headers[..self.headers_len];
        let ip = self.headers_len.saturating_sub(IPV4);
        // Total length, offset and checksum differ.
        own.len() == headers.len()
            && own[..ip + 2] == headers[..ip + 2]
            && own[ip + 4..ip + 6] == headers[ip + 4..ip + 6]
            && own[ip + 8..ip + 10] == headers[ip + 8..ip + 10]
            && own[ip + 12..] == headers[ip + 12..]
    }

    fn begin(&mut self, headers: &[u8]) {
        self.headers[..headers.len()].copy_from_slice(headers);
        self.headers_len = headers.len();
        self.count = 0;
    }

    /// Takes a fragment, if it overlaps with nothing that is there.
    fn take(&mut self, fragment: &Fragment<'_>) -> bool {
        let new = fragment.piece;
        let at = self.pieces[..self.count].partition_point(|there| there.start < new.start);
        let before = at.checked_sub(1).map(|before| self.pieces[before]);
        let behind = (at < self.count).then(|| self.pieces[at]);
        let overlaps = before.is_some_and(|before| before.end > new.start || before.is_last)
            || behind.is_some_and(|behind| behind.start < new.end || new.is_last);
        if overlaps || self.count == PIECES {
            return false;
        }
        self.pieces.copy_within(at..self.count, at + 1);
        self.pieces[at] = new;
        self.count += 1;
        let (from, to) = (self.headers_len + new.start, self.headers_len + new.end);
        if self.bytes.len() < to {
            self.bytes.resize(to, 0);
        }
        self.bytes[from..to].copy_from_slice(fragment.payload);
        true
    }

    /// All of it as one piece, if nothing is missing.
    fn whole(&self) -> Option<Piece> {
        let pieces = &self.pieces[..self.count];
        let last = pieces.last().filter(|last| last.is_last)?;
        let has_no_gaps = pieces[0].start == 0 && pieces.windows(2).all(|two| two[0].end == two[1].start);
        has_no_gaps.then_some(Piece { start: 0, ..*last })
    }

    /// Makes a frame of a piece. Its headers take the place of what lies before it: pieces are to be taken in their order.
    fn frame(&mut self, Piece { start, end, is_last }: Piece) -> &[u8] {
        let frame = &mut self.bytes[start..self.headers_len + end];
        let (headers, payload) = frame.split_at_mut(self.headers_len);
        headers.copy_from_slice(&self.headers[..self.headers_len]);
        let ip = &mut headers[self.headers_len - IPV4..];
        put(ip, 2, (IPV4 + payload.len()) as u16);
        put(ip, 6, (start / 8) as u16 | if is_last { 0 } else { MORE });
        put(ip, 10, 0);
        put(ip, 10, internet(ip));
        frame
    }
}

impl Fragments {
    /// Takes a frame with its virtio-net header if it is a fragment that can be coalesced. Of one that is not taken nothing is known: what is
    /// here goes first, by [`Fragments::take`], and then it may be taken.
    pub fn offer(&mut self, bytes: &[u8]) -> bool {
        let Some(fragment) = Fragment::of(bytes) else { return false };
        let known = self.datagrams[..self.used].iter().position(|datagram| datagram.is_of(fragment.headers));
        if let Some(known) = known {
            return self.datagrams[known].take(&fragment);
        }
        let Some(datagram) = self.datagrams.get_mut(self.used) else { return false };
        self.used += 1;
        datagram.begin(fragment.headers);
        datagram.take(&fragment)
    }

    /// Whether nothing is here.
    pub const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// What has been coalesced, one frame after the other, until `None`: then nothing is here. No fragment is offered in between.
    pub fn take(&mut self) -> Option<Coalesced<'_>> {
        let (mut which, mut at) = self.next;
        if which < self.used && at == self.datagrams[which].count {
            (which, at) = (which + 1, 0);
        }
        if which >= self.used {
            (self.used, self.next) = (0, (0, 0));
            return None;
        }
        let datagram = &mut self.datagrams[which];
        let (piece, frames) = match datagram.whole() {
            Some(whole) if at == 0 => (whole, datagram.count),
            _ => (datagram.pieces[at], 1),
        };
        self.next = (which, at + frames);
        let bytes = frames * (datagram.headers_len - VNET) + piece.end - piece.start;
        Some(Coalesced { frame: datagram.frame(piece), frames: frames as u64, bytes: bytes as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A fragment: of which datagram, from where, how long, whether more follow. Its bytes say which they are.
    fn fragment(id: u16, start: usize, len: usize, more: bool) -> Vec<u8> {
        let mut bytes = vec![0; VNET];
        bytes.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol::UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        put(&mut ip, 2, (IPV4 + len) as u16);
        put(&mut ip, 4, id);
        put(&mut ip, 6, (start / 8) as u16 | if more { MORE } else { 0 });
        let sum = internet(&ip);
        put(&mut ip, 10, sum);
        bytes.extend(ip);
        bytes.extend((start..start + len).map(|at| byte(id, at)));
        bytes
    }

    /// The byte of a datagram at that offset.
    fn byte(id: u16, at: usize) -> u8 {
        (at / 251 + at * 7 + usize::from(id) * 13) as u8
    }

    /// The fragments of a datagram with that payload.
    fn fragments(id: u16, len: usize, size: usize) -> Vec<Vec<u8>> {
        let starts = (0..len).step_by(size);
        starts.map(|start| fragment(id, start, size.min(len - start), start + size < len)).collect()
    }

    /// Which datagram a frame is of, from where to where, whether it is the last; its checksum and its bytes are right.
    fn read(frame: &[u8]) -> (u16, usize, usize, bool) {
        let ip = &frame[VNET + 14..];
        let (offset, len) = (word(ip, 6), usize::from(word(ip, 2)) - IPV4);
        assert_eq!((internet(&ip[..IPV4]), ip.len()), (0, IPV4 + len));
        let (id, start) = (word(ip, 4), usize::from(offset & OFFSET) * 8);
        assert!(ip[IPV4..].iter().zip(start..).all(|(there, at)| *there == byte(id, at)), "bytes of {id} from {start}");
        (id, start, start + len, offset & MORE == 0)
    }

    fn all(waiting: &mut Fragments) -> Vec<(u16, usize, usize, bool, u64)> {
        let mut all = Vec::new();
        while let Some(Coalesced { frame, frames, bytes }) = waiting.take() {
            let (id, start, end, is_last) = read(frame);
            assert_eq!(bytes, frames * 34 + (end - start) as u64);
            all.push((id, start, end, is_last, frames));
        }
        assert!(waiting.is_empty());
        all
    }

    #[test]
    fn all_fragments_become_the_datagram() {
        let mut waiting = Fragments::default();
        for _ in 0..2 {
            for fragment in fragments(7, 16_068, 1_480) {
                assert!(waiting.offer(&fragment));
            }
            assert_eq!(all(&mut waiting), [(7, 0, 16_068, true, 11)]);
        }
    }

    #[test]
    fn fragments_come_in_any_order_and_of_several_datagrams() {
        let mut waiting = Fragments::default();
        let (one, two) = (fragments(1, 5_000, 1_000), fragments(2, 2_500, 1_000));
        for fragment in [&one[4], &two[0], &one[0], &one[2], &two[2], &one[1]] {
            assert!(waiting.offer(fragment));
        }
        // Fragments leave as they came, by their offset.
        let expected = [
            (1, 0, 1_000, false, 1),
            (1, 1_000, 2_000, false, 1),
            (1, 2_000, 3_000, false, 1),
            (1, 4_000, 5_000, true, 1),
            (2, 0, 1_000, false, 1),
            (2, 2_000, 2_500, true, 1),
        ];
        assert_eq!(all(&mut waiting), expected);
        for fragment in [&one[4], &two[1], &one[3], &two[0], &one[2], &one[0], &two[2], &one[1]] {
            assert!(waiting.offer(fragment));
        }
        assert_eq!(all(&mut waiting), [(1, 0, 5_000, true, 5), (2, 0, 2_500, true, 3)]);
    }

    #[test]
    fn what_cannot_be_coalesced_is_left_alone() {
        let mut waiting = Fragments::default();
        let change = |at: usize, byte: u8| {
            let mut fragment = fragment(1, 0, 800, true);
            fragment[at] = byte;
            put(&mut fragment, VNET + 24, 0);
            let sum = internet(&fragment[VNET + 14..VNET + 34]);
            put(&mut fragment, VNET + 24, sum);
            fragment
        };
        assert!(waiting.offer(&change(VNET + 22, 64)), "nothing is wrong with it");
        let ip = VNET + 14;
        // A checksum to be filled in, IPv6, options, not to be cut, no fragment, TCP, padding.
        for (at, byte) in [(0, 1), (VNET + 12, 0x86), (ip, 0x46), (ip + 6, 0x60), (ip + 6, 0), (ip + 9, 6), (ip + 3, 1)]
        {
            assert!(!waiting.offer(&change(at, byte)), "{at}: {byte}");
        }
        let mut broken = fragment(1, 800, 800, true);
        broken[ip + 10] ^= 1;
        assert!(!waiting.offer(&broken), "its header is damaged");
        assert!(!waiting.offer(&fragment(1, 800, 801, true)), "what follows has no place");
        assert!(!waiting.offer(&fragment(1, 65_528, 16, true)), "longer than packets are");
        // The same again, a part of it, what reaches into it.
        for (start, len, more) in [(0, 800, true), (0, 8, true), (792, 800, true), (0, 1_600, true), (0, 8, false)] {
            assert!(!waiting.offer(&fragment(1, start, len, more)), "{start} {len}");
        }
        assert_eq!(all(&mut waiting), [(1, 0, 800, false, 1)]);
    }

    #[test]
    fn no_more_waits_than_there_is_room_for() {
        let mut waiting = Fragments::default();
        let taken = (0..10).filter(|id| waiting.offer(&fragment(*id, 0, 8, true))).count();
        assert_eq!((taken, all(&mut waiting).len()), (DATAGRAMS, DATAGRAMS));
        let taken = (0..100).filter(|n| waiting.offer(&fragment(1, n * 16, 8, true))).count();
        assert_eq!((taken, all(&mut waiting).len()), (PIECES, PIECES));
    }

    proptest! {
        /// Whatever order they come in, wherever bursts end, and though each may come again: every fragment is handed on as often as it came,
        /// by itself or in a whole datagram. So no two frames overlap otherwise than by being the same, or within a datagram that is whole.
        #[test]
        fn nothing_is_lost_or_doubled(
            order in proptest::collection::vec(0..33_usize, 0..80), ends in proptest::collection::vec(any::<bool>(), 80),
            sizes in proptest::collection::vec(1_usize..180, 3),
        ) {
            let lengths: Vec<_> = sizes.iter().map(|size| (80 * size + 5, 8 * size)).collect();
            let pieces: Vec<_> = lengths.iter().zip(0..).flat_map(|((len, size), id)| fragments(id, *len, *size)).collect();
            let (mut waiting, mut out) = (Fragments::default(), Vec::new());
            for (number, ends) in order.iter().zip(&ends) {
                if !waiting.offer(&pieces[*number]) {
                    out.extend(all(&mut waiting));
                    prop_assert!(waiting.offer(&pieces[*number]));
                }
                if *ends {
                    out.extend(all(&mut waiting));
                }
            }
            out.extend(all(&mut waiting));
            let mut counts = [0; 33];
            for (id, start, end, is_last, frames) in out {
                let (len, size) = lengths[usize::from(id)];
                let first = usize::from(id) * 11;
                if frames == 1 {
                    prop_assert_eq!((end, is_last), ((start + size).min(len), start + size >= len));
                    counts[first + start / size] += 1;
                } else {
                    prop_assert_eq!((start, end, is_last, frames), (0, len, true, 11));
                    counts[first..first + 11].iter_mut().for_each(|count| *count += 1);
                }
            }
            for (number, count) in counts.iter().enumerate() {
                prop_assert_eq!(*count, order.iter().filter(|came| **came == number).count());
            }
        }

        #[test]
        fn any_bytes_are_taken_or_refused(mut frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 0..20)) {
            let mut waiting = Fragments::default();
            for bytes in &mut frames {
                // Some get far.
                if bytes.len() > VNET + 34 {
                    let (len, id) = (bytes.len() - VNET - 14, u16::from(bytes[0] % 2));
                    let offset = word(bytes, 2) & 0x201f;
                    bytes[..VNET + 34].copy_from_slice(&fragment(id, 0, 0, false)[..VNET + 34]);
                    put(bytes, VNET + 16, len as u16);
                    put(bytes, VNET + 20, offset);
                    put(bytes, VNET + 24, 0);
                    let sum = internet(&bytes[VNET + 14..VNET + 34]);
                    put(bytes, VNET + 24, sum);
                }
                let _ = waiting.offer(bytes);
            }
            while let Some(coalesced) = waiting.take() {
                prop_assert!(coalesced.frame.len() >= VNET + 34);
            }
        }
    }
}
