//! The client against servers that a test plays by hand, and against random faults.

use std::collections::{BTreeMap, BTreeSet};

use machine::{Rng, ServerId};
use placement::ShardId;
use proptest::prelude::*;
use tree::{Change, Event, EventKind, Transaction};

use super::*;
use crate::protocol::{Admin, Consistency, Leader, Request};

/// The cluster that answers, unless a test says otherwise.
const CLUSTER: u64 = 7;
const ENDPOINTS: [&str; 3] = ["a:1", "b:1", "c:1"];

/// A client, its clock, and the far ends of its connections.
struct Bed {
    client: Client,
    now: Time,
    open: BTreeMap<ConnectionId, String>,
    sent: VecDeque<(ConnectionId, Request)>,
    replies: Vec<(ConnectionId, u64)>,
    answers: BTreeMap<u64, Result<Answer, Error>>,
    /// Of requests that have timed out: whom they did not reach.
    unreachable: BTreeMap<u64, String>,
    other: Vec<Output>,
    /// Connections come up at once.
    connects: bool,
    cluster: u64,
}

impl Bed {
    fn new(config: ClientConfig) -> Self {
        let client = Client::new(77, ENDPOINTS.map(String::from).into(), Rng::new(1), config);
        Self {
            client,
            now: Time::ZERO,
            open: BTreeMap::new(),
            sent: VecDeque::new(),
            replies: Vec::new(),
            answers: BTreeMap::new(),
            unreachable: BTreeMap::new(),
            other: Vec::new(),
            connects: true,
            cluster: CLUSTER,
        }
    }

    fn handle(&mut self, input: Input) {
        self.client.handle(self.now, input);
        self.drain();
    }

    /// Carries out what it wants; says when it wants to be asked again.
    fn drain(&mut self) -> Time {
        loop {
            match self.client.poll(self.now) {
                Step::Wait(until) => return until,
                Step::Do(Output::Connect { connection, address }) => {
                    assert!(self.open.insert(connection, address).is_none(), "numbers are not used twice");
                    if self.connects {
                        self.client.handle(self.now, Input::Connected { connection, cluster: self.cluster });
                    }
                }
                Step::Do(Output::Send { connection, message }) => {
                    assert!(self.open.contains_key(&connection), "sent by a connection that is over");
                    match message {
                        ClientMessage::Request(request) => self.sent.push_back((connection, request)),
                        ClientMessage::Reply { call, .. } => self.replies.push((connection, call)),
                    }
                }
                Step::Do(Output::Disconnect(connection)) => {
                    assert!(self.open.remove(&connection).is_some());
                }
                Step::Do(Output::Answer { token, result, unreachable }) => {
                    self.unreachable.extend(unreachable.map(|address| (token, address)));
                    assert!(self.answers.insert(token, result).is_none(), "request {token} is answered twice");
                }
                Step::Do(other) => self.other.push(other),
            }
        }
    }

    fn pass(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            let next = self.drain();
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
        }
    }

    fn ask(&mut self, token: u64, body: RequestBody) {
        self.handle(Input::Request { token, body, timeout: Span::from_secs(10) });
    }

    /// What was sent last, and to whom.
    fn next(&mut self) -> (ConnectionId, String, Request) {
        let (connection, request) = self.sent.pop_front().expect("something was sent");
        (connection, self.open[&connection].clone(), request)
    }

    fn respond(
        &mut self,
        connection: ConnectionId,
        sequence: u64,
        result: Result<Answer, Error>,
        leader: Option<&str>,
    ) {
        let leader = leader.map(|address| Leader { shard: ShardId(1), server: ServerId(9), address: address.into() });
        let message = ServerMessage::Response(Response { sequence, leader, result });
        self.handle(Input::Message { connection, message });
    }

    fn error(&self, token: u64) -> String {
        self.answers[&token].as_ref().expect_err("it failed").to_string()
    }

    fn close(&mut self, connection: ConnectionId) {
        self.open.remove(&connection);
        self.handle(Input::Closed(connection));
    }
}

