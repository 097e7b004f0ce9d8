//! Switches that do more than to forward.

use std::sync::Arc;

use crate::network::{self, GIGABIT, reno};
use crate::pipelines::{self, CLIENT, MONITOR, SERVER, VIRTUAL};
use crate::scenario;
use link::LinkSpec;
use machine::{Span, Time};
use sim::{FlowSpec, Outcome, Scenario};
use topology::{NodeId, Routes};
use transport::TransportSpec;
use vswitch::Pipelines;

fn run(network: &[(u32, u32, LinkSpec)], pipelines: &Pipelines, transport: &TransportSpec, ms: u64) -> Outcome {
    let fabric = network::network(4, 2, network);
    let routes = Arc::new(Routes::compute(&fabric.topology));
    sim::run(&Scenario {
        warm_up: Span::from_ms(20),
        duration: Span::from_ms(ms),
        pipelines,
        ..scenario::plain(&fabric, &routes, transport, &[FlowSpec { from: CLIENT, to: VIRTUAL, start: Time::ZERO }])
    })
}

/// Hosts at the switch 4 or 5, and a link between those.
fn two_switches(switches: [(NodeId, u32); 4], spec: LinkSpec) -> Vec<(u32, u32, LinkSpec)> {
    let hosts = switches.into_iter().map(|(host, switch)| (host.0, switch, spec));
    hosts.chain([(4, 5, spec)]).collect()
}

#[test]
fn a_translated_flow_is_as_fast_as_one_to_the_server_itself_and_the_monitor_sees_it() {
    let transport = reno(20);
    let links = two_switches([(CLIENT, 4), (VIRTUAL, 4), (SERVER, 5), (MONITOR, 4)], GIGABIT);
    let translated = run(&links, &pipelines::translating(), &transport, 100);
    let links = two_switches([(CLIENT, 4), (VIRTUAL, 5), (SERVER, 4), (MONITOR, 4)], GIGABIT);
    let plain = run(&links, &Pipelines::default(), &transport, 100);
    assert!(plain.flows[0].delivered_bytes > 0);
    assert_eq!(translated.flows, plain.flows);
    let [client, own, server, monitor, trunk] = translated.links[..] else { panic!("five links") };
    assert_eq!((own.forward.packets, own.backward.packets), (0, 0));
    assert_eq!((client.forward, client.backward), (plain.links[0].forward, plain.links[0].backward));
    assert_eq!((server.forward, server.backward), (plain.links[1].forward, plain.links[1].backward));
    assert_eq!(trunk.backward.packets, server.forward.packets);
    // What has left the client is at the switch 50 us later: a window at most is not there yet.
    let both_ways = client.forward.packets + client.backward.packets;
    assert!(monitor.backward.packets.abs_diff(both_ways) <= 20, "{monitor:?} of {both_ways}");
    assert_eq!(monitor.forward.packets, 0, "it answers nothing");
}

#[test]
fn control_machines_greet_each_other_before_anything_passes() {
    let links = two_switches([(CLIENT, 4), (VIRTUAL, 5), (SERVER, 4), (MONITOR, 4)], GIGABIT);
    let transport = reno(20);
    let outcomes =
        [pipelines::greeting(), Pipelines::default()].map(|pipelines| run(&links, &pipelines, &transport, 4_000));
    let [gated, plain] = outcomes;
    // The first segments are at the second switch before its neighbour has greeted it; they are sent again after a timeout.
    assert_eq!((plain.flows[0].timeouts, plain.links[1].backward.packets > 0), (0, true));
    assert!(gated.flows[0].timeouts > 0 && gated.flows[0].delivered_bytes > 0, "{gated:?}");
    let trunk = |outcome: &Outcome| outcome.links[4].forward.packets + outcome.links[4].backward.packets;
    let data = |outcome: &Outcome| outcome.links[1].forward.packets + outcome.links[1].backward.packets;
    assert!(trunk(&gated) > data(&gated) + 7_000, "one greeting a millisecond each way besides");
    assert!(trunk(&plain) <= data(&plain) + 40);
    let hosts = |outcome: &Outcome| outcome.links[2].backward.packets + outcome.links[3].backward.packets;
    assert_eq!((hosts(&gated), hosts(&plain)), (0, 0));
}

#[test]
fn a_circle_that_takes_no_time_comes_to_an_end() {
    let links = two_switches([(CLIENT, 4), (VIRTUAL, 5), (SERVER, 4), (MONITOR, 4)], LinkSpec::default());
    // The links of the other hosts come last, so that the second port of both switches leads to the other one.
    let links = [links[0], links[1], links[4], links[2], links[3]];
    let outcome = run(&links, &pipelines::circling(), &reno(20), 100);
    assert_eq!(outcome.flows[0].delivered_bytes, 0);
}

/// Of links in files.
const RATE: &str = ", rate: 1Gbit, delay: 50us";

/// The network of a file, with a connection from its first host to the second one.
fn run_text(text: String) -> Outcome {
    let fabric = fabric::parse(&fabric::Source { name: "flows".into(), text }).expect("it is a file");
    let routes = Arc::new(Routes::compute(&fabric.topology));
    sim::run(&Scenario {
        warm_up: Span::from_ms(20),
        duration: Span::from_ms(100),
        pipelines: &fabric.pipelines(1.into()),
        ..scenario::plain(&fabric, &routes, &reno(20), &[FlowSpec { from: CLIENT, to: VIRTUAL, start: Time::ZERO }])
    })
}

