//! Random tables and packets: what caches and classifiers say is what a search through the list of all flows says, also after changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use machine::{Rebase, Span, Time};
use proptest::prelude::*;
use topology::PortId;

use super::*;
use crate::action::Action;
use crate::field::Field;
use crate::flow_table::key::{Key, Slot, WORDS};
use crate::flow_table::matching::Match;
use crate::flow_table::{ChangeError, Classifier, FlowTables, GroupStatus, Selection, TableChange};
use crate::testing::{address, tcp};

fn at(s: u64) -> Time {
    Time::ZERO + Span::from_secs(1_000 + s)
}

fn tables(flows: &[&str]) -> FlowTables {
    let changes: Vec<TableChange> = flows.iter().map(|text| TableChange::Add(Arc::new(flow(text)))).collect();
    FlowTables::new(at(0), ports(), 7.into(), &changes).unwrap()
}

fn process(tables: &mut FlowTables, now: Time, in_port: u16, frame: &[u8]) -> Vec<Action> {
    let mut actions = Vec::new();
    tables.process(now, PortId(in_port), (frame, frame.len() as u32), &mut actions).unwrap();
    actions
}

fn web() -> Vec<u8> {
    tcp(&address(1), &address(2), 4_000, 80, 10)
}

#[test]
fn the_highest_priority_counts_and_tables_go_on() {
    let mut tables = tables(&[
        "priority=0,actions=normal",
        "priority=10,tcp,tp_dst=80,actions=mod_tp_dst:8080,write_actions(output:2),goto_table:2",
        "table=2,tcp,tp_dst=8080,actions=write_metadata:5,goto_table:3",
        "table=3,metadata=5,actions=output:h1",
        "table=3,priority=1,actions=drop",
    ]);
    let port = |port| Action::Output(PortId(port));
    assert_eq!(process(&mut tables, at(1), 0, &web()), [Action::Set(Field::DstPort(8080)), port(1), port(2)]);
    assert_eq!(process(&mut tables, at(2), 0, &tcp(&address(1), &address(2), 1, 81, 0)), [Action::Normal]);
    let rows = tables.entries(at(3), &Selection::ALL);
    let counted: Vec<(u8, u16, u64)> =
        rows.iter().map(|row| (row.flow.table, row.flow.priority, row.packets)).collect();
    assert_eq!(counted, [(0, 10, 1), (0, 0, 1), (2, 0x8000, 1), (3, 0x8000, 1), (3, 1, 0)]);
    assert_eq!(
        (rows[0].bytes, rows[0].duration, rows[0].idle),
        (web().len() as u64, Span::from_secs(3), Span::from_secs(2))
    );
}

#[test]
fn what_is_not_sent_back_and_what_is() {
    let mut tables = tables(&["actions=output:0,output:1,in_port,all"]);
    let port = |port| Action::Output(PortId(port));
    assert_eq!(process(&mut tables, at(1), 0, &web()), [1, 0, 1, 2, 3, 4].map(port));
}

#[test]
fn a_packet_without_time_to_live_goes_no_further() {
    let mut tables = tables(&["ip,actions=output:1,dec_ttl,output:2"]);
    let port = |port| Action::Output(PortId(port));
    assert_eq!(process(&mut tables, at(1), 0, &web()), [port(1), Action::Set(Field::Ttl(63)), port(2)]);
    let mut last = web();
    Field::Ttl(1).write(&mut last, wire::Coverage::Complete).unwrap();
    assert_eq!(process(&mut tables, at(1), 0, &last), [port(1)]);
}

