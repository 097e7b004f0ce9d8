//! Frames of very many tiny parts: what no honest sender makes is refused before it is taken apart.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::bed::message;
use bytes::Bytes;
use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::ShardId;
use serde::{Deserialize, Serialize};
use store::message::{Kind, LogEntry, RaftMessage};
use store::peer::{Envelope, Item};
use store::protocol::{
    Answer, ClientMessage, FRAME_HEADER, FrameError, LIST_MAX, Request, RequestBody, Response, ServerMessage,
    Unreadable, decode, decode_client, encode_frame,
};
use tree::{Change, Condition, Expect, Location, Path, Transaction};

/// More of anything than an honest sender says at once.
const MANY: usize = 1_000_000;

fn body<T: Serialize>(message: &T) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_frame(message, &mut frame).unwrap();
    frame.split_off(FRAME_HEADER)
}

fn request(body: RequestBody) -> ClientMessage {
    ClientMessage::Request(Request { session: 1, sequence: 300, acknowledged: 1, timeout_ms: 1, body })
}

fn root() -> Location {
    Location::config(Path::root())
}

fn change() -> Change {
    Change::Remove { at: root() }
}

fn condition() -> Condition {
    Condition { at: root(), expect: Expect::Absent }
}

fn write(conditions: usize, changes: usize) -> RequestBody {
    RequestBody::Write(Transaction { conditions: vec![condition(); conditions], changes: vec![change(); changes] })
}

fn offers(count: usize) -> RequestBody {
    RequestBody::Offer { offers: vec![(String::new(), None); count] }
}

#[test]
fn a_request_of_very_many_parts_is_refused() {
    let from = (0..MANY as u64).map(|shard| (ShardId(shard), 0)).collect();
    let transaction = Transaction::of(change());
    let bodies = [
        write(MANY, 0),
        write(0, MANY),
        // The bound is one for all lists of a message.
        write(10_000, 10_000),
        RequestBody::WriteOrElse { transaction, otherwise: vec![change(); MANY] },
        RequestBody::Watch { at: root(), from },
        offers(MANY),
    ];
    for body_of in bodies {
        let Err(Unreadable::Request { sequence, reason }) = decode_client(&body(&request(body_of))) else {
            panic!("it is taken");
        };
        assert_eq!(sequence, 300);
        assert!(reason.contains("at most 16384 entries"), "{reason}");
    }
}

#[test]
fn a_claim_is_not_believed() {
    // A transaction that says it has 2^40 conditions, and two bytes of them.
    let mut claims = body(&request(write(0, 0)));
    claims.truncate(claims.len() - 2);
    claims.extend([0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0, 0]);
    let Err(Unreadable::Request { reason, .. }) = decode_client(&claims) else { panic!("it is taken") };
    assert!(reason.contains("at most 16384 entries") && reason.contains("1099511627776"), "{reason}");
}

#[test]
fn the_largest_honest_requests_are_taken() {
    let reply = ClientMessage::Reply { call: 1, result: Ok(vec![7; rpc::config::PAYLOAD_BYTES_MAX]) };
    let from = (0..placement::SHARDS_MAX as u64).map(|shard| (ShardId(shard), u64::MAX)).collect();
    let watch = RequestBody::Watch { at: root(), from };
    let otherwise = vec![change(); tree::transaction::MAX_CHANGES];
    let transaction =
        Transaction { conditions: vec![condition(); tree::transaction::MAX_CONDITIONS], changes: Vec::new() };
    let messages = [
        request(write(tree::transaction::MAX_CONDITIONS, tree::transaction::MAX_CHANGES)),
        request(RequestBody::WriteOrElse { transaction, otherwise }),
        request(offers(rpc::config::OFFERS_MAX)),
        request(watch),
        reply,
    ];
    for message in messages {
        assert!(decode_client(&body(&message)).as_ref() == Ok(&message));
    }
    // A client with a few too many is refused by the bound of transactions, which says what they may have.
    assert!(decode_client(&body(&request(write(0, 10 * tree::transaction::MAX_CHANGES)))).is_ok());
}

