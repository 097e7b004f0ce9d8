use super::super::tests::{Frame, frames, pcap};
use super::*;

/// Numbers in one byte order.
#[derive(Clone, Copy)]
struct Bytes(Order);

impl Bytes {
    fn u16(self, halves: &[u16]) -> Vec<u8> {
        halves.iter().flat_map(|half| if self.is_little() { half.to_le_bytes() } else { half.to_be_bytes() }).collect()
    }

    fn u32(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| if self.is_little() { word.to_le_bytes() } else { word.to_be_bytes() }).collect()
    }

    const fn is_little(self) -> bool {
        matches!(self.0, Order::Little)
    }

    /// A pcap file with one packet of 5 bytes, captured at 3 s and 7 units.
    fn pcap(self, magic: u32) -> Vec<u8> {
        [
            self.u32(&[magic]),
            self.u16(&[2, 4]),
            self.u32(&[0, 0, 65_535, 1]),
            self.u32(&[3, 7, 5, 100]),
            b"frame".to_vec(),
        ]
        .concat()
    }

    /// A block of pcapng.
    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let padded = [body, &[0; 3][..body.len().next_multiple_of(4) - body.len()]].concat();
        let len = padded.len() as u32 + 12;
        [self.u32(&[kind, len]), padded, self.u32(&[len])].concat()
    }

    fn section(self) -> Vec<u8> {
        self.block(
            0x0a0d_0d0a,
            &[self.u32(&[0x1a2b_3c4d]), self.u16(&[1, 0]), self.u32(&[u32::MAX, u32::MAX])].concat(),
        )
    }

    fn interface(self, link_type: u16, snaplen: u32, options: &[u8]) -> Vec<u8> {
        self.block(1, &[self.u16(&[link_type, 0]), self.u32(&[snaplen]), options.to_vec()].concat())
    }

    fn enhanced(self, interface: u32, stamp: u64, data: &[u8]) -> Vec<u8> {
        let len = data.len() as u32;
        let mut body = self.u32(&[interface, (stamp >> 32) as u32, stamp as u32, len, len]);
        body.extend(data);
        // An option behind the padding: a comment.
        body.resize(body.len().next_multiple_of(4), 0);
        self.block(6, &[body, self.u16(&[1, 2]), b"hi\0\0".to_vec(), self.u16(&[0, 0])].concat())
    }
}

const ORDERS: [Bytes; 2] = [Bytes(Order::Little), Bytes(Order::Big)];

#[test]
fn pcap_is_read_in_both_orders_with_both_units() {
    for order in ORDERS {
        let frame = |ns| vec![Frame { ns, bytes: b"frame".to_vec() }];
        assert_eq!(frames(&order.pcap(0xa1b2_c3d4)).unwrap(), frame(3_000_007_000));
        assert_eq!(frames(&order.pcap(0xa1b2_3c4d)).unwrap(), frame(3_000_000_007));
    }
}

#[test]
fn pcapng_is_read_with_its_interfaces_sections_and_kinds_of_packets() {
    for order in ORDERS {
        let nanoseconds =
            [order.u16(&[9, 1]), vec![9, 0, 0, 0], order.u16(&[14, 8]), order_of_i64(order, 100), order.u16(&[0, 0])];
        let file = [
            order.section(),
            order.interface(1, 0, &[]),
            order.interface(1, 4, &nanoseconds.concat()),
            order.block(5, b"statistics"),
            order.enhanced(0, 1_000_001, b"micro"),
            order.enhanced(1, 7 << 32, b"nano"),
            order.block(3, &[order.u32(&[6]), b"simple".to_vec()].concat()),
            order.block(2, &[order.u16(&[1, 0]), order.u32(&[0, 8, 3, 3]), b"old".to_vec()].concat()),
            // A second section, in the other order, and half seconds.
            ORDERS[usize::from(order.is_little())].section(),
            ORDERS[usize::from(order.is_little())].interface(
                1,
                0,
                &[ORDERS[usize::from(order.is_little())].u16(&[9, 1]), vec![0x81, 0, 0, 0]].concat(),
            ),
            ORDERS[usize::from(order.is_little())].enhanced(0, 3, b"half"),
        ]
        .concat();
        let found = frames(&file).unwrap();
        let found: Vec<_> = found.iter().map(|frame| (frame.ns, frame.bytes.as_slice())).collect();
        assert_eq!(
            found,
            [
                (1_000_001_000, &b"micro"[..]),
                (100_000_000_000 + (7 << 32), b"nano"),
                (100_000_000_000 + (7 << 32), b"simple"),
                (100_000_000_008, b"old"),
                (1_500_000_000, b"half"),
            ]
        );
    }
}

fn order_of_i64(order: Bytes, number: i64) -> Vec<u8> {
    if order.is_little() { number.to_le_bytes().to_vec() } else { number.to_be_bytes().to_vec() }
}

#[test]
fn times_beyond_64_bits_are_the_first_or_the_last() {
    let at = |resolution, offset_s, stamp| Interface { snaplen: 0, resolution, offset_s }.captured_ns(stamp);
    assert_eq!(at(0, 0, u64::MAX), u64::MAX);
    assert_eq!(at(127, 0, u64::MAX), 0);
    assert_eq!(at(0xff, 0, u64::MAX), 0);
    assert_eq!(at(6, i64::MIN, u64::MAX), 0);
    assert_eq!(at(6, i64::MAX, u64::MAX), u64::MAX);
}

