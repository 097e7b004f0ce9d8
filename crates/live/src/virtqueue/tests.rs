//! Both queues against a driver that is a model: whatever it offers in whatever pieces, frames come through whole and in order, and each chain is used once. And any
//! bytes at all in the guest's memory do no harm.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use proptest::prelude::*;

use super::memory::tests::shared;
use super::*;
use crate::tap::VNET_HEADER;

const GUEST: u64 = 0x10_0000;
const USER: u64 = 0x7000_0000;
const LEN: u64 = 0x4_0000;
const DESCRIPTORS: u64 = 0;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const TABLES: u64 = 0x4000;
const BUFFERS: u64 = 0x1_0000;

fn spec(size: u16, has_event_index: bool, has_indirect: bool) -> RingSpec {
    let [descriptors, available, used] = [DESCRIPTORS, AVAILABLE, USED].map(|at| USER + at);
    RingSpec { size: size.into(), descriptors, available, used, has_event_index, has_indirect }
}

fn map(file: &File) -> Arc<GuestMemory> {
    let region = RegionSpec { guest: GUEST, user: USER, len: LEN, offset: 0 };
    Arc::new(GuestMemory::map(&[(region, file.try_clone().unwrap())]).unwrap())
}

/// The descriptors of a chain, and where its pieces are: addresses and lengths.
type Chain = (Vec<u16>, Vec<(u64, u32)>);

/// The driver's side of one ring.
struct Driver {
    file: File,
    size: u16,
    has_indirect: bool,
    free: Vec<u16>,
    /// By head: what is under way.
    chains: BTreeMap<u16, Chain>,
    made: u16,
    seen: u16,
}

impl Driver {
    fn new(size: u16, has_indirect: bool) -> Self {
        let (free, chains) = ((0..size).collect(), BTreeMap::new());
        Self { file: shared(LEN), size, has_indirect, free, chains, made: 0, seen: 0 }
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, at).unwrap();
    }

    fn read<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.file.read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    /// Makes a chain of pieces of these lengths available; `None` if there are not enough descriptors.
    fn offer(&mut self, lens: &[u32], is_written: bool) -> Option<Vec<(u64, u32)>> {
        let needed = if self.has_indirect { 1 } else { lens.len() };
        if lens.is_empty() || self.free.len() < needed {
            return None;
        }
        let used = self.free.split_off(self.free.len() - needed);
        let head = used[0];
        // Each head has a place of its own for its pieces, with gaps between them.
        let mut at = BUFFERS + u64::from(head) * 0x1800;
        let pieces: Vec<(u64, u32)> = lens
            .iter()
            .map(|len| {
                let start = at;
                at += u64::from(*len) + 3;
                (start, *len)
            })
            .collect();
        let table = if self.has_indirect { TABLES + u64::from(head) * 0x200 } else { DESCRIPTORS };
        for (number, (at, len)) in pieces.iter().enumerate() {
            let index = |number: usize| if self.has_indirect { number as u16 } else { used[number] };
            let is_last = number + 1 == pieces.len();
            let next = if is_last { 0 } else { index(number + 1) };
            let flags = u16::from(!is_last) | (u16::from(is_written) * 2);
            self.describe(table + 16 * u64::from(index(number)), GUEST + at, *len, flags, next);
        }
        if self.has_indirect {
            self.describe(DESCRIPTORS + 16 * u64::from(head), GUEST + table, 16 * lens.len() as u32, 4, 0);
        }
        self.write(AVAILABLE + 4 + 2 * u64::from(self.made % self.size), &head.to_le_bytes());
        self.made = self.made.wrapping_add(1);
        self.write(AVAILABLE + 2, &self.made.to_le_bytes());
        self.chains.insert(head, (used, pieces.clone()));
        Some(pieces)
    }

    fn describe(&self, at: u64, addr: u64, len: u32, flags: u16, next: u16) {
        let words = u64::from(len) | u64::from(flags) << 32 | u64::from(next) << 48;
        self.write(at, &[addr.to_le_bytes(), words.to_le_bytes()].concat());
    }

    /// The next chain that was used: its pieces, and how many bytes were written.
    fn used(&mut self) -> Option<(Vec<(u64, u32)>, u32)> {
        if u16::from_le_bytes(self.read(USED + 2)) == self.seen {
            return None;
        }
        let element = u64::from_le_bytes(self.read(USED + 4 + 8 * u64::from(self.seen % self.size)));
        self.seen = self.seen.wrapping_add(1);
        let (used, pieces) = self.chains.remove(&(element as u16)).expect("a chain is used once, and was offered");
        self.free.extend(used);
        Some((pieces, (element >> 32) as u32))
    }

    fn scatter(&self, pieces: &[(u64, u32)], bytes: &[u8]) {
        let mut rest = bytes;
        for (at, len) in pieces {
            let (piece, after) = rest.split_at(*len as usize);
            self.write(*at, piece);
            rest = after;
        }
    }

    fn gather(&self, pieces: &[(u64, u32)], mut len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (at, room) in pieces {
            let mut piece = vec![0; len.min(*room as usize)];
            self.file.read_exact_at(&mut piece, *at).unwrap();
            len -= piece.len();
            bytes.extend(piece);
        }
        bytes
    }
}

