//! Whatever the network does, all bytes arrive in order, and the machines never stand still.

use std::fmt::Write as _;

use crate::pair::{Fate, Pair};
use machine::{Rng, Span, Time};
use proptest::prelude::*;
use transport::{ReceiveWindow, TransportKind, TransportSpec};

const KINDS: [TransportKind; 4] =
    [TransportKind::Reno, TransportKind::NewReno, TransportKind::Sack, TransportKind::Linux];

pub fn spec(kind: TransportKind, window: u32) -> TransportSpec {
    TransportSpec {
        kind,
        window: window.into(),
        initial_window: 2,
        duplicate_ack_threshold: 3,
        delayed_ack: None,
        segment_bytes: 1_000,
        header_bytes: 40,
        rto_min: Span::from_ms(200),
        linux: transport::linux::Settings::default(),
    }
}

fn fate() -> impl Strategy<Value = Fate> {
    let delay = || (0_u64..40).prop_map(Span::from_ms);
    prop_oneof![
        6 => Just(Fate::Arrive(Span::from_ms(10))),
        3 => delay().prop_map(Fate::Arrive),
        2 => Just(Fate::Lose),
        1 => (delay(), delay()).prop_map(|(a, b)| Fate::Duplicate(a, b)),
    ]
}

fn any_spec() -> impl Strategy<Value = TransportSpec> {
    let delayed = prop_oneof![Just(None), (1_u64..200).prop_map(|ms| Some(Span::from_ms(ms)))];
    (0..=KINDS.len(), 1_u32..70, 1_u32..12, 1_u32..8, delayed).prop_map(
        |(kind, window, initial, threshold, delayed_ack)| {
            // Beyond the kinds: Linux's receiver that finds out its window.
            let fixed = spec(*KINDS.get(kind).unwrap_or(&TransportKind::Linux), window);
            let window = if kind < KINDS.len() { fixed.window } else { ReceiveWindow::Auto };
            TransportSpec { window, initial_window: initial, duplicate_ack_threshold: threshold, delayed_ack, ..fixed }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// After the scripted fates the network is perfect; what was scripted repeats for a while before.
    #[test]
    fn all_bytes_arrive_in_order(spec in any_spec(), fates in proptest::collection::vec(fate(), 0..120), rounds in 1_usize..4) {
        let script: Vec<_> = (0..rounds).flat_map(|_| fates.clone()).collect();
        let mut script = script.into_iter();
        let mut pair = Pair::new(&spec, |_, _| script.next().unwrap_or(Fate::Arrive(Span::from_ms(10))));
        let goal = 400_000;
        // 400 segments at one a round trip and a delayed ACK are 90 s; each loss costs a timeout of a minute at most.
        let end = Time::ZERO + Span::from_secs(100 + 60 * 360);
        while pair.receiver.delivered_bytes() < goal {
            prop_assert!(pair.step(end), "stands still at {:?} with {} bytes", pair.now, pair.receiver.delivered_bytes());
        }
    }

    /// What nobody sent: the sender keeps its bounds whatever acknowledgements say.
    #[test]
    fn nonsense_does_no_harm(spec in any_spec(), acks in proptest::collection::vec((0_u64..80, 0_u32..80_000, 0_u32..80_000, 0_u64..2_000), 0..200)) {
        use machine::{Control, Step};
        use transport::segment::{Block, Blocks};
        let mut sender = transport::SendingEndpoint::new(&spec);
        let mut now = Time::ZERO;
        sender.handle(now, transport::sender::Input::Start);
        for (ack, start, end, ms) in acks {
            while let Step::Do(segment) = sender.poll(now) {
                prop_assert!(segment.seq + 1_000 <= sender.unacknowledged() + u64::from(transport::window(&spec)) * 1_000);
            }
            now += Span::from_ms(ms);
            let mut blocks = Blocks::NONE;
            blocks.push(Block { start, end });
            let ack = transport::Ack { ack: ack * 1_000, echo: Time::from_ns(u64::from(start)), blocks, ecn: transport::Ecn::NONE, offer: transport::Offer::NONE };
            sender.handle(now, transport::sender::Input::Ack(ack));
            sender.handle(now, transport::sender::Input::Tick);
            prop_assert!(sender.flight() <= u64::from(transport::window(&spec)) * 1_000);
            let counters = sender.counters();
            prop_assert!(counters.retransmits <= counters.segments);
        }
    }
}

/// Segments delivered in 20 s over a path of 20 ms that loses `permille` of the data, and the sender's counters.
fn lossy(kind: TransportKind, window: u32, permille: u32) -> (u64, transport::sender::Counters) {
    let mut rng = Rng::new(u64::from(permille)).fork(u64::from(window));
    let mut pair = Pair::new(&spec(kind, window), |_, data| {
        let lost = data && rng.below(1_000) < permille;
        if lost { Fate::Lose } else { Fate::Arrive(Span::from_ms(10)) }
    });
    let end = Time::ZERO + Span::from_secs(20);
    while pair.step(end) {}
    (pair.receiver.delivered_bytes() / 1_000, pair.sender.counters())
}

/// Loss x window, as smoltcp's test has it. The table is the regression test; the assertions say what it must show.
#[test]
fn sweep_of_loss_and_window() {
    let mut table = String::from("segments in 20 s (retransmits, fast retransmits, timeouts); round trip 20 ms\n");
    for kind in KINDS {
        let _ = writeln!(table, "\n{kind:?}\n{:>9} {:>28} {:>28} {:>28}", "loss", "window 4", "window 16", "window 64");
        for permille in [0, 1, 5, 10, 30, 100, 300] {
            let _ = write!(table, "{:>7}.{} %", permille / 10, permille % 10);
            for window in [4, 16, 64] {
                let (segments, sent) = lossy(kind, window, permille);
                let counts = format!("({}, {}, {})", sent.retransmits, sent.fast_retransmits, sent.timeouts);
                let _ = write!(table, " {:>28}", format!("{segments} {counts}"));
            }
            table.push('\n');
        }
    }
    insta::assert_snapshot!(table);
    for window in [4, 16, 64] {
        // No loss: a window a round trip, less the slow start's.
        let (segments, sent) = lossy(TransportKind::Reno, window, 0);
        let full = u64::from(window) * 1_000;
        assert!((full - 5 * u64::from(window)..=full).contains(&segments), "{segments}");
        assert_eq!((sent.retransmits, sent.timeouts), (0, 0));
    }
    let by_kind = [TransportKind::Reno, TransportKind::NewReno, TransportKind::Sack].map(|kind| lossy(kind, 64, 30).0);
    assert!(by_kind.is_sorted(), "SACK beats NewReno beats Reno where a window loses several: {by_kind:?}");
}
