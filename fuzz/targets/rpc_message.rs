//! What other servers say to a server's RPC part: any bytes are refused or taken, and nothing grows beyond its bound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::nanos::{Span, Step, Time};
use machine::{Control, Rng, ServerId};
use rpc::config::{CALLS_PER_SERVER_MAX, EXECUTIONS_MAX, SERVERS_MAX};
use rpc::{Call, CallId, Config, Input, Message, Offer, Output, ProviderId, Rpc};

const NAME: &str = "people:add-person";

fuzz_target!(|bytes: &[u8]| {
    let mut rpc = Rpc::new(ServerId(1), 1, Config::default(), Rng::new(1));
    let mut now = Time::ZERO;
    let peers = vec![ServerId(1), ServerId(2), ServerId(3)];
    step(&mut rpc, now, Input::Members(peers.clone()));
    step(&mut rpc, now, Input::Live(peers));
    let offers = vec![Offer { name: NAME.to_owned(), path: None }];
    step(&mut rpc, now, Input::Offer { provider: ProviderId(1), offers });
    // Length and sender, message, and so on.
    let mut rest = bytes;
    let mut calls = 0;
    while let [length, sender, after @ ..] = rest {
        let (message, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        now += Span::from_ms(u64::from(*sender) % 32);
        let from = ServerId(u64::from(*sender) % 5);
        let Ok(message) = postcard::from_bytes::<Message>(message) else { continue };
        let written = postcard::to_stdvec(&message).expect("any message can be written");
        assert_eq!(postcard::from_bytes::<Message>(&written).expect("what was written can be read"), message);
        step(&mut rpc, now, Input::Message { from, message });
        calls += 1;
        let timeout = Span::from_ms(20);
        let call = Call {
            id: CallId(calls),
            name: NAME.to_owned(),
            path: None,
            input: [1][..].into(),
            timeout,
            idempotent: true,
        };
        step(&mut rpc, now, Input::Call(call));
        assert!(rpc.registry().buckets().len() <= SERVERS_MAX);
        assert!(rpc.registry().buckets().iter().all(|(server, bucket)| bucket.check(*server).is_ok()));
        assert!(rpc.registry().own_bucket().offers.len() == 1, "only this server writes its bucket");
        for status in rpc.describe() {
            let bound = if status.server == ServerId(1) { EXECUTIONS_MAX } else { CALLS_PER_SERVER_MAX };
            assert!(status.calls_under_way <= bound);
        }
    }
    step(&mut rpc, now + Span::from_ms(20), Input::ProviderGone(ProviderId(1)));
    assert_eq!(rpc.calls_under_way(), 0, "each call ends within its timeout");
});

/// Hands in one input and drains the machine. What comes out can be written.
fn step(rpc: &mut Rpc, now: Time, input: Input) {
    rpc.handle(now, input);
    let mut outputs = 0;
    while let Step::Do(output) = rpc.poll(now) {
        if let Output::Send { message, .. } = output {
            postcard::to_stdvec(&message).expect("any message can be written");
        }
        outputs += 1;
        assert!(outputs < 10_000, "an input has few outputs");
    }
}