/// Cuts `len` bytes at these places.
fn cut(len: usize, cuts: &[u16]) -> Vec<u32> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| usize::from(*cut) % (len + 1)).chain([len]).collect();
    ends.sort_unstable();
    let mut before = 0;
    ends.into_iter().map(|end| (end - std::mem::replace(&mut before, end)) as u32).collect()
}

#[derive(Clone, Debug)]
enum Step {
    /// The guest sends a frame of so many bytes in pieces that are cut there, or offers buffers for one.
    Offer(usize, Vec<u16>),
    /// So many frames are read, or one of so many bytes is written.
    Take(usize),
    /// The guest is shown what was used.
    Show,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (14..900_usize, prop::collection::vec(any::<u16>(), 0..5)).prop_map(|(len, cuts)| Step::Offer(len, cuts)),
        (0..1_200_usize).prop_map(Step::Take),
        Just(Step::Show),
    ];
    prop::collection::vec(step, 1..200)
}

fn layout(has_count: bool, is_mergeable: bool) -> Layout {
    Layout { has_count: has_count || is_mergeable, is_mergeable, offloads: Offloads::default() }
}

fn frame(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number * 31 + at) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_the_guest_sends_is_read_in_order(
        steps in steps(), size in 0..5_u32, event in any::<bool>(), indirect in any::<bool>(), count in any::<bool>(), start in any::<u16>(),
    ) {
        let mut driver = Driver::new(1 << size, indirect);
        (driver.made, driver.seen) = (start, start);
        driver.write(AVAILABLE + 2, &start.to_le_bytes());
        driver.write(USED + 2, &start.to_le_bytes());
        let layout = layout(count, false);
        let header = if layout.has_count { 12 } else { 10 };
        let ring = Ring::new(map(&driver.file), spec(1 << size, event, indirect), start).unwrap();
        let mut queue = Transmitq::new(ring, layout);
        let (mut sent, mut numbers, mut losses) = (VecDeque::new(), 0.., 0);
        let mut buffer = vec![0; 1_000];
        for step in steps {
            match step {
                Step::Offer(len, cuts) => {
                    let frame = frame(numbers.next().unwrap(), len);
                    if let Some(pieces) = driver.offer(&cut(header + len, &cuts), false) {
                        driver.scatter(&pieces, &[vec![0; header], frame.clone()].concat());
                        sent.push_back(frame);
                    }
                }
                Step::Take(frames) => for _ in 0..frames % 8 {
                    let read = queue.read(&mut buffer, &mut losses).unwrap();
                    prop_assert_eq!(read.map(|len| buffer[VNET_HEADER..len].to_vec()), sent.pop_front());
                },
                Step::Show => {
                    queue.show_used(&Call::default());
                    while let Some((_, written)) = driver.used() {
                        prop_assert_eq!(written, 0);
                    }
                    prop_assert_eq!(driver.chains.len(), sent.len(), "what was read may be used again");
                }
            }
        }
        prop_assert_eq!(losses, 0);
    }

    #[test]
    fn what_the_guest_gets_is_whole_and_in_order(
        steps in steps(), size in 0..5_u32, event in any::<bool>(), indirect in any::<bool>(), count in any::<bool>(), mergeable in any::<bool>(),
    ) {
        let mut driver = Driver::new(1 << size, indirect);
        let layout = layout(count, mergeable);
        let header = if layout.has_count { 12 } else { 10 };
        let ring = Ring::new(map(&driver.file), spec(1 << size, event, indirect), 0).unwrap();
        let mut queue = Receiveq::new(ring, layout);
        let (mut offered, mut written, mut numbers) = (VecDeque::new(), VecDeque::new(), 0..);
        for step in steps {
            match step {
                Step::Offer(len, mut cuts) => {
                    // The first buffer has room for the header where buffers are merged.
                    cuts.retain(|cut| !mergeable || usize::from(*cut) % (header + len + 1) >= header);
                    if driver.offer(&cut(header + len, &cuts), true).is_some() {
                        offered.push_back(header + len);
                    }
                }
                Step::Take(len) => {
                    let frame = frame(numbers.next().unwrap(), len);
                    let bytes = [&[0; VNET_HEADER], frame.as_slice()].concat();
                    let mut room = 0;
                    let needed = offered.iter().position(|chain| { room += chain; room >= header + len }).map(|at| at + 1);
                    let expected = needed.filter(|chains| mergeable || *chains == 1);
                    prop_assert_eq!(queue.write(&bytes).unwrap(), expected.is_some());
                    if let Some(chains) = expected {
                        offered.drain(..chains);
                        written.push_back((frame, chains));
                    }
                }
                Step::Show => {
                    queue.show_used(&Call::default());
                    while let Some((pieces, len)) = driver.used() {
                        let (frame, chains) = written.pop_front().expect("what is used was written");
                        let mut bytes = driver.gather(&pieces, len as usize);
                        if layout.has_count {
                            prop_assert_eq!(u16::from_le_bytes([bytes[10], bytes[11]]), chains as u16);
                        }
                        for _ in 1..chains {
                            let (pieces, len) = driver.used().expect("all chains of a frame are used at once");
                            bytes.extend(driver.gather(&pieces, len as usize));
                        }
                        prop_assert_eq!(&bytes[header..], frame.as_slice());
                    }
                    prop_assert!(written.is_empty());
                }
            }
        }
    }

    #[test]
    fn any_bytes_in_the_guests_memory_do_no_harm(
        words in prop::collection::vec((0..0x80_u64, any::<[u8; 8]>()), 0..200), size in 0..16_u32, heads in any::<[u8; 8]>(), index in 0..20_u16,
        flags in any::<[bool; 4]>(),
    ) {
        let file = shared(LEN);
        for (at, word) in words {
            // Most of it is what a descriptor could have there.
            let plausible = match at % 4 { 0 => u64::from_le_bytes(word) % LEN + GUEST, 1 => u64::from_le_bytes(word) & 0x000f_0007_0000_0fff, _ => u64::from_le_bytes(word) };
            file.write_all_at(&plausible.to_le_bytes(), at * 8).unwrap();
        }
        file.write_all_at(&[&[0, 0], index.to_le_bytes().as_slice(), &heads].concat(), AVAILABLE).unwrap();
        let [event, indirect, count, mergeable] = flags;
        let ring = || Ring::new(map(&file), spec(1 << size, event, indirect), 0);
        let Ok(transmitq) = ring() else { return Ok(()) };
        let (mut buffer, mut losses) = ([0; 2_000], 0);
        let mut transmitq = Transmitq::new(transmitq, layout(count, mergeable));
        while let Ok(Some(len)) = transmitq.read(&mut buffer, &mut losses) {
            // Many in a row that are none are as one without a byte.
            prop_assert!(len == 0 || (VNET_HEADER + 14..=buffer.len()).contains(&len));
        }
        transmitq.show_used(&Call::default());
        let mut receiveq = Receiveq::new(ring().unwrap(), layout(count, mergeable));
        while let Ok(true) = receiveq.write(&[0; 1_500]) {}
        receiveq.show_used(&Call::default());
    }
}

