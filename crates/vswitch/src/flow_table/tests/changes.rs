//! Lists of changes: made a piece at a time, they come to the same as one after the other, and no piece is long.

use std::sync::Arc;

use machine::{Span, Time};
use proptest::prelude::*;

use super::*;
use crate::flow_table::changes::{ENTRIES_MAX, MASKS_MAX};
use crate::flow_table::key::Slot;
use crate::flow_table::matching::Match;
use crate::flow_table::{
    ChangeError, ChangeList, ChangeProgress, FlowTables, KnownFlow, Selection, TableChange, TablesSummary,
    parse_modification,
};

const NOW: Time = Time::ZERO;

fn add(text: &str) -> TableChange {
    TableChange::Add(Arc::new(flow(text)))
}

fn delete(text: &str) -> TableChange {
    TableChange::Delete(Selection::parse(text, &ports(), false).unwrap())
}

/// More flows than one change looks at by itself, all with one mask.
fn crowd(count: u32) -> FlowTables {
    let changes: Vec<TableChange> =
        (0..count).map(|n| add(&format!("tcp,tp_src={},tp_dst={},actions=output:1", n % 1_000, n / 1_000))).collect();
    FlowTables::new(NOW, ports(), 7.into(), &changes).unwrap()
}

/// Makes all changes: how much has changed in each piece.
fn pieces(tables: &mut FlowTables, changes: Vec<TableChange>) -> Vec<usize> {
    tables.check(&changes).unwrap();
    let (list, mut progress, mut pieces) = (ChangeList::new(changes), ChangeProgress::default(), Vec::new());
    while !progress.is_done(&list) {
        pieces.push(tables.change_some(NOW, &list, &mut progress));
    }
    pieces
}

fn texts(tables: &FlowTables) -> Vec<String> {
    let mut texts: Vec<String> = tables.entries(NOW, &Selection::ALL).iter().map(|row| row.flow.to_string()).collect();
    texts.sort();
    texts
}

#[test]
fn many_deletions_are_one_sweep_in_short_pieces() {
    let mut tables = crowd(20_000);
    // Each is for twenty flows, whose mask is another one.
    let pieces = pieces(&mut tables, (0..500).map(|n| delete(&format!("tcp,tp_src={n}"))).collect());
    assert_eq!(pieces.iter().sum::<usize>(), 10_000);
    assert!(pieces.iter().all(|changed| *changed <= 1_024), "{pieces:?}");
    // All 20,000 are looked at once, not five hundred times.
    assert!(pieces.len() < 30, "{pieces:?}");
    assert_eq!(tables.entries(NOW, &Selection::ALL).len(), 10_000);
}

#[test]
fn deletions_that_mean_one_flow_each_look_at_no_others() {
    let mut tables = crowd(5_000);
    let changes: Vec<TableChange> = (0..1_000).map(|n| delete(&format!("tcp,tp_src={n},tp_dst=0"))).collect();
    let strict = |n| Selection::parse(&format!("tcp,tp_src={n},tp_dst=1"), &ports(), true).unwrap();
    for changes in [changes, (0..1_000).map(|n| TableChange::Delete(strict(n))).collect()] {
        let pieces = pieces(&mut tables, changes);
        // As many in each, but in the last one: no sweep was made.
        let (_, all) = pieces.split_last().unwrap();
        assert_eq!((pieces.iter().sum::<usize>(), all.iter().all(|changed| *changed == all[0])), (1_000, true));
        assert!(all[0] > 100, "{pieces:?}");
    }
}

#[test]
fn flows_go_with_their_group_in_short_pieces() {
    let mut tables = FlowTables::new(
        NOW,
        ports(),
        7.into(),
        &[
            "group_id=1,type=all,bucket=output:1",
            "group_id=2,type=all,bucket=group:1",
            "group_id=3,type=all,bucket=output:2",
        ]
        .map(|text| TableChange::AddGroup(group(text))),
    )
    .unwrap();
    for n in 0..5_000 {
        tables.change(NOW, &add(&format!("udp,tp_src={n},actions=group:{}", n % 3 + 1))).unwrap();
    }
    // One that names it no more stays.
    let (meant, instructions) = parse_modification("udp,tp_src=0,actions=group:3", &ports(), false).unwrap();
    assert_eq!(tables.change(NOW, &TableChange::Modify(meant, instructions)), Ok(1));
    let pieces = pieces(&mut tables, vec![TableChange::DeleteGroup(Some(1))]);
    assert_eq!((pieces.iter().sum::<usize>(), pieces.len() > 2), (2, true));
    assert_eq!(tables.entries(NOW, &Selection::ALL).len(), 1_667);
    assert_eq!(tables.groups(NOW).iter().map(|status| status.group.id).collect::<Vec<_>>(), [3]);
    assert_eq!(tables.change(NOW, &TableChange::DeleteGroup(None)), Ok(1));
    assert!(tables.entries(NOW, &Selection::ALL).is_empty());
}

#[test]
fn flows_that_expire_together_go_in_short_pieces() {
    let changes: Vec<TableChange> =
        (0..3_000).map(|n| add(&format!("hard_timeout=5,udp,tp_src={n},actions=drop"))).collect();
    let mut tables = FlowTables::new(NOW, ports(), 7.into(), &changes).unwrap();
    let then = NOW + Span::from_secs(5);
    let mut left = Vec::new();
    while tables.expire(then) <= then {
        // Nobody is shown what is to go.
        assert!(tables.entries(then, &Selection::ALL).is_empty());
        left.push(tables.summary().entries);
    }
    assert_eq!((left, tables.summary().entries), (vec![1_976, 952], 0));
}

