//! A guest at a port, without a network: frames both ways, and all sorts of nonsense, behind which the next guest is served as if nothing had been.

use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use topology::VhostUserDevice;

use self::guest::{
    BUFFER, EVENT_IDX, GUEST, Guest, INDIRECT_DESC, MEMORY, MRG_RXBUF, RECEIVEQ, SIZE, TRANSMITQ, USER, VERSION_1,
    buffer,
};
use super::*;
use crate::tap::VNET_HEADER;

#[path = "../../../tests/bed/guest.rs"]
pub mod guest;
mod queues;

/// What it takes at least to be a modern guest.
const MODERN: u64 = VERSION_1 | EVENT_IDX;

/// A socket in a folder of its own, and the port behind it.
struct Rig {
    attachment: Attachment,
    port: VhostPort,
    path: PathBuf,
    folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        Self::with_queues(1)
    }

    fn with_queues(queues: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let device = VhostUserDevice { socket: None, is_client: false, queues };
        let places = Places { folder: folder.path(), runtime: folder.path(), host: ("vm", 0) };
        let (attachment, port) = Attachment::open(device, places).unwrap();
        let path = folder.path().join("vhost-user/vm.sock");
        Self { attachment, port, path, folder }
    }

    fn attach(&self, features: u64) -> Guest {
        let guest = Guest::attach(&self.path, features);
        until("a guest is attached", || self.attachment.has_carrier());
        guest
    }

    /// The next frame that the port has, with its header.
    fn read(&mut self) -> Vec<u8> {
        let mut buffer = vec![0; 100_000];
        let mut read = None;
        until("a frame has come", || {
            read = self.port.read(&mut buffer).unwrap();
            read.is_some()
        });
        buffer.truncate(read.unwrap());
        buffer
    }

    /// Sends a frame to the guest.
    fn write(&mut self, header: &[u8], frame: &[u8]) -> bool {
        let mut bytes = header.to_vec();
        bytes.resize(VNET_HEADER, 0);
        bytes.extend(frame);
        let is_taken = self.port.write(&bytes).is_ok();
        self.port.flush();
        is_taken
    }

    /// Polls the port until the guest is cut off; why.
    fn until_cut_off(&mut self, mut guest: Guest) -> String {
        let mut buffer = vec![0; 70_000];
        until("the guest is cut off", || {
            assert_eq!(self.port.read(&mut buffer).unwrap(), None, "a frame of nonsense");
            self.write(&[], &frame(1, 60));
            guest.is_cut_off()
        });
        assert!(!self.attachment.has_carrier());
        self.attachment.fault().get().expect("the reason is there before the guest sees it")
    }

    /// Another guest is served.
    fn works_again(&mut self) {
        let mut guest = self.attach(MODERN);
        guest.send(&frame(7, 60));
        assert_eq!(self.read()[VNET_HEADER..], frame(7, 60));
        assert!(self.write(&[], &frame(8, 60)));
        assert_eq!(received(&mut guest).1, frame(8, 60));
        until("nothing is wrong any more", || self.attachment.fault().get().is_none());
    }

    fn is_readable(&self) -> bool {
        let mut watched = [PollFd::new(self.port.as_fd(), PollFlags::POLLIN)];
        poll(&mut watched, PollTimeout::ZERO).unwrap() > 0
    }
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(started.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::yield_now();
    }
}

fn frame(number: u8, len: usize) -> Vec<u8> {
    let mut frame = [[2, 0, 0, 0, 0, 1].as_slice(), &[2, 0, 0, 0, 0, 2], &[0x88, 0xb5]].concat();
    frame.resize(len, number);
    frame
}

fn received(guest: &mut Guest) -> (Vec<u8>, Vec<u8>) {
    let mut received = None;
    until("a frame has come to the guest", || {
        received = guest.receive();
        received.is_some()
    });
    received.unwrap()
}

#[test]
fn frames_go_both_ways_whatever_was_negotiated() {
    let mut rig = Rig::new();
    for features in [0, VERSION_1, MRG_RXBUF, MODERN, MODERN | MRG_RXBUF | INDIRECT_DESC] {
        let mut guest = rig.attach(features);
        // More than once around the ring.
        for number in 0..200 {
            let sent = frame(number, 60 + usize::from(number));
            guest.send(&sent);
            assert_eq!(rig.read(), [&[0; VNET_HEADER], sent.as_slice()].concat());
            assert!(rig.write(&[], &sent));
            let (header, frame) = received(&mut guest);
            assert_eq!((frame, header.len()), (sent, guest.header()));
            assert_eq!(header[..10], [0; 10]);
        }
        assert_eq!(rig.port.new_losses().unwrap(), 0);
        drop(guest);
        until("it has gone", || !rig.attachment.has_carrier());
        assert_eq!(rig.attachment.fault().get(), None);
    }
}