#[test]
fn tags_come_go_and_are_matched_in_later_tables() {
    let mut tables = tables(&[
        "dl_vlan=0xffff,actions=push_vlan:0x8100,set_field:4101->vlan_vid,goto_table:1",
        "dl_vlan=7,actions=mod_vlan_vid:5,goto_table:1",
        "dl_vlan=8,actions=push_vlan:0x8100,mod_vlan_pcp:2,goto_table:1",
        "table=1,dl_vlan=5,tcp,actions=output:1,pop_vlan,output:2",
        "table=1,dl_vlan=0,dl_vlan_pcp=2,dl_type=0x8100,actions=pop_vlan,goto_table:2",
        "table=2,dl_vlan=8,tcp,actions=mod_vlan_pcp:1,write_actions(push_vlan:0x8100,output:3,pop_vlan)",
    ]);
    let port = |port| Action::Output(PortId(port));
    let tci = |tci| Action::Set(Field::VlanTci(tci));
    let tagged = |tci: u16| {
        let mut frame = web();
        frame.splice(wire::TAG_AT..wire::TAG_AT, wire::vlan_tag(tci));
        frame
    };
    let shared = [port(1), Action::PopVlan, port(2)];
    let untagged: Vec<Action> = [&[Action::PushVlan(0), tci(5)][..], &shared].concat();
    assert_eq!(process(&mut tables, at(1), 0, &web()), untagged);
    // Its priority stays.
    assert_eq!(process(&mut tables, at(1), 0, &tagged(0x6007)), [&[tci(0x6005)][..], &shared].concat());
    let twice = [Action::PushVlan(0), tci(0x4000), Action::PopVlan, tci(0x2008), Action::PopVlan, Action::PushVlan(0)];
    assert_eq!(process(&mut tables, at(1), 0, &tagged(8)), [&twice[..], &[port(3)]].concat());
    assert_eq!(process(&mut tables, at(1), 0, &tagged(6)), []);
}

#[test]
fn groups_copy_choose_and_go_round_what_is_down() {
    let group = |text| TableChange::AddGroup(super::group(text));
    let mut tables = FlowTables::new(
        at(0),
        ports(),
        7.into(),
        &[
            group("group_id=1,type=all,bucket=mod_dl_dst:02:00:00:00:00:09,output:1,bucket=output:2"),
            group("group_id=2,type=ff,bucket=watch_port:3,output:3,bucket=watch_port:4,output:4"),
            group("group_id=3,type=select,bucket=output:3,bucket=weight:3,output:4"),
            TableChange::Add(Arc::new(flow("in_port=0,actions=group:1,normal"))),
            TableChange::Add(Arc::new(flow("in_port=1,actions=group:2"))),
            TableChange::Add(Arc::new(flow("in_port=2,actions=group:3"))),
        ],
    )
    .unwrap();
    let port = |port| Action::Output(PortId(port));
    let dst = Action::Set(Field::EthDst([2, 0, 0, 0, 0, 9]));
    assert_eq!(process(&mut tables, at(1), 0, &web()), [Action::Clone(2), dst, port(1), port(2), Action::Normal]);
    for (down, up, out) in
        [(None, None, Some(3)), (Some(3), None, Some(4)), (Some(4), None, None), (None, Some(3), Some(3))]
    {
        for (port, is_up) in down.map(|port| (port, false)).into_iter().chain(up.map(|port| (port, true))) {
            tables.set_carrier(PortId(port), is_up);
        }
        let wanted: Vec<Action> = out.map(port).into_iter().collect();
        assert_eq!(process(&mut tables, at(1), 1, &web()), wanted);
    }
    let mut taken = [0; 5];
    for src_port in 0..4_000 {
        let frame = tcp(&address(1), &address(2), src_port, 80, 0);
        let [Action::Output(port)] = process(&mut tables, at(1), 2, &frame)[..] else { panic!("one output") };
        assert_eq!(process(&mut tables, at(1), 2, &frame), [Action::Output(port)], "a flow stays where it is");
        taken[usize::from(port.0)] += 1;
    }
    assert!((850..1_150).contains(&taken[3]) && taken[3] + taken[4] == 4_000, "{taken:?}");
}

