//! What is refused, and that nothing grows beyond its bound.

use std::collections::{BTreeMap, BTreeSet};

use machine::nanos::{Span, Step, Time};
use machine::{Control, Rng, ServerId};
use rpc::config::{
    CALLS_PER_SERVER_MAX, EXECUTIONS_MAX, EXECUTIONS_PER_SERVER_MAX, OFFERS_MAX, PAYLOAD_BYTES_MAX, SERVERS_MAX,
};
use rpc::{
    AttemptId, Bound, Bucket, Call, CallId, Config, DeliveryId, Error, Input, Message, Offer, Output, ProviderId, Rpc,
    Verdict, Version,
};

const NAME: &str = "people:add-person";

fn named(name: &str) -> Offer {
    Offer { name: name.to_owned(), path: None }
}

/// Server 1, which has server 2 as a live peer.
fn rpc() -> Rpc {
    let mut rpc = Rpc::new(ServerId(1), 5, Config::default(), Rng::new(1));
    take(&mut rpc, Input::Members(vec![ServerId(1), ServerId(2)]));
    take(&mut rpc, Input::Live(vec![ServerId(2)]));
    rpc
}

fn take(rpc: &mut Rpc, input: Input) -> Vec<Output> {
    rpc.handle(Time::ZERO, input);
    core::iter::from_fn(|| match rpc.poll(Time::ZERO) {
        Step::Do(output) => Some(output),
        Step::Wait(_) => None,
    })
    .collect()
}

fn hear(rpc: &mut Rpc, message: Message) -> Vec<Output> {
    take(rpc, Input::Message { from: ServerId(2), message })
}

fn envelope(server: u64, version: Version, names: impl IntoIterator<Item = String>) -> Message {
    let offers: BTreeSet<_> = names.into_iter().map(|name| named(&name)).collect();
    Message::Envelope { buckets: BTreeMap::from([(ServerId(server), Bucket { version, offers })]) }
}

fn refusal(outputs: &[Output]) -> &Error {
    match outputs {
        [Output::MessageRefused { from: ServerId(2), error }] => error,
        other => panic!("a refusal was expected: {other:?}"),
    }
}

fn call(id: u64) -> Call {
    let (name, input) = (NAME.to_owned(), [0][..].into());
    Call { id: CallId(id), name, path: None, input, timeout: Span::from_secs(1), idempotent: false }
}

fn answer(outputs: &[Output]) -> &Result<rpc::Bytes, Error> {
    match outputs.last() {
        Some(Output::Answer { result, .. }) => result,
        other => panic!("an answer was expected: {other:?}"),
    }
}

#[test]
fn hostile_gossip_is_refused_with_the_reason_and_changes_nothing() {
    let mut rpc = rpc();
    let first = Version { incarnation: 1, change: 1 };
    let many = envelope(2, first, (0..=OFFERS_MAX).map(|n| n.to_string()));
    assert!(matches!(refusal(&hear(&mut rpc, many)), Error::TooManyOffers { offers: 4_097, .. }));
    let blank = envelope(2, first, ["add person".to_owned()]);
    assert!(matches!(refusal(&hear(&mut rpc, blank)), Error::Name { .. }));
    let long = envelope(2, first, ["x".repeat(257)]);
    assert!(matches!(refusal(&hear(&mut rpc, long)), Error::Name { .. }));
    let last = envelope(2, Version { incarnation: u64::MAX, change: 0 }, []);
    assert!(matches!(refusal(&hear(&mut rpc, last)), Error::Version { server: ServerId(2), .. }));
    let versions = (0..=SERVERS_MAX as u64).map(|n| (ServerId(n), first)).collect();
    assert!(matches!(refusal(&hear(&mut rpc, Message::Status { versions })), Error::TooManyServers { servers: 257 }));
    assert_eq!(rpc.registry().buckets().len(), 1);
    assert_eq!(rpc.counters().messages_refused, 5);
    // Of servers that nobody knows nothing is kept.
    assert!(hear(&mut rpc, envelope(9, first, [NAME.to_owned()])).is_empty());
    assert_eq!(rpc.registry().buckets().len(), 1);
}

#[test]
fn nobody_else_writes_the_own_bucket() {
    let mut rpc = rpc();
    let highest = Version { incarnation: u64::MAX >> 1, change: 7 };
    hear(&mut rpc, envelope(1, highest, ["evil:rpc".to_owned()]));
    assert!(rpc.registry().own_bucket().offers.is_empty());
    assert!(rpc.registry().own_bucket().version > highest);
    assert_eq!(rpc.counters().versions_refuted, 1);
}