fn car(key: u64) -> Location {
    Location::config(Path::parse(&format!("/car:cars/car-entry={key}")).unwrap())
}

fn get(key: u64) -> RequestBody {
    RequestBody::Get { at: car(key), consistency: Consistency::Linearizable }
}

fn put(key: u64) -> RequestBody {
    RequestBody::Write(Transaction::of(Change::Put { at: car(key), value: b"v".into() }))
}

fn call(idempotent: bool) -> RequestBody {
    RequestBody::Call { name: "people:add-person".into(), path: None, input: vec![1], idempotent }
}

fn elsewhere(servers: &[&str]) -> Result<Answer, Error> {
    Err(Error::Elsewhere { reason: "not here".into(), servers: servers.iter().map(ToString::to_string).collect() })
}

#[test]
fn it_learns_the_leader_and_goes_there() {
    let mut bed = Bed::new(ClientConfig::default());
    bed.ask(1, put(1));
    let (connection, address, request) = bed.next();
    assert_eq!((address.as_str(), request.session, request.sequence), ("a:1", 77, 1));
    bed.respond(connection, 1, Ok(Answer::Written { revision: 5 }), Some("c:1"));
    assert_eq!(bed.answers[&1], Ok(Answer::Written { revision: 5 }));
    bed.ask(2, get(2));
    assert_eq!(bed.next().1, "c:1");
    // A stale read may be served by anyone.
    bed.ask(3, RequestBody::Get { at: car(2), consistency: Consistency::Stale });
    assert_eq!(bed.next().1, "a:1");
}

#[test]
fn it_stays_where_it_is_if_configured_so() {
    let mut bed = Bed::new(ClientConfig { go_to_leader: false, ..ClientConfig::default() });
    for token in 1..4 {
        bed.ask(token, put(1));
        let (connection, address, request) = bed.next();
        assert_eq!(address, "a:1");
        bed.respond(connection, request.sequence, Ok(Answer::Written { revision: token }), Some("c:1"));
    }
}

#[test]
fn a_lost_connection_moves_requests_with_their_numbers() {
    let mut bed = Bed::new(ClientConfig::default());
    bed.ask(1, put(1));
    bed.ask(2, get(1));
    let (connection, ..) = bed.next();
    bed.next();
    bed.close(connection);
    let (second, address, request) = bed.next();
    assert_eq!((address.as_str(), request.sequence, request.acknowledged), ("b:1", 1, 1));
    assert_eq!(bed.next().2.sequence, 2);
    // An answer that comes twice, or from before, is taken once.
    bed.respond(second, 1, Ok(Answer::Written { revision: 5 }), None);
    bed.respond(second, 1, Ok(Answer::Written { revision: 5 }), None);
    bed.respond(connection, 2, Ok(Answer::Value(None)), None);
    assert_eq!(bed.answers.keys().collect::<Vec<_>>(), [&1], "messages of a closed connection don't count");
}

#[test]
fn a_deadline_holds_when_nobody_is_there() {
    let mut bed = Bed::new(ClientConfig::default());
    bed.connects = false;
    bed.handle(Input::Request { token: 1, body: put(1), timeout: Span::from_ms(500) });
    for _ in 0..499 {
        for connection in bed.open.keys().copied().collect::<Vec<_>>() {
            bed.open.remove(&connection);
            bed.handle(Input::Failed { connection, reason: "connection refused".into() });
        }
        bed.pass(Span::from_ms(1));
    }
    assert!(bed.answers.is_empty());
    bed.pass(Span::from_ms(1));
    let text = bed.answers[&1].as_ref().unwrap_err().to_string();
    assert!(text.starts_with("no answer within 500 ms: the connection to "), "{text}");
    assert!(text.ends_with("connection refused"), "{text}");
    assert!(ENDPOINTS.contains(&bed.unreachable[&1].as_str()), "{:?}", bed.unreachable);
    assert_eq!(bed.client.outstanding(), 0);
    // Some pauses, not a connection each instant.
    assert!(bed.client.endpoints.connection(0, bed.now).0.0 < 60);
}

