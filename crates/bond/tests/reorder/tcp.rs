//! In order by TCP's numbers: each rule, with exact times.

use bond::reorder::{ByTcp, GivenUp, Reorder, Segment, TcpConfig, Timeout};
use machine::{Span, Time};
use wire::tcp_flags::{ACK, FIN, RST, SYN};

const TIMEOUT: Span = Span::from_us(100);
/// A plain segment of 100 bytes at 0.
const DATA: Segment = Segment { flow: 7, seq: 0, payload_len: 100, flags: ACK, has_sack: false };

struct Bench {
    machine: ByTcp<u32>,
    now: Time,
}

impl Bench {
    fn new(members: u32) -> Self {
        Self::of(TcpConfig { timeout: Timeout::Fixed(TIMEOUT), ..TcpConfig::default() }, members)
    }

    fn of(config: TcpConfig, members: u32) -> Self {
        let mut machine = ByTcp::new(config).unwrap();
        machine.set_members(Time::ZERO, members, &mut |_| unreachable!());
        Self { machine, now: Time::ZERO }
    }

    /// A segment comes one microsecond later; the numbers of what leaves.
    fn offer(&mut self, member: u8, segment: Segment) -> Vec<u32> {
        self.now += Span::from_us(1);
        let mut left = Vec::new();
        self.machine.offer(self.now, member, Some(segment), segment.seq, &mut |seq| left.push(seq));
        left
    }

    fn data(&mut self, member: u8, seq: u32) -> Vec<u32> {
        self.offer(member, Segment { seq, ..DATA })
    }

    fn expire(&mut self, now: Time) -> Vec<u32> {
        self.now = now;
        let mut left = Vec::new();
        self.machine.expire(now, &mut |seq| left.push(seq));
        left
    }

    fn given_up(&self) -> GivenUp {
        self.machine.counters().given_up
    }
}

#[test]
fn order_is_repaired_in_each_flow_by_itself() {
    let mut bench = Bench::new(0b11);
    let start = u32::MAX - 149;
    let other = |seq| Segment { flow: 8, seq, ..DATA };
    assert_eq!(bench.data(0, start), [start]);
    assert_eq!(bench.offer(0, other(5)), [5]);
    assert_eq!(bench.data(0, 50), []);
    assert_eq!(bench.offer(0, other(205)), []);
    assert_eq!(bench.data(1, start + 100), [start + 100, 50]);
    assert_eq!(bench.offer(1, other(105)), [105, 205]);
    let counters = bench.machine.counters();
    assert_eq!((counters.held, counters.repaired, counters.late, counters.given_up.total()), (2, 2, 0, 0));
    assert_eq!(counters.hold_max, Span::from_us(2));
}

#[test]
fn what_waits_is_sorted() {
    let mut bench = Bench::new(0);
    bench.data(0, 0);
    for seq in [500, 200, 400, 300] {
        assert_eq!(bench.data(0, seq), []);
    }
    assert_eq!(bench.data(1, 100), [100, 200, 300, 400, 500]);
}

#[test]
fn a_gap_is_waited_for_exactly_until_the_timeout() {
    let mut bench = Bench::new(0b11);
    bench.data(0, 0);
    bench.data(0, 200);
    let due = bench.now + TIMEOUT;
    bench.data(0, 400);
    assert_eq!(bench.expire(Time::from_ps(due.as_ps() - 1)), []);
    assert_eq!(bench.machine.deadline(), Some(due));
    assert_eq!(bench.expire(due), [200]);
    assert_eq!(bench.machine.deadline(), Some(due + Span::from_us(1)));
    // Too late, and so at once; its gap is not one any more.
    assert_eq!(bench.data(1, 100), [400, 100]);
    assert_eq!(bench.given_up(), GivenUp { timeout: 2, ..GivenUp::default() });
    assert_eq!((bench.machine.counters().late, bench.machine.counters().missing), (1, 200));
}

