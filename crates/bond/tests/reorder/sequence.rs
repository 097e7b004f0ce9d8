//! In order by the bond's numbers: each rule, with exact times.

use bond::reorder::{BySequence, Config, Error, GivenUp, Numbered, Reorder};
use machine::{Span, Time};

const TIMEOUT: Span = Span::from_us(100);

struct Bench {
    machine: BySequence<u32>,
    now: Time,
}

impl Bench {
    fn new(buffer: u32, members: u32) -> Self {
        let mut machine = BySequence::new(Config { buffer, timeout: TIMEOUT }).unwrap();
        machine.set_members(Time::ZERO, members, &mut |_| unreachable!());
        Self { machine, now: Time::ZERO }
    }

    /// A frame comes one microsecond later; what leaves.
    fn offer(&mut self, member: u8, epoch: u16, number: u32) -> Vec<u32> {
        self.now += Span::from_us(1);
        let mut left = Vec::new();
        self.machine.offer(self.now, member, Numbered { epoch, number }, number, &mut |number| left.push(number));
        left
    }

    fn expire(&mut self, now: Time) -> Vec<u32> {
        self.now = now;
        let mut left = Vec::new();
        self.machine.expire(now, &mut |number| left.push(number));
        left
    }

    fn given_up(&self) -> GivenUp {
        self.machine.counters().given_up
    }
}

#[test]
fn order_is_repaired_across_the_wrap() {
    let mut bench = Bench::new(8, 0b11);
    let last = u32::MAX;
    assert_eq!(bench.offer(0, 1, last - 1), [last - 1]);
    assert_eq!(bench.offer(0, 1, 0), []);
    assert_eq!(bench.offer(0, 1, 2), []);
    assert_eq!(bench.offer(1, 1, last), [last, 0]);
    assert_eq!(bench.offer(1, 1, 1), [1, 2]);
    assert_eq!(bench.machine.deadline(), None);
    let counters = bench.machine.counters();
    assert_eq!((counters.offered, counters.held, counters.repaired, counters.waiting_peak), (5, 2, 2, 2));
    assert_eq!((counters.hold_max, counters.hold_total_ps), (Span::from_us(2), 4_000_000));
    assert_eq!(counters.given_up.total(), 0);
}

#[test]
fn a_gap_is_waited_for_exactly_until_the_timeout() {
    let mut bench = Bench::new(8, 0b11);
    bench.offer(0, 1, 10);
    bench.offer(0, 1, 12);
    let due = bench.now + TIMEOUT;
    bench.offer(0, 1, 14);
    assert_eq!(bench.machine.deadline(), Some(due));
    assert_eq!(bench.expire(Time::from_ps(due.as_ps() - 1)), []);
    // 14 came a microsecond later, and so did its gap.
    assert_eq!(bench.expire(due), [12]);
    assert_eq!(bench.machine.deadline(), Some(due + Span::from_us(1)));
    // A sender that comes back with a frame alone is served likewise.
    assert_eq!(bench.offer(0, 1, 16), [14]);
    assert_eq!(bench.given_up(), GivenUp { timeout: 2, ..GivenUp::default() });
    assert_eq!(bench.machine.counters().missing, 2);
    // What was given up leaves at once, but not twice.
    assert_eq!(bench.offer(1, 1, 11), [11]);
    assert_eq!(bench.offer(1, 1, 11), []);
    let counters = bench.machine.counters();
    assert_eq!((counters.late, counters.duplicates, counters.hold_max), (1, 1, TIMEOUT));
}

#[test]
fn what_every_member_has_passed_is_lost() {
    let mut bench = Bench::new(8, 0b111);
    bench.offer(0, 1, 0);
    assert_eq!(bench.offer(1, 1, 4), []);
    assert_eq!(bench.offer(0, 1, 3), []);
    // 1 and 2 are lost; whether 5 is will show.
    assert_eq!(bench.offer(2, 1, 6), [3, 4]);
    assert_eq!(bench.offer(0, 1, 5), [5, 6]);
    assert_eq!(bench.given_up(), GivenUp { overtaken: 1, ..GivenUp::default() });
}

#[test]
fn a_member_that_leaves_is_not_waited_for_and_one_that_comes_is() {
    let mut bench = Bench::new(8, 0b11);
    bench.offer(0, 1, 0);
    bench.offer(1, 1, 1);
    assert_eq!(bench.offer(0, 1, 3), []);
    let mut left = Vec::new();
    bench.machine.set_members(bench.now, 0b01, &mut |number| left.push(number));
    assert_eq!(left, [3]);
    bench.machine.set_members(bench.now, 0b11, &mut |_| unreachable!());
    assert_eq!(bench.offer(0, 1, 5), []);
    assert_eq!(bench.offer(1, 1, 4), [4, 5]);
    // Nobody known: the clock alone decides.
    bench.machine.set_members(bench.now, 0, &mut |_| unreachable!());
    assert_eq!(bench.offer(0, 1, 7), []);
    assert_eq!(bench.expire(bench.now + TIMEOUT), [7]);
}

