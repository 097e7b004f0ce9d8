//! A server with a disk in memory, the first of those that found a cluster.

use std::collections::BTreeMap;

use machine::nanos::Time;
use machine::{Rng, ServerId};
use store::{Config, Founding, Server};

pub const CLUSTER: u64 = 1;
pub const ME: ServerId = ServerId(1);

/// Server 1 of so many, as it is at its first start.
pub fn server(servers: u64) -> Server {
    let config = wal::Config { cluster: Some(CLUSTER.into()), ..wal::Config::default() };
    let mut disk = wal::MemoryDisk::new();
    let (mut log, _) = wal::Log::recover(&disk, config).expect("an empty folder is fine");
    let identity = wal::Identity { format: wal::FORMAT, cluster: CLUSTER.into(), server: ME, name: "n1".into() };
    log.identify(identity).expect("it is valid");
    let servers = (1..=servers).map(|id| (ServerId(id), (format!("n{id}"), format!("127.0.0.1:664{id}")))).collect();
    let (strategy, protocol) = (placement::Strategy::Distributed, store::protocol::VERSION);
    Founding { cluster: CLUSTER, servers, strategy, protocol, secret: None }.write(&mut log);
    disk.carry_out(&log.take_batch().expect("there is something to write")).expect("it has room");
    let (log, recovered) = wal::Log::recover(&disk, config).expect("it was just written");
    let config = Config::new(CLUSTER, ME, "n1");
    Server::open(config, log, recovered, &disk, BTreeMap::new(), Rng::new(1), Time::ZERO).expect("it is new")
}