#[test]
fn what_every_member_has_passed_is_lost() {
    let mut bench = Bench::new(0b11);
    bench.data(0, 0);
    assert_eq!(bench.data(0, 200), []);
    assert_eq!(bench.data(0, 400), []);
    // All below 300 has come or is lost.
    assert_eq!(bench.data(1, 300), [200, 300, 400]);
    assert_eq!(bench.data(0, 600), []);
    assert_eq!(bench.data(1, 700), [600, 700]);
    assert_eq!(bench.given_up(), GivenUp { overtaken: 2, ..GivenUp::default() });
    // The retransmission passes.
    assert_eq!(bench.data(1, 100), [100]);
    // A member that has left is not waited for.
    assert_eq!(bench.data(0, 900), []);
    let mut left = Vec::new();
    bench.machine.set_members(bench.now, 0b01, &mut |seq| left.push(seq));
    assert_eq!(left, [900]);
}

#[test]
fn what_carries_no_data_passes_at_once() {
    let mut bench = Bench::new(0);
    bench.data(0, 0);
    assert_eq!(bench.data(0, 200), []);
    let pure_ack = Segment { seq: 300, payload_len: 0, ..DATA };
    assert_eq!(bench.offer(1, pure_ack), [300]);
    assert_eq!(bench.offer(1, Segment { has_sack: true, ..pure_ack }), [300]);
    let keep_alive = Segment { seq: 99, payload_len: 1, ..DATA };
    assert_eq!(bench.offer(1, keep_alive), [99]);
    let probe = Segment { seq: 100, payload_len: 1, ..DATA };
    assert_eq!(bench.offer(1, probe), [100]);
    let mut left = 0;
    bench.machine.offer(bench.now, 1, None, 1, &mut |_| left += 1);
    assert_eq!((left, bench.machine.waiting()), (1, 1));
    assert_eq!(bench.offer(1, Segment { seq: 101, payload_len: 99, ..DATA }), [101, 200]);
}

#[test]
fn retransmissions_pass_at_once_and_in_their_place() {
    let mut bench = Bench::new(0);
    bench.data(0, 0);
    bench.data(0, 100);
    assert_eq!(bench.data(1, 0), [0]);
    // Cut at another place, it brings new bytes too.
    bench.data(0, 300);
    assert_eq!(bench.offer(1, Segment { seq: 150, payload_len: 150, ..DATA }), [150, 300]);
    // Of what waits itself: the sender has given up, so there is no more sense in waiting.
    bench.data(0, 500);
    bench.data(0, 600);
    assert_eq!(bench.data(1, 500), [500, 600, 500]);
    bench.data(0, 800);
    assert_eq!(bench.offer(1, Segment { seq: 750, payload_len: 100, ..DATA }), [750, 800]);
    assert_eq!(bench.given_up(), GivenUp { urgent: 2, ..GivenUp::default() });
}

#[test]
fn sack_blocks_do_not_wait() {
    let mut bench = Bench::new(0);
    bench.data(0, 0);
    bench.data(0, 200);
    bench.data(0, 500);
    assert_eq!(bench.offer(0, Segment { seq: 400, has_sack: true, ..DATA }), [200, 400, 500]);
    assert_eq!(bench.given_up(), GivenUp { urgent: 2, ..GivenUp::default() });
}

#[test]
fn a_connection_starts_and_ends_in_order() {
    let mut bench = Bench::new(0);
    let syn = Segment { seq: 999, payload_len: 0, flags: SYN, ..DATA };
    assert_eq!(bench.offer(0, syn), [999]);
    // The first segment is known to be missing.
    assert_eq!(bench.data(0, 1_100), []);
    let fin = Segment { seq: 1_200, payload_len: 0, flags: FIN | ACK, ..DATA };
    assert_eq!(bench.offer(0, fin), []);
    assert_eq!(bench.data(1, 1_000), [1_000, 1_100, 1_200]);
    // The same ports again, from elsewhere, while something waits.
    bench.data(0, 1_301);
    assert_eq!(bench.offer(0, Segment { seq: 5_000_000, ..syn }), [1_301, 5_000_000]);
    assert_eq!(bench.data(0, 5_000_101), []);
    let rst = Segment { seq: 5_000_301, payload_len: 0, flags: RST, ..DATA };
    assert_eq!(bench.offer(1, rst), [5_000_101, 5_000_301]);
    assert_eq!(bench.offer(1, rst), [5_000_301]);
    assert_eq!(bench.data(0, 77), [77], "the flow is a new one");
}