#[test]
fn a_full_buffer_gives_up_the_first_gaps_only() {
    let mut bench = Bench::new(4, 0);
    bench.offer(0, 1, 0);
    for number in [2, 4] {
        assert_eq!(bench.offer(0, 1, number), []);
    }
    // The window holds 3 to 6 then.
    assert_eq!(bench.offer(0, 1, 6), [2]);
    assert_eq!(bench.offer(0, 1, 3), [3, 4]);
    assert_eq!(bench.given_up(), GivenUp { full: 1, ..GivenUp::default() });
    // A leap lets go of everything, and waits itself.
    assert_eq!(bench.offer(0, 1, 1 << 30), [6]);
    assert_eq!(bench.offer(0, 1, (1 << 30) - 3), [(1 << 30) - 3]);
    assert_eq!(bench.machine.waiting(), 1);
}

#[test]
fn a_copy_of_what_waits_is_dropped() {
    let mut bench = Bench::new(4, 0);
    bench.offer(0, 1, 0);
    bench.offer(0, 1, 2);
    assert_eq!(bench.offer(1, 1, 2), []);
    assert_eq!(bench.offer(1, 1, 1), [1, 2]);
    assert_eq!(bench.machine.counters().duplicates, 1);
}

#[test]
fn a_new_epoch_starts_anew_and_stragglers_of_the_old_one_pass() {
    let mut bench = Bench::new(8, 0b11);
    bench.offer(0, 1, 1_000);
    bench.offer(0, 1, 1_002);
    assert_eq!(bench.offer(0, 2, 105), [1_002, 105]);
    assert_eq!(bench.given_up(), GivenUp { reset: 1, ..GivenUp::default() });
    assert_eq!(bench.offer(1, 1, 1_001), [1_001]);
    assert_eq!(bench.offer(0, 2, 107), []);
    assert_eq!(bench.offer(1, 2, 106), [106, 107]);
    // Links keep order, so this is a third start, with a number used before.
    assert_eq!(bench.offer(1, 1, 1_109), [1_109]);
    assert_eq!(bench.offer(0, 1, 1_111), []);
    assert_eq!(bench.offer(1, 1, 1_110), [1_110, 1_111]);
}

#[test]
fn the_first_frame_of_an_epoch_is_waited_for() {
    let mut bench = Bench::new(8, 0b11);
    assert_eq!(bench.offer(1, 1, 1), []);
    assert_eq!(bench.offer(0, 1, 0), [0, 1]);
    assert_eq!(bench.offer(1, 2, 7), []);
    assert_eq!(bench.expire(bench.now + TIMEOUT), [7]);
    assert_eq!(bench.machine.counters().repaired, 1);
}

#[test]
fn a_peer_that_counts_anew_without_saying_so_is_followed() {
    let mut bench = Bench::new(8, 0);
    bench.offer(0, 1, 1_000_000);
    for number in 0..32 {
        assert_eq!(bench.offer(0, 1, number), [number]);
    }
    assert_eq!(bench.machine.counters().restarts, 1);
    assert_eq!(bench.offer(0, 1, 33), []);
    assert_eq!(bench.offer(1, 1, 32), [32, 33]);
}

#[test]
fn flushing_hands_on_in_order() {
    let mut bench = Bench::new(8, 0);
    for number in [0, 5, 3, 4, 7] {
        bench.offer(0, 1, number);
    }
    let mut left = Vec::new();
    bench.machine.flush(bench.now, &mut |number| left.push(number));
    assert_eq!(left, [3, 4, 5, 7]);
    assert_eq!(bench.given_up(), GivenUp { reset: 2, ..GivenUp::default() });
    assert_eq!(bench.offer(0, 1, 8), [8]);
}

#[test]
fn a_peer_that_leaps_for_ever_breaks_nothing() {
    let mut bench = Bench::new(8, 0b1);
    let mut number = 0_u32;
    for _ in 0..10_000 {
        number = number.wrapping_add((1 << 31) - 1);
        assert_eq!(bench.offer(0, 1, number), [number]);
    }
}

#[test]
fn a_bad_size_is_refused() {
    let config = Config { buffer: 1_000, ..Config::default() };
    assert_eq!(BySequence::<u32>::new(config).err(), Some(Error::Buffer(1_000)));
}
