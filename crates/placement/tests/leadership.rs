//! The leaders' policy over simulated time: leaders move to load, spread without it, and never flap.

use std::collections::{BTreeMap, BTreeSet};

use machine::nanos::{Span, Time};
use machine::{Rng, ServerId};
use placement::leadership::{Config, ShardView};
use placement::{Leadership, ShardId, Transfer};

/// How often the policy is asked.
const TICK: Span = Span::from_ms(250);

/// A cluster in which a transfer happens by the next tick.
struct Cluster {
    policy: Leadership,
    now: Time,
    leaders: BTreeMap<ShardId, Option<ServerId>>,
    ready: BTreeSet<ServerId>,
    pins: BTreeMap<ShardId, ServerId>,
    moves: Vec<(Time, Transfer)>,
    /// Transfers are asked for, and do not happen.
    is_cut_off: bool,
}

impl Cluster {
    /// All shards are led by server 1.
    fn new(servers: u64, shards: u64) -> Self {
        Self {
            policy: Leadership::new(Config::default()),
            now: Time::ZERO,
            leaders: (0..shards).map(|id| (ShardId(id), Some(ServerId(1)))).collect(),
            ready: (1..=servers).map(ServerId).collect(),
            pins: BTreeMap::new(),
            moves: Vec::new(),
            is_cut_off: false,
        }
    }

    fn tick(&mut self, load: &[(u64, u64, u64)]) {
        for &(shard, origin, requests) in load {
            self.policy.count(ShardId(shard), ServerId(origin), requests);
        }
        let view = |(shard, leader): (&ShardId, &Option<ServerId>)| ShardView {
            shard: *shard,
            leader: *leader,
            ready: self.ready.clone(),
            pinned: self.pins.get(shard).copied(),
        };
        let views: Vec<ShardView> = self.leaders.iter().map(view).collect();
        for transfer in self.policy.plan(self.now, &views) {
            assert!(self.ready.contains(&transfer.to), "only a server that is up and caught up is chosen");
            assert_ne!(self.leaders[&transfer.shard], Some(transfer.to));
            self.moves.push((self.now, transfer));
            if !self.is_cut_off {
                self.leaders.insert(transfer.shard, Some(transfer.to));
            }
        }
        self.now += TICK;
    }

    fn run(&mut self, seconds: u64, load: &[(u64, u64, u64)]) {
        (0..seconds * 4).for_each(|_| self.tick(load));
    }

    fn led(&self) -> Vec<usize> {
        let count = |id| self.leaders.values().filter(|leader| **leader == Some(id)).count();
        self.ready.iter().map(|id| count(*id)).collect()
    }

    fn moves_of(&self, shard: u64) -> usize {
        self.moves.iter().filter(|(_, it)| it.shard == ShardId(shard)).count()
    }
}

#[test]
fn without_load_leaders_spread_and_then_stay() {
    for (servers, shards) in [(1, 5), (2, 3), (3, 7), (5, 7), (5, 64), (7, 3)] {
        let mut cluster = Cluster::new(servers, shards);
        cluster.run(60, &[]);
        let (led, moves) = (cluster.led(), cluster.moves.len());
        let (least, most) = (led.iter().min(), led.iter().max());
        assert!(most.expect("servers") - least.expect("servers") <= 1, "{led:?}");
        assert!(moves < shards as usize, "each shard moves once at most: {moves}");
        cluster.run(300, &[]);
        assert_eq!(cluster.moves.len(), moves, "nothing moves any more");
    }
}

#[test]
fn three_servers_with_seven_shards_lead_three_at_most() {
    let mut cluster = Cluster::new(3, 7);
    cluster.run(10, &[]);
    assert!(cluster.led().iter().all(|led| *led <= 3), "{:?}", cluster.led());
}

#[test]
fn steady_load_draws_the_leader_within_bounded_time_and_keeps_it() {
    let mut cluster = Cluster::new(3, 1);
    cluster.run(5, &[]);
    let start = cluster.now;
    cluster.run(60, &[(0, 3, 20), (0, 1, 5)]);
    assert_eq!(cluster.moves.len(), 1);
    let (when, transfer) = cluster.moves[0];
    assert_eq!(transfer, Transfer { shard: ShardId(0), to: ServerId(3) });
    assert!(when.since(start) <= Span::from_secs(5), "after {}", when.since(start));
    assert!(when.since(start) >= Span::from_secs(3), "it held for a while first");
}