/// Connection tracking translates as flows do that write addresses one way and the other; what it does not know, it keeps out.
#[test]
fn connections_are_translated_as_by_flows_of_their_own() {
    let [tracked, written] = [pipelines::flows::tracked(RATE, &[]), pipelines::flows::file(RATE, &[])].map(run_text);
    assert!(tracked.flows[0].delivered_bytes > 0);
    assert_eq!(tracked.flows, written.flows);
    assert_eq!(tracked.links[3].backward.packets, 0, "the monitor gets no copy");
    let unknown = "priority=30,tcp,nw_src=10.0.0.3,actions=ct(zone=2,nat,table=2)";
    let lost = run_text(pipelines::flows::tracked(RATE, &[unknown]));
    assert_eq!(lost.flows[0].delivered_bytes, 0, "nothing is answered");
}

/// What goes over a trunk is longer by its tag; a host takes nothing that has one.
#[test]
fn a_trunk_carries_tags_that_hosts_do_not_see() {
    let tagged = run_text(pipelines::flows::trunk(RATE, &[]));
    let [client, server, trunk] = &tagged.links[..] else { panic!("three links") };
    assert!(tagged.flows[0].delivered_bytes > 0);
    let per_packet = |counted: link::Counters| counted.bytes / counted.packets;
    assert_eq!(per_packet(trunk.forward), per_packet(client.forward) + 4);
    assert_eq!(per_packet(trunk.backward), per_packet(server.forward) + 4);
    assert_eq!(per_packet(server.backward), per_packet(client.forward));
    let lost = run_text(pipelines::flows::trunk(RATE, &["priority=30,in_port=s1,dl_vlan=5,actions=output:h2"]));
    assert_eq!(lost.flows[0].delivered_bytes, 0);
}

/// The same with two labels.
#[test]
fn labels_are_put_on_and_taken_off_again() {
    let labelled = run_text(pipelines::flows::labels(RATE, &[]));
    let [client, server, between] = &labelled.links[..] else { panic!("three links") };
    assert!(labelled.flows[0].delivered_bytes > 0);
    let per_packet = |counted: link::Counters| counted.bytes / counted.packets;
    assert_eq!(per_packet(between.forward), per_packet(client.forward) + 8);
    assert_eq!(per_packet(server.backward), per_packet(client.forward));
    let one_is_left = "priority=30,in_port=s1,mpls,actions=pop_mpls:0x8847,output:h2";
    assert_eq!(run_text(pipelines::flows::labels(RATE, &[one_is_left])).flows[0].delivered_bytes, 0);
}

/// Between the switches, packets have the tag of their VLAN; hosts of two VLANs do not hear each other.
#[test]
fn hosts_of_one_vlan_hear_each_other() {
    let tagged = run_text(pipelines::flows::vlans(RATE, [10, 10]));
    let [client, server, trunk] = &tagged.links[..] else { panic!("three links") };
    assert!(tagged.flows[0].delivered_bytes > 0);
    let per_packet = |counted: link::Counters| counted.bytes / counted.packets;
    assert_eq!(per_packet(trunk.forward), per_packet(client.forward) + 4);
    assert_eq!(per_packet(server.backward), per_packet(client.forward));
    let apart = run_text(pipelines::flows::vlans(RATE, [10, 20]));
    assert_eq!(apart.flows[0].delivered_bytes, 0);
    assert_eq!(apart.links[1].backward.packets, 0);
}

/// A file with flows: the translation of [`pipelines::flows`] gives, to the last number, what the pipeline that is written in Rust gives, and a drop rule drops.
#[test]
fn flows_of_a_file_do_what_they_say() {
    let run_file = |more: &[&str]| run_text(pipelines::flows::file(RATE, more));
    let translated = run_file(&[]);
    let [client, own, server, monitor, _] = translated.links[..] else { panic!("five links") };
    assert!(translated.flows[0].delivered_bytes > 0);
    assert_eq!((own.forward.packets, own.backward.packets), (0, 0));
    assert!(server.backward.packets > 0 && server.forward.packets > 0);
    let both_ways = client.forward.packets + client.backward.packets;
    assert!(monitor.backward.packets.abs_diff(both_ways) <= 20, "{monitor:?} of {both_ways}");
    let dropped = run_file(&["priority=30,tcp,actions=drop"]);
    assert_eq!(dropped.flows[0].delivered_bytes, 0);
    // Who is sent back to does not hear himself.
    let back = run_file(&["priority=30,tcp,in_port=h1,actions=output:h2"]);
    assert!(back.flows[0].delivered_bytes > 0);
    assert_eq!(back.links[2].backward.packets, 0);
}

/// In a ring of three switches that speak RSTP nothing goes over the link that the root does not need, and all goes by the root.
#[test]
fn a_ring_is_opened_where_the_root_says() {
    let ring = |rstp: &str| {
        let text = format!(
            "\
name: ring
nodes: {{ h1: host, h2: host, s1: switch, s2: switch, s3: switch }}
links:
  - {{ between: [h1, s1]{RATE} }}
  - {{ between: [h2, s2]{RATE} }}
  - {{ between: [s1, s2]{RATE} }}
  - {{ between: [s2, s3]{RATE} }}
  - {{ between: [s3, s1]{RATE} }}
{rstp}"
        );
        run_text(text)
    };
    let [without, with] = ["", "switches: { s3: { rstp: { priority: 4096 } } }\n"].map(ring);
    let busy = |outcome: &Outcome| outcome.links[2..].iter().map(|link| link.forward.packets > 100).collect::<Vec<_>>();
    assert!(without.flows[0].delivered_bytes > 0 && with.flows[0].delivered_bytes > 0);
    assert_eq!(busy(&without), [true, false, false]);
    // From s1 to s3 the link is the other way round.
    assert_eq!([&with.links[2].forward, &with.links[4].backward].map(|way| way.packets > 100), [false, true]);
}
