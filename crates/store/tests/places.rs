//! What there is only so much of: who takes all he can get leaves as much to others.

use std::collections::BTreeMap;

use crate::bed::{Cluster, Invoked, location, put};
use machine::ServerId;
use machine::nanos::Span;
use placement::Strategy;
use store::protocol::{Answer, ClientMessage, Consistency, Error, RequestBody};
use store::{ClientId, Input, RequestId};

/// Connections of one host, and one of another.
const GREEDY: [ClientId; 4] = [ClientId(11), ClientId(12), ClientId(13), ClientId(14)];
const MODEST: ClientId = ClientId(20);

fn with_hosts(cluster: &mut Cluster) {
    let hosts = GREEDY.iter().map(|client| (*client, "192.0.2.1")).chain([(MODEST, "192.0.2.2")]);
    for (client, host) in hosts {
        for id in cluster.members.keys() {
            cluster.queue.push_back((*id, Input::Host { client, host: host.to_owned() }));
        }
    }
    cluster.run(Span::from_ms(1));
}

fn is_refused(result: Option<&Result<Answer, Error>>) -> bool {
    matches!(result, Some(Err(Error::Busy(_) | Error::Overloaded { .. })))
}

impl Cluster {
    /// Which of these were refused at once.
    fn refused(&self, client: ClientId, sent: &[u64]) -> usize {
        let result = |sequence: &u64| self.answers.get(&(client, *sequence)).map(|response| &response.result);
        sent.iter().filter(|sequence| is_refused(result(sequence))).count()
    }
}

#[test]
fn requests_that_wait_have_a_share_of_the_places() {
    let mut cluster = Cluster::tuned(3, Strategy::Single, |config| config.operations_max = 640);
    cluster.put(1, "/car:cars/car-entry=0", "before");
    with_hosts(&mut cluster);
    // Without a majority nothing is answered.
    cluster.members.retain(|id, _| id.0 == 1);
    cluster.timeout_ms = 3_000;
    let write = || put("/car:cars/car-entry=1", "x");
    let mut sent = Vec::new();
    for client in GREEDY {
        let of_client: Vec<u64> = (0..640).map(|_| cluster.send_as(client, 1, write())).collect();
        sent.push((client, of_client));
    }
    let modest: Vec<u64> = (0..100).map(|_| cluster.send_as(MODEST, 1, write())).collect();
    cluster.run(Span::from_ms(50));
    let held: Vec<usize> = sent.iter().map(|(client, sent)| 640 - cluster.refused(*client, sent)).collect();
    assert!(held[0] <= 160 && held[0] > 100, "a client holds {held:?} of 640");
    assert!(held.iter().sum::<usize>() <= 320, "a host holds {held:?} of 640");
    assert_eq!(cluster.refused(MODEST, &modest), 0, "who asks for little is heard");
    // All of it is given back: as many find a place again.
    cluster.run(Span::from_secs(4));
    let again: Vec<u64> = (0..100).map(|_| cluster.send_as(GREEDY[3], 1, write())).collect();
    cluster.run(Span::from_ms(50));
    assert_eq!(cluster.refused(GREEDY[3], &again), 0);
}

#[test]
fn watches_have_their_weight_and_a_share_of_the_memory() {
    let mut cluster = Cluster::tuned(1, Strategy::Single, |config| config.memory_bytes = 8 << 20);
    cluster.put(1, "/car:cars/car-entry=0", "before");
    with_hosts(&mut cluster);
    let name = "w".repeat(900);
    let watch = |n: u64| {
        let at = location(&format!("/car:cars/car-entry={name}{n}"));
        RequestBody::Watch { at, from: BTreeMap::new() }
    };
    let mut refused = 0;
    for client in GREEDY {
        let sent: Vec<u64> = (0..200).map(|n| cluster.send_as(client, 1, watch(n))).collect();
        cluster.run(Span::from_ms(50));
        refused += cluster.refused(client, &sent);
    }
    assert!(refused > 400, "only {refused} of 800 watches were refused");
    let of_watches = |cluster: &Cluster| cluster.server(1).memory().kinds[&store::budget::Kind::Watches];
    let (bytes, refusals) = of_watches(&cluster);
    assert!(bytes >= (800 - refused as u64) * 900 && refusals >= refused as u64, "{bytes} bytes, {refusals} refusals");
    // Another host has its own share.
    let watching = cluster.ask_as(MODEST, 1, watch(1));
    assert!(matches!(watching, Ok(Answer::Watching { .. })), "{watching:?}");
    for client in GREEDY.into_iter().chain([MODEST]) {
        cluster.queue.push_back((ServerId(1), Input::ClientGone(client)));
    }
    cluster.run(Span::from_ms(50));
    assert_eq!((of_watches(&cluster).0, cluster.server(1).memory().used_bytes), (0, 0));
}