#[test]
fn a_long_frame_is_spread_over_buffers_that_may_be_merged_and_lost_where_they_may_not() {
    let mut rig = Rig::new();
    let mut guest = rig.attach(MODERN | MRG_RXBUF);
    let long = frame(5, 9_000);
    assert!(rig.write(&[], &long));
    let (header, frame_5) = received(&mut guest);
    assert_eq!((frame_5, header[10]), (long.clone(), 5));
    // As much as all buffers hold, and no more.
    let all = usize::from(SIZE) * BUFFER as usize - 12;
    assert!(rig.write(&[], &frame(1, all)) && !rig.write(&[], &frame(1, 60)));
    assert_eq!(received(&mut guest).1, frame(1, all));
    assert!(!rig.write(&[], &frame(1, all + 1)) && rig.write(&[], &frame(2, 60)));
    assert_eq!(received(&mut guest).1, frame(2, 60));
    drop(guest);
    let mut guest = rig.attach(MODERN);
    assert!(!rig.write(&[], &long) && rig.write(&[], &frame(3, 60)));
    assert_eq!(received(&mut guest).1, frame(3, 60));
}

#[test]
fn a_chain_may_be_in_many_pieces_and_in_a_table_of_its_own() {
    let mut rig = Rig::new();
    let mut guest = rig.attach(MODERN | INDIRECT_DESC);
    let sent = frame(9, 100);
    let bytes = [&[0; 12], sent.as_slice()].concat();
    let at = buffer(TRANSMITQ, 0);
    guest.write(at, &bytes);
    let at = GUEST + at;
    // The header, too.
    guest.send_chain(&[(at, 5), (at + 5, 9), (at + 14, 0), (at + 14, 98)]);
    assert_eq!(rig.read()[VNET_HEADER..], sent);
    let table = buffer(TRANSMITQ, 40);
    for (number, (addr, len, flags, next)) in [(at, 12, 1, 2), (0, 0, 0, 0), (at + 12, 100, 0, 0)].iter().enumerate() {
        let descriptor =
            [u64::to_le_bytes(*addr).as_slice(), &u32::to_le_bytes(*len), &[*flags, 0], &[*next, 0]].concat();
        guest.write(table + 16 * number as u64, &descriptor);
    }
    guest.describe(TRANSMITQ, 3, (GUEST + table, 48), 4, 0);
    guest.make_available(TRANSMITQ, 3);
    assert_eq!(rig.read()[VNET_HEADER..], sent);
    assert_eq!(rig.port.new_losses().unwrap(), 0);
}

#[test]
fn what_is_no_frame_is_lost_and_counted() {
    let mut rig = Rig::new();
    let mut guest = rig.attach(MODERN);
    guest.send(&[1; 13]);
    guest.send(&[]);
    // Undone checksums and large segments were not negotiated; 9 is no kind of segments.
    for header in [[1, 0, 0, 0, 0, 0, 34, 0, 6, 0], [0, 1, 54, 0, 100, 0, 0, 0, 0, 0], [0, 9, 0, 0, 0, 0, 0, 0, 0, 0]] {
        guest.send_with(&header, &frame(1, 1_500));
    }
    guest.send(&frame(2, 60));
    assert_eq!(rig.read()[VNET_HEADER..], frame(2, 60));
    assert_eq!(rig.port.new_losses().unwrap(), 5);
    // What comes of the header is what means something.
    guest.send_with(&[2, 0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9], &frame(3, 60));
    assert_eq!(rig.read(), [&[0; VNET_HEADER], frame(3, 60).as_slice()].concat());
    // One that is longer than the buffer that it is read into.
    guest.send(&frame(4, 500));
    guest.send(&frame(5, 60));
    let mut short = [0; VNET_HEADER + 100];
    until("the second one has come", || rig.port.read(&mut short).unwrap() == Some(VNET_HEADER + 60));
    assert_eq!((short[VNET_HEADER + 20], rig.port.new_losses().unwrap()), (5, 1));
}