#[test]
fn the_largest_honest_answers_are_taken() {
    let path = Path::parse("/a:b").unwrap();
    let entries = vec![(path, 1, vec![7; 2_000]); LIST_MAX as usize];
    let answer = Answer::Values { entries, more: true };
    let message = ServerMessage::Response(Response { sequence: 1, leader: None, result: Ok(answer) });
    assert!(decode::<ServerMessage>(&body(&message)).as_ref() == Ok(&message));
}

fn append(entries: usize, data: &Bytes) -> RaftMessage {
    let entry = |index: usize| LogEntry {
        kind: 0,
        term: 2,
        index: index as u64 + 2,
        data: data.clone(),
        context: Bytes::new(),
    };
    RaftMessage { log_term: 1, index: 1, entries: (0..entries).map(entry).collect(), ..message(Kind::Append, 2) }
}

fn envelope(items: Vec<Item>) -> Envelope {
    Envelope { stamp: Time::ZERO, echo: None, promise: Span::ZERO, items }
}

fn raft(message: RaftMessage) -> Item {
    Item::Raft { group: ShardId::DEFAULT, message }
}

fn refusal(items: Vec<Item>) -> String {
    match decode::<Envelope>(&body(&envelope(items))) {
        Err(FrameError::Malformed(reason)) => reason,
        other => panic!("{}", if other.is_ok() { "it is taken" } else { "it is not too long" }),
    }
}

#[test]
fn an_append_of_very_many_empty_entries_is_refused() {
    let reason = refusal(vec![raft(append(100_000, &Bytes::new()))]);
    assert!(reason.contains("an append of 100000 entries: at most 65536"), "{reason}");
}

#[test]
fn an_envelope_of_very_many_items_is_refused() {
    let reason = refusal(vec![Item::Leaving { group: ShardId::DEFAULT }; MANY]);
    assert!(reason.contains("1000000 items: at most 65536"), "{reason}");
}

#[test]
fn an_envelope_is_longer_than_four_mebibytes_only_by_one_item() {
    let large = || raft(append(1, &Bytes::from(vec![0; 5 << 20])));
    assert!(decode::<Envelope>(&body(&envelope(vec![large()]))).is_ok());
    let reason = refusal(vec![large(), large()]);
    assert!(reason.contains("2 items of 10485"), "{reason}");
}

#[test]
fn lists_within_an_item_are_bounded_together() {
    let ready: BTreeMap<ShardId, Vec<ServerId>> =
        (0..1_000).map(|id| (ShardId(id), vec![ServerId(1); 1_000])).collect();
    let reason = refusal(vec![Item::Leads(store::peer::Leads { ready, ..store::peer::Leads::default() })]);
    assert!(reason.contains("entries"), "{reason}");
}

#[test]
fn the_largest_honest_envelopes_are_taken() {
    // Entries of sixteen bytes, up to the megabyte of one append.
    let appended = envelope(vec![raft(append(65_536, &Bytes::from_static(b"8 bytes!")))]);
    assert!(decode::<Envelope>(&body(&appended)) == Ok(appended));
    // As many small items as fit the four megabytes by their weight.
    let small = envelope(vec![Item::Leaving { group: ShardId::DEFAULT }; (4 << 20) / 96]);
    assert!(decode::<Envelope>(&body(&small)) == Ok(small));
}

thread_local! {
    static MADE: Cell<usize> = const { Cell::new(0) };
}

/// Counts how many of it are made while a message is decoded.
#[derive(Deserialize)]
#[serde(from = "u8")]
struct Counted;

impl From<u8> for Counted {
    fn from(_: u8) -> Self {
        MADE.set(MADE.get() + 1);
        Self
    }
}

#[test]
fn nothing_of_a_list_is_made_that_is_too_long() {
    let long = postcard::to_stdvec(&vec![1_u8; 8 << 20]).unwrap();
    assert!(decode::<Vec<Counted>>(&long).is_err());
    assert_eq!(MADE.get(), 0);
    let short = postcard::to_stdvec(&vec![1_u8; 100]).unwrap();
    assert_eq!(decode::<Vec<Counted>>(&short).unwrap().len(), 100);
    assert_eq!(MADE.get(), 100);
}