#[test]
fn calls_that_nobody_answers_have_a_share_of_the_places() {
    let mut cluster = Cluster::by(1, Strategy::Single);
    cluster.timeout_ms = 3_000;
    cluster.run(Span::from_secs(2));
    with_hosts(&mut cluster);
    cluster.ask_as(ClientId(30), 1, RequestBody::Offer { offers: vec![("sleep".to_owned(), None)] }).unwrap();
    let call = || RequestBody::Call { name: "sleep".to_owned(), path: None, input: Vec::new(), idempotent: false };
    let mut refused = Vec::new();
    for client in GREEDY {
        let sent: Vec<u64> = (0..1_100).map(|_| cluster.send_as(client, 1, call())).collect();
        cluster.run(Span::from_ms(10));
        refused.push(cluster.refused(client, &sent));
    }
    // A quarter and half of the calls that one server may be asked: 4,096.
    assert_eq!(refused, [76, 76, 1_100, 1_100]);
    let modest = cluster.send_as(MODEST, 1, call());
    cluster.run(Span::from_ms(10));
    assert_eq!(cluster.refused(MODEST, &[modest]), 0);
    // Their time is over, and there are places again.
    cluster.run(Span::from_secs(4));
    let again = cluster.send_as(GREEDY[3], 1, call());
    cluster.run(Span::from_ms(10));
    assert_eq!(cluster.refused(GREEDY[3], &[again]), 0);
}

fn call(name: &str) -> RequestBody {
    RequestBody::Call { name: name.to_owned(), path: None, input: Vec::new(), idempotent: false }
}

fn reply(cluster: &mut Cluster, to: &Invoked) {
    let message = ClientMessage::Reply { call: to.call, result: Ok(b"done".to_vec()) };
    cluster.queue.push_back((to.server, Input::Client { client: to.client, id: RequestId(0), message }));
    cluster.run(Span::from_ms(5));
}

#[test]
fn an_answer_arrives_however_many_calls_others_make_meanwhile() {
    let mut cluster = Cluster::by(1, Strategy::Single);
    cluster.run(Span::from_secs(2));
    with_hosts(&mut cluster);
    let [provider, caller] = [ClientId(30), ClientId(31)];
    cluster.ask_as(provider, 1, RequestBody::Offer { offers: vec![("good:slow".to_owned(), None)] }).unwrap();
    cluster.ask_as(GREEDY[0], 1, RequestBody::Offer { offers: vec![("mal:never".to_owned(), None)] }).unwrap();
    cluster.timeout_ms = 600_000;
    let waiting = cluster.send_as(caller, 1, call("good:slow"));
    cluster.run(Span::from_ms(5));
    let asked = cluster.invoked.pop().expect("the provider was asked");
    // Calls of a millisecond to a provider that never answers.
    cluster.timeout_ms = 1;
    for _ in 0..70 {
        for _ in 0..1_000 {
            cluster.send_as(GREEDY[1], 1, call("mal:never"));
        }
        cluster.run(Span::from_ms(3));
    }
    assert!(cluster.invoked.len() > 69_000, "only {} calls were made", cluster.invoked.len());
    assert_eq!(cluster.server(1).deliveries_under_way(), 1, "a delivery goes when nobody waits for its answer");
    reply(&mut cluster, &asked);
    let answer = cluster.answer_to(caller, waiting);
    assert!(matches!(&answer, Some(Ok(Answer::Output(output))) if output == b"done"), "{answer:?}");
    assert_eq!(cluster.server(1).deliveries_under_way(), 0);
}

