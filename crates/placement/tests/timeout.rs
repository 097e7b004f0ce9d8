//! The election timeout over measured round trips.

use machine::nanos::{Span, Time};
use machine::{Rng, ServerId};
use placement::ElectionTimeout;
use placement::timeout::{Config, PEER_STALE_AFTER, UNMEASURED};

/// A server of three or five, which gets a sample of each peer every 100 ms.
struct Server {
    timeout: ElectionTimeout,
    now: Time,
}

impl Server {
    fn new(voters: usize) -> Self {
        let mut timeout = ElectionTimeout::new(Config::default());
        timeout.set_voters(voters);
        Self { timeout, now: Time::ZERO }
    }

    fn run(&mut self, rounds: u64, mut rtt_us: impl FnMut(u64) -> Vec<u64>) {
        for round in 0..rounds {
            self.now += Span::from_ms(100);
            for (peer, rtt) in rtt_us(round).into_iter().enumerate() {
                self.timeout.sample(self.now, ServerId(peer as u64 + 2), Span::from_us(rtt));
            }
        }
    }

    fn ms(&self) -> u64 {
        self.timeout.current().as_ns() / 1_000_000
    }
}

#[test]
fn bounds_hold_from_the_start_and_whatever_is_measured() {
    let mut server = Server::new(3);
    assert_eq!(server.timeout.current(), UNMEASURED);
    server.run(50, |_| vec![100, 100]);
    assert_eq!(server.timeout.current(), Span::from_ms(100));
    server.run(20, |_| vec![u64::MAX; 2]);
    assert_eq!(server.timeout.current(), Span::from_secs(10));
    let narrow = Config { min: Span::from_ms(5), max: Span::from_ms(50), fixed: None };
    assert_eq!(ElectionTimeout::new(narrow).current(), Span::from_ms(50));
    let reversed = Config { min: Span::from_ms(50), max: Span::from_ms(5), fixed: None };
    assert_eq!(ElectionTimeout::new(reversed).current(), Span::from_ms(5));
}

#[test]
fn a_fixed_timeout_is_not_touched_by_measurements() {
    let fixed = Config { fixed: Some(Span::from_ms(77)), ..Config::default() };
    let mut timeout = ElectionTimeout::new(fixed);
    timeout.sample(Time::ZERO, ServerId(2), Span::from_secs(5));
    assert_eq!(timeout.current(), Span::from_ms(77));
}

#[test]
fn a_steady_round_trip_is_followed() {
    let mut server = Server::new(3);
    server.run(1_000, |_| vec![400_000, 400_000]);
    assert!((400..440).contains(&server.ms()), "{} ms", server.ms());
}

#[test]
fn votes_come_back_before_the_timeout_though_round_trips_jitter() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let mut server = Server::new(3);
        let mut rtt = || 150_000 + u64::from(rng.below(200_000));
        server.run(20, |_| vec![rtt(), rtt()]);
        let mut early = 0;
        for _ in 0..500 {
            let timeout = server.timeout.current();
            let vote = rtt();
            early += u32::from(timeout < Span::from_us(vote));
            server.run(1, |_| vec![vote, rtt()]);
        }
        assert!(early <= 10, "seed {seed}: {early} of 500 votes came after the shortest timeout");
    }
}

#[test]
fn it_follows_within_few_samples_and_believes_no_single_one() {
    let mut server = Server::new(3);
    server.run(200, |_| vec![200_000, 200_000]);
    let low = server.ms();
    server.run(1, |_| vec![5_000_000, 5_000_000]);
    assert!(server.ms() < 3 * low, "an outlier is not believed: {} ms", server.ms());
    server.run(10, |_| vec![2_000_000, 2_000_000]);
    assert!(server.ms() >= 2_000, "ten more are: {} ms", server.ms());
    server.run(50, |_| vec![200_000, 200_000]);
    assert!(server.ms() < low * 2, "in the end: {} ms", server.ms());
}

#[test]
fn it_is_the_peer_that_completes_a_quorum_that_counts() {
    let mut server = Server::new(5);
    server.run(1_000, |_| vec![3_000_000, 200_000, 3_000_000, 100_000]);
    assert!((200..300).contains(&server.ms()), "two of four peers are enough: {} ms", server.ms());
    let mut server = Server::new(3);
    server.run(1_000, |_| vec![3_000_000, 200_000]);
    assert!((200..300).contains(&server.ms()), "one of two: {} ms", server.ms());
}

#[test]
fn a_dead_peer_completes_no_quorum() {
    let mut server = Server::new(3);
    server.run(600, |_| vec![500_000, 100_000]);
    assert!(server.ms() < 200);
    // The near peer is silent from now on: the far one has to vote.
    server.run(PEER_STALE_AFTER.as_ns() / 100_000_000 + 1, |_| vec![500_000]);
    assert!(server.ms() >= 500, "{} ms", server.ms());
}

#[test]
fn a_forgotten_peer_counts_no_more() {
    let mut server = Server::new(5);
    server.run(100, |_| vec![100_000, 500_000]);
    assert!(server.ms() >= 500, "{} ms", server.ms());
    server.timeout.forget(ServerId(3));
    server.run(900, |_| vec![100_000]);
    assert!(server.ms() < 200, "{} ms", server.ms());
}
