//! What the repair is worth, and what it costs: one stream over several links, in turn.

use bond::reorder::{BySequence, ByTcp, Config, Counters, Numbered, Reorder, Segment, TcpConfig};
use machine::Span;

use crate::reorder::links::{Arrival, Link, drive, out_of_order, round_robin};

const FRAMES: usize = 20_000;
const MSS: u32 = 1_448;

struct Outcome {
    /// Of a thousand frames, so many came behind a later one.
    before: usize,
    /// Frames that left behind a later one.
    after: usize,
    left: usize,
    counters: Counters,
}

fn outcome<R: Reorder<usize>>(mut machine: R, arrivals: &[Arrival], header: impl Fn(usize) -> R::Header) -> Outcome {
    let left = drive(&mut machine, arrivals, header);
    Outcome {
        before: out_of_order(arrivals.iter().map(|arrival| arrival.frame)) * 1_000 / arrivals.len(),
        after: out_of_order(left.iter().map(|&(_, frame)| frame)),
        left: left.len(),
        counters: *machine.counters(),
    }
}

/// Both machines over the same arrivals, sent as fast as the slowest link allows in turn.
fn both(links: &[Link]) -> [Outcome; 2] {
    let slowest = links.iter().map(|link| link.rate_bps).min().unwrap();
    let interval = Span::transmission(1_500, slowest * links.len() as u64);
    let arrivals = round_robin(links, FRAMES, interval, 4);
    let members = (1 << links.len()) - 1;
    let mut by_sequence = BySequence::new(Config::default()).unwrap();
    by_sequence.set_members(machine::Time::ZERO, members, &mut |_| {});
    let mut by_tcp = ByTcp::new(TcpConfig::default()).unwrap();
    by_tcp.set_members(machine::Time::ZERO, members, &mut |_| {});
    let syn = Segment { flow: 9, seq: u32::MAX, payload_len: 0, flags: 0x02, has_sack: false };
    by_tcp.offer(machine::Time::ZERO, 0, Some(syn), 0, &mut |_| {});
    let numbered = |frame: usize| Numbered { epoch: 1, number: frame as u32 };
    let segment = |frame: usize| {
        Some(Segment { flow: 9, seq: frame as u32 * MSS, payload_len: MSS, flags: 0x10, has_sack: false })
    };
    let outcomes = [outcome(by_sequence, &arrivals, numbered), outcome(by_tcp, &arrivals, segment)];
    for Outcome { before, after, left, counters } in &outcomes {
        println!(
            "before {before} of 1000, after {after}; longest hold {} us, mean {} ns, waiting at most {}, given up {:?}",
            counters.hold_max.as_ns() / 1_000,
            counters.hold_mean().as_ns(),
            counters.waiting_peak,
            counters.given_up,
        );
        assert_eq!(*left, arrivals.len(), "nothing is lost");
    }
    outcomes
}

#[test]
fn equal_links_need_no_repair() {
    for outcome in both(&[Link::GIGABIT; 4]) {
        assert_eq!((outcome.before, outcome.after, outcome.counters.held), (0, 0, 0));
    }
}

/// Two links of one rate, one of them longer by 100 us: a frame takes 12 us, so that some eight of each link's overtake.
#[test]
fn a_longer_link_is_waited_for() {
    let far = Link { delay: Span::from_us(150), ..Link::GIGABIT };
    for Outcome { before, after, counters, .. } in both(&[Link::GIGABIT, far]) {
        assert!((490..=500).contains(&before), "{before}");
        assert_eq!(after, 0);
        assert_eq!(counters.given_up.total(), 0);
        // Sent 6 us later, the frame of the short link is 94 us early.
        assert_eq!(counters.hold_max, Span::from_us(94));
        assert!(counters.hold_mean() <= Span::from_us(47));
    }
}

#[test]
fn jitter_is_repaired() {
    let shaky = Link { jitter: Span::from_us(200), ..Link::GIGABIT };
    for links in [&[shaky; 2][..], &[shaky; 8][..]] {
        for Outcome { before, after, counters, .. } in both(links) {
            assert!(before > 100, "{before}");
            assert_eq!(after, 0);
            assert!(counters.hold_max <= Span::from_us(212), "{}", counters.hold_max);
        }
    }
}

#[test]
fn unequal_rates_are_repaired() {
    let fast = Link { rate_bps: 10_000_000_000, jitter: Span::from_us(3), ..Link::GIGABIT };
    for Outcome { before, after, counters, .. } in both(&[Link::GIGABIT, fast]) {
        assert!(before > 300, "{before}");
        assert_eq!(after, 0);
        assert!(counters.hold_max <= Span::from_us(12), "{}", counters.hold_max);
    }
}

/// A lost frame costs no more than until every link has brought a later one: not the timeout.
#[test]
fn losses_do_not_cost_the_timeout() {
    let lossy = |us| Link { delay: Span::from_us(us), jitter: Span::from_us(30), loss_ppm: 10_000, ..Link::GIGABIT };
    for Outcome { before, after, counters, .. } in both(&[lossy(50), lossy(150), lossy(80)]) {
        assert!(before > 300, "{before}");
        assert_eq!(after, 0);
        assert!(counters.given_up.overtaken > 100, "{:?}", counters.given_up);
        // The skew of 130 us, and 12 us for each of three frames that a link lost in a row.
        assert!(counters.hold_max <= Span::from_us(130 + 3 * 36), "{}", counters.hold_max);
        assert!(counters.given_up.timeout <= 1, "only at the end does nothing follow");
    }
}
