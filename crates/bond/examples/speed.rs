//! How many frames a second one core sends through a bond, by mode: frames of 64 bytes in bursts, hashed from their bytes.
//!
//! `cargo run --release -p heddle-bond --example speed [million frames]`
#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::hint::black_box;
use std::time::Instant;

use bond::{Bond, Carrier, Config, DropReason, Transmit};
use machine::{Rng, Time};

const BURST: usize = 32;
const FLOWS: u16 = 256;
const FRAME: usize = 64;
/// Other programs take turns on the core: the best run is the least disturbed.
const RUNS: usize = 5;

/// A UDP frame over IPv4 of the flow `n`.
fn frame(n: u16) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[14..34].copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..36].copy_from_slice(&(40_000 + n).to_be_bytes());
    frame[36..38].copy_from_slice(&5_201_u16.to_be_bytes());
    frame
}

/// Millions of frames a second.
fn measure(options: &str, frames: &[&[u8]], millions: usize) -> f64 {
    let config: Config = options.parse().expect("the options are right");
    let mut bond = Bond::new(Time::ZERO, config, None, Rng::new(1));
    for n in 0..2 {
        bond.add_member(Time::ZERO, &format!("null{n}"), [2, 0, 0, 0, 1, n], Carrier::up(10_000)).expect("it is new");
    }
    let (mut sent, mut taken) = (0_usize, [0_usize; 2]);
    let mut chosen = [Transmit::None(DropReason::NoUsableMember); BURST];
    let start = Instant::now();
    while sent < millions * 1_000_000 {
        let now = Time::from_ns(sent as u64);
        for burst in frames.chunks_exact(BURST) {
            bond.transmit_frames(now, black_box(burst), &mut chosen);
            for place in &chosen {
                match place {
                    Transmit::One(member) => taken[member.index() & 1] += 1,
                    Transmit::All(members) => taken[0] += members.len(),
                    Transmit::None(reason) => panic!("{reason:?}"),
                }
            }
        }
        sent += frames.len();
    }
    let elapsed = start.elapsed().as_secs_f64();
    black_box(taken);
    sent as f64 / elapsed / 1e6
}

fn main() {
    let millions = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10);
    let bytes: Vec<_> = (0..FLOWS).map(frame).collect();
    let frames: Vec<&[u8]> = bytes.iter().map(|frame| &frame[..]).collect();
    println!("two members, {FRAME}-byte frames in bursts of {BURST}, {FLOWS} flows; the best of {RUNS} runs");
    for (name, options) in [
        ("0 balance-rr", "mode=0"),
        ("1 active-backup", "mode=1"),
        ("2 balance-xor, layer2", "mode=2"),
        ("2 balance-xor, layer3+4", "mode=2 xmit_hash_policy=layer3+4"),
        ("2 balance-xor, encap3+4", "mode=2 xmit_hash_policy=encap3+4"),
        ("2 balance-xor, layer3+4, rebalance", "mode=2 xmit_hash_policy=layer3+4 rebalance=1"),
        ("3 broadcast", "mode=3"),
        ("5 balance-tlb, layer3+4", "mode=5 xmit_hash_policy=layer3+4"),
        ("6 balance-alb", "mode=6"),
    ] {
        let best = (0..RUNS).map(|_| measure(options, &frames, millions)).fold(0.0, f64::max);
        println!("{name:36} {best:7.1} Mpps");
    }
}
