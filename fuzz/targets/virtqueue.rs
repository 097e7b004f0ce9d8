//! Any bytes in a guest's memory, behind rings of any size: what is read is a frame, and nothing is written outside of the memory.
//!
//! The first bytes say how the rings are laid out; the rest is the memory from its beginning on, where descriptors, available and used parts are.
#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use live::virtqueue::{Call, Controlq, GuestMemory, Layout, Offloads, Receiveq, RegionSpec, Ring, RingSpec, Transmitq};

/// Two regions that are neighbours, the second one before the first one in the file.
const GUEST: u64 = 0x1_0000;
const LEN: u64 = 0x8000;

fuzz_target!(|bytes: &[u8]| {
    let [size, flags, index, base, memory @ ..] = bytes else { return };
    let Ok(file) = shared() else { return };
    let len = memory.len().min(2 * LEN as usize);
    file.write_all_at(&memory[..len], 0).expect("the memory has room");
    let region = |guest, offset| RegionSpec { guest, user: guest, len: LEN, offset };
    let copy = || file.try_clone().expect("a descriptor");
    let map = || GuestMemory::map(&[(region(GUEST, 0), copy()), (region(GUEST + LEN, LEN), copy())]);
    let flag = |bit: u32| flags >> bit & 1 != 0;
    let spec = RingSpec {
        size: 1 << (size % 8),
        descriptors: GUEST,
        available: GUEST + 0x800 + u64::from(*index) * 2,
        used: GUEST + 0x1000 + u64::from(*index) * 4,
        has_event_index: flag(0),
        has_indirect: flag(1),
    };
    let features = if flag(4) { u64::MAX } else { 0 };
    let layout = Layout { has_count: flag(2) || flag(3), is_mergeable: flag(3), offloads: Offloads::of(features) };
    let ring = || Ring::new(Arc::new(map().expect("the regions are right")), spec, (*base).into());
    let Ok(transmitq) = ring() else { return };
    let (mut buffer, mut losses) = ([0; 4_000], 0);
    let mut transmitq = Transmitq::new(transmitq, layout);
    while let Ok(Some(len)) = transmitq.read(&mut buffer, &mut losses) {
        assert!((24..=buffer.len()).contains(&len), "a frame has a header, and room");
    }
    transmitq.show_used(&Call::default());
    let mut receiveq = Receiveq::new(ring().expect("it was one before"), layout);
    for number in 0..=u8::MAX {
        let mut frame = vec![number; 10 + usize::from(number) * 8];
        frame[..10].fill(0);
        if !matches!(receiveq.write(&frame), Ok(true)) {
            break;
        }
    }
    receiveq.show_used(&Call::default());
    // The same as commands.
    let mut controlq = Controlq::new(ring().expect("it was one before"));
    // Answers may be written where the guest says what is available: then it may go on.
    let _ = controlq.serve(4, &Call::default(), |pairs| assert!((1..=4).contains(&pairs), "there are 4"));
});

/// Shared memory for a guest.
fn shared() -> std::io::Result<File> {
    let file = tempfile::tempfile_in("/dev/shm")?;
    file.set_len(2 * LEN)?;
    Ok(file)
}
