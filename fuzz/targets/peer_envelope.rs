//! What a member of the cluster may send to another: whatever it is, the server goes on with all its replicas.
//!
//! The input is a list of envelopes' items, each behind its length in two bytes; the checksum is put in here. The first byte says
//! whether the server leads or follows when they come.
#![no_main]

#[path = "founder/mod.rs"]
mod founder;

use founder::{ME, server};
use libfuzzer_sys::fuzz_target;
use machine::nanos::{Span, Step, Time};
use machine::{Control, ServerId};
use placement::ShardId;
use store::message::Kind;
use store::peer::{Envelope, Item};
use store::protocol::{decode, encode_frame, split_frame};
use store::{Input, Output, Server};

const FRIEND: ServerId = ServerId(2);
const LIAR: ServerId = ServerId(3);

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
    let envelope = Envelope { stamp: now, echo: None, promise: Span::ZERO, items };
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
    let mut server = server(3);
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