/// A bucket is used while its port has a carrier, or while a group has such a bucket.
#[test]
fn a_group_that_is_watched_is_up_while_a_bucket_of_it_is() {
    let group = |text: &str| TableChange::AddGroup(super::group(text));
    let watching: Vec<TableChange> = [
        "group_id=1,type=select,bucket=watch_port:3,output:3,bucket=watch_port:4,output:4",
        "group_id=2,type=indirect,bucket=watch_group:1,actions=group:1",
        "group_id=3,type=ff,bucket=watch_group:2,actions=group:2,bucket=watch_port:2,output:2",
        "group_id=4,type=select,bucket=watch_port:3,watch_group:2,output:0",
    ]
    .map(group)
    .into();
    let mut tables = FlowTables::new(at(0), ports(), 7.into(), &watching).unwrap();
    for text in ["in_port=0,actions=group:3", "in_port=1,actions=group:4"] {
        tables.change(at(0), &TableChange::Add(Arc::new(flow(text)))).unwrap();
    }
    let mut out = |down: &[u16], in_port| {
        for port in 2..=4 {
            tables.set_carrier(PortId(port), !down.contains(&port));
        }
        process(&mut tables, at(1), in_port, &web())
    };
    let port = |port| Action::Output(PortId(port));
    assert_eq!(out(&[3], 0), [port(4)]);
    assert_eq!(out(&[4], 0), [port(3)]);
    assert_eq!(out(&[3, 4], 0), [port(2)]);
    assert_eq!(out(&[2, 3, 4], 0), []);
    assert_eq!((out(&[3], 1), out(&[3, 4], 1)), (vec![port(0)], vec![]));
    // A group that is watched is there, leads nowhere to its watcher, and takes it with it.
    let mut refused = |text: &str| tables.change(at(1), &TableChange::ModifyGroup(super::group(text))).unwrap_err();
    assert_eq!(refused("group_id=1,type=ff,bucket=watch_group:3,output:3"), ChangeError::GroupLoop(1));
    assert_eq!(refused("group_id=1,type=ff,bucket=watch_group:9,output:3"), ChangeError::NoSuchGroup(9));
    tables.change(at(1), &TableChange::DeleteGroup(Some(2))).unwrap();
    assert_eq!(tables.groups(at(1)).iter().map(|status| status.group.id).collect::<Vec<_>>(), [1]);
}

#[test]
fn watched_groups_of_more_buckets_than_a_packet_may_come_to_drop_it() {
    // All but the last bucket of each look at port 3, the last one at the group before it.
    let watching = |id: u32| {
        let (first, last) = match id {
            1 => ("watch_port:3", "watch_port:3".to_owned()),
            2 => ("watch_group:1", "watch_port:4".to_owned()),
            _ => ("watch_group:1", format!("watch_group:{}", id - 1)),
        };
        let buckets = format!(",bucket={first},actions=output:2").repeat(255);
        TableChange::AddGroup(super::group(&format!("group_id={id},type=ff{buckets},bucket={last},actions=output:2")))
    };
    let mut tables = FlowTables::new(at(0), ports(), 7.into(), &(1..=18).map(watching).collect::<Vec<_>>()).unwrap();
    for text in ["in_port=0,actions=group:16", "in_port=1,actions=group:18"] {
        tables.change(at(0), &TableChange::Add(Arc::new(flow(text)))).unwrap();
    }
    let port = |port| Action::Output(PortId(port));
    // It is over with the first one that is used.
    let outputs = |tables: &mut FlowTables| [0, 1].map(|in_port| process(tables, at(1), in_port, &web()));
    assert_eq!(outputs(&mut tables), [[port(2)], [port(2)]]);
    tables.set_carrier(PortId(3), false);
    assert_eq!(outputs(&mut tables), [vec![port(2)], vec![]]);
}

#[test]
fn groups_count_what_comes_to_them_and_to_each_bucket() {
    let group = |text| TableChange::AddGroup(super::group(text));
    let mut tables = FlowTables::new(
        at(0),
        ports(),
        7.into(),
        &[
            group("group_id=1,type=all,bucket=output:1,bucket=output:2"),
            group("group_id=2,type=ff,bucket=watch_port:3,output:3,bucket=watch_port:4,group:1"),
            TableChange::Add(Arc::new(flow("in_port=0,actions=group:1"))),
            TableChange::Add(Arc::new(flow("in_port=1,actions=group:2"))),
        ],
    )
    .unwrap();
    let bytes = web().len() as u64;
    // Packets of group 1 and of its buckets, then those of group 2.
    let counted = |tables: &FlowTables| {
        let all = tables.groups(at(9));
        let packets = |status: &GroupStatus| {
            let of_buckets = status.buckets.iter().map(|(packets, of_bucket)| {
                assert_eq!(*of_bucket, packets * bytes);
                *packets
            });
            assert_eq!(status.bytes, status.packets * bytes);
            std::iter::once(status.packets).chain(of_buckets).collect::<Vec<u64>>()
        };
        all.iter().flat_map(packets).collect::<Vec<u64>>()
    };
    for _ in 0..3 {
        process(&mut tables, at(1), 0, &web());
    }
    process(&mut tables, at(1), 1, &web());
    assert_eq!(counted(&tables), [3, 3, 3, 1, 1, 0]);
    // The other bucket names the first group, which counts as well.
    tables.set_carrier(PortId(3), false);
    process(&mut tables, at(2), 1, &web());
    assert_eq!(counted(&tables), [4, 4, 4, 2, 1, 1]);
    let status = &tables.groups(at(9))[0];
    assert_eq!((status.duration, status.flows), (Span::from_secs(9), 1));
    // Other buckets begin anew, their group goes on.
    tables.change(at(3), &TableChange::ModifyGroup(super::group("group_id=1,type=all,bucket=output:4"))).unwrap();
    process(&mut tables, at(4), 0, &web());
    assert_eq!(counted(&tables), [5, 1, 2, 1, 1]);
    tables.rebase(Span::from_secs(2));
    assert_eq!(tables.groups(at(7))[0].duration, Span::from_secs(9));
    // What was of a group that is gone is another one's, from nothing on.
    tables.change(at(5), &TableChange::DeleteGroup(None)).unwrap();
    tables.change(at(5), &group("group_id=9,type=indirect,bucket=output:1")).unwrap();
    assert_eq!(counted(&tables), [0, 0]);
}

