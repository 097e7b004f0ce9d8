//! Label stacks, neighbour discovery and networks of tunnels: what comes in and what leaves, as bytes.

use std::sync::Arc;

use machine::Time;
use topology::PortId;
use wire::Coverage;

use super::*;
use crate::action::Action;
use crate::field::Field;
use crate::flow_table::{ExplainedStep, FlowTables, TableChange, parse_packet};
use crate::testing::{address, solicitation};

/// Ethernet from 02:..:01 to 02:..:02.
const ADDRESSES: &str = "020000000002 020000000001";
/// IPv4 with DSCP 46 and 64 hops, and a datagram from port 4000 to port 80 without checksum.
const DATAGRAM: &str = "45b8001c 00000000 40116617 0a000001 0a000002 0fa00050 00080000";
/// The same with 63 hops, with 7.
const HOPS_63: &str = "45b8001c 00000000 3f116717 0a000001 0a000002 0fa00050 00080000";
const HOPS_7: &str = "45b8001c 00000000 07119f17 0a000001 0a000002 0fa00050 00080000";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn tables(flows: &[&str]) -> FlowTables {
    let changes: Vec<TableChange> = flows.iter().map(|text| TableChange::Add(Arc::new(flow(text)))).collect();
    FlowTables::new(Time::ZERO, ports(), 7.into(), &changes).unwrap()
}

/// What leaves, by which port, when this comes in.
fn leaves(tables: &mut FlowTables, mut frame: Vec<u8>) -> Vec<(u16, Vec<u8>)> {
    let (mut actions, mut out) = (Vec::new(), Vec::new());
    tables.process(Time::ZERO, PortId(0), (&frame, frame.len() as u32), &mut actions).unwrap();
    for action in actions {
        match action {
            Action::Set(field) => field.write(&mut frame, Coverage::Complete).unwrap(),
            Action::PushMpls { ethertype, entry } => wire::push_mpls(&mut frame, ethertype, entry).unwrap(),
            Action::PopMpls(ethertype) => wire::pop_mpls(&mut frame, ethertype).unwrap(),
            Action::PushVlan(tci) => {
                frame.splice(wire::TAG_AT..wire::TAG_AT, wire::vlan_tag(tci));
            }
            Action::Output(port) => out.push((port.0, frame.clone())),
            other => panic!("{other:?}"),
        }
    }
    out
}

/// Flows, what is behind the addresses of a datagram that comes in, and by which port it leaves, with what behind its addresses and what behind that.
type Case<'a> = (&'a [&'a str], &'a str, Option<(u16, &'a str, &'a str)>);

#[test]
fn labels_are_put_on_written_and_taken_off() {
    let again = "table=1,udp,tp_dst=80,nw_ttl=64,actions=dec_ttl,output:2";
    let cases: &[Case<'_>] = &[
        // Class and hops of the packet; 2 would be the label of IPv6.
        (&["ip,actions=push_mpls:0x8847,output:1"], "0800", Some((1, "8847 00000d40", DATAGRAM))),
        (&["ip,actions=push_mpls:0x8847,set_mpls_label:16,output:1"], "0800", Some((1, "8847 00010d40", DATAGRAM))),
        // The tag stays in front.
        (
            &["ip,actions=push_mpls:0x8847,push_vlan:0x8100,output:1"],
            "0800",
            Some((1, "81000000 8847 00000d40", DATAGRAM)),
        ),
        (&["ip,actions=push_mpls:0x8847,output:1"], "81002007 0800", Some((1, "81002007 8847 00000d40", DATAGRAM))),
        // A second one is like the first one.
        (
            &["mpls,mpls_label=16,actions=push_mpls:0x8848,set_field:1->mpls_tc,dec_mpls_ttl,output:1"],
            "8847 00010d40",
            Some((1, "8848 0001023f 00010d40", DATAGRAM)),
        ),
        (
            &["mpls,actions=push_mpls:0x8847,dec_mpls_ttl,copy_ttl_in,output:1"],
            "8847 00010d40",
            Some((1, "8847 00010c3f 00010d3f", DATAGRAM)),
        ),
        (&["mpls,actions=copy_ttl_in,output:1"], "8847 00010d07", Some((1, "8847 00010d07", HOPS_7))),
        (&["mpls,actions=copy_ttl_out,output:1"], "8847 00010d07", Some((1, "8847 00010d40", DATAGRAM))),
        (
            &["mplsm,actions=set_mpls_ttl:9,copy_ttl_out,output:1"],
            "8848 00010c07 00021d08",
            Some((1, "8848 00010c08 00021d08", DATAGRAM)),
        ),
        // What is behind is matched when the last one is off.
        (&["mpls,mpls_bos=1,actions=pop_mpls:0x0800,goto_table:1", again], "8847 00010d07", Some((2, "0800", HOPS_63))),
        (
            &["mpls,mpls_bos=0,mpls_ttl=7,actions=pop_mpls:0x8847,pop_mpls:0x0800,goto_table:1", again],
            "81002007 8847 00010c07 00021d08",
            Some((2, "81002007 0800", HOPS_63)),
        ),
        (
            &["ip,actions=push_mpls:0x8847,dec_mpls_ttl,pop_mpls:0x0800,goto_table:1", again],
            "0800",
            Some((2, "0800", HOPS_63)),
        ),
        // In an action set the order is that of the standard.
        (
            &["mpls,actions=write_actions(output:2,dec_mpls_ttl,push_mpls:0x8848,pop_mpls:0x8847,copy_ttl_in)"],
            "8847 00010c07 00021d08",
            Some((2, "8848 00021c06 00021d07", DATAGRAM)),
        ),
        (&["mpls,actions=dec_mpls_ttl,output:1"], "8847 00010d01", None),
        (&["mpls,mpls_label=16,mpls_tc=5,actions=output:1"], "8847 00010d40", None),
        (&["mplsm,actions=output:1"], "8847 00010d40", None),
        (&["mpls,actions=pop_mpls:0x8847,output:1"], "0800", None),
        // Whether it is taken off or not: nobody knows a fifth one.
        (
            &["mpls,actions=pop_mpls:0x8847,pop_mpls:0x8847,pop_mpls:0x8847,pop_mpls:0x8847,output:1"],
            "8847 00010c01 00010c02 00010c03 00010c04 00010d05",
            None,
        ),
    ];
    for &(flows, front, expected) in cases {
        let mut tables = tables(flows);
        let of = |front: &str, packet: &str| bytes(&format!("{ADDRESSES} {front} {packet}"));
        let expected: Vec<(u16, Vec<u8>)> =
            expected.into_iter().map(|(port, front, packet)| (port, of(front, packet))).collect();
        // The second one is known.
        for _ in 0..2 {
            assert_eq!(leaves(&mut tables, of(front, DATAGRAM)), expected, "{flows:?} on {front}");
        }
        assert_eq!(tables.cache_counters().exact_hits, 1, "{flows:?}");
    }
}

