//! Group commit: what is proposed while a batch is under way goes with the next one.

use machine::ServerId;
use machine::nanos::Span;
use placement::ShardId;
use store::Input;
use store::peer::Item;

use super::bed::{Cluster, Setup, put};

/// How many entries each message to `to` that waits in the network adds to the default shard's log.
fn appends(cluster: &Cluster, to: ServerId) -> Vec<usize> {
    let arriving = cluster.queue.iter().filter(|(receiver, _)| *receiver == to);
    let items =
        arriving.filter_map(|(_, input)| if let Input::Peer { envelope, .. } = input { Some(envelope) } else { None });
    let items = items.flat_map(|envelope| &envelope.items);
    let entries = items.map(|item| match item {
        Item::Raft { group: ShardId::DEFAULT, message } => message.entries.len(),
        _ => 0,
    });
    entries.filter(|entries| *entries > 0).collect()
}

/// A cluster whose disks once took so long for a write, and are taken to need an eighth of it since; the leader and a follower.
fn with_slow_disks(once: Span) -> (Cluster, ServerId, ServerId) {
    let mut cluster = Cluster::found(Setup::default());
    cluster.run(Span::from_secs(3));
    cluster.stick_disks(|_, lane| lane == wal::Lane::Log);
    let first = cluster.send(1, put("/a:x/y=0", "v"));
    cluster.run(once);
    assert_eq!(cluster.answer(first), None);
    cluster.free_disks();
    // Another may lead since, whose disk is no better.
    cluster.run(Span::from_ms(500));
    let leader = cluster.leader(ShardId::DEFAULT).expect("one was elected");
    assert!(cluster.answer(first).unwrap().is_ok());
    let follower = cluster.members.keys().copied().find(|id| *id != leader).unwrap();
    (cluster, leader, follower)
}

impl Cluster {
    /// Hands requests to write to a server, one after another, and nothing else to anybody; gives their sequences.
    fn ask_only(&mut self, server: ServerId, keys: std::ops::Range<u32>) -> Vec<u64> {
        let sequences = keys.map(|key| {
            let sequence = self.send(server.0, put(&format!("/a:x/y={key}"), "v"));
            let (to, input) = self.queue.pop_back().expect("it was just sent");
            self.handle(to, input);
            sequence
        });
        sequences.collect()
    }
}

#[test]
fn what_comes_while_a_batch_is_under_way_goes_together() {
    let (mut cluster, leader, follower) = with_slow_disks(Span::from_ms(80));
    let first = cluster.ask_only(leader, 0..1);
    assert_eq!(appends(&cluster, follower), [1], "who is alone does not wait");
    let rest = cluster.ask_only(leader, 1..11);
    assert_eq!(appends(&cluster, follower), [1]);
    // Until the first batch is committed.
    let mut most = Vec::new();
    while let Some((to, input)) = cluster.queue.pop_front() {
        let before = appends(&cluster, follower).len();
        cluster.handle(to, input);
        most.extend(appends(&cluster, follower).into_iter().skip(before));
    }
    assert_eq!(most, [10]);
    for sequence in first.into_iter().chain(rest) {
        assert!(matches!(cluster.answer(sequence), Some(Ok(_))), "{sequence}");
    }
    cluster.assert_agreement();
}

/// How long proposals wait for a batch that is not committed.
fn waited(once: Span) -> Span {
    let (mut cluster, leader, follower) = with_slow_disks(once);
    cluster.cut_off = cluster.members.keys().copied().filter(|id| *id != leader).collect();
    cluster.ask_only(leader, 0..5);
    cluster.cut_off.clear();
    assert!(appends(&cluster, follower).is_empty());
    let begun = cluster.now;
    while appends(&cluster, follower).is_empty() {
        cluster.now += Span::from_ms(1);
        assert!(cluster.now.since(begun) < Span::from_secs(1), "nothing is proposed any more");
        if cluster.members[&leader].wake <= cluster.now {
            cluster.handle(leader, Input::Tick);
        }
    }
    assert_eq!(appends(&cluster, follower), [4]);
    cluster.now.since(begun)
}

#[test]
fn a_batch_that_is_not_committed_is_waited_for_as_long_as_two_writes_take() {
    let waited = waited(Span::from_ms(80));
    assert!(waited > Span::from_ms(10) && waited <= Span::from_ms(25), "{waited:?}");
}

#[test]
fn a_disk_that_once_stood_still_makes_nobody_wait_as_long() {
    let waited = waited(Span::from_secs(1));
    assert!(waited > Span::from_ms(90) && waited <= Span::from_ms(101), "{waited:?}");
}

/// Leadership is lost while proposals wait: who asked is not told that it was done, and it is done once at most.
#[test]
fn what_waits_for_a_batch_of_a_lost_leader_is_asked_elsewhere() {
    let (mut cluster, leader, follower) = with_slow_disks(Span::from_ms(80));
    cluster.cut_off.insert(leader);
    let asked = cluster.ask_only(leader, 0..8);
    cluster.timeout_ms = 20_000;
    cluster.run(Span::from_secs(3));
    assert!(asked.iter().all(|sequence| cluster.answer(*sequence).is_none_or(|result| result.is_err())));
    cluster.cut_off.clear();
    cluster.run(Span::from_secs(3));
    let (revisions, other) =
        (cluster.group(leader.0, ShardId::DEFAULT).revision, cluster.group(follower.0, ShardId::DEFAULT));
    assert_eq!(revisions, other.revision);
    cluster.assert_agreement();
    assert!(cluster.ask(follower.0, put("/a:x/y=9", "v")).is_ok());
}
