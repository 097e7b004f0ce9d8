//! The fixed-point numbers that the model reckons with.

use machine::Span;

/// Of rates.
pub const BW_SHIFT: u32 = 24;
pub const BW_UNIT: u64 = 1 << BW_SHIFT;
/// Of gains.
pub const UNIT: u64 = 256;
/// It paces a little below the rate, so that queues drain: by so many per cent.
const MARGIN: u64 = 1;

pub const fn micros(span: Span) -> u64 {
    span.as_ps() / 1_000_000
}

/// Bytes a second at which a rate is paced (`bbr_rate_bytes_per_sec`).
pub fn bytes_per_second(bw: u64, gain: u64, segment_bytes: u64) -> u64 {
    let bytes = u128::from(bw) * u128::from(segment_bytes) * u128::from(gain) / u128::from(UNIT);
    ((bytes * u128::from(1_000_000 / 100 * (100 - MARGIN))) >> BW_SHIFT) as u64
}
