//! How many packets a second the resequencers put in order on one core: frames that come in order, and frames that come
//! over two links of which one is longer.
//!
//! `cargo run --release -p heddle-bond --example reorder_speed [million packets]`

use std::hint::black_box;
use std::time::Instant;

use bond::reorder::{BySequence, ByTcp, Config, Numbered, Reorder, Segment, TcpConfig};
use machine::{Span, Time};

/// The longer link lags by so many of its frames.
const LAG: u32 = 16;
const BYTES: u32 = 1_448;
/// One frame of 64 bytes at 40 Gbit/s.
const INTERVAL: Span = Span::from_ps(16_800);

/// Which frame comes as the `n`th, and on which member: even ones over the short link, odd ones over the long one.
fn over_two(n: u32) -> (u32, u8) {
    let lag = LAG * 2;
    if n < LAG {
        return (n * 2, 0);
    }
    let n = n - LAG;
    if n.is_multiple_of(2) { (n + 1, 1) } else { (n - 1 + lag, 0) }
}

fn in_order(n: u32) -> (u32, u8) {
    (n, (n % 2) as u8)
}

/// The best of five runs of so many packets, in millions a second.
fn millions_a_second<R: Reorder<u32>>(
    packets: u32,
    new: impl Fn() -> R,
    arrival: impl Fn(u32) -> (u32, u8),
    header: impl Fn(u32) -> R::Header,
) -> f64 {
    let mut best = 0.0_f64;
    for _ in 0..5 {
        let mut machine = new();
        machine.set_members(Time::ZERO, 0b11, &mut |_| {});
        let (mut now, mut left, mut sum) = (Time::ZERO, 0_u32, 0_u32);
        #[allow(clippy::disallowed_methods, reason = "it measures")]
        let start = Instant::now();
        for n in 0..packets {
            now += INTERVAL;
            let (frame, member) = arrival(n);
            machine.offer(now, member, header(frame), frame, &mut |frame| {
                sum = sum.wrapping_add(frame ^ left);
                left += 1;
            });
        }
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(sum, 0, "frame by frame, they left in order");
        assert_eq!(left + black_box(machine.waiting()), packets);
        assert_eq!(machine.counters().given_up.total(), 0);
        best = best.max(f64::from(packets) / seconds / 1e6);
    }
    best
}

fn main() {
    let packets = std::env::args().nth(1).and_then(|millions| millions.parse().ok()).unwrap_or(20) * 1_000_000;
    let by_sequence = || BySequence::new(Config::default()).expect("the defaults are good");
    let by_tcp = || ByTcp::new(TcpConfig::default()).expect("the defaults are good");
    let number = |frame| Numbered { epoch: 1, number: frame };
    let segment = |flow: u64, frame: u32| {
        Some(Segment { flow, seq: frame.wrapping_mul(BYTES), payload_len: BYTES, flags: 0x10, has_sack: false })
    };
    let one_flow = |frame| segment(7, frame);
    // Trains of 16 frames of one flow each.
    let many_flows = |frame: u32| segment(u64::from(frame / 16 % 64) + 1, frame / 1_024 * 16 + frame % 16);
    for (what, mpps) in [
        ("by number, in order", millions_a_second(packets, by_sequence, in_order, number)),
        ("by number, two links in turn", millions_a_second(packets, by_sequence, over_two, number)),
        ("by TCP, in order, one flow", millions_a_second(packets, by_tcp, in_order, one_flow)),
        ("by TCP, in order, 64 flows", millions_a_second(packets, by_tcp, in_order, many_flows)),
        ("by TCP, two links in turn, one flow", millions_a_second(packets, by_tcp, over_two, one_flow)),
    ] {
        println!("{what:<36} {mpps:>7.1} Mpps");
    }
}
