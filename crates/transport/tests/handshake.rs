//! How Linux's machines open a connection, and what that has to do with compressed acknowledgements.

use crate::delivery::spec;
use machine::{Control, Span, Step, Time};
use transport::{Ack, Ecn, ReceivingEndpoint, Segment, SendingEndpoint, receiver, segment::Blocks, sender};
use transport::{TransportKind, TransportSpec};

fn linux() -> TransportSpec {
    TransportSpec { delayed_ack: Some(Span::from_ms(40)), ..spec(TransportKind::Linux, 64) }
}

fn at(span: Span) -> Time {
    Time::ZERO + span
}

fn wait<T: std::fmt::Debug>(step: &Step<T>) -> Time {
    let Step::Wait(until) = step else { panic!("it has something to do: {step:?}") };
    *until
}

#[test]
fn a_connection_is_opened_before_data_is_sent() {
    let mut sender = SendingEndpoint::new(&linux());
    sender.handle(Time::ZERO, sender::Input::Connect);
    let syn = Segment { seq: Segment::SYN, stamp: Time::ZERO, push: false, ecn: Ecn::NONE, echo: 0 };
    assert_eq!(sender.poll(Time::ZERO), Step::Do(syn));
    wait(&sender.poll(Time::ZERO));
    let mut receiver = ReceivingEndpoint::new(&linux());
    receiver.handle(at(Span::from_ms(1)), receiver::Input::Data(syn));
    let Step::Do(answer) = receiver.poll(at(Span::from_ms(1))) else { panic!("a SYN is answered") };
    assert_eq!(
        answer,
        Ack { ack: 0, echo: Time::ZERO, blocks: Blocks::NONE, ecn: Ecn::NONE, offer: transport::Offer::NONE }
    );
    let now = at(Span::from_ms(2));
    sender.handle(now, sender::Input::Ack(answer));
    let sent: Vec<u64> = core::iter::from_fn(|| match sender.poll(now) {
        Step::Do(segment) => Some(segment.seq),
        Step::Wait(_) => None,
    })
    .collect();
    assert_eq!(sent[..3], [Segment::SYN_ANSWERED, 0, u64::from(linux().segment_bytes)]);
    assert_eq!(sender.flight(), (sent.len() as u64 - 1) * u64::from(linux().segment_bytes));
    // The end of the handshake is not acknowledged, data is.
    let end = Segment { seq: Segment::SYN_ANSWERED, stamp: now, push: false, ecn: Ecn::NONE, echo: 0 };
    receiver.handle(at(Span::from_ms(3)), receiver::Input::Data(end));
    assert_eq!(wait(&receiver.poll(at(Span::from_ms(3)))), Time::NEVER);
    receiver.handle(
        at(Span::from_ms(3)),
        receiver::Input::Data(Segment { seq: 0, stamp: now, push: false, ecn: Ecn::NONE, echo: 0 }),
    );
    assert!(matches!(receiver.poll(at(Span::from_ms(3))), Step::Do(_)));
    // Nor what comes late of it.
    for late in [end, syn] {
        receiver.handle(at(Span::from_ms(4)), receiver::Input::Data(late));
        wait(&receiver.poll(at(Span::from_ms(4))));
    }
}

#[test]
fn a_syn_that_is_lost_is_sent_again_five_times_at_the_same_pace() {
    let mut sender = SendingEndpoint::new(&linux());
    sender.handle(Time::ZERO, sender::Input::Connect);
    let (mut now, mut waited) = (Time::ZERO, Vec::new());
    for _ in 0..8 {
        assert_eq!(
            sender.poll(now),
            Step::Do(Segment { seq: Segment::SYN, stamp: now, push: false, ecn: Ecn::NONE, echo: 0 })
        );
        let until = wait(&sender.poll(now));
        waited.push(until.since(now).as_ps() / Span::from_secs(1).as_ps());
        now = until;
        sender.handle(now, sender::Input::Tick);
    }
    assert_eq!(waited, [1, 1, 1, 1, 1, 2, 4, 8]);
}

/// Segments that leave first when `lost` SYNs had no answer, and the last one, or the first, is answered.
fn first_flight(lost: u32, answers_first: bool) -> usize {
    let mut sender = SendingEndpoint::new(&linux());
    sender.handle(Time::ZERO, sender::Input::Connect);
    let mut now = Time::ZERO;
    for _ in 0..lost {
        assert!(matches!(sender.poll(now), Step::Do(_)));
        now = wait(&sender.poll(now));
        sender.handle(now, sender::Input::Tick);
    }
    assert!(matches!(sender.poll(now), Step::Do(_)));
    let echo = if answers_first { Time::ZERO } else { now };
    now += Span::from_ms(2);
    sender.handle(
        now,
        sender::Input::Ack(Ack { ack: 0, echo, blocks: Blocks::NONE, ecn: Ecn::NONE, offer: transport::Offer::NONE }),
    );
    let sent = core::iter::from_fn(|| if let Step::Do(segment) = sender.poll(now) { Some(segment) } else { None });
    sent.filter(Segment::carries_data).count()
}

#[test]
fn the_window_begins_with_one_segment_if_two_syns_were_lost() {
    let initial = linux().initial_window as usize;
    assert_eq!([0, 1, 2, 3].map(|lost| first_flight(lost, false)), [initial, initial, 1, 1]);
    assert_eq!(first_flight(2, true), initial, "none was lost, the answer was late");
}

/// A receiver that has shaken hands in this time, and when it sends what it holds back beyond a hole.
fn holds_back(round_trip: Span) -> Span {
    let spec = linux();
    let bytes = u64::from(spec.segment_bytes);
    let mut receiver = ReceivingEndpoint::new(&spec);
    let mut come = |seq: u64, now: Time| {
        receiver.handle(now, receiver::Input::Data(Segment { seq, stamp: now, push: false, ecn: Ecn::NONE, echo: 0 }));
        receiver.poll(now)
    };
    assert!(matches!(come(Segment::SYN, Time::ZERO), Step::Do(_)));
    let mut now = Time::ZERO + round_trip;
    wait(&come(Segment::SYN_ANSWERED, now));
    // Until no phase of quick acknowledgements is left, nor a round trip of its window to be waited for.
    for segment in 0..1_000 {
        now += Span::from_ms(1);
        come(segment * bytes, now);
    }
    for beyond in 1_001..=1_003 {
        assert!(matches!(come(beyond * bytes, now), Step::Do(_)));
    }
    wait(&come(1_004 * bytes, now)).since(now)
}

#[test]
fn acknowledgements_are_compressed_by_the_round_trip_of_the_handshake() {
    let slack = Span::from_us(100);
    assert_eq!(holds_back(Span::from_ms(1)), Span::from_us(50) + slack);
    assert_eq!(holds_back(Span::from_ms(10)), Span::from_us(500) + slack);
    assert_eq!(holds_back(Span::from_ms(90)), Span::from_ms(1) + slack);
}