#[test]
fn a_checksum_that_the_network_left_undone_is_filled_in_for_a_guest_that_does_not_know() {
    const CSUM_BOTH: u64 = 3;
    let mut rig = Rig::new();
    // The sum from byte 14 on belongs at 16.
    let header = [1, 0, 0, 0, 0, 0, 14, 0, 2, 0];
    let mut undone = frame(0, 60);
    undone[14..20].copy_from_slice(&[0x12, 0x34, 0, 0, 0x11, 0x11]);
    let mut guest = rig.attach(MODERN);
    assert!(rig.write(&header, &undone));
    let (shown, frame) = received(&mut guest);
    assert_eq!((&shown[..10], &frame[14..20]), (&[0; 10][..], &[0x12, 0x34, 0xdc, 0xba, 0x11, 0x11][..]));
    drop(guest);
    let mut guest = rig.attach(MODERN | CSUM_BOTH);
    assert!(rig.write(&header, &undone));
    let (shown, frame) = received(&mut guest);
    assert_eq!((&shown[..10], &frame), (&header[..], &undone));
    // The same the other way round.
    guest.send_with(&header, &undone);
    assert_eq!(rig.read(), [header.as_slice(), &undone].concat());
    guest.send_with(&[1, 0, 0, 0, 0, 0, 14, 0, 45, 0], &undone);
    guest.send(&undone);
    assert_eq!(rig.read()[..2], [0, 0]);
    assert_eq!(rig.port.new_losses().unwrap(), 1);
}

#[test]
fn nonsense_in_rings_cuts_the_guest_off_and_the_next_one_is_served() {
    type Nonsense = fn(&mut Guest);
    let cases: [(&str, Nonsense); 14] = [
        ("1000 chains are available in a ring of 64", |guest| {
            guest.write(guest::available(TRANSMITQ) + 2, &1_000_u16.to_le_bytes());
            guest.kick(TRANSMITQ);
        }),
        ("chains are available in a ring of 64", |guest| {
            // It is looked at before any is taken that is there (900), or when all are (836).
            guest.write(guest::available(RECEIVEQ) + 2, &900_u16.to_le_bytes());
        }),
        ("descriptor 64 in a table of 64", |guest| guest.make_available(TRANSMITQ, 64)),
        ("descriptor 65535 in a table of 64", |guest| {
            guest.describe(TRANSMITQ, 0, (GUEST, 100), 1, 65_535);
            guest.make_available(TRANSMITQ, 0);
        }),
        ("that is a loop", |guest| {
            guest.describe(TRANSMITQ, 0, (GUEST, 1), 1, 1);
            guest.describe(TRANSMITQ, 1, (GUEST, 0), 1, 0);
            guest.make_available(TRANSMITQ, 0);
        }),
        ("a buffer to be written where one is to be read", |guest| {
            guest.describe(TRANSMITQ, 0, (GUEST, 100), 2, 0);
            guest.make_available(TRANSMITQ, 0);
        }),
        ("a buffer to be read where one is to be written", |guest| {
            for index in 0..SIZE {
                guest.describe(RECEIVEQ, index, (GUEST, 100), 0, 0);
            }
        }),
        ("not the guest's memory", |guest| guest.send_chain(&[(GUEST + MEMORY - 50, 100)])),
        ("not the guest's memory", |guest| guest.send_chain(&[(0, 12), (GUEST, 100)])),
        ("not the guest's memory", |guest| guest.send_chain(&[(GUEST, 12), (u64::MAX - 10, 100)])),
        ("an indirect table", |guest| {
            guest.describe(TRANSMITQ, 0, (GUEST, 47), 4, 0);
            guest.make_available(TRANSMITQ, 0);
        }),
        ("an indirect table", |guest| {
            // One within one.
            let table = buffer(TRANSMITQ, 10);
            guest.write(table, &[0, 0, 0, 0x40, 0, 0, 0, 0, 16, 0, 0, 0, 4, 0, 0, 0]);
            guest.describe(TRANSMITQ, 0, (GUEST + table, 16), 4, 0);
            guest.make_available(TRANSMITQ, 0);
        }),
        ("descriptor 3 in a table of 2", |guest| {
            let table = buffer(TRANSMITQ, 10);
            guest.write(table, &[0, 0, 0, 0x40, 0, 0, 0, 0, 12, 0, 0, 0, 1, 0, 3, 0]);
            guest.describe(TRANSMITQ, 0, (GUEST + table, 32), 4, 0);
            guest.make_available(TRANSMITQ, 0);
        }),
        ("a first buffer of 4 bytes", |guest| {
            for index in 0..SIZE {
                guest.describe(RECEIVEQ, index, (GUEST, 4), 2, 0);
            }
        }),
    ];
    let mut rig = Rig::new();
    for (why, nonsense) in cases {
        let mut guest = rig.attach(MODERN | INDIRECT_DESC | MRG_RXBUF);
        nonsense(&mut guest);
        let fault = rig.until_cut_off(guest);
        assert!(fault.contains(why), "{why}: {fault}");
        rig.works_again();
    }
}

