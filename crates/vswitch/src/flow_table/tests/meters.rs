//! Meters: their texts, and what they let pass.

use std::sync::Arc;

use machine::{Rebase, Span, Time};
use topology::PortId;

use crate::action::Action;
use crate::field::Field;
use crate::flow_table::meter::{MeterState, Metered, remarked};
use crate::flow_table::{BandKind, ChangeError, Flow, FlowTables, Meter, MeterUnit, Ports, Selection, TableChange};
use crate::testing::{address, tcp};

fn meter(text: &str) -> Meter {
    Meter::parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

#[test]
fn meters_are_read_and_printed_as_ovs_ofctl_does() {
    let read = meter("meter=1,kbps,burst,stats,band=type=drop,rate=1000,burst_size=100");
    assert_eq!((read.id, read.unit, read.has_burst, read.has_stats), (1, MeterUnit::Kbps, true, true));
    assert_eq!(read.to_string(), "meter=1 kbps burst stats bands=type=drop rate=1000 burst_size=100");
    let two = meter("meter=2 pktps bands= type=drop rate=20 type=dscp_remark rate=10 prec_level=2");
    assert_eq!((two.unit, two.bands[1].kind), (MeterUnit::Pktps, BandKind::DscpRemark(2)));
    for read in [read, two] {
        assert_eq!(meter(&read.to_string()), read);
    }
    assert_eq!(Meter::parse_number("meter=7"), Ok(Some(7)));
    assert_eq!([Meter::parse_number("7"), Meter::parse_number(" ")], [Ok(Some(7)), Ok(None)]);
}

#[test]
fn a_wrong_meter_is_refused_at_its_place() {
    for (text, part, what) in [
        ("kbps,band=type=drop,rate=1", "kbps,band=type=drop,rate=1", "has no number"),
        ("meter=0,band=type=drop,rate=1", "0", "no number from 1"),
        ("meter=1,kbps", "meter=1,kbps", "has no band"),
        ("meter=1,kbps,pktps,band=type=drop,rate=1", "pktps", "one unit"),
        ("meter=1,band=type=drop,rate=0", "0", "a rate of 0 lets nothing pass"),
        ("meter=1,band=type=drop", "type=drop", "has no rate"),
        ("meter=1,band=type=drops,rate=1", "drops", "no type of band"),
        ("meter=1,rate=1,band=type=drop", "rate", "no band has begun"),
        ("meter=1,band=rate=1", "rate", "begins with its type"),
        ("meter=1,band=type=dscp_remark,rate=1", "type=dscp_remark", "by how much"),
        ("meter=1,band=type=drop,rate=1,prec_level=1", "prec_level=1", "has no precedence"),
        ("meter=1,bans=type=drop,rate=1", "bans", "no word of meters"),
        ("meter=1,band=type=drop,rate=1,stats", "stats", "stands behind a band"),
    ] {
        let error = Meter::parse(text).expect_err(text);
        assert_eq!(&text[error.at.clone()], part, "{error:?}");
        assert!(error.message.contains(what) && !error.hint.is_empty(), "{error:?}");
    }
    assert!(Meter::parse_number("meter=1,meter=2").is_err());
    let flow = |text| Flow::parse(text, &Ports::default());
    let error = flow("actions=normal,meter:1").expect_err("it stands behind");
    assert!(error.message.contains("in front of all actions"), "{error:?}");
    assert!(flow("actions=meter:x,normal").is_err());
    let read = flow("actions=meter:4,drop").expect("it is a flow");
    assert_eq!((read.instructions.meter, read.to_string().contains("meter:4")), (Some(4), true));
}

#[test]
fn the_band_with_the_highest_rate_counts() {
    let text = "meter=1,pktps,burst,band=type=dscp_remark,rate=1000,burst_size=2,prec_level=1,type=drop,rate=2000,burst_size=4";
    let mut state = MeterState::new(at(0), meter(text));
    let said: Vec<Metered> = (0..6).map(|_| state.process(at(10), 100)).collect();
    let (pass, remark, drop) = (Metered::Pass, Metered::Remark(1), Metered::Drop);
    assert_eq!(said, [pass, pass, remark, remark, drop, drop]);
    state.rebase(Span::from_ms(10));
    assert_eq!(state.process(at(1), 100), pass);
    let status = state.status(at(5), 3);
    assert_eq!((status.packets, status.bytes, status.flows), (7, 700, 3));
    assert_eq!(status.bands, [(2, 200), (2, 200)]);
}

#[test]
fn precedence_rises_within_its_class() {
    // AF11 to AF12 and AF13, and no further; best effort and expedited forwarding have none.
    let all = [(10, 1), (10, 2), (12, 2), (14, 1), (0, 1), (46, 1)].map(|(dscp, level)| remarked(dscp, level));
    assert_eq!(all, [Some(12), Some(14), Some(14), Some(14), None, None]);
}

fn tables(texts: &[&str], flows: &[&str]) -> FlowTables {
    let meters = texts.iter().map(|text| TableChange::AddMeter(meter(text)));
    let flow = |text: &&str| TableChange::Add(Arc::new(Flow::parse(text, &Ports::default()).expect("it is a flow")));
    let changes: Vec<TableChange> = meters.chain(flows.iter().map(flow)).collect();
    FlowTables::new(at(0), Ports::default(), 1.into(), &changes).expect("nothing is refused")
}

fn process(tables: &mut FlowTables, ms: u64, frame: &[u8]) -> Vec<Action> {
    let mut actions = Vec::new();
    tables.process(at(ms), PortId(0), (frame, frame.len() as u32), &mut actions).unwrap();
    actions
}

#[test]
fn flows_have_packets_pass_a_meter_though_they_are_cached() {
    let mut tables = tables(
        &["meter=1,pktps,burst,band=type=drop,rate=1000,burst_size=3"],
        &[
            "priority=40000,tcp,actions=meter:1,normal",
            "table=1,actions=meter:1,flood",
            "actions=controller,goto_table:1",
        ],
    );
    let frame = tcp(&address(1), &address(2), 1, 2, 10);
    let passed = |tables: &mut FlowTables, ms| (0..10).filter(|_| !process(tables, ms, &frame).is_empty()).count();
    assert_eq!([passed(&mut tables, 5), passed(&mut tables, 6), passed(&mut tables, 100)], [3, 1, 3]);
    let counters = tables.cache_counters();
    assert!(counters.exact_hits + counters.megaflow_hits > 20, "{counters:?}");
    let [status] = &tables.meters(at(100))[..] else { panic!("one meter") };
    assert_eq!((status.packets, status.bands[0].0, status.flows), (30, 23, 2));
    // What was done before the meter was asked is done.
    assert_eq!(process(&mut tables, 100, &[0; 60]), [Action::Controller]);
    assert_eq!(process(&mut tables, 200, &[0; 60]), [Action::Controller, Action::Flood]);
}

#[test]
fn a_remarked_packet_is_written() {
    let mut frame = tcp(&address(1), &address(2), 1, 2, 10);
    Field::Dscp(10).write(&mut frame, wire::Coverage::Complete).expect("it has one");
    let mut tables = tables(
        &["meter=1,pktps,burst,band=type=dscp_remark,rate=1000,burst_size=1,prec_level=1"],
        &["actions=meter:1,normal"],
    );
    assert_eq!(process(&mut tables, 5, &frame), [Action::Normal]);
    assert_eq!(process(&mut tables, 5, &frame), [Action::Set(Field::Dscp(12)), Action::Normal]);
    assert_eq!(process(&mut tables, 5, &[0; 60]), [Action::Normal], "it has no code point");
}

#[test]
fn flows_name_meters_that_there_are() {
    let mut tables = tables(&["meter=1,band=type=drop,rate=1"], &["tcp,actions=meter:1,normal"]);
    let flow = Flow::parse("udp,actions=meter:2,normal", &Ports::default()).expect("it is a flow");
    let add = TableChange::Add(Arc::new(flow));
    assert_eq!(tables.change(at(0), &add), Err(ChangeError::NoSuchMeter(2)));
    let second = meter("meter=2,band=type=drop,rate=1");
    assert_eq!(tables.change(at(0), &TableChange::ModifyMeter(second.clone())), Err(ChangeError::NoSuchMeter(2)));
    assert_eq!(tables.check(&[TableChange::AddMeter(second.clone()), add.clone()]), Ok(()));
    assert_eq!(tables.check(&[TableChange::DeleteMeter(None), add.clone()]), Err((1, ChangeError::NoSuchMeter(2))));
    for change in [TableChange::AddMeter(second.clone()), add, TableChange::ModifyMeter(second.clone())] {
        assert_eq!(tables.change(at(0), &change), Ok(1));
    }
    assert_eq!(tables.change(at(0), &TableChange::AddMeter(second)), Err(ChangeError::MeterExists(2)));
    // The flows that name it go with it.
    assert_eq!(tables.change(at(0), &TableChange::DeleteMeter(Some(2))), Ok(1));
    let flows = tables.entries(at(0), &Selection::ALL);
    assert_eq!(flows.iter().map(|it| it.flow.instructions.to_string()).collect::<Vec<_>>(), ["meter:1,NORMAL"]);
    assert_eq!(tables.change(at(0), &TableChange::DeleteMeter(None)), Ok(1));
    assert!(tables.entries(at(0), &Selection::ALL).is_empty());
}
