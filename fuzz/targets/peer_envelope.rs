//! What a member of the cluster may send to another: whatever it is, the server goes on with all its replicas.
//!
//! The input is a list of envelopes' items, each behind its length in two bytes; the checksum is put in here. The first byte says
//! whether the server leads or follows when they come.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use machine::{Control, Rng, ServerId, Span, Step, Time};
use placement::ShardId;
use store::message::Kind;
use store::peer::{Envelope, Item};
use store::protocol::{decode, encode_frame, split_frame};
use store::{Config, Founding, Input, Output, Server};

const CLUSTER: u64 = 1;
const ME: ServerId = ServerId(1);
const FRIEND: ServerId = ServerId(2);
const LIAR: ServerId = ServerId(3);

fn server() -> Server {
    let config = wal::Config { cluster: Some(CLUSTER.into()), ..wal::Config::default() };
    let mut disk = wal::MemoryDisk::new();
    let (mut log, _) = wal::Log::recover(&disk, config).expect("an empty folder is fine");
    let identity = wal::Identity { format: wal::FORMAT, cluster: CLUSTER.into(), server: ME, name: "n1".into() };
    log.identify(identity).expect("it is valid");
    let servers = (1..=3).map(|id| (ServerId(id), (format!("n{id}"), format!("127.0.0.1:664{id}")))).collect();
    Founding {
        cluster: CLUSTER,
        servers,
        strategy: placement::Strategy::Distributed,
        protocol: store::protocol::VERSION,
        secret: None,
    }
    .write(&mut log);
    disk.carry_out(&log.take_batch().expect("there is something to write")).expect("it has room");
    let (log, recovered) = wal::Log::recover(&disk, config).expect("it was just written");
    let config = Config::new(CLUSTER, ME, "n1");
    Server::open(config, log, recovered, &disk, BTreeMap::new(), Rng::new(1), Time::ZERO).expect("it is new")
}

/// Lets the server say all it has to say; gives what it says to the second server.
fn drain(server: &mut Server, now: Time) -> Vec<Item> {
    let mut written = Vec::new();
    let mut said = Vec::new();
    loop {
        match server.poll(now) {
            Step::Do(Output::Disk(write)) => written.push(write.id),
            Step::Do(Output::Peer { to: FRIEND, envelope }) => said.extend(envelope.items),
            Step::Do(Output::ReplicaStopped(stopped)) => panic!("a replica has stopped: {}", stopped.reason),
            Step::Do(Output::Stop(reason)) => panic!("the server stops: {reason}"),
            Step::Do(_) => {}
            Step::Wait(_) if written.is_empty() => return said,
            Step::Wait(_) => written.drain(..).for_each(|write| server.handle(now, Input::Written(write))),
        }
    }
}

fn hear(server: &mut Server, now: Time, from: ServerId, items: Vec<Item>) {
    let envelope = Envelope { stamp: now, echo: None, promise_ps: 0, items };
    let mut frame = Vec::new();
    if encode_frame(&envelope, &mut frame).is_err() {
        return;
    }
    let (body, _) = split_frame(&frame).expect("a frame").expect("a whole one");
    let envelope = decode::<Envelope>(body).expect("what was encoded can be decoded");
    server.handle(now, Input::Peer { from, envelope });
}

/// The second server votes for it, and takes what it appends.
fn answers(said: Vec<Item>) -> Vec<Item> {
    let answer = |item| {
        let Item::Raft { group, mut message } = item else { return None };
        message.kind = match message.kind {
            Kind::RequestPreVote => Kind::RequestPreVoteResponse,
            Kind::RequestVote => Kind::RequestVoteResponse,
            Kind::Append => Kind::AppendResponse,
            Kind::Heartbeat => Kind::HeartbeatResponse,
            _ => return None,
        };
        message.index += message.entries.len() as u64;
        message.entries.clear();
        (message.log_term, message.commit, message.commit_term) = (0, 0, 0);
        Some(Item::Raft { group, message })
    };
    said.into_iter().filter_map(answer).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let _ = decode::<Envelope>(bytes);
    let Some((&leads, mut rest)) = bytes.split_first() else { return };
    let mut server = server();
    let mut now = Time::ZERO;
    let mut said = drain(&mut server, now);
    for _ in 0..if leads % 2 == 0 { 0 } else { 400 } {
        now += Span::from_ms(20);
        hear(&mut server, now, FRIEND, answers(said));
        said = drain(&mut server, now);
        if server.leader_of(ShardId::META) == Some(ME) && server.leader_of(ShardId::DEFAULT) == Some(ME) {
            break;
        }
    }
    while let [low, high, more @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(more.len());
        let (part, more) = more.split_at(length);
        rest = more;
        now += Span::from_ms(5);
        let Ok((items, _)) = postcard::take_from_bytes::<Vec<Item>>(part) else { continue };
        hear(&mut server, now, LIAR, items);
        drain(&mut server, now);
    }
    for _ in 0..20 {
        now += Span::from_ms(100);
        server.handle(now, Input::Tick);
        drain(&mut server, now);
    }
    assert_eq!(server.counters().panics, 0);
});