#[test]
fn nonsense_in_messages_cuts_the_guest_off_and_the_next_one_is_served() {
    use guest::*;
    type Nonsense = fn(&mut Guest);
    let cases: [(&str, Nonsense); 18] = [
        ("flags 0xffffffff", |guest| guest.say(&[0xff; 100], &[])),
        ("request 77, which was not offered", |guest| guest.request(77, &[0; 8], &[])),
        ("request 8 with 7 bytes", |guest| guest.request(SET_VRING_NUM, &[0; 7], &[])),
        ("half a message", |guest| guest.say(&[1, 0, 0], &[])),
        ("not all of which were offered", |guest| guest.request(SET_FEATURES, &(1_u64 << 34).to_le_bytes(), &[])),
        ("ring 2, of 2", |guest| guest.request(SET_VRING_NUM, &pair(2, 64), &[])),
        ("ring 0 of 65536", |guest| guest.request(SET_VRING_NUM, &pair(0, 65_536), &[])),
        ("ring 1 from 65536 on", |guest| guest.request(SET_VRING_BASE, &pair(1, 65_536), &[])),
        ("a ring before its memory", |guest| guest.start(0)),
        ("a ring of 48 descriptors", |guest| {
            guest.share_memory(&[(GUEST, MEMORY, USER, 0)]);
            guest.request(SET_VRING_NUM, &pair(0, 48), &[]);
            let kick = guest.calls[0].as_fd().as_raw_fd();
            guest.request(SET_VRING_KICK, &0_u64.to_le_bytes(), &[kick]);
        }),
        ("not in the guest's memory", |guest| {
            guest.share_memory(&[(GUEST, MEMORY, USER, 0)]);
            guest.set_up(0);
            guest.set_addresses(1, [USER + MEMORY - 100, USER, USER]);
        }),
        ("not in the guest's memory, or not aligned", |guest| {
            guest.set_up(0);
            guest.set_addresses(0, [USER + 8, USER, USER]);
        }),
        ("overlaps with another one", |guest| {
            guest.share_memory(&[(GUEST, MEMORY, USER, 0), (GUEST + MEMORY - 1, 0x1000, 0, 0)]);
        }),
        ("ends at byte", |guest| guest.share_memory(&[(GUEST, 1 << 62, USER, 0)])),
        ("is empty or ends behind", |guest| guest.share_memory(&[(u64::MAX - 0x1000, 0x1000, u64::MAX - 5, 0)])),
        ("something that is no eventfd", |guest| {
            guest.share_memory(&[(GUEST, MEMORY, USER, 0)]);
            let socket = guest.stream.as_raw_fd();
            guest.request(SET_VRING_KICK, &0_u64.to_le_bytes(), &[socket]);
        }),
        ("calls something that is no eventfd", |guest| {
            let file = guest.memory.as_raw_fd();
            guest.request(SET_VRING_CALL, &0_u64.to_le_bytes(), &[file]);
        }),
        ("calls something that is no eventfd", |guest| {
            // A socket, but one of a network: its close may wait for others.
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            guest.request(SET_VRING_CALL, &0_u64.to_le_bytes(), &[listener.as_raw_fd()]);
        }),
    ];
    let mut rig = Rig::new();
    for (why, nonsense) in cases {
        let mut guest = Guest::connect(&rig.path);
        nonsense(&mut guest);
        let fault = rig.until_cut_off(guest);
        assert!(fault.contains(why), "{why}: {fault}");
    }
    assert!(rig.attachment.fault().get().unwrap().contains("18 times"));
    rig.works_again();
}

#[test]
fn memory_that_is_cut_off_ends_nothing_but_the_guest() {
    let mut rig = Rig::new();
    let mut guest = rig.attach(MODERN);
    guest.send(&frame(1, 60));
    rig.read();
    guest.memory.set_len(0).unwrap();
    let fault = rig.until_cut_off(guest);
    assert!(fault.contains("cut off"), "{fault}");
    rig.works_again();
}

