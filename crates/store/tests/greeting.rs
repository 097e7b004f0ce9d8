//! Which version of the protocol a cluster speaks, and on which secret its servers agree.

use std::collections::BTreeSet;

use crate::bed::{Cluster, Setup, put};
use machine::ServerId;
use machine::nanos::Span;
use placement::ShardId;
use store::protocol::VERSION;
use store::{Config, Secret};

/// The digest of the secret on which the cluster has agreed long ago.
const AGREED: [u8; 32] = [9; 32];

/// The secret that a server has made itself. No server's is the cluster's.
fn own(server: ServerId) -> Secret {
    let byte = server.0 as u8;
    Secret { digest: [byte; 32], bytes: [100 + byte; 32] }
}

fn with_own_secret(config: &mut Config) {
    config.secret = Some(own(config.server));
}

impl Cluster {
    fn speaking(protocol: u32, secret: Option<[u8; 32]>) -> Self {
        let mut cluster = Self::found(Setup { protocol, secret, tune: with_own_secret, ..Setup::default() });
        cluster.run(Span::from_secs(2));
        cluster
    }

    /// Lets time pass; then all servers speak this version, and have this secret in their maps.
    fn assert_comes_to(&mut self, protocol: u32, secret: Option<[u8; 32]>) {
        self.run(Span::from_secs(5));
        for member in self.members.values() {
            assert_eq!((member.server.protocol(), member.server.map().secret().copied()), (protocol, secret));
        }
        self.ask(1, put("/car:cars", "1")).unwrap();
        self.assert_agreement();
    }
}

#[test]
fn a_cluster_that_has_a_secret_comes_to_the_newest_version_and_keeps_it() {
    let mut cluster = Cluster::speaking(2, Some(AGREED));
    cluster.assert_comes_to(2, Some(AGREED));
    // One of them is an older program.
    for older in (1..=3).map(ServerId) {
        cluster.connect(|id| if id == older { 2 } else { 3 });
        cluster.assert_comes_to(2, Some(AGREED));
    }
    cluster.connect(|_| 3);
    cluster.assert_comes_to(3, Some(AGREED));
    assert!(cluster.kept.is_empty(), "another secret was handed over: {:?}", cluster.kept);
    (1..=3).for_each(|id| cluster.restart(id));
    cluster.assert_comes_to(3, Some(AGREED));
}

/// From version 4 on entries of shards mean something else: so their logs say it, at the same place for all replicas.
#[test]
fn the_logs_of_shards_say_once_that_all_speak_version_4() {
    let said = |cluster: &Cluster, id: u64| -> Vec<u32> {
        let version = |command| match command {
            tree::Command::Protocol { version } => Some(version),
            _ => None,
        };
        cluster.logged(id, ShardId::DEFAULT).into_iter().filter_map(version).collect()
    };
    let mut cluster = Cluster::speaking(3, Some(AGREED));
    cluster.connect(|id| if id == ServerId(2) { 3 } else { VERSION });
    cluster.assert_comes_to(3, Some(AGREED));
    assert!((1..=3).all(|id| said(&cluster, id).is_empty()));
    cluster.connect(|_| VERSION);
    cluster.assert_comes_to(VERSION, Some(AGREED));
    assert!((1..=3).all(|id| said(&cluster, id) == [VERSION]));
    // Another leader does not say it again.
    let leader = cluster.leader(ShardId::DEFAULT).unwrap();
    cluster.cut_off.insert(leader);
    cluster.run(Span::from_secs(5));
    cluster.cut_off.clear();
    (1..=3).for_each(|id| cluster.restart(id));
    cluster.assert_comes_to(VERSION, Some(AGREED));
    assert!((1..=3).all(|id| said(&cluster, id) == [VERSION]));
}

#[test]
fn it_waits_for_a_server_that_is_away() {
    let mut cluster = Cluster::speaking(2, Some(AGREED));
    let away = cluster.members.keys().copied().find(|id| cluster.leader(ShardId::META) != Some(*id)).unwrap();
    cluster.cut_off.insert(away);
    cluster.run(Span::from_secs(2));
    cluster.connect(|_| 3);
    cluster.run(Span::from_secs(5));
    assert!(cluster.members.values().all(|member| member.server.protocol() == 2));
    cluster.cut_off.clear();
    cluster.assert_comes_to(3, Some(AGREED));
}

#[test]
fn without_a_secret_they_agree_on_one_as_the_version_rises() {
    let mut cluster = Cluster::speaking(1, None);
    cluster.assert_comes_to(1, None);
    cluster.connect(|id| if id == ServerId(2) { 1 } else { VERSION });
    cluster.assert_comes_to(1, None);
    cluster.connect(|_| VERSION);
    let leader = cluster.leader(ShardId::META).unwrap();
    cluster.assert_comes_to(VERSION, Some(own(leader).digest));
    // Every other server holds it: nobody could prove it else.
    let handed = |to: &ServerId| cluster.kept.contains(&(*to, leader, own(leader)));
    let holders: BTreeSet<ServerId> = cluster.members.keys().copied().filter(handed).collect();
    assert_eq!(holders.len(), 2, "{:?}", cluster.kept);
}
