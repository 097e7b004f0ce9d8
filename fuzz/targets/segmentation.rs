//! What a kernel may leave uncut: any frame behind any virtio-net header is cut or refused, and its pieces coalesced again; what can be coalesced
//! can be cut to what it was made of. Fragments of datagrams are coalesced or refused, and none is lost.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vswitch::fragments::Fragments;
use vswitch::segmentation::{Coalescer, LargeSegment};

/// The longest frame that a link carries, and the header before it.
const PIECE: usize = 10 + 1_518;

fuzz_target!(|bytes: &[u8]| {
    coalesce_fragments(bytes);
    let Ok(Some(segment)) = LargeSegment::find(bytes) else { return };
    let mut out = [0; PIECE];
    let mut coalescer = Coalescer::default();
    let mut together = 0;
    for number in 0..segment.count() {
        let Some(len) = segment.emit(number, &mut out) else { return };
        assert!(len <= bytes.len(), "a piece is no longer than the whole");
        let piece = &out[..len];
        assert!(LargeSegment::find(piece).expect("a piece can be read").is_none(), "a piece is not cut again");
        if coalescer.offer(piece) {
            together += 1;
            continue;
        }
        check(&mut coalescer, &mut together);
        together += usize::from(coalescer.offer(piece));
    }
    check(&mut coalescer, &mut together);
});

/// Reads the bytes as frames, each behind its length.
fn coalesce_fragments(bytes: &[u8]) {
    let mut fragments = Fragments::default();
    let (mut rest, mut there) = (bytes, 0);
    while let [len, behind @ ..] = rest {
        let (frame, behind) = behind.split_at(usize::from(*len).min(behind.len()));
        rest = behind;
        if fragments.offer(frame) {
            there += 1;
            continue;
        }
        take_fragments(&mut fragments, &mut there);
        there += u64::from(fragments.offer(frame));
    }
    take_fragments(&mut fragments, &mut there);
}

/// All come out again, in fewer frames.
fn take_fragments(fragments: &mut Fragments, there: &mut u64) {
    let mut together = 0;
    while let Some(coalesced) = fragments.take() {
        together += coalesced.frames;
        assert!(coalesced.frame.len() as u64 <= 10 + coalesced.bytes);
    }
    assert_eq!(together, *there);
    *there = 0;
}

/// What was coalesced can be cut to as many as there were.
fn check(coalescer: &mut Coalescer, together: &mut usize) {
    assert_eq!(coalescer.pieces(), *together);
    if let Some(coalesced) = coalescer.take() {
        let again =
            LargeSegment::find(coalesced).expect("what was coalesced can be read").map_or(1, |again| again.count());
        assert_eq!(again, *together);
    }
    *together = 0;
}