#[test]
fn load_without_a_clear_majority_or_below_the_minimum_moves_nothing() {
    let mut cluster = Cluster::new(3, 1);
    cluster.run(60, &[(0, 2, 11), (0, 3, 9)]);
    cluster.run(60, &[(0, 3, 1)]);
    assert_eq!(cluster.moves, []);
}

#[test]
fn alternating_load_does_not_flap() {
    for period in [1, 2, 4, 8] {
        let mut cluster = Cluster::new(3, 1);
        for _ in 0..120 / period {
            cluster.run(period, &[(0, 2, 50)]);
            cluster.run(period, &[(0, 3, 50)]);
        }
        let most = 240 / 10 + 1;
        assert!(cluster.moves.len() <= if period <= 2 { 1 } else { most }, "{period}: {}", cluster.moves.len());
        let times: Vec<Time> = cluster.moves.iter().map(|(when, _)| *when).collect();
        assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) >= Span::from_secs(10)), "the cool-down is kept");
    }
}

#[test]
fn noisy_load_near_the_threshold_does_not_flap() {
    let mut rng = Rng::new(1);
    let mut cluster = Cluster::new(3, 7);
    for _ in 0..600 * 4 {
        let here = u64::from(rng.below(60));
        cluster.tick(&[(0, 2, 50 + here), (0, 1, 110 - here)]);
    }
    assert!(cluster.moves_of(0) <= 3, "{} moves in ten minutes", cluster.moves_of(0));
}

#[test]
fn a_shard_that_load_drew_is_left_there_by_spreading_until_the_load_ends() {
    let mut cluster = Cluster::new(3, 6);
    let load: Vec<_> = (0..6).map(|shard| (shard, 2, 50)).collect();
    cluster.run(60, &load);
    assert_eq!(cluster.led(), [0, 6, 0]);
    let moves = cluster.moves.len();
    cluster.run(60, &load);
    let undecided: Vec<_> = (0..6).flat_map(|shard| [(shard, 2, 27), (shard, 1, 23)]).collect();
    cluster.run(60, &undecided);
    assert_eq!(cluster.moves.len(), moves, "54 % hold what more than 60 % drew");
    cluster.run(60, &[]);
    assert_eq!(cluster.led(), [2, 2, 2]);
}

#[test]
fn a_pin_wins_over_load_at_once_and_waits_for_its_server() {
    let mut cluster = Cluster::new(3, 1);
    cluster.run(20, &[(0, 2, 50)]);
    assert_eq!(cluster.leaders[&ShardId(0)], Some(ServerId(2)));
    cluster.pins.insert(ShardId(0), ServerId(3));
    cluster.ready.remove(&ServerId(3));
    cluster.run(20, &[(0, 2, 50)]);
    assert_eq!(cluster.leaders[&ShardId(0)], Some(ServerId(2)), "server 3 is down");
    cluster.ready.insert(ServerId(3));
    cluster.tick(&[(0, 2, 50)]);
    assert_eq!(cluster.leaders[&ShardId(0)], Some(ServerId(3)));
    let moves = cluster.moves.len();
    cluster.run(60, &[(0, 2, 50)]);
    assert_eq!(cluster.moves.len(), moves);
}

#[test]
fn a_server_that_was_down_gets_its_part_back() {
    let mut cluster = Cluster::new(3, 6);
    cluster.run(30, &[]);
    cluster.ready.remove(&ServerId(3));
    for leader in cluster.leaders.values_mut().filter(|leader| **leader == Some(ServerId(3))) {
        *leader = None;
    }
    cluster.run(5, &[]);
    cluster.leaders.values_mut().filter(|leader| leader.is_none()).for_each(|leader| *leader = Some(ServerId(1)));
    cluster.run(30, &[]);
    assert_eq!(cluster.led(), [3, 3]);
    cluster.ready.insert(ServerId(3));
    cluster.run(30, &[]);
    assert_eq!(cluster.led(), [2, 2, 2]);
}

#[test]
fn a_transfer_that_does_not_happen_is_asked_for_again_but_not_at_once() {
    let mut cluster = Cluster::new(2, 1);
    cluster.is_cut_off = true;
    cluster.pins.insert(ShardId(0), ServerId(2));
    cluster.run(10, &[]);
    assert_eq!(cluster.moves.len(), 5, "every two seconds");
}

#[test]
fn transfers_under_way_are_bounded() {
    let mut cluster = Cluster::new(2, 40);
    cluster.is_cut_off = true;
    cluster.pins.extend((0..40).map(|id| (ShardId(id), ServerId(2))));
    cluster.run(1, &[]);
    assert_eq!(cluster.moves.len(), Config::default().transfers_max);
}