#[test]
fn groups_that_are_not_there_or_lead_to_themselves_are_refused() {
    let mut tables = tables(&[]);
    let mut change = |change| tables.change(at(0), &change).map_err(|error| error.to_string());
    assert_eq!(change(TableChange::Add(Arc::new(flow("actions=group:1")))), Err("the switch has no group 1".into()));
    assert_eq!(
        change(TableChange::AddGroup(group("group_id=1,type=all,bucket=group:2"))),
        Err("the switch has no group 2".into())
    );
    assert_eq!(change(TableChange::AddGroup(group("group_id=1,type=all,bucket=output:1"))), Ok(1));
    assert_eq!(
        change(TableChange::AddGroup(group("group_id=1,type=all"))),
        Err("the switch has a group 1 already".into())
    );
    assert_eq!(change(TableChange::AddGroup(group("group_id=2,type=all,bucket=group:1"))), Ok(1));
    assert_eq!(
        change(TableChange::ModifyGroup(group("group_id=1,type=all,bucket=group:2"))),
        Err("group 1 would lead to itself".into())
    );
    assert_eq!(change(TableChange::Add(Arc::new(flow("actions=group:2")))), Ok(1));
    // What names it goes with it.
    assert_eq!(change(TableChange::DeleteGroup(Some(1))), Ok(2));
    assert!(tables.entries(at(0), &Selection::ALL).is_empty());
}

#[test]
fn entries_go_when_their_time_has_come() {
    let mut tables = tables(&["idle_timeout=10,tcp,actions=output:1", "hard_timeout=25,priority=1,actions=output:2"]);
    assert_eq!(tables.expire(at(0)), at(10));
    process(&mut tables, at(7), 0, &web());
    assert_eq!(tables.expire(at(10)), at(17));
    tables.rebase(Span::from_secs(5));
    // The clock shows five seconds less.
    assert_eq!(tables.expire(at(12)), at(20));
    assert_eq!(process(&mut tables, at(13), 0, &web()), [Action::Output(PortId(2))]);
    assert_eq!(tables.expire(at(20)), Time::NEVER);
    assert_eq!(process(&mut tables, at(21), 0, &web()), []);
}

#[test]
fn decisions_are_cached_with_few_bits_and_made_anew_after_changes() {
    let mut tables = tables(&[
        "priority=0,actions=normal",
        "priority=9,tcp,tp_dst=80,actions=output:1",
        "priority=9,tcp,tp_dst=81,actions=output:2",
    ]);
    for src_port in 0..100 {
        process(&mut tables, at(1), 0, &tcp(&address(1), &address(src_port), src_port as u16, 80, 0));
    }
    let counters = tables.cache_counters();
    assert_eq!((counters.misses, counters.megaflow_hits, counters.megaflows), (1, 99, 1));
    // Where packets of one port are decided about otherwise in turns, what was found last is nobody's, and each flow is known.
    for port in [80, 81].repeat(10) {
        process(&mut tables, at(1), 0, &tcp(&address(1), &address(99), 99, port, 0));
    }
    let counters = tables.cache_counters();
    assert_eq!((counters.misses, counters.megaflow_hits, counters.exact_hits), (2, 101, 17));
    tables.change(at(2), &TableChange::Add(Arc::new(flow("priority=10,tcp,nw_dst=10.0.0.99,actions=drop")))).unwrap();
    assert_eq!(process(&mut tables, at(2), 0, &tcp(&address(1), &address(99), 99, 80, 0)), []);
    assert_eq!(process(&mut tables, at(2), 0, &tcp(&address(1), &address(98), 98, 80, 0)), [Action::Output(PortId(1))]);
    tables.change(at(3), &TableChange::Delete(Selection::parse("tcp", &ports(), false).unwrap())).unwrap();
    assert_eq!(process(&mut tables, at(3), 0, &tcp(&address(1), &address(98), 98, 80, 0)), [Action::Normal]);
}