#[test]
fn a_flow_that_goes_on_elsewhere_is_followed() {
    let mut bench = Bench::new(0);
    bench.data(0, 0);
    bench.data(0, 200);
    for seq in [1 << 30, 3 << 30] {
        let left = bench.data(0, seq);
        assert_eq!(left.last(), Some(&seq));
        assert_eq!(bench.machine.waiting(), 0);
    }
    assert_eq!(bench.machine.counters().restarts, 2);
    // One forged number ahead does not end the repair for good.
    bench.data(0, (3 << 30) + (1 << 25));
    bench.expire(bench.now + TIMEOUT);
    let at = |n: u32| (3 << 30) + 100 * n;
    for n in 1..=256 {
        assert_eq!(bench.data(0, at(n)), [at(n)]);
    }
    assert_eq!(bench.machine.counters().restarts, 3);
    assert_eq!(bench.data(0, at(258)), []);
    assert_eq!(bench.data(0, at(257)), [at(257), at(258)]);
}

#[test]
fn retransmissions_between_new_data_are_no_new_start() {
    let mut bench = Bench::new(0);
    bench.data(0, 1_000);
    for seq in [1_100, 1_200] {
        for _ in 0..200 {
            assert_eq!(bench.data(1, 500), [500]);
        }
        assert_eq!(bench.data(0, seq), [seq]);
    }
    assert_eq!((bench.machine.counters().restarts, bench.machine.counters().late), (0, 400));
}

#[test]
fn a_full_buffer_lets_the_oldest_go() {
    let config = TcpConfig { buffer: 2, timeout: Timeout::Fixed(TIMEOUT), ..TcpConfig::default() };
    let mut bench = Bench::of(config, 0);
    let other = |seq| Segment { flow: 8, seq, ..DATA };
    bench.data(0, 0);
    bench.offer(0, other(0));
    assert_eq!(bench.data(0, 200), []);
    assert_eq!(bench.offer(0, other(1_200)), []);
    assert_eq!(bench.offer(0, other(1_400)), [200]);
    // The room is made by the gap that it was waiting for.
    assert_eq!(bench.offer(0, other(1_300)), [1_200, 1_300, 1_400]);
    assert_eq!(bench.given_up(), GivenUp { full: 2, ..GivenUp::default() });
    assert_eq!(bench.machine.counters().waiting_peak, 2);
}

#[test]
fn a_flow_that_leaves_a_full_table_loses_nothing() {
    let config = TcpConfig { flows: 8, timeout: Timeout::Fixed(TIMEOUT), ..TcpConfig::default() };
    let mut bench = Bench::of(config, 0);
    for flow in 1..=8 {
        bench.offer(0, Segment { flow, ..DATA });
        bench.offer(0, Segment { flow, seq: 200 + flow as u32, ..DATA });
    }
    assert_eq!(bench.machine.waiting(), 8);
    assert_eq!(bench.offer(0, Segment { flow: 9, ..DATA }), [201, 0]);
    let counters = bench.machine.counters();
    assert_eq!((counters.evicted, counters.given_up.reset), (1, 1));
}

#[test]
fn the_timeout_follows_the_skew() {
    let ceiling = Span::from_ms(1);
    let mut bench = Bench::of(TcpConfig { timeout: Timeout::Measured(ceiling), ..TcpConfig::default() }, 0);
    assert_eq!((bench.machine.skew(), bench.machine.timeout()), (None, ceiling));
    let mut next = 0;
    bench.data(0, 0);
    let mut repair = |bench: &mut Bench, after: Span| {
        bench.data(0, next + 200);
        bench.now += after;
        bench.data(1, next + 100);
        next += 200;
    };
    repair(&mut bench, Span::from_us(99));
    assert_eq!(bench.machine.timeout(), Span::from_us(200));
    for _ in 0..1_024 {
        repair(&mut bench, Span::from_us(9));
    }
    let calm = bench.machine.timeout();
    assert!(Span::from_us(60) < calm && calm < Span::from_us(80), "{calm}");
    // What comes too late shows that the skew has grown.
    repair(&mut bench, Span::from_us(299));
    assert_eq!(bench.machine.counters().given_up.timeout, 1);
    assert_eq!(bench.machine.timeout(), Span::from_us(600));
    // A retransmission comes much later, and shows nothing.
    repair(&mut bench, Span::from_ms(30));
    assert_eq!(bench.machine.timeout(), Span::from_us(600));
}
