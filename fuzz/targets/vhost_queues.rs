//! What a front end with several pairs of queues may do while frames pass: rings start, stop, move, grow, are enabled and disabled in any order, commands come, and memory has any bytes.
//! Whatever it is, it is done or the front end is cut off, and the next one is served.
//!
//! Each step is a byte, the ring that it is about, and two bytes more.
#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use libfuzzer_sys::fuzz_target;
use live::SocketlessVhost;
use live::vhost_message::{Request, RingState};
use live::virtqueue::RegionSpec;

/// Where the guest's memory is for itself, and how much there is. Rings are at multiples of [`PART`].
const GUEST: u64 = 0x1_0000;
const LEN: u64 = 0x1_0000;
const PART: u64 = 0x800;

/// All features of virtio-net that are offered with several pairs of queues, and those of the protocol.
const FEATURES: u64 = 1 << 15 | 1 << 17 | 1 << 22 | 1 << 28 | 1 << 29 | 1 << 30 | 1 << 32;
/// Some of them, of which each front end has all or none.
const CHOICES: [u64; 3] = [FEATURES, FEATURES & !(1 << 22), 1 << 30];

fuzz_target!(|bytes: &[u8]| {
    let [queues, choice, steps @ ..] = bytes else { return };
    let Ok(file) = shared() else { return };
    let Ok(memory) = file.try_clone() else { return };
    let queues = queues % 8 + 1;
    let mut vhost = SocketlessVhost::new(queues, memory).expect("the kernel has descriptors");
    let features = CHOICES[usize::from(*choice) % CHOICES.len()];
    let features = if queues > 1 { features } else { features & !(1 << 17 | 1 << 22) };
    let region = RegionSpec { guest: GUEST, user: GUEST, len: LEN, offset: 0 };
    let attach = |vhost: &mut SocketlessVhost| {
        vhost.handle(Request::SetFeatures(features)).expect("they are offered");
        vhost.handle(Request::SetMemory(vec![region])).expect("it is memory");
    };
    attach(&mut vhost);
    let mut buffer = [0; 2_000];
    for step in steps.chunks_exact(4) {
        let [action, ring, low, high] = *step else { continue };
        let (ring, number) = (u32::from(ring % 20), u32::from(u16::from_le_bytes([low, high])));
        let state = RingState { ring, number };
        let at = |part: u32| GUEST + u64::from(part % 32) * PART;
        let done = match action % 12 {
            0 => vhost.handle(Request::SetRingSize(RingState { ring, number: 1 << (number % 8) })).map(drop),
            1 => {
                let parts = [at(number), at(number / 32) + 0x400, at(number / 1_024)];
                vhost.handle(Request::SetRingAddress { ring, is_logged: false, parts }).map(drop)
            }
            2 => vhost.handle(Request::SetRingBase(state)).map(drop),
            3 => vhost.handle(Request::GetRingBase(ring)).map(|reply| assert!(reply.is_some(), "it says where")),
            4 => vhost.handle(Request::SetRingKick(ring)).map(drop),
            5 => vhost.handle(Request::EnableRing { ring, is_enabled: number & 1 == 1 }).map(drop),
            6 => vhost.handle(Request::SetMemory(vec![region])).map(drop),
            // What a guest writes: a word, at any place that is even.
            7 | 8 => {
                let place = u64::from(ring) * PART + u64::from(action / 12) * 2;
                file.write_all_at(&[low, high], place).expect("the memory has room");
                Ok(())
            }
            9 => vhost.read(&mut buffer).map(|len| assert!(len.is_none_or(|len| len <= buffer.len()), "it has room")),
            10 => {
                let mut frame = [high; 10 + 60];
                frame[..10].fill(0);
                frame[10 + 12..][..2].copy_from_slice(&[low, 0]);
                vhost.write(&frame).map(drop)
            }
            _ => vhost.serve_commands().map(drop),
        };
        assert!(vhost.used_pairs() <= usize::from(queues), "there are no more");
        if let Err(why) = done {
            assert!(!why.is_empty(), "who is cut off hears why");
            assert_eq!(vhost.used_pairs(), 0, "nothing is left of it");
            attach(&mut vhost);
        }
    }
});

/// Shared memory for a guest.
fn shared() -> std::io::Result<File> {
    let file = tempfile::tempfile_in("/dev/shm")?;
    file.set_len(LEN)?;
    Ok(file)
}
