use super::super::tests::{Frame, frames};
use super::*;
use std::net::Ipv4Addr;
use wire::{
    ChecksumRequest, EthernetPacket, EthernetRepr, Ipv4Packet, Ipv4Repr, Segmentation, SegmentationKind, VirtioNetRepr,
    checksum, ethertype, protocol,
};

/// A storage that takes nothing beyond so many bytes, and writes what it can.
#[derive(Debug)]
struct Small {
    bytes: Vec<u8>,
    room: usize,
}

impl Storage for Small {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.bytes.truncate(at as usize);
        let fits = bytes.len().min(self.room - self.bytes.len());
        self.bytes.extend(&bytes[..fits]);
        if fits == bytes.len() { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.bytes.truncate(len as usize);
        Ok(())
    }
}

fn plain(number: u8) -> Vec<u8> {
    [vec![0; VNET_HEADER], vec![number; 60]].concat()
}

/// A TCP segment behind a virtio-net header that leaves its checksum undone, and to be cut into so many bytes.
fn segment(payload: usize, cut_to: Option<u16>) -> Vec<u8> {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let header = VirtioNetRepr {
        checksum: Some(ChecksumRequest { start: 34, offset: 16 }),
        segmentation: cut_to.map(|segment_bytes| Segmentation {
            kind: SegmentationKind::TcpV4,
            ecn: false,
            segment_bytes,
            header_len: 54,
        }),
        ..VirtioNetRepr::default()
    };
    let mut bytes = vec![0; VNET_HEADER + 54 + payload];
    header.emit(&mut bytes);
    let frame = &mut bytes[VNET_HEADER..];
    EthernetRepr { dst: [2; 6], src: [4; 6], vlan: None, ethertype: ethertype::IPV4 }.emit(frame);
    let ip = Ipv4Repr {
        src,
        dst,
        protocol: protocol::TCP,
        ttl: 64,
        traffic_class: 0,
        identification: 7,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: (20 + payload) as u16,
    };
    ip.emit(&mut frame[14..]);
    frame[46] = 5 << 4;
    for (at, byte) in frame[54..].iter_mut().enumerate() {
        *byte = at as u8;
    }
    let len = (20 + payload) as u16;
    let pseudo = [&src.octets()[..], &dst.octets(), &[0, protocol::TCP], &len.to_be_bytes()].concat();
    let sum = !checksum::internet(&pseudo);
    frame[50..52].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// The payload of a TCP segment whose checksums are right.
fn payload(frame: &[u8]) -> &[u8] {
    let ip = Ipv4Packet::new_checked(EthernetPacket::new_checked(frame).unwrap().payload()).unwrap();
    assert!(ip.is_checksum_right());
    let tcp = &frame[34..];
    let len = (tcp.len() as u16).to_be_bytes();
    let pseudo = [&ip.src().octets()[..], &ip.dst().octets(), &[0, protocol::TCP], &len, tcp].concat();
    assert_eq!(checksum::internet(&pseudo), 0);
    &tcp[20..]
}

#[test]
fn packets_are_in_the_file_when_the_burst_ends() {
    let mut recorder = Recorder::new(Vec::new());
    recorder.record(1_000_000_007, &plain(1)).unwrap();
    recorder.record(2_999_999_999, &plain(2)).unwrap();
    assert!(recorder.storage.is_empty() && recorder.is_waiting());
    assert_eq!(recorder.flush(), Unsent::default());
    assert!(!recorder.is_waiting());
    let expected = [(1, 1_000_000_007), (2, 2_999_999_999)].map(|(of, ns)| Frame { ns, bytes: vec![of; 60] });
    assert_eq!(frames(&recorder.storage).unwrap(), expected);
}

#[test]
fn checksums_are_filled_in_and_large_segments_are_cut() {
    let mut recorder = Recorder::new(Vec::new());
    recorder.record(1, &segment(100, None)).unwrap();
    recorder.record(2, &segment(2_500, Some(1_000))).unwrap();
    recorder.flush();
    let found = frames(&recorder.storage).unwrap();
    let bytes: Vec<&[u8]> = found.iter().map(|frame| payload(&frame.bytes)).collect();
    assert_eq!(bytes.iter().map(|piece| piece.len()).collect::<Vec<_>>(), [100, 1_000, 1_000, 500]);
    assert_eq!(bytes[1..].concat(), segment(2_500, None)[VNET_HEADER + 54..]);
    assert_eq!(found.iter().map(|frame| frame.ns).collect::<Vec<_>>(), [1, 2, 2, 2]);
}

#[test]
fn what_waits_is_written_before_the_buffer_is_full() {
    let mut recorder = Recorder::new(Vec::new());
    let large = segment(60_000, Some(1_400));
    for _ in 0..20 {
        recorder.record(0, &large).unwrap();
    }
    assert_eq!(recorder.flush(), Unsent::default());
    assert_eq!(frames(&recorder.storage).unwrap().len(), 20 * 43);
    // Headers that are copied into each of many pieces need more room than there is: none of them is recorded.
    let hostile = {
        let mut frame = vec![0; VNET_HEADER + LARGEST_FRAME];
        frame[..VNET_HEADER + 54].copy_from_slice(&segment(0, Some(1))[..VNET_HEADER + 54]);
        // IPv6 has no length of headers that would contradict.
        (frame[1], frame[VNET_HEADER + 12], frame[VNET_HEADER + 13]) = (4, 0x86, 0xdd);
        frame[6..8].copy_from_slice(&60_000_u16.to_le_bytes());
        frame[VNET_HEADER + 14] = 0x60;
        frame[VNET_HEADER + 60_012] = 5 << 4;
        frame.truncate(VNET_HEADER + 60_020 + 500);
        frame
    };
    assert!(LargeSegment::find(&hostile).unwrap().is_some());
    assert_eq!(recorder.record(0, &hostile).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    assert!(!recorder.is_waiting());
}

#[test]
fn what_a_full_disk_does_not_take_is_counted_and_the_file_stays_whole() {
    let mut recorder = Recorder::new(Small { bytes: Vec::new(), room: 24 + 76 + 100 });
    for number in 0..3 {
        recorder.record(0, &plain(number)).unwrap();
        let lost = recorder.flush();
        assert_eq!(lost, if number < 2 { Unsent::default() } else { Unsent { frames: 1, bytes: 60 } });
        if number == 0 {
            recorder.storage.room = 24 + 76 + 76;
        }
    }
    assert_eq!(recorder.take_failure().unwrap().kind(), io::ErrorKind::StorageFull);
    assert_eq!(frames(&recorder.storage.bytes).unwrap().len(), 2);
    // The same again is no news; when there is room, it goes on.
    recorder.record(0, &plain(3)).unwrap();
    recorder.record(0, &plain(4)).unwrap();
    assert_eq!((recorder.flush().frames, recorder.take_failure().is_none()), (2, true));
    recorder.storage.room = 1 << 20;
    recorder.record(0, &plain(5)).unwrap();
    assert_eq!((recorder.flush().frames, recorder.is_waiting()), (0, false));
    let found = frames(&recorder.storage.bytes).unwrap();
    assert_eq!(found.iter().map(|frame| frame.bytes[0]).collect::<Vec<_>>(), [0, 1, 5]);
}

#[test]
fn a_disk_without_room_for_the_header_is_counted_as_well() {
    let mut recorder = Recorder::new(Small { bytes: Vec::new(), room: 10 });
    recorder.begin();
    assert!(recorder.take_failure().is_some());
    recorder.record(0, &plain(1)).unwrap();
    assert_eq!(recorder.flush(), Unsent { frames: 1, bytes: 60 });
    recorder.storage.room = 1_000;
    recorder.record(0, &plain(2)).unwrap();
    recorder.flush();
    assert_eq!(frames(&recorder.storage.bytes).unwrap().len(), 1);
}
