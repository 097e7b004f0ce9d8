//! Scripts by chance: paths that lose packets of all kinds.

use std::fmt::Write as _;

use machine::Rng;

/// Segments that are written at once, and how often.
const SEGMENTS: u64 = 40;
const WRITES: u64 = 6;
/// Of how many times that a segment is sent it is drawn whether it arrives.
const TIMES: u32 = 6;
const ACKS: u64 = 400;

/// So many scripts, as text.
pub fn scripts(seed: u64, count: u32) -> String {
    let mut text = String::new();
    for number in 0..count {
        let mut rng = Rng::new(seed).fork(u64::from(number));
        script(&mut text, &format!("random-{seed}-{number}"), &mut rng);
    }
    text
}

fn script(text: &mut String, name: &str, rng: &mut Rng) {
    let percent = [1, 3, 9][rng.below(3) as usize];
    let delay_ms = [1, 5, 20][rng.below(3) as usize];
    let _ = writeln!(text, "script {name}\n  about {percent} % of all packets are lost.\n  path delay {delay_ms}ms");
    if rng.below(2) == 0 {
        let _ = writeln!(text, "  path rate 20mbit queue 200");
    }
    let mut at_ms = 0;
    for _ in 0..WRITES {
        let _ = writeln!(text, "  write {SEGMENTS} at {at_ms}ms");
        at_ms += 200 + rng.below(1_000);
    }
    for segment in 1..=SEGMENTS * WRITES {
        for time in (1..=TIMES).filter(|_| rng.below(100) < percent) {
            let _ = writeln!(text, "  drop data {segment} #{time}");
        }
    }
    for ack in (1..=ACKS).filter(|_| rng.below(100) < percent) {
        let _ = writeln!(text, "  drop ack {ack}");
    }
}
