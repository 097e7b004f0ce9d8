//! Flows that ask for connections, and packets that go on behind them.

use std::sync::Arc;

use machine::{Span, Time};
use proptest::prelude::*;
use topology::PortId;
use wire::Coverage;

use super::*;
use crate::action::Action;
use crate::conntrack::ConntrackCounters;
use crate::field::Field;
use crate::flow_table::matching::MatchReader;
use crate::flow_table::scan::Scan;
use crate::flow_table::{ExplainedStep, FlowTables, Selection, TableChange};
use crate::testing::{address, ipv4_udp, tcp, tcp_v6};

fn at(s: u64) -> Time {
    Time::ZERO + Span::from_secs(1_000 + s)
}

fn tables(flows: &[&str]) -> FlowTables {
    let changes: Vec<TableChange> = flows.iter().map(|text| TableChange::Add(Arc::new(flow(text)))).collect();
    FlowTables::new(at(0), ports(), 7.into(), &changes).unwrap()
}

fn process(tables: &mut FlowTables, in_port: u16, frame: &[u8]) -> Vec<Action> {
    let mut actions = Vec::new();
    tables.process(at(1), PortId(in_port), (frame, frame.len() as u32), &mut actions).unwrap();
    actions
}

fn port(port: u16) -> Action {
    Action::Output(PortId(port))
}

/// The firewall of Open vSwitch's tutorial: who is behind port 0 may connect to whom he likes, and nobody to him.
const FIREWALL: [&str; 6] = [
    "priority=100,ct_state=-trk,ip,actions=ct(table=0)",
    "priority=50,ct_state=+trk+new,ip,in_port=0,actions=ct(commit),output:1",
    "priority=50,ct_state=+trk+est,ip,in_port=0,actions=output:1",
    "priority=50,ct_state=+trk+est,ip,in_port=1,actions=output:0",
    "priority=50,ct_state=+trk+rel,ip,in_port=1,actions=output:0",
    "priority=1,actions=drop",
];

#[test]
fn a_firewall_lets_in_what_answers() {
    let mut tables = tables(&FIREWALL);
    let (inner, outer) = (address(1), address(2));
    let (out, back) = (tcp(&inner, &outer, 4_000, 80, 0), tcp(&outer, &inner, 80, 4_000, 0));
    assert_eq!(process(&mut tables, 1, &back), []);
    for _ in 0..3 {
        assert_eq!(process(&mut tables, 0, &out), [port(1)]);
    }
    assert_eq!(process(&mut tables, 1, &back), [port(0)]);
    assert_eq!(process(&mut tables, 0, &out), [port(1)]);
    assert_eq!(process(&mut tables, 1, &tcp(&outer, &inner, 80, 4_001, 0)), []);
    // Nobody asks for connections of IPv6.
    assert_eq!(process(&mut tables, 0, &tcp_v6(&inner, &outer, 4_000, 80, 0)), []);
    // A fragment does not say to which connection it belongs.
    assert_eq!(process(&mut tables, 0, &ipv4_udp(&inner, &outer, (1, 2), 64, (8, true))), []);
    let counted: Vec<u64> = tables.entries(at(2), &Selection::ALL).iter().map(|row| row.packets).collect();
    assert_eq!(counted, [8, 3, 1, 1, 0, 4]);
    let counters = tables.conntrack().unwrap().counters();
    assert_eq!(counters, ConntrackCounters { connections: 1, committed: 1, ..ConntrackCounters::default() });
}

#[test]
fn addresses_are_translated_behind_which_flows_go_on() {
    let mut tables = tables(&[
        "ip,in_port=0,actions=write_metadata:7,goto_table:1",
        "table=1,ip,actions=ct(commit,table=2,zone=3,nat(src=10.0.9.9:7000),exec(set_field:5->ct_mark))",
        "table=2,metadata=7,ct_zone=3,ct_mark=5,ip,nw_src=10.0.9.9,actions=output:1",
        "ip,in_port=1,actions=ct(table=3,zone=3,nat)",
        "table=3,ct_state=+trk+est+rpl+dnat,tcp,tp_dst=4000,actions=output:0",
    ]);
    let (inner, outer) = (address(1), address(2));
    let written = |frame: &[u8], actions: &[Action]| {
        let mut frame = frame.to_vec();
        for action in actions {
            if let Action::Set(field) = action {
                field.write(&mut frame, Coverage::Complete).unwrap();
            }
        }
        frame
    };
    let mut translated = inner.clone();
    translated.ipv4 = [10, 0, 9, 9].into();
    let out = tcp(&inner, &outer, 4_000, 80, 9);
    for _ in 0..2 {
        let actions = process(&mut tables, 0, &out);
        assert_eq!(actions.last(), Some(&port(1)));
        assert_eq!(written(&out, &actions), tcp(&translated, &outer, 7_000, 80, 9));
    }
    let back = tcp(&outer, &translated, 80, 7_000, 9);
    let actions = process(&mut tables, 1, &back);
    assert_eq!(actions, [Action::Set(Field::Ipv4Dst(inner.ipv4)), Action::Set(Field::DstPort(4_000)), port(0)]);
    assert_eq!(written(&back, &actions), tcp(&outer, &inner, 80, 4_000, 9));
    // The range has one port, which is taken.
    assert_eq!(process(&mut tables, 0, &tcp(&inner, &outer, 4_001, 80, 0)), []);
    assert_eq!(tables.conntrack().unwrap().counters().no_tuple, 1);
}