#[test]
fn strangers_are_not_served() {
    let mut rpc = rpc();
    let attempt = AttemptId { incarnation: 1, sequence: 1 };
    let (name, input) = (NAME.to_owned(), [0][..].into());
    let message = Message::Call { attempt, receiver: 5, name, path: None, input, timeout: Span::from_secs(1) };
    let outputs = take(&mut rpc, Input::Message { from: ServerId(3), message });
    assert!(matches!(
        &outputs[..],
        [
            Output::Send { to: ServerId(3), message: Message::Busy { .. } },
            Output::MessageRefused { error: Error::Stranger { server: ServerId(3) }, .. }
        ]
    ));
}

#[test]
fn offers_are_bounded_also_when_many_clients_have_the_same() {
    let mut rpc = rpc();
    let some: Vec<_> = (0..OFFERS_MAX / 2).map(|n| named(&n.to_string())).collect();
    for provider in 0..2 {
        assert!(
            take(&mut rpc, Input::Offer { provider: ProviderId(provider), offers: some.clone() })
                .iter()
                .all(|o| matches!(o, Output::Send { .. }))
        );
    }
    let outputs = take(&mut rpc, Input::Offer { provider: ProviderId(3), offers: some });
    assert!(matches!(&outputs[..], [Output::OfferRefused { error: Error::TooManyOffers { .. }, .. }]));
    take(&mut rpc, Input::ProviderGone(ProviderId(0)));
    assert!(take(&mut rpc, Input::Offer { provider: ProviderId(3), offers: vec![named(NAME)] }).is_empty());
    assert_eq!(rpc.registry().own_bucket().offers.len(), OFFERS_MAX / 2 + 1);
}

#[test]
fn a_local_call_that_cannot_be_delivered_goes_to_the_next_provider() {
    let mut rpc = rpc();
    for provider in 1..=2 {
        take(&mut rpc, Input::Offer { provider: ProviderId(provider), offers: vec![named(NAME)] });
    }
    let outputs = take(&mut rpc, Input::Call(call(1)));
    let [Output::Deliver { provider: first, delivery, .. }] = outputs[..] else { panic!("{outputs:?}") };
    let outputs = take(&mut rpc, Input::Undelivered { delivery });
    let [Output::Deliver { provider: second, delivery, .. }, Output::Ended { .. }] = outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_ne!(first, second);
    let outputs = take(&mut rpc, Input::Undelivered { delivery });
    let refused = Err(Error::Busy { what: Bound::Executions, bound: EXECUTIONS_MAX as u64 });
    assert!(matches!(&outputs[..], [Output::Answer { result, .. }, Output::Ended { .. }] if *result == refused));
}

/// Two clients have the same offer, and one of them others.
#[test]
fn the_own_bucket_follows_what_is_offered_and_withdrawn() {
    let mut rpc = rpc();
    let offer = |rpc: &mut Rpc, provider, names: &[&str]| {
        let offers = names.iter().map(|name| named(name)).collect();
        take(rpc, Input::Offer { provider: ProviderId(provider), offers });
    };
    let names =
        |rpc: &Rpc| rpc.registry().own_bucket().offers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    offer(&mut rpc, 1, &["a", "b", "a"]);
    offer(&mut rpc, 2, &["b", "c"]);
    assert_eq!(names(&rpc), "a b c");
    let version = rpc.registry().own_bucket().version;
    offer(&mut rpc, 2, &["b", "a"]);
    take(&mut rpc, Input::Withdraw { provider: ProviderId(1), offers: vec![named("b"), named("c")] });
    assert_eq!(
        (names(&rpc).as_str(), rpc.registry().own_bucket().version),
        ("a b c", version),
        "others have them still"
    );
    take(&mut rpc, Input::ProviderGone(ProviderId(2)));
    assert_eq!((names(&rpc).as_str(), rpc.offers_of(ProviderId(1))), ("a", vec![named("a")]));
    take(&mut rpc, Input::Withdraw { provider: ProviderId(1), offers: vec![named("a")] });
    assert_eq!(names(&rpc), "");
}