/// A guest that goes on sending what is no frame keeps nobody from others: so many are passed over at once.
#[test]
fn chains_that_are_no_frames_are_passed_over_a_few_at_a_time() {
    let mut driver = Driver::new(16, false);
    let ring = Ring::new(map(&driver.file), spec(16, false, false), 0).unwrap();
    let mut queue = Transmitq::new(ring, layout(true, false));
    let (mut buffer, mut losses) = ([0; 2_000], 0);
    let mut passed = Vec::new();
    // It sends two for each two that are passed over, and would do so for ever.
    for _ in 0..3 {
        while driver.offer(&[5], false).is_some() {}
        passed.push((queue.read(&mut buffer, &mut losses), losses));
        queue.show_used(&Call::default());
        while driver.used().is_some() {}
    }
    assert_eq!(passed, [(Ok(Some(0)), 8), (Ok(Some(0)), 16), (Ok(Some(0)), 24)]);
    // The frame behind them comes through.
    assert_eq!(queue.read(&mut buffer, &mut losses), Ok(Some(0)));
    let pieces = driver.offer(&[12 + 60], false).unwrap();
    driver.scatter(&pieces, &[vec![0; 12], frame(1, 60)].concat());
    let mut read = Ok(Some(0));
    while read == Ok(Some(0)) {
        read = queue.read(&mut buffer, &mut losses);
    }
    assert_eq!((read, &buffer[VNET_HEADER..VNET_HEADER + 60]), (Ok(Some(VNET_HEADER + 60)), frame(1, 60).as_slice()));
}