#[test]
fn a_provider_that_does_not_answer_has_a_share_of_what_providers_are_asked() {
    let mut cluster = Cluster::by(1, Strategy::Single);
    cluster.timeout_ms = 60_000;
    cluster.run(Span::from_secs(2));
    with_hosts(&mut cluster);
    let offer = || RequestBody::Offer { offers: vec![("m:sleep".to_owned(), None)] };
    cluster.ask_as(GREEDY[0], 1, offer()).unwrap();
    for caller in (100..105).map(ClientId) {
        for _ in 0..1_000 {
            cluster.send_as(caller, 1, call("m:sleep"));
        }
    }
    cluster.run(Span::from_ms(20));
    // A quarter of the 16,384 that all providers may be asked.
    assert_eq!((cluster.invoked.len(), cluster.server(1).deliveries_under_way()), (4_096, 4_096));
    let refused = |response: &&store::protocol::Response| matches!(&response.result, Err(Error::Rpc(_)));
    assert_eq!(cluster.answers.values().filter(refused).count(), 904, "who finds no place is told so at once");
    // Its host has half, whatever connections it makes; another host has its own share.
    for (provider, more) in [(GREEDY[1], 4_096), (GREEDY[2], 0), (MODEST, 1_000)] {
        cluster.invoked.clear();
        cluster.ask_as(provider, 1, offer()).unwrap();
        for caller in (110..115).map(|n| ClientId(n + 10 * provider.0)) {
            for _ in 0..1_000 {
                cluster.send_as(caller, 1, call("m:sleep"));
            }
        }
        cluster.run(Span::from_ms(20));
        let asked = cluster.invoked.iter().filter(|invoked| invoked.client == provider).count();
        assert!(if more == 1_000 { asked >= more } else { asked == more }, "{provider:?} was asked {asked} times");
    }
    // An answer makes room for another call.
    let answered = cluster.invoked.pop().expect("somebody was asked");
    let before = cluster.server(1).deliveries_under_way();
    reply(&mut cluster, &answered);
    assert_eq!(cluster.server(1).deliveries_under_way(), before - 1);
    for client in GREEDY.into_iter().chain([MODEST]) {
        cluster.queue.push_back((ServerId(1), Input::ClientGone(client)));
    }
    cluster.run(Span::from_ms(20));
    assert_eq!(cluster.server(1).deliveries_under_way(), 0);
}

/// To refuse costs next to nothing: what is asked for is weighed before it is copied.
#[test]
fn what_finds_no_room_is_not_read() {
    let mut cluster = Cluster::tuned(1, Strategy::Single, |config| config.memory_bytes = 8 << 20);
    cluster.run(Span::from_secs(2));
    for key in 0..8 {
        cluster.ask(1, put(&format!("/car:cars/car-entry={key}"), vec![7; 100_000])).unwrap();
    }
    let greedy = ClientId(50);
    cluster.unread.insert(greedy, 0);
    let ask = |cluster: &mut Cluster, count: usize| {
        let body =
            RequestBody::List { at: location("/car:cars"), after: None, limit: 100, consistency: Consistency::Stale };
        let sent: Vec<u64> = (0..count).map(|_| cluster.send_as(greedy, 1, body.clone())).collect();
        cluster.run(Span::from_ms(5));
        sent.into_iter().filter(|sequence| matches!(cluster.answer_to(greedy, *sequence), Some(Ok(_)))).count()
    };
    assert!((1..5).contains(&ask(&mut cluster, 5)), "a share of the memory is answered");
    let before = cluster.server(1).read_bytes();
    assert_eq!(ask(&mut cluster, 100), 0);
    let read = cluster.server(1).read_bytes() - before;
    assert!((1..100_000).contains(&read), "{read} bytes were read for a hundred refusals");
}