#[test]
fn calls_to_one_server_are_bounded_and_unsent_ones_end_as_not_executed() {
    let mut rpc = rpc();
    hear(&mut rpc, envelope(2, Version { incarnation: 1, change: 1 }, [NAME.to_owned()]));
    let mut attempts = Vec::new();
    for n in 0..CALLS_PER_SERVER_MAX as u64 {
        match &take(&mut rpc, Input::Call(call(n)))[..] {
            [Output::Send { to: ServerId(2), message: Message::Call { attempt, .. } }] => attempts.push(*attempt),
            other => panic!("{other:?}"),
        }
    }
    let outputs = take(&mut rpc, Input::Call(call(u64::MAX)));
    assert!(matches!(answer(&outputs), Err(Error::Busy { what: Bound::CallsToServer, bound: 4_096 })));
    let outputs = take(&mut rpc, Input::Call(call(0)));
    assert!(matches!(answer(&outputs), Err(Error::CallUnderWay { id: 0 })));
    let outputs = take(&mut rpc, Input::Unsent { to: ServerId(2), attempt: attempts[3] });
    assert!(matches!(&outputs[..], [Output::Answer { id: CallId(3), result: Err(Error::Unreachable { .. }) }]));
    // An answer must come from the server that was asked.
    let verdict = Verdict::Done([1][..].into());
    take(&mut rpc, Input::Members(vec![ServerId(2), ServerId(3)]));
    let message = Message::Result { attempt: attempts[4], verdict: verdict.clone() };
    assert!(take(&mut rpc, Input::Message { from: ServerId(3), message: message.clone() }).is_empty());
    let outputs = hear(&mut rpc, message);
    assert_eq!(outputs, [Output::Answer { id: CallId(4), result: Ok([1][..].into()) }]);
    take(&mut rpc, Input::Cancel(CallId(5)));
    assert_eq!(rpc.calls_under_way(), CALLS_PER_SERVER_MAX - 3);
    // The removal of the server ends them all.
    assert_eq!(take(&mut rpc, Input::Members(vec![ServerId(3)])).len(), CALLS_PER_SERVER_MAX - 3);
}

#[test]
fn executions_for_one_server_are_bounded_and_forgotten_at_their_deadline() {
    let mut rpc = rpc();
    take(&mut rpc, Input::Offer { provider: ProviderId(1), offers: vec![named(NAME)] });
    let call = |sequence| Message::Call {
        attempt: AttemptId { incarnation: 1, sequence },
        receiver: 5,
        name: NAME.to_owned(),
        path: None,
        input: [0][..].into(),
        timeout: Span::from_secs(1),
    };
    for n in 0..EXECUTIONS_PER_SERVER_MAX as u64 {
        assert!(matches!(hear(&mut rpc, call(n))[..], [Output::Deliver { .. }]));
    }
    assert!(matches!(hear(&mut rpc, call(1 << 40))[..], [Output::Send { message: Message::Busy { .. }, .. }]));
    // A repeat of what was refused is not taken either: its caller has gone elsewhere.
    assert!(hear(&mut rpc, call(1 << 40)).is_empty());
    // Nobody but the provider answers.
    let reply = |provider| Input::Reply {
        provider: ProviderId(provider),
        delivery: DeliveryId(0),
        result: Err("no".to_owned()),
    };
    assert!(take(&mut rpc, reply(2)).is_empty());
    let outputs = take(&mut rpc, reply(1));
    assert!(matches!(outputs[..], [Output::Send { message: Message::Result { .. }, .. }, Output::Ended { .. }]));
    // A provider that cannot be asked has not executed it, and the caller goes on.
    let outputs = take(&mut rpc, Input::Undelivered { delivery: DeliveryId(1) });
    assert!(matches!(outputs[..], [Output::Send { message: Message::Busy { .. }, .. }, Output::Ended { .. }]));
    let later = Time::ZERO + Span::from_secs(1);
    let mut ended = 0;
    while let Step::Do(output) = rpc.poll(later) {
        ended += usize::from(matches!(output, Output::Ended { .. }));
    }
    assert_eq!(ended, EXECUTIONS_PER_SERVER_MAX - 2);
    assert_eq!(rpc.describe()[0].calls_under_way, 0);
}

#[test]
fn payloads_are_bounded_both_ways() {
    let mut rpc = rpc();
    take(&mut rpc, Input::Offer { provider: ProviderId(1), offers: vec![named(NAME)] });
    let large = vec![0; PAYLOAD_BYTES_MAX + 1];
    let outputs = take(&mut rpc, Input::Call(Call { input: large.clone().into(), ..call(1) }));
    assert!(matches!(answer(&outputs), Err(Error::InputTooLarge { bytes: 1_048_577 })));
    let outputs = take(&mut rpc, Input::Call(Call { input: large[1..].into(), ..call(2) }));
    let [Output::Deliver { delivery, .. }] = outputs[..] else { panic!("{outputs:?}") };
    let outputs = take(&mut rpc, Input::Reply { provider: ProviderId(1), delivery, result: Ok(large.into()) });
    assert!(matches!(answer(&outputs[..1]), Err(Error::OutputTooLarge { bytes: 1_048_577 })));
    assert_eq!(outputs[1..], [Output::Ended { provider: ProviderId(1), delivery }]);
    assert_eq!(rpc.counters().calls_completed, 1);
}
