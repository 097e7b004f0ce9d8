//! Flows, groups and meters: any text is read or refused at a place within it, with a printable reason; what is read is printed as what is read as the same again. What
//! stands behind the first line are frames, which tables with these flows work on; in the end, flows are removed by what was read as a choice of them.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use machine::Time;
use topology::{HostAddress, NodeId, PortId, Topology};
use vswitch::flow_table::{
    ChangeList, ChangeProgress, Flow, FlowError, FlowTables, Group, Meter, Ports, Selection, TableChange,
    parse_modification,
};

fn ports() -> Ports {
    let mut topology = Topology::default();
    let address = HostAddress {
        mac: [2, 0, 0, 0, 0, 1],
        ipv4: [10, 0, 0, 1].into(),
        ipv4_prefix: 8,
        ipv6: [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(),
        ipv6_prefix: 64,
        pod: None,
    };
    let hosts = ["a", "b", "c"].map(|name| topology.add_host(name.to_owned(), address.clone()));
    topology.add_switch("s".to_owned(), 1, None);
    let switch = NodeId(3);
    for host in hosts {
        topology.connect(host, switch, Default::default());
    }
    Ports::of(&topology, switch)
}

fn check(text: &str, error: &FlowError) {
    assert!(text.get(error.at.clone()).is_some(), "{error:?} of {text:?}");
    for words in [&error.message, &error.hint] {
        assert!(!words.is_empty() && !words.contains(char::is_control), "{words:?}");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let split = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (text, frame) = bytes.split_at(split);
    let Ok(text) = std::str::from_utf8(text) else { return };
    let ports = ports();
    let mut tables = FlowTables::new(Time::ZERO, ports.clone(), 1.into(), &[]).expect("nothing is refused");
    let mut selections = Vec::new();
    for line in text.lines() {
        match Group::parse(line, &ports) {
            Ok(group) => {
                assert_eq!(Group::parse(&group.to_string(), &ports).as_ref(), Ok(&group), "{group}");
                let _ = tables.change(Time::ZERO, &TableChange::AddGroup(group));
            }
            Err(error) => check(line, &error),
        }
        match Meter::parse(line) {
            Ok(meter) => {
                assert_eq!(Meter::parse(&meter.to_string()).as_ref(), Ok(&meter), "{meter}");
                let _ = tables.change(Time::ZERO, &TableChange::AddMeter(meter));
            }
            Err(error) => check(line, &error),
        }
        let _ = Meter::parse_number(line).map_err(|error| check(line, &error));
        match Flow::parse(line, &ports) {
            Ok(flow) => {
                let printed = flow.to_string();
                assert_eq!(Flow::parse(&printed, &ports).as_ref(), Ok(&flow), "{printed}");
                let _ = tables.change(Time::ZERO, &TableChange::Add(Arc::new(flow)));
            }
            Err(error) => check(line, &error),
        }
        for strict in [false, true] {
            match Selection::parse(line, &ports, strict) {
                Ok(selection) => selections.push(selection),
                Err(error) => check(line, &error),
            }
            let _ = parse_modification(line, &ports, strict).map_err(|error| check(line, &error));
        }
    }
    let mut twice = [Vec::new(), Vec::new()];
    for actions in &mut twice {
        let headers = frame.get(1..).unwrap_or_default();
        let _ = tables.process(Time::ZERO, PortId(0), (headers, headers.len() as u32), actions);
    }
    // A packet may answer itself, or use up what a meter lets pass, if a flow has it do so.
    if tables.conntrack().is_none() && tables.meters(Time::ZERO).is_empty() {
        assert_eq!(twice[0], twice[1], "what is cached is what was decided");
    }
    let list = ChangeList::new(selections.iter().copied().map(TableChange::Delete).collect());
    let mut progress = ChangeProgress::default();
    while !progress.is_done(&list) {
        tables.change_some(Time::ZERO, &list, &mut progress);
    }
    for selection in &selections {
        assert_eq!(tables.entries(Time::ZERO, selection), [], "{selection:?}");
    }
});
