//! What comes in on a daemon's socket, and what a client gets back: lines cut out of a stream, then messages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use live::control::{Lines, Reply, Request, decode, encode};

const LIMIT: usize = 1 << 12;

fuzz_target!(|bytes: &[u8]| {
    let Some((&piece, stream)) = bytes.split_first() else { return };
    let mut lines = Lines::new(LIMIT);
    for piece in stream.chunks(usize::from(piece) + 1) {
        lines.push(piece);
        loop {
            match lines.take_line() {
                Ok(Some(line)) => message(&line),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
});

/// A message that can be read is written and read again: it must come out the same.
fn message(line: &[u8]) {
    assert!(line.len() <= LIMIT && !line.contains(&b'\n'));
    if let Ok(request) = decode::<Request>(line) {
        let written = encode(&request);
        assert_eq!(decode::<Request>(written.trim_ascii_end()).expect("what was written can be read"), request);
    }
    if let Ok(reply) = decode::<Reply>(line) {
        let written = encode(&reply);
        decode::<Reply>(written.trim_ascii_end()).expect("what was written can be read");
    }
}