#[test]
fn a_silent_server_is_left_and_a_slow_one_is_not() {
    let mut bed = Bed::new(ClientConfig::default());
    bed.ask(1, get(1));
    let (silent, ..) = bed.next();
    bed.pass(Span::from_ms(1_001));
    assert!(!bed.open.contains_key(&silent));
    let (slow, address, _) = bed.next();
    assert_eq!(address, "b:1");
    bed.ask(2, get(2));
    bed.next();
    bed.respond(slow, 2, Ok(Answer::Value(None)), None);
    bed.pass(Span::from_ms(2_001));
    assert!(bed.open.contains_key(&slow), "it answers others");
    assert_ne!(bed.next().1, "b:1");
    // The slow one's answer is as good as any.
    bed.respond(slow, 1, Ok(Answer::Value(None)), None);
    assert!(bed.answers[&1].is_ok());
}

#[test]
fn acknowledged_is_the_oldest_write_without_an_answer() {
    let mut bed = Bed::new(ClientConfig::default());
    for token in 1..=4 {
        bed.ask(token, if token == 2 { call(false) } else { put(token) });
    }
    let sent: Vec<_> = (0..4).map(|_| bed.next()).collect();
    assert!(sent.iter().all(|(_, _, request)| request.acknowledged == 1));
    let connection = sent[0].0;
    bed.respond(connection, 3, Ok(Answer::Written { revision: 1 }), None);
    bed.ask(5, get(1));
    assert_eq!(bed.next().2.acknowledged, 1);
    bed.respond(connection, 1, Ok(Answer::Written { revision: 2 }), None);
    bed.ask(6, get(1));
    assert_eq!(bed.next().2.acknowledged, 4, "the call that still runs is no write");
    bed.respond(connection, 4, Ok(Answer::Written { revision: 3 }), None);
    bed.ask(7, get(1));
    assert_eq!(bed.next().2.acknowledged, 8);
}

#[test]
fn writes_wait_for_the_oldest_and_requests_have_a_bound() {
    let mut bed = Bed::new(ClientConfig::default());
    bed.ask(0, put(0));
    let (connection, _, first) = bed.next();
    for token in 1..=WRITES_MAX as u64 + 1 {
        bed.ask(token, put(token));
        while let Some((connection, request)) = bed.sent.pop_front() {
            bed.respond(connection, request.sequence, Ok(Answer::Written { revision: token }), None);
        }
    }
    assert_eq!(bed.answers.len(), WRITES_MAX - 1);
    bed.respond(connection, first.sequence, Ok(Answer::Written { revision: 1 }), None);
    assert_eq!(bed.sent.len(), 2, "those that were held");
    bed.sent.clear();
    for token in 10_000..12_000 {
        bed.ask(token, get(1));
    }
    assert_eq!(bed.client.outstanding(), REQUESTS_MAX);
    assert_eq!(bed.answers[&11_999], Err(Error::Busy(REQUESTS_MAX as u64)));
}

#[test]
fn what_may_not_happen_twice_is_sent_once() {
    let mut bed = Bed::new(ClientConfig::default());
    bed.ask(1, call(false));
    bed.ask(2, call(true));
    let (connection, ..) = bed.next();
    bed.close(connection);
    assert!(matches!(&bed.answers[&1], Err(Error::Rpc(text)) if text.contains("may have been carried out or not")));
    assert!(!bed.answers.contains_key(&2));
    let mut bed = Bed::new(ClientConfig { single_attempt: true, ..ClientConfig::default() });
    bed.ask(1, put(1));
    let (connection, ..) = bed.next();
    bed.respond(connection, 1, Err(Error::Busy(9)), None);
    assert_eq!(bed.answers[&1], Err(Error::Busy(9)));
}