/// What a packet's entries are by a search through all of them.
fn linear<'a>(flows: &'a [Flow], table: u8, key: &Key) -> Option<&'a Flow> {
    flows.iter().filter(|flow| flow.table == table && flow.matching.has(key)).max_by_key(|flow| flow.priority)
}

/// Few values and few masks, so that entries overlap.
fn some_match() -> impl Strategy<Value = Match> {
    let field = prop_oneof![
        Just((Slot::IN_PORT, 0xffff)),
        Just((Slot::IPV4_SRC, 0xffff_ff00)),
        Just((Slot::IPV4_DST, 0xffff_ffff)),
        Just((Slot::IPV4_DST, 0xffff_0000)),
        Just((Slot::TP_DST, 0xffff)),
        Just((Slot::TP_DST, 0x0001)),
        Just((Slot::TP_SRC, 0x0002)),
        Just((Slot::ETH_SRC, 0xffff_ffff_ffff)),
        Just((Slot::METADATA, 0x1)),
    ];
    prop::collection::vec((field, 0_u64..4), 0..4).prop_map(|fields| {
        let mut matching = Match::default();
        for ((slot, mask), value) in fields {
            matching.mask.set(slot, mask);
            matching.key.set(slot, spread(slot, value) & mask);
        }
        Match { key: matching.key.masked(&matching.mask), ..matching }
    })
}

/// One of four values of a field, which differ in all of its parts.
fn spread(slot: Slot, value: u64) -> u64 {
    (value * 0x0101_0101_0101_0101) & slot.all()
}