/// A packet that was translated is still the connection's: it does not begin another one where it is asked about again, nor does its FIN count twice.
#[test]
fn a_packet_belongs_to_one_connection_of_a_zone() {
    let mut tables = tables(&[
        "ip,actions=ct(table=1,nat)",
        "table=1,ct_state=+trk+new,ip,in_port=0,actions=ct(commit,nat(src=10.0.9.9)),output:1",
        "table=1,ct_state=+trk+est,tcp,actions=ct(commit,nat(src=10.0.9.9),exec(set_field:7->ct_mark)),output:2",
    ]);
    let (inner, outer) = (address(1), address(2));
    let mut translated = inner.clone();
    translated.ipv4 = [10, 0, 9, 9].into();
    let src = Action::Set(Field::Ipv4Src(translated.ipv4));
    for _ in 0..3 {
        assert_eq!(process(&mut tables, 0, &tcp(&inner, &outer, 4_000, 80, 0)), [src, port(1)]);
    }
    let dst = Action::Set(Field::Ipv4Dst(inner.ipv4));
    let mut fin = tcp(&outer, &translated, 80, 4_000, 0);
    assert_eq!(process(&mut tables, 1, &fin), [dst, port(2)]);
    fin[14 + 20 + 13] |= wire::tcp_flags::FIN;
    assert_eq!(process(&mut tables, 1, &fin), [dst, port(2)]);
    let conntrack = tables.conntrack().unwrap();
    let shown: Vec<String> = conntrack.connections(at(1), 0, 10).0.iter().map(ToString::to_string).collect();
    let text = "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=4000,dport=80),reply=(src=10.0.0.2,dst=10.0.9.9,sport=80,dport=4000),mark=7,protoinfo=(state=FIN_WAIT)";
    assert_eq!(shown, [text]);
}

#[test]
fn a_copy_goes_on_and_so_do_the_actions_behind() {
    let group = TableChange::AddGroup(super::group("group_id=1,type=all,bucket=ct(commit,table=1),bucket=output:4"));
    let flows = [
        "in_port=0,udp,actions=mod_nw_ttl:9,ct(table=1,zone=1),output:3,ct_clear,ct(table=2)",
        "in_port=1,udp,actions=group:1,output:3",
        // It would go round for ever.
        "in_port=2,udp,actions=ct(table=0)",
        "table=1,actions=mod_dl_src:02:00:00:00:00:09,output:1,output:2",
        "table=2,priority=9,ct_zone=1,actions=drop",
        "table=2,priority=1,ct_state=+trk,ip,nw_ttl=9,actions=output:4",
    ];
    let flows = flows.iter().map(|text| TableChange::Add(Arc::new(flow(text))));
    let changes: Vec<TableChange> = std::iter::once(group).chain(flows).collect();
    let mut tables = FlowTables::new(at(0), ports(), 7.into(), &changes).unwrap();
    let frame = ipv4_udp(&address(1), &address(2), (1, 2), 64, (0, false));
    let src = Action::Set(Field::EthSrc([2, 0, 0, 0, 0, 9]));
    let ttl = Action::Set(Field::Ttl(9));
    for _ in 0..2 {
        let wanted = [ttl, Action::Clone(3), src, port(1), port(2), port(3), port(4)];
        assert_eq!(process(&mut tables, 0, &frame), wanted);
        let wanted = [Action::Clone(2), src, port(2), port(4), port(3)];
        assert_eq!(process(&mut tables, 1, &frame), wanted);
    }
    let before = tables.too_long();
    assert_eq!(process(&mut tables, 2, &frame), []);
    assert_eq!(tables.too_long(), before + 1);
}