/// A decision about one packet holds for no other one that differs in what is behind its labels.
#[test]
fn packets_with_the_same_labels_have_unequal_keys_behind_them() {
    let mut tables = tables(&[
        "mpls,actions=pop_mpls:0x0800,goto_table:1",
        "table=1,priority=9,udp,tp_dst=80,actions=output:1",
        "table=1,priority=1,ip,actions=output:2",
    ]);
    for (port, out) in [(80, 1), (81, 2), (80, 1)] {
        let mut frame = bytes(&format!("{ADDRESSES} 8847 00010d40 {DATAGRAM}"));
        frame[18 + 20 + 3] = port;
        let left: Vec<u16> = leaves(&mut tables, frame).into_iter().map(|(port, _)| port).collect();
        assert_eq!(left, [out]);
    }
}

#[test]
fn neighbour_discovery_is_written() {
    let mut tables = tables(&[
        "icmp6,icmp_type=135,actions=set_field:fd00::3->nd_target,set_field:02:00:00:00:00:03->nd_sll,goto_table:1",
        "table=1,icmp6,icmp_type=135,nd_target=fd00::3,nd_sll=02:00:00:00:00:03,actions=output:1",
    ]);
    let (a, b, c) = (address(1), address(2), address(3));
    let mut expected = solicitation(&a, a.ipv6, c.ipv6, Some(c.mac));
    // It goes to whom it was sent.
    let asked = solicitation(&a, a.ipv6, b.ipv6, Some(a.mac));
    let group = wire::Ipv6Packet::new_checked(&asked[14..]).unwrap().dst();
    Field::Ipv6Dst(group).write(&mut expected, Coverage::Complete).unwrap();
    Field::EthDst(wire::multicast_mac(group)).write(&mut expected, Coverage::Complete).unwrap();
    assert_eq!(leaves(&mut tables, asked), [(1, expected)]);
}

#[test]
fn networks_of_tunnels_are_matched_and_written() {
    let mut tables = tables(&[
        "tun_id=5,actions=set_tunnel:0x7,output:1,goto_table:1",
        "tun_id=0,actions=output:2",
        "table=1,tun_id=7,ip,actions=set_field:0x10/0xf0->tun_id,output:3",
    ]);
    let frame = bytes(&format!("{ADDRESSES} 0800 {DATAGRAM}"));
    let mut from = |vni| {
        let mut actions = Vec::new();
        tables.process_from(Time::ZERO, (PortId(0), vni), (&frame, frame.len() as u32), &mut actions).unwrap();
        actions
    };
    let (to, port) = (|vni| Action::Set(Field::TunnelId(vni)), |port| Action::Output(PortId(port)));
    assert_eq!(from(5), [to(7), port(1), to(0x17), port(3)]);
    assert_eq!(from(0), [port(2)]);
    assert_eq!(from(0x00ff_ffff), []);
}

#[test]
fn a_packet_that_is_thought_of_has_one_label_unless_it_says_more() {
    let tables = tables(&["mpls,actions=pop_mpls:0x0800,output:1"]);
    let explained = |text| tables.explain(Time::ZERO, &parse_packet(text, &ports()).unwrap());
    let one = explained("mpls,mpls_label=16,mpls_ttl=9");
    assert_eq!(one.actions, [Action::PopMpls(0x0800), Action::Output(PortId(1))]);
    assert!(matches!(one.steps[..], [ExplainedStep::Entry(_)]));
    assert_eq!(explained("mpls,mpls_label=16,mpls_bos=0").actions, []);
}
