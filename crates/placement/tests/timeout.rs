//! The election timeout over measured round trips.

use machine::{Rng, ServerId, Span, Time};
use placement::ElectionTimeout;
use placement::timeout::{Config, HEARTBEATS_A_TIMEOUT, PEER_STALE_AFTER, ROUND_TRIPS, UNMEASURED};

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
    assert_eq!(timeout.heartbeat() * HEARTBEATS_A_TIMEOUT, Span::from_ms(77));
}

#[test]
fn a_steady_round_trip_is_followed() {
    let mut server = Server::new(3);
    server.run(1_000, |_| vec![40_000, 40_000]);
    let round_trips = 40 * ROUND_TRIPS;
    assert!((round_trips..round_trips * 11 / 10).contains(&server.ms()), "{} ms", server.ms());
}

#[test]
fn votes_come_back_well_before_the_timeout_though_round_trips_jitter() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let mut server = Server::new(3);
        let mut longest = 0;
        server.run(20, |_| vec![30_000 + u64::from(rng.below(40_000)); 2]);
        for _ in 0..500 {
            server.run(1, |_| {
                let rtt = 30_000 + u64::from(rng.below(40_000));
                longest = longest.max(rtt);
                vec![rtt; 2]
            });
            assert!(server.timeout.current() >= Span::from_us(longest) * 4, "seed {seed}: {} ms", server.ms());
        }
    }
}

#[test]
fn it_rises_within_few_samples_and_falls_slowly() {
    let mut server = Server::new(3);
    server.run(200, |_| vec![20_000, 20_000]);
    let low = server.ms();
    server.run(1, |_| vec![200_000, 200_000]);
    assert!(server.ms() < 3 * low, "an outlier is not believed: {} ms", server.ms());
    server.run(5, |_| vec![200_000, 200_000]);
    let high = server.ms();
    assert!(high >= 200 * ROUND_TRIPS, "six samples are: {high} ms");
    server.run(10, |_| vec![20_000, 20_000]);
    assert!(server.ms() > high / 2, "a second later: {} ms", server.ms());
    server.run(900, |_| vec![20_000, 20_000]);
    assert!(server.ms() < low * 2, "in the end: {} ms", server.ms());
}

#[test]
fn it_is_the_peer_that_completes_a_quorum_that_counts() {
    let mut server = Server::new(5);
    server.run(1_000, |_| vec![300_000, 20_000, 300_000, 10_000]);
    assert!((200..300).contains(&server.ms()), "two of four peers are enough: {} ms", server.ms());
    let mut server = Server::new(3);
    server.run(1_000, |_| vec![300_000, 20_000]);
    assert!((200..300).contains(&server.ms()), "one of two: {} ms", server.ms());
}

#[test]
fn a_dead_peer_completes_no_quorum() {
    let mut server = Server::new(3);
    server.run(600, |_| vec![50_000, 10_000]);
    assert!(server.ms() < 200);
    // The near peer is silent from now on: the far one has to vote.
    server.run(PEER_STALE_AFTER.as_ns() / 100_000_000 + 1, |_| vec![50_000]);
    assert!(server.ms() >= 500, "{} ms", server.ms());
}

#[test]
fn a_forgotten_peer_counts_no_more() {
    let mut server = Server::new(5);
    server.run(100, |_| vec![10_000, 50_000]);
    assert!(server.ms() >= 500, "{} ms", server.ms());
    server.timeout.forget(ServerId(3));
    server.run(900, |_| vec![10_000]);
    assert!(server.ms() < 200, "{} ms", server.ms());
}

/// Two servers whose timeouts end within a one-way delay of each other both stand, and may split the vote.
#[test]
fn two_candidates_rarely_collide() {
    let mut server = Server::new(3);
    server.run(500, |_| vec![100_000, 100_000]);
    let timeout_us = u32::try_from(server.ms() * 1_000).expect("seconds");
    let mut rng = Rng::new(3);
    let collisions = (0..10_000).filter(|_| rng.below(timeout_us).abs_diff(rng.below(timeout_us)) < 50_000).count();
    assert!(collisions < 1_100, "{collisions} of 10,000");
}