#[test]
fn what_may_still_be_done_is_said_so_and_nothing_else() {
    let timeout = Span::from_ms(1_500);
    // Nobody knows of what was not sent.
    let mut bed = Bed::new(ClientConfig::default());
    bed.connects = false;
    bed.handle(Input::Request { token: 1, body: put(1), timeout });
    bed.pass(timeout);
    assert!(!bed.error(1).contains("still"), "{}", bed.error(1));
    // A server that has it may do it later; one that has nothing to do for a read does no harm.
    let changes = [put(1), call(true), RequestBody::Admin(Admin::ForceRemove(ServerId(3)))];
    for (body, doubtful) in changes.map(|body| (body, true)).into_iter().chain([(get(1), false)]) {
        for config in [ClientConfig::default(), ClientConfig { single_attempt: true, ..ClientConfig::default() }] {
            let mut bed = Bed::new(config);
            bed.handle(Input::Request { token: 1, body: body.clone(), timeout });
            let (connection, _, request) = bed.next();
            let reason = "shard \"cars\" has no leader; hint: wait".to_owned();
            bed.respond(connection, request.sequence, Err(Error::Timeout { timeout_ms: 9, reason }), None);
            // What came later is undone, which says nothing of the first.
            while let Some((connection, request)) = bed.sent.pop_front() {
                bed.respond(connection, request.sequence, Err(Error::Busy(9)), None);
            }
            bed.pass(timeout);
            assert_eq!(bed.error(1).contains("; it may still be done"), doubtful, "{body:?}: {}", bed.error(1));
        }
    }
    // A client that only ever heard that it was not begun knows that it was not.
    let mut bed = Bed::new(ClientConfig::default());
    bed.handle(Input::Request { token: 1, body: put(1), timeout });
    for _ in 0..15 {
        while let Some((connection, request)) = bed.sent.pop_front() {
            bed.respond(connection, request.sequence, Err(Error::Busy(9)), None);
        }
        bed.pass(Span::from_ms(100));
    }
    assert!(!bed.error(1).contains("still"), "{}", bed.error(1));
}

#[test]
fn a_refusal_is_final_and_a_direction_is_followed() {
    let mut bed = Bed::new(ClientConfig::default());
    bed.ask(1, put(1));
    let (connection, ..) = bed.next();
    bed.respond(connection, 1, Err(Error::Invalid("no".into())), None);
    assert_eq!(bed.answers[&1], Err(Error::Invalid("no".into())));
    bed.ask(2, put(1));
    bed.respond(connection, 2, elsewhere(&["d:1"]), None);
    assert_eq!((bed.next().2.sequence, bed.next().1.as_str()), (2, "d:1"));
}

/// A backup was restored into a new cluster at the same address: what was seen of the old one says nothing about it.
#[test]
fn a_watch_in_another_cluster_begins_anew_and_says_so() {
    let mut bed = Bed::new(ClientConfig::default());
    bed.ask(1, RequestBody::Watch { at: car(1), from: BTreeMap::new() });
    let (first, ..) = bed.next();
    bed.respond(first, 1, Ok(Answer::Watching { from: BTreeMap::from([(ShardId(1), 30)]) }), None);
    bed.cluster = CLUSTER + 1;
    bed.close(first);
    let (second, _, watch) = bed.next();
    assert_eq!(watch.body, RequestBody::Watch { at: car(1), from: BTreeMap::new() });
    bed.respond(second, watch.sequence, Ok(Answer::Watching { from: BTreeMap::from([(ShardId(1), 4)]) }), None);
    let Some(Output::Event { token: 1, events }) = bed.other.pop() else {
        panic!("it says that all is to be read again")
    };
    assert!(events.skipped && events.revision == 4);
    let event = Event { revision: 5, kind: EventKind::Deleted, at: car(1) };
    let news = WatchEvents {
        watch: watch.sequence,
        shard: ShardId(1),
        revision: 5,
        skipped: false,
        events: vec![event.clone()],
    };
    bed.handle(Input::Message { connection: second, message: ServerMessage::Watched(news) });
    assert!(matches!(bed.other.pop(), Some(Output::Event { events, .. }) if events.events == [event]));
}

