//! Links that keep order but differ in rate, delay, jitter and loss; and a driver that comes back exactly when it is asked to.

use bond::reorder::Reorder;
use machine::{Rng, Span, Time};

/// One direction of one link.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub rate_bps: u64,
    pub delay: Span,
    /// Each frame is late by up to this, but never overtakes another on the same link.
    pub jitter: Span,
    /// Of a million frames, so many are lost.
    pub loss_ppm: u32,
}

impl Link {
    /// A quiet link of 1 Gbit/s and 50 us.
    pub const GIGABIT: Self =
        Self { rate_bps: 1_000_000_000, delay: Span::from_us(50), jitter: Span::ZERO, loss_ppm: 0 };
}

/// A packet that arrives by a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub at: Time,
    pub member: u8,
    /// Which frame of the stream it is, from 0.
    pub frame: usize,
}

/// A stream of frames of 1,500 bytes, one each `interval`, sent in turn over the links: what arrives, in order of time.
pub fn round_robin(links: &[Link], frames: usize, interval: Span, seed: u64) -> Vec<Arrival> {
    let mut rng = Rng::new(seed);
    let mut idle = vec![Time::ZERO; links.len()];
    let mut last = vec![Time::ZERO; links.len()];
    let mut arrivals = Vec::with_capacity(frames);
    for frame in 0..frames {
        let member = frame % links.len();
        let link = links[member];
        let sent = Time::ZERO + interval * frame as u64;
        idle[member] = sent.max(idle[member]) + Span::transmission(1_500, link.rate_bps);
        let jitter = Span::from_ps((link.jitter.as_ps() as f64 * rng.fraction()) as u64);
        let at = (idle[member] + link.delay + jitter).max(last[member]);
        last[member] = at;
        if rng.below(1_000_000) >= link.loss_ppm {
            arrivals.push(Arrival { at, member: member as u8, frame });
        }
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

/// Offers all arrivals, comes back at each deadline, and in the end waits until nothing waits: what left when, in that order.
pub fn drive<R: Reorder<usize>>(
    machine: &mut R,
    arrivals: &[Arrival],
    header: impl Fn(usize) -> R::Header,
) -> Vec<(Time, usize)> {
    let mut left = Vec::with_capacity(arrivals.len());
    for &Arrival { at, member, frame } in arrivals {
        come_back(machine, at, &mut left);
        machine.offer(at, member, header(frame), frame, &mut |frame| left.push((at, frame)));
    }
    come_back(machine, Time::NEVER, &mut left);
    assert_eq!(machine.waiting(), 0);
    left
}

/// Comes back at each deadline before `until`.
pub fn come_back<R: Reorder<usize>>(machine: &mut R, until: Time, left: &mut Vec<(Time, usize)>) {
    let mut last = Time::ZERO;
    while let Some(due) = machine.deadline().filter(|&due| due < until) {
        // A measured timeout may shrink below what has passed; then the deadline lies behind, and what is late leaves now.
        last = last.max(due);
        let before = left.len();
        machine.expire(last, &mut |frame| left.push((last, frame)));
        assert!(left.len() > before, "something was due");
    }
}

/// How many of these came behind a later one.
pub fn out_of_order(frames: impl IntoIterator<Item = usize>) -> usize {
    let mut top = 0;
    frames
        .into_iter()
        .filter(|&frame| {
            let late = frame < top;
            top = top.max(frame);
            late
        })
        .count()
}
