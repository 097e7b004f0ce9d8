//! What a kernel may leave uncut: any frame behind any virtio-net header is cut or refused, and its pieces joined again; what can be joined
//! can be cut to what it was joined from.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vswitch::segmentation::{Joiner, LargeSegment};

/// The longest frame that a link carries, and the header before it.
const PIECE: usize = 10 + 1_518;

fuzz_target!(|bytes: &[u8]| {
    let Ok(Some(segment)) = LargeSegment::find(bytes) else { return };
    let mut out = [0; PIECE];
    let mut joiner = Joiner::default();
    let mut together = 0;
    for number in 0..segment.count() {
        let Some(len) = segment.emit(number, &mut out) else { return };
        assert!(len <= bytes.len(), "a piece is no longer than the whole");
        let piece = &out[..len];
        assert!(LargeSegment::find(piece).expect("a piece can be read").is_none(), "a piece is not cut again");
        if joiner.offer(piece) {
            together += 1;
            continue;
        }
        check(&mut joiner, &mut together);
        together += usize::from(joiner.offer(piece));
    }
    check(&mut joiner, &mut together);
});

/// What was joined can be cut to as many as there were.
fn check(joiner: &mut Joiner, together: &mut usize) {
    assert_eq!(joiner.pieces(), *together);
    if let Some(joined) = joiner.take() {
        let again = LargeSegment::find(joined).expect("what was joined can be read").map_or(1, |again| again.count());
        assert_eq!(again, *together);
    }
    *together = 0;
}