#[test]
fn the_port_sleeps_until_it_is_kicked() {
    for features in [VERSION_1, MODERN] {
        let mut rig = Rig::new();
        let mut guest = rig.attach(features);
        let mut buffer = [0; 2_000];
        for number in 0..5 {
            until("it rests", || {
                assert_eq!(rig.port.read(&mut buffer).unwrap(), None);
                !rig.is_readable()
            });
            guest.send(&frame(number, 60));
            until("it is woken", || rig.is_readable());
            assert_eq!(rig.read()[VNET_HEADER..], frame(number, 60));
            assert!(rig.is_readable(), "it is polled while there is work");
        }
        // A guest that goes and comes wakes it as well.
        until("it rests", || {
            assert_eq!(rig.port.read(&mut buffer).unwrap(), None);
            !rig.is_readable()
        });
        drop(guest);
        until("it is woken", || rig.is_readable());
        rig.works_again();
    }
}

#[test]
fn a_ring_is_stopped_moved_and_goes_on_where_it_was() {
    let mut rig = Rig::new();
    let mut guest = rig.attach(MODERN);
    for number in 0..70 {
        guest.send(&frame(number, 60));
        assert_eq!(rig.read()[VNET_HEADER + 20], number);
    }
    // The same memory, mapped anew in two parts while rings run.
    guest
        .share_memory(&[(GUEST, MEMORY / 2, USER, 0), (GUEST + MEMORY / 2, MEMORY / 2, USER + MEMORY / 2, MEMORY / 2)]);
    guest.send(&frame(70, 60));
    assert_eq!(rig.read()[VNET_HEADER + 20], 70);
    let base = guest.ask(guest::GET_VRING_BASE, &guest::pair(TRANSMITQ as u32, 0));
    assert_eq!(base, guest::pair(TRANSMITQ as u32, 71));
    assert!(!rig.attachment.has_carrier());
    guest.request(guest::SET_VRING_BASE, &guest::pair(TRANSMITQ as u32, 71), &[]);
    guest.send(&frame(71, 60));
    guest.restart(TRANSMITQ);
    assert_eq!(rig.read()[VNET_HEADER + 20], 71);
    // Nobody hears of rings that are disabled.
    guest.request(guest::SET_VRING_ENABLE, &guest::pair(RECEIVEQ as u32, 0), &[]);
    until("it is disabled", || !rig.attachment.has_carrier());
    assert!(!rig.write(&[], &frame(1, 60)));
    guest.request(guest::SET_VRING_ENABLE, &guest::pair(RECEIVEQ as u32, 1), &[]);
    until("it is enabled", || rig.attachment.has_carrier());
    assert!(rig.write(&[], &frame(2, 60)));
    assert_eq!(received(&mut guest).1, frame(2, 60));
}

#[test]
fn a_client_connects_again_and_a_socket_that_was_left_behind_gives_way() {
    let rig = Rig::new();
    let path = rig.folder.path().join("theirs.sock");
    let name = path.display().to_string();
    let places = Places { folder: rig.folder.path(), runtime: rig.folder.path(), host: ("other", 0) };
    let device = VhostUserDevice { socket: Some(&name), is_client: true, queues: 1 };
    let (client, mut port) = Attachment::open(device, places).unwrap();
    for number in 0..3 {
        // The other side comes up again, at the same place.
        let _ = std::fs::remove_file(&path);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mut guest = Guest::over(listener.accept().unwrap().0);
        drop(listener);
        guest.set_up(MODERN);
        guest.send(&frame(number, 60));
        let mut buffer = [0; 2_000];
        until("a frame has come", || port.read(&mut buffer).unwrap().is_some());
        assert_eq!(buffer[VNET_HEADER + 20], number);
        drop(guest);
        until("it has gone", || !client.has_carrier());
    }
    // Nobody listens at the socket that is still there.
    assert!(path.exists());
    let device = VhostUserDevice { socket: Some(&name), is_client: false, queues: 1 };
    let server = Attachment::open(device, places).unwrap();
    let other = Attachment::open(device, places).unwrap_err();
    assert_eq!(other.kind(), io::ErrorKind::AddrInUse);
    drop(server);
    assert!(!path.exists());
    std::fs::write(&path, "precious").unwrap();
    assert!(Attachment::open(device, places).is_err() && path.exists());
}

#[test]
fn no_two_devices_have_one_socket() {
    assert_eq!([0, 1].map(|device| socket_name(("vm", device))), ["vm.sock", "vm+2.sock"]);
    // Hosts have such names.
    for other in ["vm-2", "vm.2", "vm_2"] {
        assert_ne!(socket_name(("vm", 1)), socket_name((other, 0)));
    }
}