/// Six groups, each with 256 buckets that all name the one before: 2^48 ways, none of which has an output.
#[test]
fn groups_of_groups_take_no_longer_than_others() {
    let groups = (1..=6).map(|id| {
        let bucket = if id == 1 { "drop".to_owned() } else { format!("group:{}", id - 1) };
        let buckets = format!(",bucket=actions={bucket}").repeat(256);
        TableChange::AddGroup(super::group(&format!("group_id={id},type=all{buckets}")))
    });
    let flows = ["priority=1,udp,actions=group:6,output:3"].map(|text| TableChange::Add(Arc::new(flow(text))));
    let changes: Vec<TableChange> = groups.chain(flows).collect();
    let mut tables = FlowTables::new(at(0), ports(), 7.into(), &changes).unwrap();
    let frame = ipv4_udp(&address(1), &address(2), (1, 2), 64, (0, false));
    assert_eq!((process(&mut tables, 0, &frame), tables.too_long()), (vec![], 1));
}

#[test]
fn what_a_packet_would_meet_behind_connection_tracking_is_explained() {
    let mut tables = tables(&FIREWALL);
    let explain = |tables: &FlowTables, text: &str| {
        let mut reader = MatchReader::default();
        let mut scan = Scan::new(text);
        while let Some(pair) = scan.pair().unwrap() {
            assert!(reader.take(&pair, &ports()).unwrap());
        }
        let explained = tables.explain(at(1), &reader.finish().unwrap());
        let step = |step: &ExplainedStep| match step {
            ExplainedStep::Entry(flow) => flow.to_string(),
            ExplainedStep::Connection(known) => known.to_string(),
            ExplainedStep::Meter(id) => format!("meter:{id}"),
        };
        (explained.steps.iter().map(step).collect::<Vec<_>>(), explained.actions, explained.because_of.to_string())
    };
    let (steps, actions, because_of) =
        explain(&tables, "in_port=0,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=4000,tp_dst=80");
    assert_eq!(
        steps,
        [FIREWALL[0], "ct_state=+new+trk", FIREWALL[1], "ct_state=+new+trk"]
            .map(|it| it.replace(",actions", " actions").replace("+trk+new", "+new+trk"))
    );
    assert_eq!(actions, [port(1)]);
    assert_eq!(because_of, "tcp,in_port=0,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_frag=no,tp_src=4000,tp_dst=80");
    assert_eq!(tables.conntrack().unwrap().counters(), ConntrackCounters::default());
    process(&mut tables, 0, &tcp(&address(1), &address(2), 4_000, 80, 0));
    let (steps, actions, _) =
        explain(&tables, "in_port=1,tcp,nw_src=10.0.0.2,nw_dst=10.0.0.1,tp_src=80,tp_dst=4000,tcp_flags=0x12");
    assert_eq!(steps[1], "ct_state=+est+rpl+trk");
    assert_eq!(actions, [port(0)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// What caches say is what the tables say, while connections begin and end: a second switch decides about each packet anew, since its tables change each time.
    #[test]
    fn cached_decisions_follow_connections(
        packets in prop::collection::vec((0_u16..2, 1_u32..4, 1_u32..4, 0_u16..2, 0_u16..2, any::<bool>(), prop::sample::select(vec![0_u64, 0, 0, 31, 301])), 1..60),
        zone in 0_u16..2,
    ) {
        let nat = format!("priority=60,ct_state=+trk+new,ip,in_port=0,nw_dst=10.0.0.3,actions=ct(commit,zone={zone},nat(dst=10.0.0.1),table=1),output:3");
        let again = "table=1,ct_state=+dnat,actions=output:2".to_owned();
        let flows: Vec<&str> = FIREWALL.iter().copied().chain([nat.as_str(), again.as_str()]).collect();
        let (mut cached, mut anew) = (tables(&flows), tables(&flows));
        let mut now = at(1);
        for (in_port, src, dst, src_port, dst_port, is_tcp, pass_s) in packets {
            now += Span::from_secs(pass_s);
            let (from, to) = (address(src), address(dst));
            let frame = if is_tcp { tcp(&from, &to, src_port, dst_port, 0) } else { ipv4_udp(&from, &to, (src_port, dst_port), 64, (0, false)) };
            anew.change(now, &TableChange::Add(Arc::new(flow("table=9,actions=drop")))).unwrap();
            let mut said = [Vec::new(), Vec::new()];
            for (tables, said) in [&mut cached, &mut anew].into_iter().zip(&mut said) {
                tables.process(now, PortId(in_port), (&frame, frame.len() as u32), said).unwrap();
            }
            prop_assert_eq!(&said[0], &said[1]);
        }
        prop_assert_eq!(cached.conntrack().unwrap().counters(), anew.conntrack().unwrap().counters());
        let counted = |tables: &FlowTables| tables.entries(now, &Selection { table: Some(0), ..Selection::ALL }).iter().map(|row| row.packets).collect::<Vec<_>>();
        prop_assert_eq!(counted(&cached), counted(&anew));
    }
}