#[test]
fn a_capture_that_is_cut_off_anywhere_is_read_up_to_there() {
    let order = ORDERS[0];
    let pcap = pcap(&[1, 2, 3].map(|ns| Frame { ns, bytes: vec![1; 60] }));
    let blocks = [order.enhanced(0, 1, &[1; 60]), order.enhanced(0, 2, &[1; 60]), order.enhanced(0, 3, &[1; 60])];
    let pcapng = [order.section(), order.interface(1, 0, &[]), blocks.concat()].concat();
    let pcapng_head = pcapng.len() - blocks.concat().len();
    // What stands before the first packet has one part, or two.
    for (file, head, packet) in [(pcap, &[24][..], 76), (pcapng, &[28, pcapng_head], blocks[0].len())] {
        let before = *head.last().unwrap();
        let is_whole = |len: usize| head.contains(&len) || len > before && (len - before).is_multiple_of(packet);
        for len in 0..file.len() {
            let whole = len.saturating_sub(before) / packet;
            match frames(&file[..len]) {
                Ok(found) => assert!(is_whole(len) && found.len() == whole, "{len}"),
                Err(CaptureError::Truncated { packets }) => {
                    assert!(!is_whole(len) && packets == whole as u64, "{len}");
                }
                Err(CaptureError::Empty) => assert_eq!(len, 0),
                Err(other) => panic!("{len}: {other}"),
            }
        }
        assert_eq!(frames(&file).unwrap().len(), 3);
    }
}

#[test]
fn what_is_no_capture_of_ethernet_says_why() {
    let order = ORDERS[0];
    let why = |file: &[u8]| frames(file).unwrap_err().to_string();
    let with = |at: usize, bytes: &[u8]| {
        let mut file = order.pcap(0xa1b2_c3d4);
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    assert_eq!(
        why(&with(20, &[113])),
        "its packets are of link type 113 (Linux cooked capture), expected 1 (Ethernet)"
    );
    assert_eq!(why(&with(4, &[1])), "it is of version 1 of its format, expected 2");
    assert_eq!(why(&with(32, &[1, 0, 4])), "packet 1 is 262145 bytes long, expected 262144 at most");
    assert_eq!(
        why(&with(0, &[0x1f, 0x8b])),
        "it begins with the bytes 1f 8b b2 a1, expected those of a capture (pcap or pcapng)"
    );
    let after = |block: Vec<u8>| why(&[order.section(), order.interface(1, 0, &[]), block].concat());
    assert_eq!(after(order.enhanced(1, 0, b"x")), "the interface of a packet is wrong, behind packet 0");
    assert_eq!(after(order.u32(&[6, 13])), "the length of a block is wrong, behind packet 0");
    assert_eq!(after(order.block(6, &[0; 4])), "the length of a packet's block is wrong, behind packet 0");
    let lies = order.block(6, &order.u32(&[0, 0, 0, 5, 5, 0]));
    assert_eq!(after(lies), "the length of a packet's block is wrong, behind packet 0");
    assert_eq!(
        after(order.interface(1, 0, &order.u16(&[9, 9]))),
        "an option of an interface is wrong, behind packet 0"
    );
    let many = order.interface(1, 0, &[]).repeat(INTERFACES_MAX);
    assert_eq!(after(many), "the number of interfaces is wrong, behind packet 0");
}

#[test]
fn of_a_packet_that_is_longer_than_the_buffer_the_rest_is_passed_over() {
    let file = pcap(&[1, 2].map(|number| Frame { ns: 0, bytes: vec![number; 60] }));
    let mut reader = Reader::new(&*file).unwrap();
    let mut buffer = [0; 10];
    assert_eq!(reader.read(&mut buffer).unwrap(), Some(10));
    assert_eq!(reader.read(&mut buffer).unwrap(), Some(10));
    assert_eq!((buffer, reader.read(&mut buffer).unwrap()), ([2; 10], None));
}

/// A worker that reads a file carries others' frames meanwhile: what is no packet may not keep it.
#[test]
fn what_is_between_packets_is_bounded() {
    let bytes = Bytes(Order::Little);
    let unknown = bytes.block(0xbad, &vec![0; 60_000]);
    let file = |blocks: usize| {
        [bytes.section(), bytes.interface(1, 0, &[]), unknown.repeat(blocks), bytes.enhanced(0, 7, &[1; 60])].concat()
    };
    let first = |file: &[u8]| Reader::new(file).and_then(|mut reader| reader.peek());
    assert!(matches!(first(&file(17)), Ok(Some(_))));
    assert!(matches!(first(&file(18)), Err(CaptureError::Malformed { packets: 0, .. })));
    // A length that only a sparse file has is not read to its end.
    let sparse = [bytes.section(), bytes.interface(1, 0, &[]), bytes.u32(&[0xbad, 0xffff_fffc])].concat();
    assert!(matches!(first(&sparse), Err(CaptureError::Malformed { packets: 0, .. })));
    let sections = [bytes.section().repeat(40_000), bytes.interface(1, 0, &[])].concat();
    assert!(matches!(first(&sections), Err(CaptureError::Malformed { packets: 0, .. })));
}
