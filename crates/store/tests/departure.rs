//! Servers that were removed while others lie to them, or while they heard nothing of it.

use std::collections::BTreeSet;

use crate::bed::{Cluster, Setup, address, put};
use machine::ServerId;
use machine::nanos::Span;
use placement::{Command, ShardId};
use store::Input;
use store::peer::{Envelope, Item, Leads};
use store::protocol::{Admin, RequestBody};

const SHARD: ShardId = ShardId::DEFAULT;

fn holds(cluster: &Cluster, id: ServerId) -> bool {
    cluster.server(id.0).replicas(cluster.now).iter().any(|group| group.shard == SHARD && group.applied > 0)
}

fn replace(cluster: &mut Cluster, at: u64, old: u64, new: u64) {
    let join = Admin::Join {
        name: format!("n{new}"),
        address: address(ServerId(new)),
        nonce: new,
        replaces: Some(ServerId(old)),
    };
    cluster.may_stop.insert(ServerId(old));
    cluster.ask(at, RequestBody::Admin(join)).unwrap();
}

/// The removed server still votes, and hears nobody but the liar, who says that it leads and does without it. Had the liar its way with each
/// server that goes, there would be no majority to lead the shard any more (seeds 47879 and 149039, hostile).
#[test]
fn the_word_of_one_takes_no_replica_away_that_still_votes() {
    let (leaving, other, liar) = (ServerId(1), ServerId(2), ServerId(3));
    let mut cluster = Cluster::found(Setup::default());
    cluster.run(Span::from_secs(2));
    cluster.ask(1, put("/car:cars/car-entry=1", "kept")).unwrap();
    cluster.cut_off.insert(liar);
    let remove = Admin::Placement(Command::RemoveServer { id: leaving });
    cluster.ask(2, RequestBody::Admin(remove)).unwrap();
    cluster.run(Span::from_secs(2));
    assert!(!cluster.server(1).map().members().contains_key(&leaving), "it knows that it was removed");
    assert!(holds(&cluster, leaving), "without the third no majority has done without it");
    cluster.cut_off.insert(other);
    cluster.run(Span::from_secs(5));
    for _ in 0..100 {
        let leads = Leads { address: address(liar), terms: [(SHARD, 1 << 20)].into(), ..Leads::default() };
        let out = Item::NoMember { group: SHARD, index: 1 << 40, map: None, sealed: true };
        let items = vec![Item::Leads(leads), out];
        let envelope = Envelope { stamp: cluster.now, echo: None, promise: Span::ZERO, items };
        cluster.queue.push_back((leaving, Input::Peer { from: liar, envelope }));
        cluster.run(Span::from_ms(20));
    }
    assert!(holds(&cluster, leaving));

    cluster.may_stop.insert(leaving);
    cluster.cut_off.clear();
    cluster.run(Span::from_secs(10));
    let why = cluster.stopped.get(&leaving).expect("two say that nobody needs it");
    assert!(why.contains("no member"), "{why}");
    assert_eq!(cluster.get(2, "/car:cars/car-entry=1").as_deref(), Some("kept"));
}

/// Of the three whom it knows as the members, one has left and one lies. It leads a shard with one of those who came later, and so it hears of
/// its removal from that one, too (seed 98049, hostile).
#[test]
fn who_leads_a_shard_hears_of_its_removal_from_those_who_share_it() {
    let (leaving, silent) = (ServerId(3), ServerId(1));
    let mut cluster = Cluster::found(Setup::default());
    cluster.run(Span::from_secs(2));
    cluster.ask(1, put("/car:cars/car-entry=1", "kept")).unwrap();
    cluster.misses = Some((leaving, ShardId::META));
    replace(&mut cluster, 1, 2, 4);
    cluster.join(4, &[1, 3]);
    cluster.run(Span::from_secs(5));
    assert!(cluster.stopped.contains_key(&ServerId(2)));
    cluster.members.remove(&ServerId(2));
    replace(&mut cluster, 1, 3, 5);
    cluster.cut_off.insert(silent);
    for _ in 0..200 {
        // Only its own map still has it as a voter.
        let move_leader = Admin::MoveLeader { shard: SHARD, to: leaving };
        cluster.send(leaving.0, RequestBody::Admin(move_leader));
        cluster.run(Span::from_ms(100));
        if cluster.leader(SHARD) == Some(leaving) {
            break;
        }
    }
    assert_eq!(cluster.leader(SHARD), Some(leaving));
    assert!(cluster.server(3).map().members().contains_key(&leaving), "it does not know that it was removed");

    cluster.join(5, &[1, 4]);
    cluster.cut_off.clear();
    cluster.run(Span::from_secs(20));
    let why = cluster.stopped.get(&leaving).expect("two say that it was removed");
    assert!(why.contains("no member"), "{why}");
    let voters: BTreeSet<ServerId> = cluster.group(4, SHARD).voters.into_iter().collect();
    assert_eq!(voters, [1, 4, 5].map(ServerId).into());
    assert_eq!(cluster.get(4, "/car:cars/car-entry=1").as_deref(), Some("kept"));
}
