//! Captures: any file is read or refused, and what is recorded, whatever the frames and their virtio-net headers say, is a capture that can be read.
#![no_main]

use std::io;

use libfuzzer_sys::fuzz_target;
use live::VNET_HEADER;
use live::capture::{PACKET_MAX, Played, Player, Reader, Recorder, Storage};
use topology::Speed;

#[derive(Debug, Default)]
struct Memory(Vec<u8>);

impl Storage for Memory {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        assert!(at as usize <= self.0.len(), "without holes");
        self.0.truncate(at as usize);
        self.0.extend(bytes);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.0.truncate(len as usize);
        Ok(())
    }
}

/// Frames longer than this are no segments of anybody's.
const FRAME_MAX: usize = 65_536 + 22;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = Reader::new(bytes) else { return };
    let mut buffer = vec![0; VNET_HEADER + PACKET_MAX as usize];
    let (mut all, mut plain) = (0, Vec::new());
    let [mut recorder, mut of_hostile] = [(); 2].map(|()| Recorder::new(Memory::default()));
    recorder.begin();
    of_hostile.begin();
    while let Ok(Some(ns)) = reader.peek() {
        let Ok(len) = reader.read(&mut buffer[VNET_HEADER..]) else { break };
        let len = len.expect("it was seen");
        all += len;
        assert!(all <= bytes.len(), "no packet comes from nowhere");
        if len > FRAME_MAX || ns / 1_000_000_000 > u64::from(u32::MAX) {
            continue;
        }
        recorder.record(ns, &buffer[..VNET_HEADER + len]).expect("it is short enough");
        plain.push((ns, buffer[VNET_HEADER..VNET_HEADER + len].to_vec()));
        // The packet as a frame with a header that a host has written.
        let _ = of_hostile.record(ns, &buffer[VNET_HEADER..VNET_HEADER + len]);
    }
    assert_eq!((recorder.flush().frames, of_hostile.flush().frames), (0, 0));
    let mut again = Reader::new(recorder.storage().0.as_slice()).expect("it was written");
    for (ns, frame) in plain {
        assert_eq!(again.peek().expect("it is whole"), Some(ns));
        let len = again.read(&mut buffer).expect("it is whole").expect("it was written");
        assert_eq!(buffer[..len], frame);
    }
    assert!(matches!(again.peek(), Ok(None)));
    let mut again = Reader::new(of_hostile.storage().0.as_slice()).expect("it was written");
    while again.read(&mut buffer).expect("it is whole").is_some() {}
    played(bytes, &mut buffer);
});

/// Time that goes from one packet to when the next one is due comes to the end, and never goes back.
fn played(bytes: &[u8], buffer: &mut [u8]) {
    let mut player = Player::new(Reader::new(bytes).expect("it was read before"), Speed::Recorded);
    let mut now = 7;
    loop {
        match player.play(now, buffer) {
            Ok(Played::Packet(_)) => {}
            Ok(Played::Wait(due)) => {
                assert!(due > now);
                now = due;
            }
            Ok(Played::End) | Err(_) => return,
        }
    }
}