/// Buffers of a byte cost a look-up each: a frame is not spread over more of them than one of 64 KiB needs.
#[test]
fn a_frame_is_not_spread_over_thousands_of_buffers() {
    const PIECES: u64 = 512;
    const BYTES: u64 = 0x3_0000;
    let driver = Driver::new(16, true);
    for head in 0..4_u16 {
        let table = BUFFERS + u64::from(head) * 0x2000;
        for piece in 0..PIECES {
            let number = u64::from(head) * PIECES + piece;
            let (flags, next) = if piece + 1 == PIECES { (2, 0) } else { (3, piece as u16 + 1) };
            // The header is in one buffer, where buffers are merged.
            driver.describe(
                table + 16 * piece,
                GUEST + BYTES + 16 * number,
                if piece == 0 { 12 } else { 1 },
                flags,
                next,
            );
        }
        driver.describe(DESCRIPTORS + 16 * u64::from(head), GUEST + table, 16 * PIECES as u32, 4, 0);
        driver.write(AVAILABLE + 4 + 2 * u64::from(head), &head.to_le_bytes());
    }
    driver.write(AVAILABLE + 2, &4_u16.to_le_bytes());
    let ring = Ring::new(map(&driver.file), spec(16, false, true), 0).unwrap();
    let mut queue = Receiveq::new(ring, layout(true, true));
    let bytes = |len| [&[0; VNET_HEADER], frame(1, len).as_slice()].concat();
    // There is room for it.
    assert_eq!(queue.write(&bytes(1_500)), Ok(false));
    assert_eq!(queue.write(&bytes(900)), Ok(true));
}

/// What is asked for is done before it is answered; what is no command is refused, and an answer is where the guest has room for it.
#[test]
fn commands_say_how_many_pairs_are_used() {
    // Readable pieces and their bytes; how long the piece is that is to be written; what is done, and what is answered.
    type Case = (&'static [&'static [u8]], u32, Option<u16>, Option<u8>);
    for indirect in [false, true] {
        let driver = Driver::new(16, indirect);
        let ring = Ring::new(map(&driver.file), spec(16, true, indirect), 0).unwrap();
        let mut queue = Controlq::new(ring);
        let mut made = 0_u16;
        let cases: [Case; 9] = [
            (&[&[4, 0], &[2, 0]], 1, Some(2), Some(0)),
            (&[&[4], &[0, 4], &[0]], 9, Some(4), Some(0)),
            (&[&[4, 0, 1, 0]], 0, None, None),
            (&[&[4, 0, 0, 0]], 1, None, Some(1)),
            (&[&[4, 0, 5, 0]], 1, None, Some(1)),
            (&[&[4, 0, 1, 1]], 1, None, Some(1)),
            (&[&[4, 1, 1, 0]], 1, None, Some(1)),
            (&[&[4, 0, 1, 0, 0]], 1, None, Some(1)),
            (&[&[4, 0, 1]], 1, None, Some(1)),
        ];
        for (number, (pieces, room, done, answered)) in cases.into_iter().enumerate() {
            let table = if indirect { TABLES } else { DESCRIPTORS };
            let mut at = BUFFERS;
            for (index, piece) in pieces.iter().enumerate() {
                driver.write(at, piece);
                driver.describe(table + 16 * index as u64, GUEST + at, piece.len() as u32, 1, index as u16 + 1);
                at += 16;
            }
            driver.write(at, &[9]);
            driver.describe(table + 16 * pieces.len() as u64, GUEST + at, room, 2, 0);
            if indirect {
                driver.describe(DESCRIPTORS, GUEST + TABLES, 16 * (pieces.len() as u32 + 1), 4, 0);
            }
            driver.write(AVAILABLE + 4 + 2 * u64::from(made % 16), &0_u16.to_le_bytes());
            made += 1;
            driver.write(AVAILABLE + 2, &made.to_le_bytes());
            let mut pairs = None;
            let served = queue.serve(4, &Call::default(), |wanted| {
                assert_eq!(driver.read(at), [9], "it is done before it is answered");
                pairs = Some(wanted);
            });
            assert_eq!((served, pairs), (Ok(false), done), "case {number}");
            assert_eq!(driver.read(at), [answered.unwrap_or(9)], "case {number}");
            assert_eq!(driver.read(USED + 2), made.to_le_bytes());
            let element = [0, u32::from(answered.is_some())].map(u32::to_le_bytes).concat();
            assert_eq!(driver.read::<8>(USED + 4 + 8 * u64::from(made - 1)).as_slice(), element);
        }
        // It wants to hear of the next one.
        assert_eq!(driver.read(USED + 4 + 8 * 16), made.to_le_bytes());
        driver.write(AVAILABLE + 2, &(made + 17).to_le_bytes());
        assert!(matches!(queue.serve(4, &Call::default(), |_| {}), Err(RingError::Available { .. })));
    }
}