#[test]
fn deadlines_of_flows_that_are_gone_are_forgotten() {
    let mut tables = crowd(10);
    for n in 0..50 {
        tables.change(NOW, &add(&format!("hard_timeout=60,udp,tp_src={n},actions=drop"))).unwrap();
        tables.change(NOW, &delete("udp")).unwrap();
        assert_eq!(tables.deadlines(), 0);
    }
    // Those of flows that are there are not, also if one takes another one's place.
    for timeout in [60, 30] {
        tables.change(NOW, &add(&format!("hard_timeout={timeout},udp,actions=drop"))).unwrap();
        assert_eq!((tables.expire(NOW), tables.deadlines()), (NOW + Span::from_secs(timeout), 1));
    }
}

#[test]
fn full_tables_take_what_replaces_a_flow() {
    let (old, new) = (add("udp,tp_src=1,actions=drop"), add("udp,tp_src=2,actions=drop"));
    let mut tables = FlowTables::new(NOW, ports(), 7.into(), std::slice::from_ref(&old)).unwrap();
    let known = tables.known(&[old.clone(), new.clone()]);
    assert_eq!(
        known,
        [(true, true), (false, true)].map(|(is_replacement, has_mask)| KnownFlow { is_replacement, has_mask })
    );
    let full = || TablesSummary { entries: ENTRIES_MAX, ..tables.summary() };
    assert!(full().may_be_full(std::slice::from_ref(&old)));
    let check = |changes: &[TableChange]| full().check(changes, Some(&tables.known(changes)));
    assert_eq!(check(std::slice::from_ref(&old)), Ok(()));
    assert_eq!(check(&[old.clone(), new.clone()]), Err((1, ChangeError::FlowsFull)));
    // What is deleted first makes room.
    assert_eq!(check(&[TableChange::Delete(Selection::ALL), new.clone(), new.clone()]), Ok(()));
    // As many masks as there may be, the one of both among them.
    for n in 1..MASKS_MAX as u64 {
        let Flow { mut matching, .. } = flow("ip,actions=drop");
        matching.mask.set(Slot::IPV4_SRC, n);
        let flow = Flow { matching, ..flow("actions=drop") };
        tables.change(NOW, &TableChange::Add(Arc::new(flow))).unwrap();
    }
    for (change, result) in [
        (&old, Ok(1)),
        (&new, Ok(1)),
        (&add("udp,tp_dst=2,actions=drop"), Err(ChangeError::MasksFull)),
        (&add("table=1,udp,tp_src=2,actions=drop"), Err(ChangeError::MasksFull)),
    ] {
        assert_eq!(tables.check(std::slice::from_ref(change)).map_err(|(_, error)| error), result.clone().map(|_| ()));
        assert_eq!(tables.change(NOW, change), result);
    }
    assert_eq!(tables.change(NOW, &delete("udp,tp_src=1")), Ok(1));
    assert_eq!(tables.change(NOW, &delete("udp,tp_src=2")), Ok(1));
    assert_eq!(tables.change(NOW, &add("udp,tp_dst=2,actions=drop")), Ok(1));
}

/// Matches that mean one of the crowd, many, or none.
fn some_match() -> impl Strategy<Value = Match> {
    let port = |slot: Slot, most: u64| {
        (0..most, prop_oneof![Just(0_u64), Just(0xffff), Just(0xfffc)])
            .prop_map(move |(value, mask)| (slot, value, mask))
    };
    (port(Slot::TP_SRC, 20), port(Slot::TP_DST, 3), any::<bool>()).prop_map(|(src, dst, is_tcp)| {
        let mut matching = if is_tcp { flow("tcp,actions=drop").matching } else { Match::default() };
        for (slot, value, mask) in [src, dst] {
            matching.key.set(slot, value & mask);
            matching.mask.set(slot, mask);
        }
        matching
    })
}

fn some_change() -> impl Strategy<Value = TableChange> {
    (some_match(), 0_u8..8, 0_u8..3, prop::option::weighted(0.2, Just(0x8000_u16))).prop_map(
        |(matching, what, port, strict)| {
            let new = flow(&format!("actions=output:{port}"));
            let selection = Selection { matching, strict, ..Selection::ALL };
            match what {
                0..3 => TableChange::Add(Arc::new(Flow { matching, ..new })),
                3..5 => TableChange::Modify(selection, new.instructions),
                _ => TableChange::Delete(selection),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn lists_are_what_their_changes_are_one_by_one(changes in prop::collection::vec(some_change(), 1..40), is_crowd: bool) {
        let mut tables = crowd(if is_crowd { 2_500 } else { 60 });
        let mut list: Vec<Flow> = tables.entries(NOW, &Selection::ALL).iter().map(|row| Flow::clone(&row.flow)).collect();
        let mut changed = 0;
        for change in &changes {
            match change {
                TableChange::Add(flow) => {
                    list.retain(|other| !other.is_same_entry(flow));
                    list.push(Flow::clone(flow));
                    changed += 1;
                }
                TableChange::Modify(selection, instructions) => {
                    for flow in list.iter_mut().filter(|flow| selection.has(flow)) {
                        flow.instructions = instructions.clone();
                        changed += 1;
                    }
                }
                TableChange::Delete(selection) => {
                    changed += list.iter().filter(|flow| selection.has(flow)).count();
                    list.retain(|flow| !selection.has(flow));
                }
                _ => {}
            }
        }
        prop_assert_eq!(pieces(&mut tables, changes).iter().sum::<usize>(), changed);
        let mut wanted: Vec<String> = list.iter().map(ToString::to_string).collect();
        wanted.sort();
        prop_assert_eq!(texts(&tables), wanted);
    }
}