#[test]
fn a_watch_goes_on_where_it_was_and_offers_are_renewed() {
    let mut bed = Bed::new(ClientConfig::default());
    let offers = vec![("people:add-person".to_owned(), None)];
    bed.ask(1, RequestBody::Watch { at: car(1), from: BTreeMap::new() });
    bed.ask(2, RequestBody::Offer { offers: offers.clone() });
    let (first, ..) = bed.next();
    bed.respond(first, 1, Ok(Answer::Watching { from: BTreeMap::from([(ShardId(1), 3)]) }), None);
    bed.respond(first, 2, Ok(Answer::Done), None);
    bed.sent.clear();
    let news = |watch, revision| {
        let event = |revision| Event { revision, kind: EventKind::Deleted, at: car(1) };
        let events = vec![event(revision - 1), event(revision)];
        ServerMessage::Watched(WatchEvents { watch, shard: ShardId(1), revision, skipped: false, events })
    };
    let seen: fn(Option<Output>) -> Vec<u64> = |output| match output {
        Some(Output::Event { token: 1, events }) => events.events.iter().map(|event| event.revision).collect(),
        other => panic!("{other:?}"),
    };
    bed.handle(Input::Message { connection: first, message: news(1, 9) });
    assert_eq!(seen(bed.other.pop()), [8, 9]);
    bed.close(first);
    let (second, address, watch) = bed.next();
    assert_eq!(address, "b:1");
    assert_eq!(watch.body, RequestBody::Watch { at: car(1), from: BTreeMap::from([(ShardId(1), 9)]) });
    let offer = bed.next().2;
    assert_eq!(offer.body, RequestBody::Offer { offers });
    // Both go on trying for as long as it takes.
    bed.pass(Span::from_secs(100));
    assert!(bed.sent.len() > 20);
    let (last, sequence) = loop {
        let (connection, request) = bed.sent.pop_back().unwrap();
        if bed.open.contains_key(&connection) && matches!(request.body, RequestBody::Watch { .. }) {
            break (connection, request.sequence);
        }
    };
    assert_ne!(last, second);
    bed.respond(last, sequence, Ok(Answer::Watching { from: BTreeMap::from([(ShardId(1), 9)]) }), None);
    // This replica was behind the first one, and comes to what that one has delivered.
    bed.handle(Input::Message { connection: last, message: news(sequence, 9) });
    assert!(bed.other.is_empty());
    bed.handle(Input::Message { connection: last, message: news(sequence, 10) });
    assert_eq!(seen(bed.other.pop()), [10]);
    bed.sent.clear();
    bed.handle(Input::Unwatch { token: 1 });
    assert!(bed.sent.iter().any(|(_, request)| request.body == RequestBody::Unwatch { watch: sequence }));
    bed.handle(Input::Message { connection: last, message: news(sequence, 11) });
    assert!(bed.other.is_empty());
}

#[test]
fn invocations_are_answered_where_they_came_from() {
    let mut bed = Bed::new(ClientConfig::default());
    bed.ask(1, get(1));
    let (connection, ..) = bed.next();
    let invoke = ServerMessage::Invoke { call: 4, name: "m:f".into(), path: None, input: vec![] };
    bed.handle(Input::Message { connection, message: invoke });
    assert!(matches!(bed.other.pop(), Some(Output::Invoke { call: 4, .. })));
    bed.handle(Input::Reply { connection, call: 4, result: Ok(vec![]) });
    assert_eq!(bed.replies, [(connection, 4)]);
    bed.close(connection);
    bed.handle(Input::Reply { connection, call: 4, result: Ok(vec![]) });
    assert_eq!(bed.replies.len(), 1);
}

