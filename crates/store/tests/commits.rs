//! When followers hear what is committed.

use machine::ServerId;
use machine::nanos::Span;
use placement::ShardId;
use store::Input;
use store::peer::Item;
use store::protocol::{Answer, Consistency, RequestBody};

use super::bed::{Cluster, Setup, location, put, text};

/// A cluster in which all know everything; the leader of the data, and a follower.
fn quiet() -> (Cluster, ServerId, ServerId) {
    let mut cluster = Cluster::found(Setup::default());
    cluster.run(Span::from_secs(3));
    cluster.ask(1, put("/a:x", "v")).unwrap();
    cluster.run(Span::from_ms(20));
    let leader = cluster.leader(ShardId::DEFAULT).expect("one was elected");
    let follower = cluster.members.keys().copied().find(|id| *id != leader).unwrap();
    (cluster, leader, follower)
}

fn applied(cluster: &Cluster, server: ServerId) -> u64 {
    cluster.group(server.0, ShardId::DEFAULT).applied
}

/// Delivers what is on its way, and what follows from it, in no time. How many entries each message of the shard's leader to `to` has.
fn deliver_and_note(cluster: &mut Cluster, to: ServerId) -> Vec<usize> {
    let mut appends = Vec::new();
    while let Some((receiver, input)) = cluster.queue.pop_front() {
        if let Input::Peer { envelope, .. } = &input
            && receiver == to
        {
            let of_shard = |item: &Item| match item {
                Item::Raft { group: ShardId::DEFAULT, message } => Some(message.entries.len()),
                _ => None,
            };
            appends.extend(envelope.items.iter().filter_map(of_shard));
        }
        cluster.handle(receiver, input);
    }
    appends
}

#[test]
fn writes_one_after_another_cost_a_follower_one_message_each() {
    let (mut cluster, leader, follower) = quiet();
    for entry in 0..10 {
        let sequence = cluster.send(leader.0, put(&format!("/a:x/y={entry}"), "v"));
        assert_eq!(deliver_and_note(&mut cluster, follower), [1], "what is committed comes with the next entry");
        assert!(cluster.answer(sequence).unwrap().is_ok());
        assert_eq!(applied(&cluster, leader), applied(&cluster, follower) + 1);
    }
}

#[test]
fn without_new_entries_a_follower_hears_a_millisecond_later_what_is_committed() {
    let (mut cluster, leader, follower) = quiet();
    cluster.send(leader.0, put("/a:x/y=1", "v"));
    cluster.deliver();
    let begun = cluster.now;
    assert!(applied(&cluster, follower) < applied(&cluster, leader));
    cluster.now = cluster.members[&leader].wake;
    assert!(cluster.now.since(begun) <= Span::from_ms(1));
    cluster.handle(leader, Input::Tick);
    assert_eq!(deliver_and_note(&mut cluster, follower), [0]);
    assert_eq!(applied(&cluster, follower), applied(&cluster, leader));
    // Once.
    cluster.now += Span::from_ms(2);
    cluster.handle(leader, Input::Tick);
    assert!(deliver_and_note(&mut cluster, follower).is_empty());
}

/// Whoever writes through a follower, and looks at what that has, sees what he wrote.
#[test]
fn a_follower_knows_what_it_has_answered() {
    let (mut cluster, leader, follower) = quiet();
    let written = cluster.send(follower.0, put("/a:x/y=1", "new"));
    cluster.deliver();
    assert!(cluster.answer(written).unwrap().is_ok());
    assert_eq!(applied(&cluster, follower), applied(&cluster, leader));
    let stale = RequestBody::Get { at: location("/a:x/y=1"), consistency: Consistency::Stale };
    let read = cluster.send(follower.0, stale);
    cluster.deliver();
    assert_eq!(text(cluster.answer(read).unwrap().unwrap()).as_deref(), Some("new"));
}

/// A fresh read at a follower waits for what it has to see, and that does not wait.
#[test]
fn who_reads_through_a_follower_does_not_wait_for_the_commit() {
    let (mut cluster, leader, follower) = quiet();
    let written = cluster.send(leader.0, put("/a:x/y=1", "new"));
    cluster.deliver();
    assert!(cluster.answer(written).unwrap().is_ok());
    assert!(applied(&cluster, follower) < applied(&cluster, leader));
    let fresh = RequestBody::Get { at: location("/a:x/y=1"), consistency: Consistency::Linearizable };
    let read = cluster.send(follower.0, fresh);
    cluster.deliver();
    let answer: Answer = cluster.answer(read).expect("it was told in no time").unwrap();
    assert_eq!(text(answer).as_deref(), Some("new"));
}
