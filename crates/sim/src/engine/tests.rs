//! What is sent arrives, or is counted.

use super::*;
use link::LinkSpec;
use proptest::prelude::*;
use transport::TransportSpec;
use vswitch::{Pipelines, Spread};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Four hosts send to four others over one link, and nothing is lost but what the counters say.
    #[test]
    fn what_is_sent_arrives_or_is_dropped_or_is_under_way(
        queue in 0_u32..30, window in 1_u32..60, kind in 0_usize..3, us in 1_u64..40_000, delayed in any::<bool>(),
    ) {
        let kind = [TransportKind::Reno, TransportKind::NewReno, TransportKind::Sack][kind];
        let spec = LinkSpec { queue_packets: Some(queue), ..network::GIGABIT };
        let (left, right) = (8, 9);
        let mut links: Vec<_> = (0..8).map(|host| (host, if host < 4 { left } else { right }, spec)).collect();
        links.push((left, right, spec));
        let fabric = network::network(8, 2, &links);
        let routes = Arc::new(Routes::compute(&fabric.topology));
        let delayed_ack = delayed.then_some(Span::from_ms(1));
        let transport = TransportSpec { kind, delayed_ack, rto_min: Span::from_ms(2), ..network::reno(window) };
        let flows: Vec<_> = (0..4)
            .map(|n| FlowSpec { from: NodeId(n), to: NodeId(n + 4), start: Time::from_ns(u64::from(n) * 700) })
            .collect();
        let scenario = Scenario {
            pipelines: &Pipelines::default(),
            fabric: &fabric, routes: &routes, spread: Spread::Single, transport: &transport, flows: &flows,
            warm_up: Span::ZERO, duration: Span::ZERO, rate_pps: None, transfers: None, requests: None,
            time_series: None, faults: &[], hosts: None, seed: 1,
        };
        let mut engine = Engine::new(&scenario, &[]);
        engine.run_before(Time::ZERO + Span::from_us(us));
        let accepted: u64 = engine.graph.egress.iter().filter_map(|egress| egress.link()).map(|link| link.counters(Time::NEVER).packets).sum();
        let in_flight = u64::from(engine.in_flight());
        prop_assert_eq!(engine.packet_hops() + in_flight, accepted);
        let (mut sent, mut arrived) = (0, 0);
        for flow in engine.flows().0 {
            let counters = flow.sender.counters();
            sent += counters.segments;
            arrived += flow.meter.counters().segments;
            prop_assert!(flow.receiver.delivered_bytes() / 1_000 <= flow.meter.counters().segments);
            prop_assert!(flow.sender.unacknowledged() <= flow.receiver.delivered_bytes());
            prop_assert!(flow.sender.flight() <= u64::from(window) * 1_000);
        }
        // Data flows from left to right only: over the first four links and the last one to B, else to A.
        let dropped: u64 = (0..9)
            .map(|n| engine.link(LinkId(n), if (4..8).contains(&n) { Side::B } else { Side::A }).counters(Time::NEVER).drops)
            .sum();
        let under_way = sent - arrived - dropped;
        prop_assert!(under_way <= in_flight, "sent {sent}, arrived {arrived}, dropped {dropped}, in flight {in_flight}");
    }
}