#[derive(Clone, Debug)]
enum Act {
    Ask(u8, u16),
    /// The oldest request that was sent is answered: 0 well, 1 busy, 2 elsewhere, 3 timeout, 4 refused.
    Respond(u8),
    Drop,
    Close(u8),
    Up(u8),
    Fail(u8),
    Pass(u16),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0_u8..5, 1_u16..4_000).prop_map(|(kind, ms)| Act::Ask(kind, ms)),
        8 => (0_u8..8).prop_map(Act::Respond),
        1 => Just(Act::Drop),
        1 => any::<u8>().prop_map(Act::Close),
        4 => any::<u8>().prop_map(Act::Up),
        1 => any::<u8>().prop_map(Act::Fail),
        4 => (0_u16..700).prop_map(Act::Pass),
    ]
}

/// What the servers could see of the client.
#[derive(Default)]
struct Seen {
    deadlines: BTreeMap<u64, Time>,
    writes: BTreeMap<u64, RequestBody>,
    /// Writes by sequence that have a final response.
    answered: BTreeSet<u64>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn each_request_has_one_answer_in_time_whatever_happens(acts in proptest::collection::vec(act(), 1..120)) {
        let mut bed = Bed::new(ClientConfig::default());
        bed.connects = false;
        let mut seen = Seen::default();
        for (token, act) in (0_u64..).zip(acts) {
            let nth = |bed: &Bed, n: u8| bed.open.keys().nth(usize::from(n) % bed.open.len().max(1)).copied();
            match act {
                Act::Ask(kind, ms) => {
                    let body = match kind {
                        0 => get(token),
                        1 => call(false),
                        2 => call(true),
                        _ => put(token),
                    };
                    let timeout = Span::from_ms(ms.into());
                    seen.deadlines.insert(token, bed.now + timeout);
                    bed.handle(Input::Request { token, body, timeout });
                }
                Act::Respond(how) => {
                    if let Some((connection, request)) = bed.sent.pop_front()
                        && bed.open.contains_key(&connection)
                    {
                        let result = match how {
                            1 => Err(Error::Busy(1)),
                            2 => elsewhere(&["b:1", "d:1"]),
                            3 => Err(Error::Timeout { timeout_ms: 1, reason: "no leader".into() }),
                            4 => Err(Error::Invalid("no".into())),
                            _ => Ok(Answer::Done),
                        };
                        if how == 0 || how > 3 {
                            seen.answered.insert(request.sequence);
                        }
                        bed.respond(connection, request.sequence, result, (how == 5).then_some("c:1"));
                    }
                }
                Act::Drop => drop(bed.sent.pop_front()),
                Act::Close(n) => if let Some(connection) = nth(&bed, n) { bed.close(connection) },
                Act::Up(n) => if let Some(connection) = nth(&bed, n) { bed.handle(Input::Connected { connection, cluster: CLUSTER }) },
                Act::Fail(n) => if let Some(connection) = nth(&bed, n) {
                    bed.open.remove(&connection);
                    bed.handle(Input::Failed { connection, reason: "refused".into() });
                },
                Act::Pass(ms) => bed.pass(Span::from_ms(ms.into())),
            }
            for (_, request) in &bed.sent {
                if let RequestBody::Write(_) = request.body {
                    prop_assert!(request.acknowledged <= request.sequence);
                    let known = seen.writes.entry(request.sequence).or_insert_with(|| request.body.clone());
                    prop_assert_eq!(&*known, &request.body, "a sequence is one write for ever");
                }
            }
            for (token, deadline) in &seen.deadlines {
                prop_assert!(bed.now < *deadline || bed.answers.contains_key(token), "{} is late", token);
            }
        }
        bed.pass(Span::from_secs(5));
        prop_assert_eq!(bed.answers.len(), seen.deadlines.len());
        prop_assert_eq!(bed.client.outstanding(), 0);
        bed.connects = true;
        for connection in bed.open.keys().copied().collect::<Vec<_>>() {
            bed.handle(Input::Connected { connection, cluster: CLUSTER });
        }
        bed.sent.clear();
        bed.ask(u64::MAX, put(1));
        let (_, _, request) = bed.next();
        prop_assert_eq!(request.acknowledged, request.sequence, "all others are over");
    }
}