fn some_key() -> impl Strategy<Value = Key> {
    prop::collection::vec(0_u64..4, 6).prop_map(|values| {
        let mut key = Key::default();
        let slots = [Slot::IN_PORT, Slot::IPV4_SRC, Slot::IPV4_DST, Slot::TP_DST, Slot::TP_SRC, Slot::ETH_SRC];
        slots.into_iter().zip(values).for_each(|(slot, value)| key.set(slot, spread(slot, value)));
        key
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A classifier finds what a search through a list finds, and what it has looked at decides: any packet that agrees in that has the same entry.
    #[test]
    fn a_classifier_finds_the_highest_priority(
        entries in prop::collection::vec((some_match(), 0_u16..8, any::<bool>()), 1..60),
        keys in prop::collection::vec(some_key(), 20),
        noise in prop::collection::vec(any::<u64>(), WORDS),
    ) {
        let mut classifier = Classifier::new(3);
        let mut list: BTreeMap<u32, (Match, u16)> = BTreeMap::new();
        for (id, (matching, priority, is_kept)) in entries.iter().enumerate() {
            let known = list.iter().find(|(_, other)| **other == (*matching, *priority)).map(|(id, _)| *id);
            prop_assert_eq!(classifier.insert(matching, *priority, id as u32), known);
            known.map(|known| list.remove(&known));
            list.insert(id as u32, (*matching, *priority));
            if !is_kept {
                let gone = id as u32 / 2;
                if let Some((matching, priority)) = list.remove(&gone) {
                    prop_assert_eq!(classifier.remove(&matching, priority), Some(gone));
                    prop_assert_eq!(classifier.remove(&matching, priority), None);
                }
            }
        }
        for (id, (matching, priority)) in &list {
            prop_assert_eq!(classifier.get(matching, *priority), Some(*id));
            prop_assert_eq!(classifier.get(matching, *priority + 100), None);
            let (mut work, mut covered) = (usize::MAX, Vec::new());
            classifier.covered(matching, &mut work, &mut covered);
            covered.sort_unstable();
            let wanted: Vec<u32> = list.iter().filter(|(_, (other, _))| matching.covers(other)).map(|(id, _)| *id).collect();
            prop_assert_eq!(covered, wanted);
        }
        let masks: BTreeSet<Key> = list.values().map(|(matching, _)| matching.mask).collect();
        prop_assert_eq!(classifier.masks(), masks.len());
        prop_assert!(masks.iter().all(|mask| classifier.has_mask(mask)));
        for key in keys {
            let best = list.values().filter(|(matching, _)| matching.has(&key)).map(|(_, priority)| *priority).max();
            let mut looked_at = Key::default();
            let found = classifier.find(&key, &mut looked_at);
            prop_assert_eq!(found.map(|id| list[&id].1), best);
            prop_assert!(found.is_none_or(|id| list[&id].0.has(&key)));
            let other = Key(std::array::from_fn(|word| key.0[word] & looked_at.0[word] | noise[word] & !looked_at.0[word]));
            let best = list.values().filter(|(matching, _)| matching.has(&other)).map(|(_, priority)| *priority).max();
            prop_assert_eq!(found.map(|id| list[&id].1), best, "{:?}", looked_at);
        }
    }

    /// Through caches, and while flows come and go, each packet gets what a search through the list of now gives, and is counted there.
    #[test]
    fn cached_decisions_are_those_of_the_tables(
        steps in prop::collection::vec((0_u8..2, some_match(), 0_u16..4, 0_u16..3, 0_u8..4, prop::collection::vec((0_u16..4, 0_u32..4, 0_u32..4, 0_u16..4, 0_u16..4), 6)), 1..25),
    ) {
        let mut tables = tables(&[]);
        let mut list: Vec<Flow> = Vec::new();
        let mut counted: BTreeMap<String, u64> = BTreeMap::new();
        for (table, matching, priority, out, what, packets) in steps {
            let instructions = match (table, out) {
                (0, 0) => "actions=write_metadata:1,goto_table:1".to_owned(),
                (0, 1) => "tcp,actions=mod_tp_dst:2,goto_table:1".to_owned(),
                (_, out) => format!("actions=output:{}", out + 2),
            };
            let new = Flow { table, priority, matching, ..flow(&instructions) };
            if what == 0 {
                let meant = Selection { matching, ..Selection::ALL };
                let gone = list.iter().filter(|flow| meant.has(flow)).count();
                prop_assert_eq!(tables.change(at(1), &TableChange::Delete(meant)), Ok(gone));
                for flow in list.iter().filter(|flow| meant.has(flow)) {
                    counted.remove(&flow.to_string());
                }
                list.retain(|flow| !meant.has(flow));
            } else {
                // Of two with one priority that match a packet, either may count.
                if list.iter().any(|flow| (flow.table, flow.priority) == (table, priority) && !flow.is_same_entry(&new)) {
                    continue;
                }
                for flow in list.iter().filter(|flow| flow.is_same_entry(&new)) {
                    counted.remove(&flow.to_string());
                }
                list.retain(|flow| !flow.is_same_entry(&new));
                tables.change(at(1), &TableChange::Add(Arc::new(new.clone()))).unwrap();
                list.push(new);
            }
            for (in_port, src, dst, src_port, dst_port) in packets {
                let in_port = in_port * 0x0101;
                let frame = tcp(&address(src * 257), &address(dst * 257), src_port, dst_port, 0);
                let mut key = Key::parse(in_port, &frame).unwrap();
                let mut wanted = Vec::new();
                if let Some(first) = linear(&list, 0, &key) {
                    *counted.entry(first.to_string()).or_insert(0) += 1;
                    match &first.instructions.goto_table {
                        None => wanted.extend(outputs(first)),
                        Some(next) => {
                            if first.instructions.metadata.is_some() {
                                key.set(Slot::METADATA, 1);
                            } else {
                                key.set(Slot::TP_DST, 2);
                                wanted.push(Action::Set(Field::DstPort(2)));
                            }
                            if let Some(second) = linear(&list, *next, &key) {
                                *counted.entry(second.to_string()).or_insert(0) += 1;
                                wanted.extend(outputs(second));
                            }
                        }
                    }
                }
                // The second time from the first cache.
                prop_assert_eq!(&process(&mut tables, at(2), in_port, &frame), &wanted);
                prop_assert_eq!(&process(&mut tables, at(2), in_port, &frame), &wanted);
            }
        }
        for row in tables.entries(at(3), &Selection::ALL) {
            let wanted = counted.get(&row.flow.to_string()).copied().unwrap_or(0);
            prop_assert_eq!(row.packets, 2 * wanted, "{}", row.flow);
        }
    }
}

fn outputs(flow: &Flow) -> impl Iterator<Item = Action> + '_ {
    flow.instructions.apply.iter().filter_map(|action| match action {
        crate::flow_table::FlowAction::Output(port) => Some(Action::Output(*port)),
        _ => None,
    })
}
